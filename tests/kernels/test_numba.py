"""The compiled kernels agree with the reference, run where they should, and give the same bits from numba's cache."""

import os
import re
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from support.engine_cases import MU, assert_same, cases, everything, plans, random_batch, vectors
from support.pairwise import each_once, label, tried
from support.slow import slow_unless

import hfrnn
from hfrnn.arrays import gpu
from hfrnn.arrays.backend import get_backend
from hfrnn.kernels.registry import choose_backend, kernel_class, resolve_backend

pytest.importorskip("numba", reason="numba is not installed (the extra fast)")
ARCHITECTURES = tuple(arch for arch in hfrnn.architectures() if kernel_class(arch, "numba") is not kernel_class(arch))
COMPILED = [case for case in cases() if case.arch in ARCHITECTURES]
QUICK = ("rnn",)
"""Compiled in single precision by the quick tests; all architectures are in double precision."""
every_arch = pytest.mark.parametrize("arch", slow_unless(QUICK.__contains__, ARCHITECTURES))


@pytest.mark.parametrize(("case", "plan"), tried(["all", "all-3", "states-2", "nothing-3"], of=COMPILED), ids=label)
def test_everything_agrees_with_numpy_in_float64(case, plan):
    batch = case.data()
    theta, v, u = vectors(case.net(), batch)
    chosen = plans(batch.T, batch.B)[plan]
    expected = everything(case.net(), batch, theta, v, u, plan=chosen)
    assert_same(everything(case.net(backend="numba"), batch, theta, v, u, plan=chosen), expected, rtol=1e-12)


@pytest.mark.parametrize("case", slow_unless(lambda case: case.arch in QUICK, each_once(of=COMPILED)), ids=label)
def test_float32_agrees_with_float64(case):
    batch = case.data()
    theta, v, u = (x.astype("float32") for x in vectors(case.net(), batch))
    expected = everything(case.net(), batch, theta, v, u)
    assert_same(everything(case.net(backend="numba", dtype="float32"), batch, theta, v, u), expected, rtol=1e-4)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_registry_picks_the_compiled_class_for_the_backend(arch):
    compiled, reference = kernel_class(arch, "numba"), kernel_class(arch)
    assert issubclass(compiled, reference)
    assert compiled.__module__.startswith("hfrnn.kernels.numba.")
    for backend, cls in (("numba", compiled), ("numpy", reference)):
        assert type(hfrnn.Network(arch, n_in=4, hidden=3, n_out=4, backend=backend).layers[0].kernel) is cls


@every_arch
def test_real_arrays_never_run_the_reference_routines(arch, monkeypatch):
    net = hfrnn.Network(arch, n_in=4, hidden=3, n_out=4, backend="numba")

    def fail(*arguments, **more):
        raise AssertionError("the reference ran")

    for routine in ("forward", "rforward", "backward"):
        monkeypatch.setattr(kernel_class(arch), routine, fail)
    batch = random_batch(net, np.random.default_rng(0))
    assert np.isfinite(net.gauss_newton(net.init(), batch) @ net.init(seed=1)).all()
    with pytest.raises(AssertionError, match="the reference ran"):
        net.hessian(net.init(), batch) @ net.init(seed=1)


def test_a_kernel_without_a_compiled_class_runs_its_reference(monkeypatch):
    monkeypatch.setattr(gpu, "find_gpu", lambda: gpu.Found(None, "there is no GPU"))
    assert kernel_class("fnn", "numba") is kernel_class("fnn")
    assert {resolve_backend("auto", arch) for arch in ARCHITECTURES} == {"numba"}
    assert resolve_backend("auto", "fnn") == "numpy"
    assert resolve_backend("cupy", "lstm") == "cupy"


BITS = """
import hashlib, numpy as np, hfrnn
rng = np.random.default_rng(0)
for arch in ("lstm", "mlstm"):
    net = hfrnn.Network(arch, n_in=9, hidden=33, n_out=9, backend="numba")
    symbols = rng.integers(0, 9, (13, 6))
    objective = hfrnn.Objective(net, hfrnn.Batch(symbols[:-1], symbols[1:]), threads=1)
    theta, v = net.init(0, scale=0.5), net.init(1)
    gradient, product = objective.loss_and_gradient(theta)[1], objective.gauss_newton(theta, 0.1) @ v
    print(arch, hashlib.sha256(gradient.tobytes() + product.tobytes()).hexdigest())
"""


