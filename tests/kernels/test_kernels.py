"""What every kernel promises, and the registry; test_example_kernel.py has a kernel of a user's own."""

import pytest
from support.kernel_promises import (
    check_adjoint,
    check_inputs_unwritten,
    check_linearised,
    check_same_bits_without_record,
)

import hfrnn
from hfrnn.kernels import make_kernel, registry
from hfrnn.kernels.rnn import RNN
from hfrnn.runs.config import TrainConfig

every_arch = pytest.mark.parametrize("arch", hfrnn.architectures())


@pytest.fixture
def fresh_registry(monkeypatch):
    monkeypatch.setattr(registry, "_kernels", dict(registry._kernels))


def test_register_kernel_is_a_decorator_too(fresh_registry):
    @hfrnn.register_kernel("mine")
    class Mine(RNN):
        pass

    assert "mine" in hfrnn.architectures()
    assert isinstance(make_kernel("mine", 3, {}), Mine)
    assert hfrnn.register_kernel("mine", Mine)(Mine) is Mine  # the same class again is no clash
    with pytest.raises(hfrnn.InputError, match="architecture 'mine' has no option speed: it takes activation"):
        hfrnn.Network("mine", n_in=2, hidden=3, n_out=2, speed=1)


def test_a_taken_name_is_refused(fresh_registry):
    with pytest.raises(hfrnn.InputError, match="an architecture named 'lstm' is registered already: choose another"):
        hfrnn.register_kernel("lstm", RNN)
    assert type(make_kernel("lstm", 3, {})) is not RNN


@every_arch
@pytest.mark.parametrize(("K", "B"), [(1, 1), (1, 3), (6, 1), (6, 3)])
def test_the_routines_of_a_kernel_are_adjoint_in_inputs_state_and_parameters(arch, K, B):
    check_adjoint(arch, K, B)


@every_arch
def test_a_kernel_never_writes_its_inputs_and_adds_to_the_gradient(arch):
    check_inputs_unwritten(arch)


@every_arch
def test_a_kernel_is_linearised_by_rforward(arch):
    check_linearised(arch)


@every_arch
def test_a_forward_pass_without_a_record_gives_the_same_bits(arch):
    check_same_bits_without_record(arch)


def test_a_second_name_is_stored_as_the_first():
    assert hfrnn.Network("multiplicative-lstm", 4, 3, 4).config["arch"] == "mlstm"
    assert TrainConfig(data="addition", arch="multiplicative-lstm").given["arch"] == "mlstm"
    assert "multiplicative-lstm" not in hfrnn.architectures()
    with pytest.raises(hfrnn.InputError, match="'multiplicative-lstm' is registered already"):
        hfrnn.register_kernel("multiplicative-lstm", RNN)
