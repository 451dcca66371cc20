"""The shift of the Kronecker preconditioner: one for each block, after some computations of the factors."""

from dataclasses import replace

import numpy as np
import pytest
from support.kronecker_blocks import BLOCKS, N, Parts, dense, gradients, made, matrix

import hfrnn
from hfrnn.optim.kronecker import kronecker
from hfrnn.optim.preconditioner import make_preconditioner


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
    assert found is not None
    assert update.apply is not None
    update.apply(r, out)
    np.testing.assert_allclose(out, dense(found, expected_shifts(found, 0.2, 0.95), 0.75) @ r, rtol=1e-9)


@pytest.mark.parametrize(("options", "updates"), [({}, 8), ({"preconditioner_relative_shift": 1.0}, 2)])
def test_a_relative_shift_makes_new_factors_rarer(options, updates):
    damping, found, periods = hfrnn.Damping("tikhonov"), None, []
    for seed in range(17):
        chosen = hfrnn.HessianFreeOptions(preconditioner="kronecker", preconditioner_decay=0.0, **options)
        parts = Parts(gradients(seed, 1))
        found = make_preconditioner(np.zeros(N), parts, damping, chosen, found and replace(found, age=99)).kronecker
        assert found is not None
        periods.append(found.period)
    assert periods[-1] == 16 // updates
