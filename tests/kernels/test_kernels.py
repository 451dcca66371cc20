"""What every kernel promises, the registry, and a kernel of a user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.engine_cases import Case, assert_same, everything, moved, plans, random_batch, vectors
from support.fake_device import FakeBackend
from support.kernel_promises import (
    check_adjoint,
    check_inputs_unwritten,
    check_linearised,
    check_same_bits_without_record,
)

import hfrnn
from hfrnn.kernels import make_kernel, registry
from hfrnn.kernels.base import Arrays

every_arch = pytest.mark.parametrize("arch", hfrnn.architectures())


@pytest.fixture
def fresh_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(registry, "_kernels", dict(registry._kernels))


class Decaying(hfrnn.Kernel):
    """A decaying unit without tanh: h_t = a*h_{t-1} + U_t, with one decay a unit. F1 and no more."""

    options = ("decay",)

    def __init__(self, hidden: int, decay: float = 0.5) -> None:
        self.hidden = self.width = hidden
        self.decay = decay
        self.slots = (hfrnn.Slot("h", hidden, bias=True, below=True),)

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"q": (self.hidden,)}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"h": (B, self.hidden)}

    def forward(self, p: Arrays, U: Any, state: Arrays, tape: hfrnn.Tape) -> tuple[Any, Arrays]:
        K, B, H = U.shape
        hs = tape.new("h", K + 1, B, H)
        hs[0] = state["h"]
        for t in range(K):
            hs[t + 1] = (self.decay + p["q"]) * hs[t] + U[t]
        return hs[1:], {"h": hs[K]}

    def rforward(self, p: Arrays, v: Arrays, tape: hfrnn.Tape, RU: Any, Rstate: Arrays) -> tuple[Any, Arrays]:
        K, B, H = RU.shape
        Rhs, Rh = tape.new("Rh", K, B, H), Rstate["h"]
        for t in range(K):
            Rhs[t] = (self.decay + p["q"]) * Rh + v["q"] * tape["h"][t] + RU[t]
            Rh = Rhs[t]
        return Rhs, {"h": Rh}

    def backward(self, p: Arrays, tape: hfrnn.Tape, dhs: Any, dstate: Arrays, grad: Arrays) -> tuple[Any, Arrays]:
        K, B, H = dhs.shape
        dU, dh = tape.new("dU", K, B, H), dstate["h"]
        for t in reversed(range(K)):
            dU[t] = dh + dhs[t]
            grad["q"] += (dU[t] * tape["h"][t]).sum(axis=0)
            dh = (self.decay + p["q"]) * dU[t]
        return dU, {"h": dh}


@pytest.mark.parametrize("situation", [{"hidden": (3, 4)}, {"embedding": 2, "loss": "logistic"}])
def test_a_users_kernel_works_through_the_whole_path(fresh_registry: None, situation: dict[str, Any]) -> None:
    hfrnn.register_kernel("decaying", Decaying)
    assert "decaying" in hfrnn.architectures()
    case = Case("decaying", "own", {"n_in": 5, "hidden": 4, "n_out": 4, "decay": 0.3, **situation}, {"ragged": True})
    net, batch = case.net(), case.data()
    theta, v, u = vectors(net, batch)
    assert net.layers[0].kernel.decay == 0.3  # type: ignore[attr-defined]
    gradient = net.loss_and_gradient(theta, batch)[1]
    central = [(net.loss(theta + e, batch) - net.loss(theta - e, batch)) / 2e-6 for e in 1e-6 * np.eye(theta.size)]
    np.testing.assert_allclose(gradient, central, atol=1e-8)
    J, G = net.jacobian(theta, batch), net.gauss_newton(theta, batch)
    assert u @ (J @ v) == pytest.approx(J.rmatvec(u) @ v, rel=1e-11)
    dense = G @ np.eye(theta.size)
    np.testing.assert_allclose(dense, dense.T, atol=1e-13)
    assert np.linalg.eigvalsh(dense).min() > -1e-13
    expected = everything(net, batch, theta, v, u)
    for plan in plans(batch.T, batch.B).values():
        assert_same(everything(net, batch, theta, v, u, plan=plan), expected, rtol=1e-12)
    fake = FakeBackend()
    on_device = everything(case.net(backend=fake), moved(batch, fake), theta, v, u)
    assert_same(on_device, expected, rtol=1e-13)


def test_register_kernel_is_a_decorator_too(fresh_registry: None) -> None:
    @hfrnn.register_kernel("mine")
    class Mine(Decaying):
        pass

    assert isinstance(make_kernel("mine", 3, {}), Mine)
    assert hfrnn.register_kernel("mine", Mine)(Mine) is Mine  # the same class again is no clash


def test_a_taken_name_is_refused(fresh_registry: None) -> None:
    arch = "lstm"
    before = type(make_kernel(arch, 3, {}))
    with pytest.raises(hfrnn.InputError, match=f"an architecture named '{arch}' is registered already: choose another"):
        hfrnn.register_kernel(arch, Decaying)
    assert type(make_kernel(arch, 3, {})) is before


def test_an_option_of_a_users_kernel_reaches_it_and_others_are_refused(fresh_registry: None) -> None:
    hfrnn.register_kernel("decaying", Decaying)
    with pytest.raises(hfrnn.InputError, match="architecture 'decaying' has no option speed: it takes decay"):
        hfrnn.Network("decaying", n_in=2, hidden=3, n_out=2, speed=1)


# ---------------------------------------------------------------------- every kernel


@every_arch
@pytest.mark.parametrize(("K", "B"), [(1, 1), (1, 3), (6, 1), (6, 3)])
def test_the_routines_of_a_kernel_are_adjoint_in_inputs_state_and_parameters(arch: str, K: int, B: int) -> None:
    check_adjoint(arch, K, B)


@every_arch
def test_a_kernel_never_writes_its_inputs_and_adds_to_the_gradient(arch: str) -> None:
    check_inputs_unwritten(arch)


@every_arch
def test_a_kernel_is_linearised_by_rforward(arch: str) -> None:
    check_linearised(arch)


@every_arch
def test_a_forward_pass_without_a_record_gives_the_same_bits(arch: str) -> None:
    check_same_bits_without_record(arch)


@every_arch
def test_a_broken_kernel_fails_the_checks(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backward routine that never writes a weight gradient, as in a known library, does not pass unseen.

    Of a kernel without weights of its own, dU is lost.
    """
    net = hfrnn.Network(arch, n_in=3, hidden=4, n_out=3, dtype="float64")
    batch = random_batch(net, np.random.default_rng(0))
    theta, v, u = vectors(net, batch)
    kernel = type(net.layers[0].kernel)
    backward = kernel.backward

    def broken(self: Any, p: Arrays, recorded: hfrnn.Tape, dhs: Any, dstate: Arrays, grad: Arrays) -> Any:
        lost = {name: np.zeros_like(value) for name, value in grad.items()}
        dU, before = backward(self, p, recorded, dhs, dstate, lost)
        return dU if self.parameter_shapes() else 0 * dU, before

    monkeypatch.setattr(kernel, "backward", broken)
    J = net.jacobian(theta, batch)
    assert u @ (J @ v) != pytest.approx(J.rmatvec(u) @ v, rel=1e-3)
