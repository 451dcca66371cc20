"""The four higher-order networks: values against plain loops, ties, history, and where they meet each other and rnn."""

import itertools
from typing import Any

import numpy as np
import pytest
from support.engine_cases import random_batch, vectors
from support.kernel_promises import tape

import hfrnn
from hfrnn.arrays.backend import Buffers, get_backend
from hfrnn.kernels import make_kernel

VARIANTS = ("hornn", "hornn-max", "hornn-fofe", "hornn-gated")
F = {"tanh": np.tanh, "logistic": lambda a: 1 / (1 + np.exp(-a)), "relu": lambda a: np.maximum(a, 0)}

every_variant = pytest.mark.parametrize("arch", VARIANTS)


def network(arch: str, **changes: Any) -> hfrnn.Network:
    return hfrnn.Network(arch, **{"n_in": 4, "hidden": 3, "n_out": 4, "dtype": "float64", **changes})


def complex_tape() -> hfrnn.Tape:
    backend = get_backend("numpy")
    return hfrnn.Tape("", Buffers(backend, "complex128"), Buffers(backend, "complex128"))


def plain(arch: str, p: dict[str, Any], U: Any, history: Any, activation: str, alpha: float) -> Any:
    """hs by SPEC 2, one step, sequence and order at a time; history[n-1] = h_{t-n}."""
    f, sigma, N, H = F[activation], F["logistic"], *p["W_h"].shape[:2]
    before, hs = list(history), []
    for u in U:
        x = [before[n] @ p["W_h"][n] for n in range(N)]
        if arch == "hornn-max":
            pooled = np.max(x, axis=0)
        elif arch == "hornn-fofe":
            pooled = sum(alpha ** (n + 1) * x[n] for n in range(N))
        elif arch == "hornn-gated":
            gates = [sigma(u[:, (1 + n) * H : (2 + n) * H] + before[n] @ p["W_r"][n]) for n in range(N)]
            pooled = sum(gates[n] * x[n] for n in range(N))
        else:
            pooled = sum(x)
        hs.append(f(u[:, :H] + pooled))
        before = [hs[-1], *before[:-1]]
    return np.stack(hs), np.stack(before)


@every_variant
@pytest.mark.parametrize(
    ("order", "K", "activation"), [(1, 4, "tanh"), (3, 6, "logistic"), (2, 5, "relu"), (5, 2, "tanh")]
)
def test_the_forward_pass_is_the_definition(arch, order, K, activation):
    options: dict[str, Any] = {"order": order, "activation": activation}
    if arch == "hornn-fofe":
        options["alpha"] = 0.7
    kernel, rng = make_kernel(arch, 3, options), np.random.default_rng(order)
    p = {name: rng.standard_normal(shape) for name, shape in kernel.parameter_shapes().items()}
    U = rng.standard_normal((K, 2, sum(slot.width for slot in kernel.slots)))
    history = rng.standard_normal((order, 2, 3))
    expected = plain(arch, p, U, history, activation, 0.7)
    hs, state = kernel.forward(p, U, {"history": history}, tape())
    np.testing.assert_allclose(hs, expected[0], rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(state["history"], expected[1], rtol=1e-13, atol=1e-15)


def everything(net: hfrnn.Network, batch: hfrnn.Batch, theta: Any, v: Any) -> list[Any]:
    G = net.gauss_newton(theta, batch, structural=0.7, metric="preactivation") @ v
    return [net.run(theta, batch)[0], net.loss_and_gradient(theta, batch)[1], G, net.jacobian(theta, batch) @ v]


@pytest.mark.parametrize("arch", ["hornn", "hornn-max"])
def test_hornn_of_order_1_is_rnn_without_bias_to_the_last_bit(arch):
    net, rnn = network(arch, order=1, hidden=(4, 3)), network("rnn", bias=False, hidden=(4, 3))
    batch = random_batch(net, np.random.default_rng(0), ragged=True)
    theta, v, _ = vectors(net, batch)
    for mine, theirs in zip(everything(net, batch, theta, v), everything(rnn, batch, theta, v), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def tied(K: int = 4) -> tuple[Any, dict[str, Any], Any, dict[str, Any], hfrnn.Tape]:
    """A kernel of order 3 that has run: matrices 2 and 3 are alike and their states too, so their products tie."""
    kernel, rng, recorded = make_kernel("hornn-max", 2, {}), np.random.default_rng(0), tape()
    p = {"W_h": np.stack([-np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2))])}
    U, state = np.abs(rng.standard_normal((K, 1, 2))), {"history": np.stack([np.ones((1, 2))] * 3)}
    kernel.forward(p, U[:1], state, recorded)  # one step: afterwards the states differ
    return kernel, p, U[:1], state, recorded


