"""Noise on the states against automatic differentiation, in every architecture."""

from dataclasses import replace
from functools import cache

import pytest

pytest.importorskip("jax", reason="the oracle needs JAX: install the extra oracle")

from support.noise_numbers import noise
from support.slow import slow_unless

import hfrnn

from . import reference, sizes
from .settings import (
    CHECKPOINTS,
    LAMBDA,
    LOSSES,
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

SCALE, SEED, DRAW, SEQUENCES = 0.4, 7, 3, (4, 0, 9)
WIDE, LEARNED = {"hidden": (4, 2)}, {"learn_initial_state": True, "direct_input": False, "hidden": (3, 4)}
NOISY = [  # an order of hornn-max may never have the largest product
    *(
        Case("noise", arch, LOSSES[(k + 1) % 4], SMALL.get(arch, {}) | WIDE, ragged=True, vanishing=arch == "hornn-max")
        for k, arch in enumerate(sizes.SLOTS)
    ),
    Case("noise-learned-state", "lstm", "softmax", LEARNED, real=True),
    Case("noise-embedding", "mlstm", "squared", {"embedding": 3, "l2": 0.3}),
]


@cache
def noisy(case: Case) -> Setting:
    """Return the setting of a case with noise on the states."""
    plain = setting(case)
    config, T = plain.config, case.T
    layers = []
    for layer in range(len(config.hidden)):
        heard = [name for name, _, below in config.slots(layer) if below]
        widths = config.widths(layer, heard)
        drawn = SCALE * noise(SEED, DRAW, layer, SEQUENCES, T, sum(widths.values()))
        layers.append(sizes.cut(drawn, widths))
    data = replace(plain.data, noise=layers)
    views = plain.net.views
    expected = reference.evaluate(dict(views(plain.theta)), dict(views(plain.v)), plain.u, data, config)
    assert abs(expected["loss"] - plain.expected["loss"]) > 1e-4
    return replace(plain, data=data, expected=expected)


@pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=["kept", "segments"])
@pytest.mark.parametrize(
    "case",
    slow_unless(lambda case: case.arch == "rnn", NOISY),
    ids=lambda case: case.id,
    scope="module",
)
def test_everything_agrees_under_noise(case, checkpoint):
    s = noisy(case)
    f = hfrnn.Objective(
        s.net, s.batch, threads=1, checkpoint=checkpoint, noise=hfrnn.StateNoise(SCALE, SEED, DRAW, SEQUENCES)
    )
    loss, gradient = f.loss_and_gradient(s.theta)
    for value in (loss, f.loss(s.theta)):
        assert value == pytest.approx(float(s.expected["loss"]), rel=1e-13)
    assert_blocks(s, gradient, s.expected["gradient"])
    assert_blocks(s, f.gauss_newton(s.theta) @ s.v, s.expected["G"])
    for metric in metrics(case):
        G = f.gauss_newton(s.theta, structural=MU, tikhonov=LAMBDA, metric=metric)
        assert_blocks(s, G @ s.v, plus(s, **{metric: MU, "v": LAMBDA}))
    assert_blocks(s, f.hessian(s.theta) @ s.v, s.expected["hessian"])
    assert_blocks(s, f.jacobian(s.theta).rmatvec(s.u.ravel()), s.expected["Jtu"])
    exists = s.data.exists() > 0
    Rz = (f.jacobian(s.theta) @ s.v).reshape(s.expected["Jv"].shape)
    assert_close(Rz[exists], s.expected["Jv"][exists], "J v")
