"""The compiled time loops against NumPy's, which are the reference."""

from __future__ import annotations

import sys
import tracemalloc
from itertools import product
from typing import Any

import numpy as np
import pytest
from support.engine_cases import MU, Case, assert_same, cases, everything, plans, random_batch, vectors
from support.slow import one_in

import hfrnn
from hfrnn.arrays.backend import get_backend

pytest.importorskip("numba", reason="numba is not installed (the extra fast)")
ARCHITECTURES = ("lstm", "lstm-krause", "mlstm", "mlstm-standard")
LOOPS = ("forward", "rforward", "backward")
COMPILED = [case for case in cases() if case.arch in ARCHITECTURES]


@pytest.mark.parametrize(
    ("case", "plan"),
    one_in(7, product(COMPILED, ["all", "all-3", "states-2", "nothing-3"])),
    ids=lambda value: getattr(value, "id", value),
)
def test_everything_agrees_with_numpy_in_float64(case: Case, plan: str) -> None:
    batch = case.data()
    theta, v, u = vectors(case.net(), batch)
    chosen = plans(batch.T, batch.B)[plan]
    expected = everything(case.net(), batch, theta, v, u, plan=chosen)
    assert_same(everything(case.net(backend="numba"), batch, theta, v, u, plan=chosen), expected, rtol=1e-12)


@pytest.mark.parametrize("case", one_in(5, COMPILED), ids=lambda case: case.id)
def test_float32_agrees_with_float64(case: Case) -> None:
    batch = case.data()
    theta, v, u = (x.astype("float32") for x in vectors(case.net(), batch))
    expected = everything(case.net(), batch, theta, v, u)
    assert_same(everything(case.net(backend="numba", dtype="float32"), batch, theta, v, u), expected, rtol=1e-4)


@pytest.mark.parametrize(
    "case", [case for case in COMPILED if case.situation in ("stack", "carried")], ids=lambda c: c.id
)
def test_gradient_and_products_fit_each_other_without_numpys_loops(case: Case) -> None:
    net, batch = case.net(backend="numba"), case.data()
    theta, v, u = vectors(net, batch)
    J, H, step = net.jacobian(theta, batch), net.gauss_newton(theta, batch, structural=MU), 1e-6
    assert u @ (J @ v) == pytest.approx(J.rmatvec(u) @ v, rel=1e-11)
    assert v @ (H @ theta) == pytest.approx(theta @ (H @ v), rel=1e-11)
    gradient = net.loss_and_gradient(theta, batch)[1]
    for name, view in net.views(np.arange(theta.size)).items():
        direction = np.zeros_like(theta)
        direction[view.ravel()] = v[view.ravel()]
        slope = (net.loss(theta + step * direction, batch) - net.loss(theta - step * direction, batch)) / (2 * step)
        assert gradient @ direction == pytest.approx(slope, rel=1e-6, abs=1e-9), name


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_compiled_loops_are_what_runs(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from hfrnn.kernels import compiled

    called = []
    kind = "mlstm" if arch.startswith("mlstm") else "lstm"
    for loop in LOOPS:
        plain = getattr(compiled, f"{kind}_{loop}")
        monkeypatch.setattr(compiled, f"{kind}_{loop}", lambda *a, f=plain, n=loop: (called.append(n), f(*a)))
    net = hfrnn.Network(arch, n_in=4, hidden=3, n_out=4, backend="numba")
    batch = random_batch(net, np.random.default_rng(0))
    net.gauss_newton(net.init(), batch) @ net.init(seed=1)
    assert called == list(LOOPS)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_bits_do_not_depend_on_the_threads(arch: str) -> None:
    net = hfrnn.Network(arch, n_in=6, hidden=9, n_out=5, backend="numba")
    batch = random_batch(net, np.random.default_rng(1), T=9, B=40)
    theta, v, u = (x.astype("float32") for x in vectors(net, batch))
    expected = everything(net, batch, theta, v, u, threads=1)
    for threads in (2, 5):
        assert_same(everything(net, batch, theta, v, u, threads=threads), expected)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_second_product_allocates_no_states(arch: str) -> None:
    net = hfrnn.Network(arch, n_in=6, hidden=32, n_out=5, backend="numba")
    batch = random_batch(net, np.random.default_rng(1), T=40, B=16)
    G, v = hfrnn.Objective(net, batch, threads=1).gauss_newton(net.init()), net.init(seed=1)
    out = np.empty_like(v)
    G.apply(v, out)
    tracemalloc.start()
    G.apply(v, out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 16 * 32 * 4 / 2  # half of one array of states


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tanh_is_exact_to_a_few_units_in_the_last_place(dtype: str) -> None:
    from numba import njit

    from hfrnn.kernels.compiled import _tanh

    @njit
    def tanh(x: Any, out: Any) -> None:
        for n in range(x.size):
            out[n] = _tanh(x[n])

    magnitudes = np.concatenate([np.logspace(-30, 0, 4001), np.linspace(1, 12, 4001), [1e30, np.inf]])
    x = np.concatenate([-magnitudes, [0.0], magnitudes]).astype(dtype)
    out = np.empty_like(x)
    tanh(x, out)
    np.testing.assert_allclose(out, np.tanh(x.astype("float64")), rtol=4 * np.finfo(dtype).eps, atol=0)
    assert np.abs(out).max() <= 1
    tanh(np.full(1, np.nan, dtype), out[:1])
    assert np.isnan(out[0])


def test_other_architectures_and_metrics_run_on_numpys_loops() -> None:
    for arch, metric in (("mrnn", "hidden"), ("mlstm", "matching"), ("lstm-krause", "preactivation")):
        net = hfrnn.Network(arch, n_in=4, hidden=3, n_out=4, dtype="float64")
        twin = hfrnn.Network(arch, n_in=4, hidden=3, n_out=4, dtype="float64", backend="numba")
        batch = random_batch(net, np.random.default_rng(0))
        theta, v = net.init(), net.init(seed=1)
        expected = net.gauss_newton(theta, batch, structural=MU, metric=metric) @ v
        np.testing.assert_array_equal(twin.gauss_newton(theta, batch, structural=MU, metric=metric) @ v, expected)


def test_a_missing_numba_is_refused_with_the_name_of_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(hfrnn.MissingExtraError, match="backend 'numba' needs numba: install the extra fast"):
        get_backend("numba")
