"""The Kronecker preconditioner: against its dense form, in conjugate gradient, and its state."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg
from hypothesis import given
from hypothesis import strategies as st
from support.linear_systems import EXACT

import hfrnn
from hfrnn.arrays.threads import Threads
from hfrnn.optim import blocks as factors
from hfrnn.optim import kronecker as module
from hfrnn.optim.blocks import MatrixBlock
from hfrnn.optim.cg import conjugate_gradient
from hfrnn.optim.kronecker import bytes_needed, kronecker, load_kronecker
from hfrnn.optim.preconditioner import Preconditioner, make_preconditioner

SHAPES = ((3, 5, 1), (1, 4, 2), (4, 6, 3), (6, 2, 2), (1, 1, 1))
"""Rows, columns and gates."""
BLOCKS = tuple(MatrixBlock(start, *shape) for start, shape in zip((0, 15, 19, 43, 55), SHAPES, strict=True))
N = 56


def gradients(seed, parts=7):
    return np.random.default_rng(seed).standard_normal((parts, N)) * np.geomspace(0.1, 10, N)


def dense(found, shift, exponent):
    """Return M^-1 of a preconditioner, from its bases and its diagonal alone."""
    M, shifted = np.zeros((N, N)), found.diagonal + shift
    for block, (Q_L, Q_R) in zip(found.blocks, found.bases, strict=True):
        Q_R = np.eye(block.columns) if Q_R is None else scipy.linalg.block_diag(*Q_R)
        Q = np.kron(np.eye(block.rows) if Q_L is None else Q_L, Q_R)
        M[block.span, block.span] = Q @ np.diag(shifted[block.span] ** -exponent) @ Q.T
    return M


def matrix(found, shift, exponent):
    """Return M^-1 by its products with the unit vectors."""
    apply, out = found.preconditioner(shift, exponent), np.full((N, N), np.nan)
    for n in range(N):
        column = np.empty(N)
        apply(np.eye(N)[n], column)
        out[:, n] = column
    return out


class Parts:
    """An objective with given gradients of its parts; `threads` means something else than in hfrnn."""

    matrix_blocks, threads = BLOCKS, 3

    def __init__(self, parts):
        self.parts = parts

    def part_gradients(self, theta, parts):
        return self.parts


def made(parts, earlier=None, n=N, **options):
    shift = {} if options else {"preconditioner_shift": 1.0}
    chosen = hfrnn.HessianFreeOptions(preconditioner="kronecker", **shift, **options)
    objective = Parts(parts)
    return make_preconditioner(np.zeros(n, parts.dtype), objective, hfrnn.Damping("none"), chosen, earlier)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 0.75, 1.0])
def test_the_preconditioner_is_its_dense_form(exponent):
    found = kronecker(BLOCKS, gradients(0))
    M = matrix(found, 0.01, exponent)
    np.testing.assert_allclose(M, dense(found, 0.01, exponent), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(M, M.T, rtol=1e-12, atol=1e-13)
    assert np.linalg.eigvalsh(M).min() > 0


@given(st.integers(0, 10**6), st.integers(1, 9), st.floats(-8, 3))
def test_it_is_positive_definite_whatever_the_gradients(seed, parts, scale):
    G = gradients(seed, parts)
    G[:, ::3] = 0
    apply, r, out = kronecker(BLOCKS, G * 10.0**scale).preconditioner(1e-6), gradients(seed + 1, 1)[0], np.empty(N)
    apply(r, out)
    assert r @ out > 0


def test_factors_bases_and_diagonal_are_those_of_their_definition():
    found = kronecker(BLOCKS, gradients(0))
    for at, block in enumerate(BLOCKS):
        G = [g[block.span].reshape(block.rows, block.columns) for g in gradients(0)]
        wholes = [sum(g @ g.T for g in G)]
        wholes += [sum(g.T @ g for g in np.split(np.array(G), block.gates, -1)[n]) for n in range(block.gates)]
        Fs, Qs = (
            [pair[0], *([None] * block.gates if pair[1] is None else pair[1])]
            for pair in (found.factors[at], found.bases[at])
        )
        sides = (block.rows, *[block.columns // block.gates] * block.gates)
        for F, Q, whole, side in zip(Fs, Qs, wholes, sides, strict=True):
            assert (F is None) == (Q is None) == (side == 1)
            if F is not None and Q is not None:
                np.testing.assert_allclose(F, whole, rtol=1e-12, atol=1e-14)
                np.testing.assert_allclose(Q.T @ Q, np.eye(side), atol=1e-12)
                turned = Q.T @ F @ Q
                np.testing.assert_allclose(turned, np.diag(np.diag(turned)), atol=1e-9 * np.abs(turned).max())
        Q_L, *Q_R = (np.eye(side) if Q is None else Q for Q, side in zip(Qs, sides, strict=True))
        D = sum((Q_L.T @ g @ scipy.linalg.block_diag(*Q_R)) ** 2 for g in G)
        np.testing.assert_allclose(found.diagonal[block.span], D.reshape(-1), rtol=1e-9)


def test_earlier_factors_count_less():
    G = gradients(1)
    first = kronecker(BLOCKS, gradients(0))
    second = kronecker(BLOCKS, G, first, decay=0.25)
    np.testing.assert_array_equal(G, gradients(1))  # not written
    alone = kronecker(BLOCKS, gradients(1))
    for old, new, both in zip(first.factors, alone.factors, second.factors, strict=True):
        for F, G, H in zip(old, new, both, strict=True):
            assert (H is None) or np.allclose(H, 0.25 * F + G, rtol=1e-12)


def test_a_long_side_keeps_the_unit_basis(monkeypatch):
    monkeypatch.setattr(factors, "MOST", 4)
    found = kronecker(BLOCKS, gradients(0))
    assert [tuple(Q is None for Q in pair) for pair in found.bases] == [
        (False, True), (True, False), (False, False), (True, True), (True, True)
    ]  # fmt: skip
    np.testing.assert_allclose(matrix(found, 0.1, 0.75), dense(found, 0.1, 0.75), rtol=1e-10, atol=1e-12)
    monkeypatch.setattr(factors, "MOST", 1)
    plain = kronecker(BLOCKS, gradients(0))
    np.testing.assert_allclose(plain.diagonal, (gradients(0) ** 2).sum(0), rtol=1e-14)


def test_the_period_grows_while_the_basis_stands_and_shrinks_when_it_turns():
    found, periods = None, []
    for seed in (0, 0, 0, 0, 0, 0, 5, 6):
        found = kronecker(BLOCKS, gradients(seed, 3), found, decay=0.0 if seed else 0.7, longest=10)
        periods.append(found.period)
    assert periods == [1, 2, 4, 8, 10, 10, 5, 2]
    assert kronecker(BLOCKS, gradients(0, 3), kronecker(BLOCKS, gradients(0, 3)), longest=1).period == 1
    for age in range(found.period + 1):
        assert found.age == age
        assert found.due == (age == found.period)
        found = found.used()


def test_the_bits_do_not_depend_on_the_threads(monkeypatch):
    monkeypatch.setattr(module, "FEW", 0)
    found = [kronecker(BLOCKS, gradients(1), kronecker(BLOCKS, gradients(0)), threads=Threads(n)) for n in (1, 3)]
    np.testing.assert_array_equal(found[0].diagonal, found[1].diagonal)
    applied = []
    for each, threads in zip(found, (None, Threads(3)), strict=True):
        out = np.full(N, np.nan)
        each.preconditioner(0.1, threads=threads)(gradients(2)[0], out)
        applied.append(out)
    np.testing.assert_array_equal(*applied)
    assert np.isfinite(applied[0]).all()


def test_a_single_side_counts_fully():
    """Two sides of which one stands still would let the period double."""
    rng = np.random.default_rng(25)
    G = rng.standard_normal((9, 6)) * np.geomspace(1, 30, 6)
    H = G + 2.5 * rng.standard_normal((9, 6))
    blocks, found = (MatrixBlock(0, 1, 6),), None
    for each in (G, G, G, H):
        found = kronecker(blocks, each, found, decay=0.0)
    assert found.period == 4


def test_a_basis_without_any_gradient_stands():
    found = None
    for _ in range(3):
        found = kronecker(BLOCKS, 0 * gradients(0), found)
    assert found.period == 4
    lonely = (MatrixBlock(0, 1, 1),)  # no side with a basis
    assert kronecker(lonely, gradients(0)[:, :1], kronecker(lonely, gradients(0)[:, :1])).period == 2


@pytest.mark.parametrize(("block", "parts", "most"), [
    (MatrixBlock(0, 700, 100), 3, 1.4), (MatrixBlock(0, 100, 700), 3, 1.4), (MatrixBlock(0, 200, 400, 4), 20, 2.0),
])  # fmt: skip
def test_the_memory_that_is_planned_is_enough(block, parts, most):
    """With many threads, all gates are at work at once."""
    G = np.random.default_rng(0).standard_normal((parts, block.size)).astype("float32")
    earlier = kronecker([block], G)
    tracemalloc.start()
    try:
        kronecker([block], G, earlier)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    matrices = [F for pair in (*earlier.factors, *earlier.bases) for F in pair if F is not None]
    peak += G.nbytes + earlier.diagonal.nbytes + sum(F.nbytes for F in matrices)
    if tuple(map(int, np.__version__.split(".")[:2])) < (2, 5):  # which traces the workspace of its eigh
        peak += 3 * 8 * max(F.size for F in matrices)
    assert peak <= bytes_needed([block], parts, 4) <= most * peak


@pytest.mark.parametrize(("rarer", "expected"), [
    (8, [1] * 16 + [2] * 8 + [3] * 8 + [4] * 8 + [5] * 8 + [6] * 12),
    (2, [1] * 4 + [2, 2, 3, 3, 4, 4, 5, 5] + [6] * 48),
])  # fmt: skip
def test_factors_that_never_stand_still_are_computed_less_and_less_often(rarer, expected):
    """The gradients of each batch are new, as if all differences were noise."""
    found, periods = None, []
    for seed in range(60):
        found = kronecker(BLOCKS, gradients(seed, 1), found, decay=0.0, longest=6, rarer=rarer)
        assert found.computed == seed + 1
        periods.append(found.period)
    assert periods == expected
    assert load_kronecker(found.state_dict()).computed == 60


def test_a_state_gives_the_same_bits():
    first = kronecker(BLOCKS, gradients(0).astype("float32"))
    found = kronecker(BLOCKS, gradients(1).astype("float32"), first).used()
    again = load_kronecker(found.state_dict())
    assert (again.age, again.period) == (found.age, found.period) == (1, found.period)
    for exponent in (0.5, 1.0):
        np.testing.assert_array_equal(matrix(again, 0.1, exponent), matrix(found, 0.1, exponent))
    for mine, theirs in zip(again.factors, found.factors, strict=True):
        for F, G in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(F, G)


@pytest.mark.parametrize(("change", "message"), [
    ({"period": 0}, "period of the state is 0"), ({"age": -1}, "age of the state is -1"),
    ({"diagonal": np.full(N, np.nan)}, "diagonal of the state"),
    ({"factors": "x"}, "factors of the state"), ({"blocks": [(0, 2)]}, "damaged"), ({"blocks": None}, "damaged"),
    ({"blocks": [(0, 2, 3, 2)]}, "gates: give a divisor"),
    ({"blocks": [(0, 4, 4), (20, 6, 6)]}, "give blocks without gaps"),
], ids=str)  # fmt: skip
def test_a_damaged_state_is_refused(change, message):
    state = kronecker(BLOCKS, gradients(0)).state_dict()
    with pytest.raises(hfrnn.InputError, match=message):
        load_kronecker({**state, **change})
    for key in ("factors", "diagonal"):  # of another model
        with pytest.raises(hfrnn.InputError, match="the state of the preconditioner has"):
            load_kronecker({**state, key: state[key][:-1]})
    for name in state:
        with pytest.raises(hfrnn.InputError, match=f"lacks {name}"):
            load_kronecker({key: value for key, value in state.items() if key != name})


def test_factors_that_overflow_leave_the_earlier_ones():
    good, huge = gradients(0).astype("float32"), gradients(1).astype("float32") * np.float32(1e25)
    for bad in (huge, np.full_like(good, np.nan)):
        assert made(bad) == Preconditioner()
        first = made(good).kronecker
        found = made(bad, first)
        second = found.kronecker
        assert second.due  # the next update computes factors again
        np.testing.assert_array_equal(second.diagonal, first.diagonal)


def test_gradients_that_do_not_fit_are_refused():
    first = made(gradients(0)).kronecker
    with pytest.raises(hfrnn.InputError, match="use one optimizer for one model"):
        made(gradients(0), first, n=N + 1)
    with pytest.raises(hfrnn.InputError, match="without gaps"):
        kronecker((MatrixBlock(0, 2, 2), MatrixBlock(6, 2, 2)), np.ones((3, 8)))
    with pytest.raises(hfrnn.InputError, match="gradients has no rows"):
        kronecker(BLOCKS, np.ones((0, N)))


def test_wrong_shifts_are_refused():
    found = kronecker(BLOCKS, gradients(0))
    for shift in (0.0, -1.0, float("nan")):
        with pytest.raises(hfrnn.InputError, match=r"shift is .*: give a (finite )?number above 0"):
            found.preconditioner(shift)
    with pytest.raises(hfrnn.InputError, match="shift"):
        found.preconditioner(np.ones(N + 1))  # only entries for all of D, or one number
    for relative in (-0.1, float("nan")):
        with pytest.raises(hfrnn.InputError, match="relative is"):
            found.shifts(relative)


def test_conjugate_gradient_agrees_with_scipy_and_needs_fewer_iterations():
    """The matrix is the one that the gradients estimate, with a shift."""
    G = gradients(0, parts=400)
    A = G.T @ G + np.eye(N)
    b = np.random.default_rng(3).standard_normal(N)
    inverse = kronecker(BLOCKS, G).preconditioner(1.0, 1.0)

    def apply(v, out):
        out[:] = A @ v

    def scipys(r):
        out = np.empty(N)
        inverse(r, out)
        return out

    seen = []
    M = scipy.sparse.linalg.LinearOperator((N, N), matvec=scipys)
    scipy.sparse.linalg.cg(A, b, rtol=1e-12, maxiter=12, M=M, callback=lambda x: seen.append(x.copy()))
    mine = []
    options = {**EXACT, "max_iterations": len(seen)}
    conjugate_gradient(apply, b, preconditioner=inverse, on_iterate=lambda it: mine.append(it.x.copy()), **options)
    for x, y in zip(mine, seen, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-8 * np.abs(y).max())
    options = {"epsilon": 0.0, "max_iterations": 500, "residual_tolerance": 1e-8}
    plain = conjugate_gradient(apply, b, **options).iterations
    assert conjugate_gradient(apply, b, preconditioner=inverse, **options).iterations < plain / 2


# ---------------------------------------------------------------------- the shift
def expected_shifts(found, relative, common):
    """Return the shift of each entry, where `common` is the share that all blocks have."""
    means = np.concatenate([np.full(b.size, found.diagonal[b.span].mean()) for b in BLOCKS])
    return common * found.diagonal.mean() + (1 - common) * relative * means


@pytest.mark.parametrize(("computed", "common"), [(1, 0.95), (5, 0.75), (19, 0.05), (20, 0.01), (300, 0.01)])
@pytest.mark.parametrize("relative", [0.0, 0.2, 3.0])
def test_each_block_has_a_shift_of_its_own_after_some_computations(computed, common, relative):
    found = replace(kronecker(BLOCKS, gradients(0)), computed=computed)
    shifts = found.shifts(relative)
    np.testing.assert_allclose(shifts, expected_shifts(found, relative, common), rtol=1e-12)
    np.testing.assert_allclose(matrix(found, shifts, 0.75), dense(found, shifts, 0.75), rtol=1e-10, atol=1e-12)
    assert np.allclose(matrix(found, shifts, 0.75), matrix(found, float(shifts[0]), 0.75)) == (relative == 0.0)


def test_a_block_without_curvature_keeps_a_shift():
    G = gradients(0)
    G[:, BLOCKS[2].span] = 0.0
    found = replace(kronecker(BLOCKS, G), computed=100)
    np.testing.assert_allclose(found.shifts(0.2)[BLOCKS[2].span], 0.01 * found.diagonal.mean(), rtol=1e-12)
    np.testing.assert_array_equal(kronecker(BLOCKS, G * 0.0).shifts(0.2), 1e-30)


def test_an_update_uses_the_shift_of_each_block():
    update, r, out = made(gradients(0), preconditioner_relative_shift=0.2), gradients(1, 1)[0], np.empty(N)
    found = update.kronecker
    update.apply(r, out)
    np.testing.assert_allclose(out, dense(found, expected_shifts(found, 0.2, 0.95), 0.75) @ r, rtol=1e-9)


@pytest.mark.parametrize(("options", "updates"), [({}, 8), ({"preconditioner_relative_shift": 1.0}, 2)])
def test_a_relative_shift_makes_new_factors_rarer(options, updates):
    damping, found, periods = hfrnn.Damping("tikhonov"), None, []
    for seed in range(17):
        chosen = hfrnn.HessianFreeOptions(preconditioner="kronecker", preconditioner_decay=0.0, **options)
        parts = Parts(gradients(seed, 1))
        found = make_preconditioner(np.zeros(N), parts, damping, chosen, found and replace(found, age=99)).kronecker
        periods.append(found.period)
    assert periods[-1] == 16 // updates
