"""`A @ V` with several vectors has the bits of single products, and adds no memory where they are large."""

import numpy as np
import pytest

import hfrnn
from hfrnn.data.array_data import from_memory
from hfrnn.engine import objective as objective_module
from hfrnn.engine import several_vectors
from hfrnn.engine.plan import Keep, Plan
from hfrnn.engine.ragged_batch import RaggedBatch
from hfrnn.kernels.registry import kernel_class

pytest.importorskip("numba", reason="numba is not installed (the extra fast)")

ARCHITECTURES = tuple(
    arch for arch in hfrnn.architectures()
    if kernel_class(arch, "numba").takes_several is not kernel_class(arch).takes_several
)  # fmt: skip


def counted(monkeypatch):
    """Return a list that receives the number of vectors of each sweep."""
    counts, make = [], several_vectors.SeveralVectors
    monkeypatch.setattr(
        objective_module, "SeveralVectors", lambda sweep, count: counts.append(count) or make(sweep, count)
    )
    return counts


def check(net, batch, monkeypatch, damping=0.0, k=3, **how):
    """Compare products with k vectors with single ones, whose operator is another one."""
    counts, rng = counted(monkeypatch), np.random.default_rng(1)
    monkeypatch.setattr(type(net.backend), "empty", lambda self, shape, dtype: np.full(shape, 7, dtype))
    objective, theta = hfrnn.Objective(net, batch, threads=2, **how), net.init(seed=0)
    operators = [[o.gauss_newton(theta, damping, 0.1 * damping), o.jacobian(theta), o.jacobian(theta).H]
                 for o in (objective, hfrnn.Objective(net, batch, threads=1, **how))]  # fmt: skip
    for together, single in zip(*operators, strict=True):
        V = rng.standard_normal((together.shape[1], k)).astype(net.dtype)
        np.testing.assert_array_equal(together @ V, np.stack([single @ v for v in V.T], axis=1))
    return counts


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_products_with_several_vectors_have_the_bits_of_single_ones(arch, monkeypatch):
    rng = np.random.default_rng(0)
    lengths = np.array([9, *rng.integers(1, 9, 17)])
    batch = hfrnn.Batch(rng.standard_normal((9, 18, 3)), rng.standard_normal((9, 18, 2)), lengths=lengths)
    net = hfrnn.Network(
        arch, 3, (12, 11), 2, loss="squared", dtype="float64", backend="numba", l2=0.01, output_bias=True,
        direct_output=False,
    )  # fmt: skip  # the loops of the upper layer map the outputs
    assert set(check(net, batch, monkeypatch, damping=0.3)) == {3}


@pytest.mark.parametrize(
    ("options", "plan"),
    [
        ({"loss": "softmax", "embedding": 3}, Plan((0, 7), 4, Keep.STATES)),
        ({"loss": "softmax", "feedthrough": True}, Plan((0, 7), 4, Keep.ALL)),
        ({"loss": "softmax", "learn_initial_state": True}, Plan((0, 4, 7), None, Keep.NOTHING)),
        ({"loss": "class-softmax", "classes": 2}, None),
        ({"loss": "softmax", "hidden": (12, 11), "direct_output": False}, Plan((0, 7), 4, Keep.ALL)),
    ],
)
def test_symbols_learned_states_and_segments(options, plan, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.integers(5, size=(10, 7))
    net = hfrnn.Network("lstm", 5, n_out=5, dtype="float64", backend="numba", **{"hidden": 12, **options})
    assert set(check(net, hfrnn.Batch(x[:-1], x[1:]), monkeypatch, damping=0.2, plan=plan)) == {3}


def test_shards_of_fewer_steps_leave_zeros_in_the_jacobian(monkeypatch):
    rng = np.random.default_rng(0)
    arrays = {name: [rng.standard_normal((T, n)) for T in (3,) * 8 + (7,) * 8] for name, n in (("x", 3), ("y", 2))}
    batch = RaggedBatch(from_memory(arrays, fractions=(1.0, 0.0, 0.0)).train, slice(None)).by_length()
    net = hfrnn.Network("rnn", 3, 12, 2, loss="squared", dtype="float64", backend="numba")
    assert set(check(net, batch, monkeypatch)) == {3}


def test_vectors_are_multiplied_in_blocks_that_fit(monkeypatch):
    rng = np.random.default_rng(0)
    batch = hfrnn.Batch(rng.standard_normal((4, 6, 3)), rng.standard_normal((4, 6, 2)))
    net = hfrnn.Network("rnn", 3, 12, 2, loss="squared", dtype="float64", backend="numba")
    monkeypatch.setattr(several_vectors, "MATRIX_BYTES", 2 * 12 * 12 * 8)
    counts = check(net, batch, monkeypatch, k=5)
    assert counts[:3] == [2, 2, 1]


@pytest.mark.parametrize(
    ("arch", "plan", "more"),
    [
        ("hornn", None, {}),
        ("rnn", Plan((0, 6), 2, Keep.NOTHING), {}),
        ("rnn", None, {"closed_loop": hfrnn.ClosedLoop(0.5, feedback=(0, 1), seed=0)}),
    ],
)
def test_other_kernels_plans_and_sweeps_multiply_one_after_another(arch, plan, more, monkeypatch):
    rng = np.random.default_rng(0)
    batch = hfrnn.Batch(rng.standard_normal((4, 6, 3)), rng.standard_normal((4, 6, 2)))
    net = hfrnn.Network(arch, 3, 12, 2, loss="squared", dtype="float64", backend="numba")
    assert not check(net, batch, monkeypatch, plan=plan, **more)


def test_columns_of_other_types_are_converted_or_refused():
    rng = np.random.default_rng(0)
    batch = hfrnn.Batch(rng.standard_normal((4, 6, 3)), rng.standard_normal((4, 6, 2)))
    net = hfrnn.Network("rnn", 3, 12, 2, loss="squared", backend="numba")  # compiled by test_numba.py too
    G = net.gauss_newton(net.init(seed=0), batch)
    V = rng.integers(2, size=(net.n_parameters, 3))
    assert (G @ V).dtype == np.float32
    np.testing.assert_array_equal(G @ V, np.stack([G @ v for v in V.T], axis=1))
    with pytest.raises(hfrnn.InputError, match="complex"):
        G @ (V * 1j)
