"""`Network.run(..., states=True)`: the state after every step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.engine_cases import SMALL, moved, random_batch, vectors
from support.fake_device import FakeArray, FakeBackend

import hfrnn
from hfrnn.errors import InputError

T, B, HIDDEN = 6, 3, (4, 3)

every_arch = pytest.mark.parametrize("arch", hfrnn.architectures())


def problem(arch: str, dtype: str = "float64", backend: str = "numpy", **batch: Any) -> tuple[Any, Any, Any]:
    net = hfrnn.Network(
        arch, n_in=5, hidden=HIDDEN, n_out=4, loss="squared", dtype=dtype, backend=backend, **SMALL.get(arch, {})
    )
    data = random_batch(net, np.random.default_rng(3), T, B, real=True, **batch)
    return net, vectors(net, data)[0], data


def until(batch: hfrnn.Batch, stop: int, columns: slice = slice(None)) -> hfrnn.Batch:
    """The first steps of some sequences."""
    state = batch.initial_state
    if state is not None:
        state = [{k: x[..., columns, :] if np.ndim(x) else x for k, x in layer.items()} for layer in state]
    return hfrnn.Batch(batch.inputs[:stop, columns], initial_state=state)


@every_arch
def test_the_state_of_every_step_is_that_of_a_run_that_ends_there(arch: str) -> None:
    net, theta, batch = problem(arch, carried=True)
    states = net.run(theta, batch, states=True)[2]
    for t in range(T):
        ended = net.run(theta, until(batch, t + 1))[1]
        assert [layer.keys() for layer in states] == [layer.keys() for layer in ended]
        for every, one in zip(states, ended, strict=True):
            for name, value in one.items():
                assert np.any(value != 0), name
                assert every[name].shape == (T, *np.shape(value)), name
                np.testing.assert_allclose(every[name][t], value, rtol=1e-12, atol=1e-13, err_msg=f"{name} {t}")


@every_arch
def test_a_sequence_among_longer_ones_has_the_states_that_it_has_alone(arch: str) -> None:
    net, theta, batch = problem(arch, ragged=True)
    assert min(batch.lengths) < T
    states = net.run(theta, batch, states=True)[2]
    for b, length in enumerate(batch.lengths):
        alone = net.run(theta, until(batch, length, slice(b, b + 1)), states=True)[2]
        for every, one in zip(states, alone, strict=True):
            for name, value in one.items():
                if every[name].ndim == 1:
                    np.testing.assert_array_equal(every[name][:length], value)
                    continue
                own = every[name][..., b : b + 1, :]
                np.testing.assert_allclose(own[:length], value, rtol=1e-12, atol=1e-13, err_msg=name)
                assert (own[length:] == 0).all(), name


@pytest.mark.parametrize("ragged", [False, True])
def test_asking_for_states_changes_no_bit_of_the_other_results(ragged: bool) -> None:
    net, theta, batch = problem("lstm", ragged=ragged)
    np.testing.assert_equal(net.run(theta, batch, states=True)[:2], net.run(theta, batch))


@every_arch
def test_compiled_kernels_give_the_states_of_the_reference(arch: str) -> None:
    pytest.importorskip("numba")
    net, theta, batch = problem(arch, ragged=True)
    compiled = problem(arch, backend="numba")[0]
    for reference, other in zip(
        net.run(theta, batch, states=True)[2], compiled.run(theta, batch, states=True)[2], strict=True
    ):
        for name, value in reference.items():
            np.testing.assert_allclose(other[name], value, rtol=1e-10, atol=1e-12, err_msg=name)


@every_arch
def test_states_stay_on_the_device(arch: str) -> None:
    net, theta, batch = problem(arch, ragged=True, carried=True)
    fake = FakeBackend()
    device = hfrnn.Network(**net.config, backend=fake)
    found = device.run(fake.asarray(theta), moved(batch, fake), states=True)[2]
    for other, reference in zip(found, net.run(theta, batch, states=True)[2], strict=True):
        for name, value in reference.items():
            assert isinstance(other[name], FakeArray), name
            np.testing.assert_array_equal(fake.to_host(other[name]), value, err_msg=name)


def test_states_is_a_flag() -> None:
    net, theta, batch = problem("rnn")
    with pytest.raises(InputError, match="states"):
        net.run(theta, batch, states="yes")
