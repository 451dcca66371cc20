"""The preconditioner of an objective whose entries do not all move."""

import numpy as np
import pytest

from hfrnn.optim.blocks import MatrixBlock
from hfrnn.optim.damping import Damping
from hfrnn.optim.hf_options import HessianFreeOptions
from hfrnn.optim.preconditioner import make_preconditioner

FIXED = np.array([0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0], bool)


class Parts:
    """What a Kronecker preconditioner asks of an objective with a matrix (3, 4), two entries of which are fixed."""

    matrix_blocks = (MatrixBlock(0, 3, 4),)

    def __init__(self, fixed):
        if fixed is not None:
            self.exists = 1.0 - fixed

    def part_gradients(self, theta, parts):
        return np.random.default_rng(0).standard_normal((6, 12)) * ~FIXED


@pytest.mark.parametrize("age", ["new", "kept"])
def test_the_kronecker_preconditioner_does_not_move_fixed_entries(age):
    options = HessianFreeOptions(preconditioner="kronecker", preconditioner_shift=0.5)
    r, theta = np.random.default_rng(1).standard_normal(12) * ~FIXED, np.zeros(12)
    answers = []
    for fixed in (None, FIXED):
        objective = Parts(fixed)
        made = make_preconditioner(theta, objective, Damping("tikhonov"), options, None)
        if age == "kept":
            made = make_preconditioner(theta, objective, Damping("tikhonov"), options, made.kronecker)
        answers.append(np.full(12, np.nan))
        made.apply(r, answers[-1])
    free, bound = answers
    assert abs(free[FIXED]).min() > 1e-3
    np.testing.assert_array_equal(bound, np.where(FIXED, 0, free))