def test_max_pooling_routes_ties_to_the_smallest_order():
    kernel, p, U, _, recorded = tied()
    zero, dh = np.zeros((3, 1, 2)), np.ones((1, 1, 2))
    grad = {"W_h": np.zeros((3, 2, 2))}
    _, before = kernel.backward(p, recorded, dh, {"history": zero}, grad)
    assert [bool(grad["W_h"][n].any()) for n in range(3)] == [False, True, False]
    assert [bool(before["history"][n].any()) for n in range(3)] == [False, True, False]
    for n in range(3):
        v = {"W_h": np.zeros((3, 2, 2))}
        v["W_h"][n] = 1
        Rhs, _ = kernel.rforward(p, v, recorded, np.zeros_like(U), {"history": zero})
        assert Rhs.any() == (n == 1)
        Rhistory = zero.copy()
        Rhistory[n] = 1
        Rhs, _ = kernel.rforward(p, {"W_h": np.zeros((3, 2, 2))}, recorded, np.zeros_like(U), {"history": Rhistory})
        assert Rhs.any() == (n == 1)


def test_a_complex_step_takes_the_same_winner():
    """Imaginary parts, however they lie, decide no tie."""
    kernel, p, U, state, _ = tied()
    step = 1e-20
    for n, imaginary in ((1, 1.0), (2, 0.0)):
        moved = p["W_h"].astype(complex)
        moved[n] += 1j * step
        hs, _ = kernel.forward({"W_h": moved}, U + 0j, {"history": state["history"] + 0j}, complex_tape())
        assert hs.imag.any() == bool(imaginary)


def test_the_square_of_a_complex_step_decides_no_tie_at_zero():
    """All products are 0 and tie; with imaginary parts in states and weights their real parts are about 1e-40."""
    kernel, step = make_kernel("hornn-max", 1, {}), 1e-20
    W = 1j * step * np.array([3.0, -5.0, -7.0]).reshape(3, 1, 1)
    history = np.array([0.5, 0.6, 0.7]).reshape(3, 1, 1) + 1j * step
    hs, _ = kernel.forward({"W_h": W}, np.zeros((1, 1, 1)) + 0j, {"history": history}, complex_tape())
    assert hs.imag.item() / step == pytest.approx(3.0 * 0.5, rel=1e-12)


def test_zero_states_before_the_start_compete():
    kernel, recorded = make_kernel("hornn-max", 1, {"order": 2}), tape()
    p, U = {"W_h": -np.ones((2, 1, 1))}, np.ones((2, 1, 1))
    hs, _ = kernel.forward(p, U, {"history": np.zeros((2, 1, 1))}, recorded)
    np.testing.assert_allclose(hs.ravel(), np.tanh([1.0, 1.0]), rtol=1e-15)  # max(-tanh 1, 0) = 0, not -tanh 1
    grad = {"W_h": np.zeros((2, 1, 1))}
    kernel.backward(p, recorded, np.ones((2, 1, 1)), {"history": np.zeros((2, 1, 1))}, grad)
    assert not grad["W_h"].any()  # the winner at each step is a zero state


def test_a_number_that_is_none_is_not_hidden_by_the_maximum():
    kernel = make_kernel("hornn-max", 2, {})
    for n in range(3):
        W = np.ones((3, 2, 2))
        W[n, 0, 0] = np.nan
        hs, _ = kernel.forward({"W_h": W}, np.zeros((1, 1, 2)), {"history": np.ones((3, 1, 2))}, tape())
        assert np.isnan(hs).any()


@every_variant
def test_a_history_carried_over_pieces_equals_one_long_run(arch):
    cuts = (0, 1, 2, 6, 9)
    net, rng = network(arch, hidden=(3, 2), order=4), np.random.default_rng(0)
    batch = random_batch(net, rng, T=9)
    theta = vectors(net, batch)[0]
    whole, last = net.run(theta, batch)
    state, logits = None, []
    for start, stop in itertools.pairwise(cuts):
        z, state = net.run(theta, hfrnn.Batch(batch.inputs[start:stop], initial_state=state))
        logits.append(z)
    np.testing.assert_allclose(np.concatenate(logits), whole, rtol=1e-12)
    assert state is not None
    for mine, theirs in zip(state, last, strict=True):
        np.testing.assert_allclose(mine["history"], theirs["history"], rtol=1e-12)


def test_fofe_forgets_by_0_6_and_the_others_take_no_other_alpha():
    assert network("hornn-fofe").layers[0].kernel.alpha == 0.6
    assert network("hornn-fofe", alpha=None).layers[0].kernel.alpha == 0.6
    with pytest.raises(hfrnn.InputError, match="architecture 'hornn' has no option alpha"):
        network("hornn", alpha=0.5)
