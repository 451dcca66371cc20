"""What is the clockwork network's own: its clock, modules that rest, weights that are never read."""

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.engine_cases import Case, assert_same, everything, plans, vectors
from support.kernel_promises import tape

import hfrnn
from hfrnn.arrays.backend import Backend, Buffers, get_backend
from hfrnn.kernels.clockwork import Clockwork

PERIODS = [(1, 2, 4), (2, 4, 1), (3, 2), (4, 1, 2, 4), (1,), (5,)]
every_list = pytest.mark.parametrize("periods", PERIODS, ids=str)
WIDTH, B = 2, 3


def arrays(kernel: Clockwork, K: int, seed: int = 0) -> tuple[dict[str, Any], Any, Any]:
    rng, H = np.random.default_rng(seed), kernel.hidden
    return {"W_h": 0.7 * rng.standard_normal((H, H))}, rng.standard_normal((K, B, H)), rng.uniform(-1, 1, (B, H))


def heard(periods: tuple[int, ...], width: int = WIDTH) -> Any:
    """(H, H), whether the unit of the row is heard by that of the column."""
    T = np.repeat(periods, width)
    return T[:, None] >= T


def problem(periods: tuple[int, ...], **changes: Any) -> tuple[Case, hfrnn.Network, hfrnn.Batch, Any, Any, Any]:
    network = {"n_in": 5, "hidden": WIDTH * len(periods), "n_out": 4, "periods": periods, **changes}
    case = Case("clockwork", str(periods), network, {"carried": True})
    net, batch = case.net(), case.data()
    return case, net, batch, *vectors(net, batch)


