"""Training through the feedback against automatic differentiation, in every architecture."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

pytest.importorskip("jax", reason="the oracle needs JAX: install the extra oracle")


import hfrnn
from hfrnn.data.scaling import Scaling

from . import reference, sizes
from .settings import (
    CHECKPOINTS,
    LAMBDA,
    MU,
    SMALL,
    Case,
    Setting,
    assert_blocks,
    assert_close,
    metrics,
    plus,
    setting,
)

FEEDBACK = [3, None, 0, None, None, 4]
SCALING = Scaling(np.linspace(-1, 1, 5), np.linspace(0.5, 2, 5), np.linspace(1, -1, 6), np.linspace(2, 0.5, 6))
LOOP = hfrnn.ClosedLoop(0.6, FEEDBACK, SCALING, warm_up=1, seed=3, draw=2, sequences=(4, 0, 9))
WIDE, INDIRECT = {"hidden": (4, 2)}, {"hidden": (3, 4), "direct_input": False, "learn_initial_state": True}
CLOSED = [
    *(Case("closed", arch, "squared", SMALL.get(arch, {}) | WIDE, real=True, carried=True, vanishing=True)
      for arch in sizes.SLOTS),
    Case("closed-ragged", "lstm", "squared", INDIRECT | {"l2": 0.3}, real=True, ragged=True),
]  # fmt: skip


@cache
def closed(case: Case) -> Setting:
    """Return the setting of a case whose inputs are its outputs at most steps."""
    plain = setting(case)
    loop = LOOP.of_batch(plain.net, plain.batch)
    assert loop.chosen[1:].any()
    assert not loop.chosen[1:].all()
    fed = loop.feedback
    data = replace(plain.data, loop=(loop.chosen, fed.outputs, fed.inputs, fed.gain, fed.offset))
    views = plain.net.views
    expected = reference.evaluate(dict(views(plain.theta)), dict(views(plain.v)), plain.u, data, plain.config)
    assert abs(expected["loss"] - plain.expected["loss"]) > 1e-4
    return replace(plain, data=data, expected=expected)


@pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=["kept", "segments"])
@pytest.mark.parametrize("case", CLOSED, ids=lambda case: case.id, scope="module")
@pytest.mark.slow
def test_everything_agrees_in_a_closed_loop(case, checkpoint):
    s = closed(case)
    f = hfrnn.Objective(s.net, s.batch, threads=1, checkpoint=checkpoint, closed_loop=LOOP)
    loss, gradient = f.loss_and_gradient(s.theta)
    for value in (loss, f.loss(s.theta)):
        assert value == pytest.approx(float(s.expected["loss"]), rel=1e-13)
    assert_blocks(s, gradient, s.expected["gradient"])
    J = f.jacobian(s.theta)
    assert_close(J.matvec(s.v).reshape(s.u.shape), s.expected["Jv"] * s.data.exists()[:, :, None], "Jv")
    assert_blocks(s, J.rmatvec(s.u.ravel()), s.expected["Jtu"])
    assert_blocks(s, f.hessian(s.theta) @ s.v, s.expected["hessian"])
    assert_blocks(s, f.gauss_newton(s.theta) @ s.v, s.expected["G"])
    for metric in metrics(case):
        G = f.gauss_newton(s.theta, structural=MU, tikhonov=LAMBDA, metric=metric)
        assert_blocks(s, G @ s.v, plus(s, **{metric: MU, "v": LAMBDA}))
