"""The compiled products with packed matrices, and loops that compute a few inputs' and outputs' parts themselves."""

import os
import subprocess
import sys

import numpy as np
import pytest

import hfrnn

pytest.importorskip("numba", reason="numba is not installed (the extra fast)")

from support.engine_cases import assert_same, everything, vectors

from hfrnn.arrays.backend import Buffers, get_backend
from hfrnn.kernels.base import Factors
from hfrnn.kernels.numba import products


def normal(rng, *shape):
    return rng.standard_normal(shape)


@pytest.mark.parametrize("B", [1, 7, 12, 33])
@pytest.mark.parametrize(("columns", "n", "m", "l"), [(1, 1, 1, 1), (19, 7, 3, 2), (33, 10, 0, 0), (8, 0, 5, 4)])
def test_a_sum_of_packed_products_is_that_of_numpy(B, columns, n, m, l):
    rng, buffers = np.random.default_rng(0), Buffers(get_backend("numpy"), "float64")
    x, y, z = normal(rng, B, n), normal(rng, B, m), normal(rng, 3, B, l)
    W, V, Z = (normal(rng, each, columns) for each in (n, m, l))
    U = normal(rng, 3, B, columns + 2)
    own = [products.pack(each, buffers, str(k)) for k, each in enumerate((W, V, Z))]
    out = np.full((B, own[0].shape[0] * own[0].shape[2]), np.nan)
    for t, given, before in ((1, U, U[1, :, 2:]), (2, U[:0], 0)):
        products.affine(t, given, 2, n, x, own[0], m, y, own[1], l, z, own[2], columns, out)
        np.testing.assert_allclose(out[:, :columns], before + x @ W + y @ V + z[t] @ Z, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("N", "n", "m"), [(5, 3, 8), (100, 1, 17), (70, 13, 50), (33, 7, 31)])
def test_a_weight_gradient_in_pieces_is_that_of_numpy(N, n, m):
    rng = np.random.default_rng(0)
    x, d, sums = normal(rng, N, n), normal(rng, N, m), np.ones((n, m))
    products.add_pieces(x, d, sums)
    np.testing.assert_allclose(sums, 1 + x.T @ d, rtol=1e-12, atol=1e-12)


FEW = [
    ("rnn", {"hidden": 20}, {}), ("lstm", {"hidden": 18, "bias": False}, {"lengths": True}),
    ("gru", {"hidden": (18, 17)}, {"lengths": True}), ("gru-torch", {"hidden": 19}, {}),
    ("leaky", {"hidden": 20}, {"lengths": True}), ("rate", {"hidden": 17}, {}), ("mrnn", {"hidden": 17}, {}),
    ("mlstm", {"hidden": 20, "output_bias": True}, {"lengths": True}),
]  # fmt: skip


@pytest.mark.parametrize(("arch", "options", "more"), FEW, ids=[each[0] for each in FEW])
def test_a_few_inputs_and_outputs_agree_with_numpy(arch, options, more):
    """U and dhs are `Factors` then: with and without damping, segments, padding and a second layer.

    The steps are more than the block of dU that loops keep.
    """
    rng, T = np.random.default_rng(0), 25
    lengths = np.array([T, *rng.integers(1, T, 13)]) if more else None
    batch = hfrnn.Batch(normal(rng, T, 14, 3), normal(rng, T, 14, 2), lengths=lengths)
    assert products.steps_of_block(7) < T
    nets = [hfrnn.Network(arch, 3, n_out=2, loss="squared", dtype="float64", backend=b, **options)
            for b in ("numpy", "numba")]  # fmt: skip
    theta, v, u = vectors(nets[0], batch)
    expected, actual = (everything(net, batch, theta, v, u) for net in nets)
    assert_same(actual, expected, rtol=1e-11)


def test_loops_are_given_factors_only_where_nothing_else_adds_to_them(monkeypatch):
    taken = []
    loop = products.terms
    rnn = __import__("hfrnn.kernels.numba.rnn", fromlist=["terms"])
    monkeypatch.setattr(rnn, "terms", lambda tape, name, U: taken.append(isinstance(U, Factors)) or loop(tape, name, U))
    rng = np.random.default_rng(0)
    net = hfrnn.Network("rnn", 3, 20, 2, loss="squared", dtype="float64", backend="numba")
    batch = hfrnn.Batch(normal(rng, 5, 9, 3), normal(rng, 5, 9, 2))
    theta = net.init(seed=0)
    for given, more in ((True, {}), (False, {"noise": hfrnn.StateNoise(0.1, seed=0)})):
        objective = hfrnn.Objective(net, batch, threads=1, **more)
        taken.clear()
        objective.loss(theta)
        assert set(taken) == {given}


UNCOMPILED = """
import numpy as np, hfrnn
rng = np.random.default_rng(0)
batch = hfrnn.Batch(rng.standard_normal((4, 7, 3)), rng.standard_normal((4, 7, 2)))
products = []
for backend in ("numpy", "numba"):
    net = hfrnn.Network("rnn", 3, 19, 2, loss="squared", dtype="float64", backend=backend)
    products.append(net.gauss_newton(net.init(0), batch, structural=0.1) @ net.init(1))
np.testing.assert_allclose(products[1], products[0], rtol=1e-4, atol=1e-7)  # ONE is a number in single precision
"""


@pytest.mark.slow  # starts a process
def test_loops_that_are_not_compiled_compute_the_same():
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run([sys.executable, "-c", UNCOMPILED], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
