"""Learned initial states, and noise on the states, against automatic differentiation in every architecture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

pytest.importorskip("jax", reason="the oracle needs JAX: install the extra oracle")

from support.noise_numbers import noise
from support.slow import slow_unless

import hfrnn

from . import reference, sizes
from . import test_oracle_networks as networks
from .test_oracle_networks import CHECKPOINTS, LOSSES, SMALL, Case

LEARNED = {"learn_initial_state": True}
CASES = [
    *(
        Case("learned-state", arch, LOSSES[k % 4], SMALL.get(arch, {}) | LEARNED | {"hidden": (4, 2)}, ragged=True)
        for k, arch in enumerate(sizes.SLOTS)
    ),
    Case("learned-state-single", "hornn-fofe", "softmax", LEARNED | {"order": 5}, T=3),
    Case("learned-state-one-step", "mlstm", "squared", LEARNED | {"embedding": 3, "l2": 0.3}, T=1),
    Case("learned-state-and-alpha", "scrn", "softmax", LEARNED | {"learn_alpha": True, "context": 3, "hidden": (0,)}),
    Case("learned-state-no-direct-output", "gru", "softmax", LEARNED | {"hidden": (2, 4), "direct_output": False}),
]
QUICK = {case for case in CASES if case.arch in ("rnn", "mlstm", "hornn", "clockwork")}
every_case = pytest.mark.parametrize(
    "case", slow_unless(QUICK.__contains__, CASES), ids=lambda case: case.id, scope="module"
)


@pytest.mark.parametrize(
    "check",
    [
        networks.test_parameters_have_the_names_and_shapes_of_the_contract,
        networks.test_output_agrees_on_every_step_that_exists,
        networks.test_final_state_agrees_layer_by_layer,
        networks.test_jacobian_agrees_from_both_sides,
        networks.test_damping_of_the_oracle_reaches_every_block_but_the_output,
        networks.test_the_network_itself_computes_the_same_on_one_shard,
    ],
    ids=lambda check: check.__name__.removeprefix("test_"),
)
@every_case
def test_a_learned_initial_state(case: Case, check: Callable[[Case], Any]) -> None:
    check(case)


@pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=["kept", "segments"])
@pytest.mark.parametrize(
    "check",
    [
        networks.test_loss_and_gradient_agree_block_by_block,
        networks.test_gauss_newton_product_agrees_block_by_block,
        networks.test_damped_product_agrees_under_every_metric,
        networks.test_exact_hessian_product_agrees_block_by_block,
        networks.test_operators_of_one_objective_do_not_disturb_each_other,
    ],
    ids=lambda check: check.__name__.removeprefix("test_"),
)
@every_case
def test_derivatives_of_a_learned_initial_state(
    case: Case, check: Callable[[Case, int | None], Any], checkpoint: int | None
) -> None:
    check(case, checkpoint)


# ---------------------------------------------------------------------- noise


SCALE, SEED, DRAW, SEQUENCES = 0.4, 7, 3, (4, 0, 9)
NOISY = [
    *(
        Case("noise", arch, LOSSES[(k + 1) % 4], SMALL.get(arch, {}) | {"hidden": (4, 2)}, ragged=True)
        for k, arch in enumerate(sizes.SLOTS)
    ),
    Case("noise-learned-state", "lstm", "softmax", LEARNED | {"direct_input": False, "hidden": (3, 4)}, real=True),
    Case("noise-carried", "mlstm", "squared", {"embedding": 3, "l2": 0.3}, carried=True),
]


@cache
def noisy(case: Case) -> networks.Setting:
    """Return the setting of a case with noise on the states."""
    plain = networks.setting(case)
    config, T = plain.config, case.T
    heard = [name for name, _, below in config.slots() if below]
    layers = []
    for layer in range(len(config.hidden)):
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
    slow_unless({case for case in NOISY if case.arch in ("rnn", "mlstm", "clockwork")}.__contains__, NOISY),
    ids=lambda case: case.id,
    scope="module",
)
def test_everything_agrees_under_noise(case: Case, checkpoint: int | None) -> None:
    s = noisy(case)
    f = hfrnn.Objective(
        s.net, s.batch, threads=1, checkpoint=checkpoint, noise=hfrnn.StateNoise(SCALE, SEED, DRAW, SEQUENCES)
    )
    loss, gradient = f.loss_and_gradient(s.theta)
    for value in (loss, f.loss(s.theta)):
        assert value == pytest.approx(float(s.expected["loss"]), rel=1e-13)
    networks.assert_blocks(s, gradient, s.expected["gradient"])
    networks.assert_blocks(s, f.gauss_newton(s.theta) @ s.v, s.expected["G"])
    for metric in networks.metrics(case):
        G = f.gauss_newton(s.theta, structural=networks.MU, tikhonov=networks.LAMBDA, metric=metric)
        networks.assert_blocks(s, G @ s.v, networks.plus(s, **{metric: networks.MU, "v": networks.LAMBDA}))
    networks.assert_blocks(s, f.hessian(s.theta) @ s.v, s.expected["hessian"])
    networks.assert_blocks(s, f.jacobian(s.theta).rmatvec(s.u.ravel()), s.expected["Jtu"])
    exists = s.data.exists() > 0
    Rz = (f.jacobian(s.theta) @ s.v).reshape(s.expected["Jv"].shape)
    networks.assert_close(Rz[exists], s.expected["Jv"][exists], "J v")