@every_list
@pytest.mark.parametrize("start", [0, 1])
def test_a_run_is_that_of_the_definition(periods, start):
    kernel = Clockwork(WIDTH * len(periods), periods)
    p, U, h = arrays(kernel, 9)
    hs, after = kernel.forward(p, U, {"h": h, "t": start}, tape())
    W, T = np.where(heard(periods), p["W_h"], 0), np.repeat(periods, WIDTH)
    for t in range(9):
        h = np.where((start + t) % T == 0, np.tanh(U[t] + h @ W), h)
        np.testing.assert_allclose(hs[t], h, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(after["h"], hs[-1])
    assert after["t"] == start + 9


@every_list
@pytest.mark.parametrize(("start", "K"), [(1, 1), (0, 7), (5, 2)])
def test_tangents_and_adjoints_are_those_of_the_run(periods, start, K):
    kernel, recorded, backend = Clockwork(WIDTH * len(periods), periods), tape(), get_backend("numpy")
    (p, U, h), (v, RU, Rh), eps = arrays(kernel, K), arrays(kernel, K, seed=1), 1e-20
    kernel.forward(p, U, {"h": h, "t": start}, recorded)
    Rhs, Rafter = kernel.rforward(p, v, recorded, RU, {"h": Rh})
    moved_p = {"W_h": p["W_h"] + 1j * eps * v["W_h"]}
    complex_tape = hfrnn.Tape("", Buffers(backend, "complex128"), Buffers(backend, "complex128"))
    hs, _ = kernel.forward(moved_p, U + 1j * eps * RU, {"h": h + 1j * eps * Rh, "t": start}, complex_tape)
    np.testing.assert_allclose(Rhs, hs.imag / eps, rtol=1e-11, atol=1e-13)
    assert Rafter.keys() == {"h"}
    _, dhs, dstate = arrays(kernel, K, seed=2)
    grad = {"W_h": np.zeros_like(p["W_h"])}
    dU, dbefore = kernel.backward(p, recorded, dhs, {"h": dstate}, grad)
    left = (dhs * Rhs).sum() + (dstate * Rafter["h"]).sum()
    right = (dU * RU).sum() + (dbefore["h"] * Rh).sum() + (grad["W_h"] * v["W_h"]).sum()
    assert left == pytest.approx(right, rel=1e-11)


def test_of_period_one_alone_it_is_the_plain_network():
    _, net, batch, theta, v, _ = problem((1, 1))
    plain = hfrnn.Network("rnn", 5, 2 * WIDTH, 4, dtype="float64")
    same = hfrnn.Batch(batch.inputs, batch.targets, initial_state=[{"h": batch.initial_state[0]["h"]}])
    for mine, theirs in (
        (net.loss_and_gradient(theta, batch)[1], plain.loss_and_gradient(theta, same)[1]),
        (net.gauss_newton(theta, batch, 0.7) @ v, plain.gauss_newton(theta, same, 0.7) @ v),
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-11, atol=1e-14)


def test_only_the_time_modulo_the_periods_matters():
    _, net, batch, theta, *_ = problem((2, 3))

    def logits(t):
        state = [{"h": batch.initial_state[0]["h"], "t": t}]
        return net.run(theta, hfrnn.Batch(batch.inputs, initial_state=state))[0]

    np.testing.assert_array_equal(logits(1), logits(1 + 6 * 10**12))
    assert all((logits(0) != logits(t)).any() for t in range(1, 6))


def test_a_time_that_is_not_a_whole_number_is_refused():
    _, net, batch, theta, *_ = problem((1, 2))
    h = batch.initial_state[0]["h"]

    def run(**state):
        return net.run(theta, hfrnn.Batch(batch.inputs, initial_state=[{"h": h, **state}]))

    with pytest.raises(hfrnn.InputError, match="'t' of layer 0 of initial_state is '3'"):
        run(t="3")
    for t in (-1, 2.5):
        with pytest.raises(hfrnn.InputError, match=r"t of the initial state of layer 0 is .*: give a whole number, 0"):
            run(t=t)
    for state in ({}, {"t": np.zeros(batch.B)}):
        with pytest.raises(hfrnn.InputError, match=r"the initial state of layer 0 is .* 't': \(\)\}, as net.run"):
            run(**state)
    assert run(t=np.int64(3))[1][0]["t"] == 3 + batch.T


def test_a_module_that_rests_passes_values_tangents_and_adjoints_straight_through():
    kernel, recorded = Clockwork(6, (1, 2, 4)), tape()
    (p, U, h), (v, RU, Rh), (_, dhs, dstate) = (arrays(kernel, 3, seed) for seed in range(3))
    hs, after = kernel.forward(p, U, {"h": h, "t": 1}, recorded)  # times 1, 2, 3: the last module rests throughout
    Rhs, Rafter = kernel.rforward(p, v, recorded, RU, {"h": Rh})
    for values, before in ((hs, h), (Rhs, Rh), (after["h"][None], h), (Rafter["h"][None], Rh)):
        assert (values[..., 4:] == before[..., 4:]).all()
    np.testing.assert_array_equal(hs[[0, 2], :, 2:4], [h[:, 2:4], hs[1, :, 2:4]])  # and the second at 1 and 3
    grad = {"W_h": np.zeros((6, 6))}
    dhs[..., :4], dstate[..., :4] = 0, 0
    dU, dbefore = kernel.backward(p, recorded, dhs, {"h": dstate}, grad)
    np.testing.assert_allclose(dbefore["h"], dhs.sum(axis=0) + dstate, rtol=1e-13, atol=1e-15)
    assert not dU.any()
    assert not grad["W_h"].any()


@every_list
@pytest.mark.parametrize("start", [3])
def test_there_is_no_product_for_modules_that_rest(periods, start):
    K, count = 7, 0

    def matmul(a, b, out):
        nonlocal count
        count += a.shape[0] * a.shape[1] * b.shape[1]
        return np.matmul(a, b, out=out)

    kernel, recorded = Clockwork(WIDTH * len(periods), periods), tape()
    names = ("multiply", "subtract", "tanh")
    recorded.xp = SimpleNamespace(matmul=matmul, **{name: getattr(np, name) for name in names})
    recorded.backend = Backend("counting", recorded.xp)
    p, U, h = arrays(kernel, K)
    activations = np.array([sum((start + t) % T == 0 for t in range(K)) for T in np.repeat(periods, WIDTH)])
    expected = B * int((heard(periods) * activations).sum())
    counts = []
    for routine in (
        lambda: kernel.forward(p, U, {"h": h, "t": start}, recorded),
        lambda: kernel.rforward(p, p, recorded, U, {"h": h}),
        lambda: kernel.backward(p, recorded, U, {"h": h}, {"W_h": np.zeros_like(p["W_h"])}),
    ):
        count = 0
        routine()
        counts.append(count)
    assert counts == [expected, 2 * expected, 2 * expected]


@every_list
def test_weights_from_faster_to_slower_modules_are_never_read(periods):
    _, net, batch, theta, v, u = problem(periods)
    forbidden = ~heard(periods)
    assert forbidden.any() == (len(set(periods)) > 1)
    expected = everything(net, batch, theta, v, u)
    direction = v.copy()  # for the Hessian, which adds l2*v
    for vector in (theta, v):
        net.views(vector)["layer0.W_h"][forbidden] = 1e100
    f = hfrnn.Objective(net, batch, plan=plans(batch.T, batch.B)["nothing-3"])
    loss, gradient = f.loss_and_gradient(theta)
    J = f.jacobian(theta)
    vectors = {
        "gradient": gradient, "G": f.gauss_newton(theta) @ v, "J' u": J.rmatvec(u), "H": f.hessian(theta) @ direction,
    }  # fmt: skip
    results = {"loss": loss, "J v": J @ v, "logits": net.run(theta, batch)[0], **vectors}
    assert_same(results, {name: expected[name] for name in results}, rtol=1e-12)
    for vector in vectors.values():
        block = net.views(vector)["layer0.W_h"]
        assert (block[forbidden] == 0).all()
        assert (block[~forbidden] != 0).all()


@pytest.mark.parametrize("how", [{}, {"scale": 0.1}, {"W_h": 0.1}, {"initializer": "orthogonal"}], ids=str)
def test_weights_that_are_never_read_begin_at_zero(how):
    net = hfrnn.Network("clockwork", 7, 8, 7, periods=(2, 1, 4, 2))
    np.testing.assert_array_equal(net.views(net.init(0, **how))["layer0.W_h"] != 0, heard((2, 1, 4, 2)))


def test_by_default_periods_double_over_as_many_modules_as_divide_the_units():
    expected = {1: 1, 2: 2, 4: 4, 7: 7, 11: 1, 100: 5, 150: 6, 195: 5, 400: 8, 22: 2}
    assert {H: Clockwork(H).periods for H in expected} == {
        H: tuple(2**n for n in range(modules)) for H, modules in expected.items()
    }


@pytest.mark.parametrize(
    ("periods", "message"),
    [
        (2, "periods is 2: give a list of whole numbers, one per module, as in [1, 2, 4]"),
        ((), "periods is empty: give a whole number, 1 or more, for each module"),
        ((1, 0), "periods holds 0: give a whole number, 1 or more, for each module"),
        (
            (1, 2, 4),
            "3 periods were given, and 4 units do not divide into 3 modules of equal width: give a hidden size that "
            "is a multiple of 3, or another number of periods",
        ),
    ],
)
def test_periods_that_cannot_be_are_refused_in_one_sentence(periods, message):
    with pytest.raises(hfrnn.InputError, match=re.escape(message)):
        hfrnn.Network("clockwork", 5, 4, 5, periods=periods)