@pytest.mark.nightly
def test_loops_from_numbas_cache_give_the_bits_of_those_just_compiled(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", BITS], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert any(tmp_path.rglob("*.nbc"))
    assert runs[0] == runs[1]
    assert len(runs[0].split()) == 4


@every_arch
def test_the_bits_do_not_depend_on_the_threads(arch):
    net = hfrnn.Network(arch, n_in=6, hidden=9, n_out=5, backend="numba")
    batch = random_batch(net, np.random.default_rng(1), T=9, B=40)
    theta, v, u = (x.astype("float32") for x in vectors(net, batch))
    one, three = (everything(net, batch, theta, v, u, threads=threads) for threads in (1, 3))
    assert_same(three, one)


@every_arch
def test_a_second_product_allocates_no_states(arch):
    net = hfrnn.Network(arch, n_in=6, hidden=32, n_out=5, backend="numba")
    batch = random_batch(net, np.random.default_rng(1), T=80, B=32)
    G, v = hfrnn.Objective(net, batch, threads=1).gauss_newton(net.init()), net.init(seed=1)
    out = np.empty_like(v)
    G.apply(v, out)
    tracemalloc.start()
    G.apply(v, out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80 * 32 * 32 * 4 / 2  # half of one array of states; buffers of NumPy's functions have 64 KiB


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tanh_is_exact_to_a_few_units_in_the_last_place(dtype):
    from numba import njit

    from hfrnn.kernels.numba.pointwise import tanh as compiled_tanh

    @njit
    def tanh(x, out):
        for n in range(x.size):
            out[n] = compiled_tanh(x[n])

    magnitudes = np.concatenate([np.logspace(-30, 0, 4001), np.linspace(1, 12, 4001), [1e30, np.inf]])
    x = np.concatenate([-magnitudes, [0.0], magnitudes]).astype(dtype)
    out = np.empty_like(x)
    tanh(x, out)
    np.testing.assert_allclose(out, np.tanh(x.astype("float64")), rtol=4 * np.finfo(dtype).eps, atol=0)
    assert np.abs(out).max() <= 1
    tanh(np.full(1, np.nan, dtype), out[:1])
    assert np.isnan(out[0])


@pytest.mark.parametrize("activation", ["tanh", "logistic", "relu", "softplus"])
@pytest.mark.parametrize(
    ("arch", "dtype"), [pytest.param("leaky", "float32", marks=pytest.mark.slow), ("rate", "float64")]
)
def test_every_activation_agrees_with_numpy_where_it_saturates(arch, activation, dtype):
    """Inputs of -100 to 100; the weights are large, so that many units are at the ends of the activation function."""
    nets = [
        hfrnn.Network(
            arch, 3, 5, 2, loss="squared", activation=activation, dtype=dtype, learn_leak=True, backend=backend
        )
        for backend in ("numpy", "numba")
    ]
    rng = np.random.default_rng(0)
    batch = hfrnn.Batch(rng.uniform(-100, 100, (6, 4, 3)), rng.random((6, 4, 2)))
    theta, v, u = vectors(nets[0], batch)
    expected, actual = (everything(net, batch, theta, v, u) for net in nets)
    assert_same(actual, expected, rtol={"float32": 1e-4, "float64": 1e-12}[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_compiled_activations_keep_nan_and_reach_their_limits(dtype):
    from numba import njit

    from hfrnn.kernels.numba.pointwise import ACTIVATIONS, activate

    @njit
    def each(kind, x, out):
        for n in range(x.size):
            out[n] = activate(kind, x[n])

    x = np.array([np.nan, -np.inf, -200.0, 0.0, 200.0, np.inf], dtype)
    limits = {"tanh": (-1, -1, 0, 1, 1), "logistic": (0, 0, 0.5, 1, 1), "relu": (0, 0, 0, 200, np.inf)}
    for name, expected in limits.items():
        out = np.empty_like(x)
        each(ACTIVATIONS[name], x, out)
        np.testing.assert_allclose(out, [np.nan, *expected], atol=4 * np.finfo(dtype).eps, rtol=0, err_msg=name)


def test_other_architectures_and_metrics_run_on_numpys_loops():
    for arch, metric, options in (
        ("fnn", "hidden", {}), ("mlstm", "matching", {}), ("lstm-krause", "preactivation", {}),
        ("state-space", "hidden", {"units": 700}),  # too large for loops
    ):  # fmt: skip
        net = hfrnn.Network(arch, n_in=4, hidden=3, n_out=4, dtype="float64", **options)
        twin = hfrnn.Network(arch, n_in=4, hidden=3, n_out=4, dtype="float64", backend="numba", **options)
        batch = random_batch(net, np.random.default_rng(0))
        theta, v = net.init(), net.init(seed=1)
        expected = net.gauss_newton(theta, batch, structural=MU, metric=metric) @ v
        np.testing.assert_array_equal(twin.gauss_newton(theta, batch, structural=MU, metric=metric) @ v, expected)


def test_a_numba_that_cannot_be_imported_is_passed_over_with_the_reason(tmp_path, monkeypatch):
    (tmp_path / "numba.py").write_text("raise ImportError('Numba needs NumPy 2.4 or less.\\nGot NumPy 2.5.')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "numba")
    reason = "numba cannot be imported (Numba needs NumPy 2.4 or less. Got NumPy 2.5.)"
    name, why = choose_backend("mlstm", on_gpu=False)
    assert (name, why.endswith(f"; {reason}")) == ("numpy", True)
    with pytest.raises(hfrnn.MissingExtraError, match=f"^{re.escape(reason)}: install versions of numba and NumPy"):
        get_backend("numba")


def test_a_missing_numba_is_refused_with_the_name_of_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(hfrnn.MissingExtraError, match="backend 'numba' needs numba: install the extra fast"):
        get_backend("numba")
