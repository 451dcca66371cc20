"""Values and derivatives of every architecture against automatic differentiation, block by block and slot by slot."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax", reason="the oracle needs JAX: install the extra oracle")

from support.slow import slow_unless

import hfrnn

from . import sizes
from .settings import (
    CHECKPOINTS,
    LAMBDA,
    LOSSES,
    MU,
    SMALL,
    Case,
    assert_blocks,
    assert_close,
    metrics,
    plus,
    setting,
)

PHI = ["tanh", "logistic", "relu", "softplus"]
LEARNED = {"learn_initial_state": True}
HORNN = ["hornn", "hornn-max", "hornn-fofe", "hornn-gated"]


def all_cases() -> list[Case]:
    """Every architecture in every situation, the losses taking turns; then what each architecture has of its own."""
    cases = []
    inner = {"hidden": (4, 2), "direct_input": False}
    for k, arch in enumerate(sizes.SLOTS):
        loss = [LOSSES[(k + j) % 4] for j in range(4)]
        own = SMALL.get(arch, {})
        flipped = {
            "bias": not any(bias for _, bias, _ in sizes.SLOTS[arch]),
            "output_bias": arch not in sizes.OUTPUT_BIAS,
        }
        cases += [
            Case("single", arch, "softmax", own),
            Case("stack", arch, loss[1], own | {"hidden": (4, 2)}, ragged=True),
            Case(
                "ragged-embedding-carried", arch, loss[2], own | {"embedding": 3, "l2": 0.3}, ragged=True, carried=True
            ),
            Case("no-direct-input-carried", arch, loss[3], own | inner, real=True, carried=True),
            Case("no-direct-output", arch, loss[0], own | {"hidden": (2, 4), "direct_output": False, "embedding": 3}),
            Case("real-input-carried-flipped-biases", arch, loss[1], own | flipped, B=1, real=True, carried=True),
            Case("one-step-carried", arch, loss[2], own, T=1, carried=True, vanishing=arch == "fnn"),
        ]
    chain = {"hidden": (3, 4, 3), "direct_input": False, "direct_output": False}
    cases += [
        *(Case("single", "rnn", loss) for loss in LOSSES[1:]),
        Case("one-step-from-zero", "mlstm", "softmax", T=1, vanishing=True),
        Case("chain", "mrnn", "softmax", chain, ragged=True),
        Case("large-vocabulary", "rnn", "softmax", {"n_in": 600}),
        Case("many-sequences", "mlstm", "softmax", {"embedding": 3}, B=17, ragged=True),
    ]
    for activation in ("logistic", "relu"):
        cases += [
            Case("single", "rnn", "softmax", {"activation": activation}, carried=True),
            Case("stack", "rnn", "squared", {"activation": activation, "hidden": (4, 3)}, ragged=True),
        ]
    for arch in HORNN:
        far, own = {"order": 5, "hidden": (4, 3)}, {"alpha": 0.9} if arch == "hornn-fofe" else {}
        cases += [
            Case("order-1", arch, "softmax", {"order": 1, "activation": "logistic"}, carried=True),
            Case("order-2", arch, "squared", {"order": 2, "activation": "relu"} | own, ragged=True, carried=True),
            Case("order-beyond-the-start", arch, "logistic", {"order": 5}, T=3, vanishing=True),
            Case("order-beyond-the-start-carried", arch, "softmax", far, T=3, carried=True),
        ]
    fast, slow = {"learn_leak": True, "hidden": (4, 3)}, {"leak": 0.05}
    for arch in ("leaky", "rate"):
        cases += [
            *(Case("single", arch, "squared", {"activation": f}, carried=True) for f in PHI[1:]),
            *(Case("learned-stack", arch, "softmax", fast | {"activation": f}, ragged=True, carried=True) for f in PHI),
            Case("slow-stack", arch, "logistic", slow | {"hidden": (4, 3), "activation": "softplus"}, ragged=True),
            Case("whole-step", arch, "softmax", {"leak": 1.0}, carried=True),
            Case("learned-one-step", arch, "softmax", {"learn_leak": True}, T=1, B=1, carried=True),
        ]
    for arch, n, own in (("fnn", "order", {}), ("fofe-fnn", "codes", {"alpha": 0.9})):
        far = {n: 5, "hidden": (4, 3)} | own
        cases += [
            Case("reads-1", arch, "softmax", {n: 1, "activation": "logistic"}, carried=True),
            Case("reads-2", arch, "squared", {n: 2, "activation": "relu"} | own, ragged=True, carried=True),
            Case("beyond-the-start-carried", arch, "logistic", far, T=3, carried=True, vanishing=True),
            Case("reads-3-carried", arch, "softmax", {n: 3, "hidden": (4, 3)}, T=1, B=1, carried=True, vanishing=True),
            Case("no-bias", arch, "class-softmax", {n: 3, "bias": False, "hidden": (4, 3)}, ragged=True),
        ]
    chain = {"hidden": (3, 4), "direct_input": False, "direct_output": False}
    cases += [
        Case("one-layer-inside", "gated-feedback", "softmax", {"sublayers": 1, "hidden": (4, 3)}, ragged=True),
        Case("layer-of-one-unit", "gated-feedback", "squared", {"sublayers": 4}, carried=True),
        Case("chain", "gated-feedback", "logistic", chain, ragged=True, carried=True),
        Case("three-layers-wide", "gated-feedback", "softmax", {"hidden": (6,), "sublayers": 3}, T=4, carried=True),
        Case("default-periods-carried", "hierarchical", "softmax", T=9, carried=True),
        Case("slow-first", "hierarchical", "softmax", {"periods": (3, 1)}, T=9, ragged=True, carried=True),
    ]
    learned, asleep = {"learn_alpha": True, "context": 3}, {"periods": (2, 4)}
    cases += [
        Case("ties", "hornn-max", "softmax", carried=True, ties=True),
        Case("ties-of-zero-weights", "hornn-max", "softmax", carried=True, ties=True),
        Case("learned", "scrn", "softmax", learned, carried=True),
        Case("learned-stack", "scrn", "class-softmax", learned | {"hidden": (4, 2), "bias": True}, ragged=True),
        Case("learned-context-only", "scrn", "logistic", learned | {"hidden": (0,)}, ragged=True),
        Case("context-only-below", "scrn", "squared", {"hidden": (0, 3), "context": 3, "alpha": 0.5}, carried=True),
        Case("no-context", "scrn", "softmax", {"context": 0}, ragged=True),
        Case("default-context", "scrn", "softmax"),
        Case("no-candidate-bias", "gru-torch", "softmax", {"candidate_bias": False, "hidden": (4, 3)}, carried=True),
        Case("default-periods-carried", "clockwork", "softmax", T=9, carried=True),
        Case("default-periods", "clockwork", "squared", {"hidden": (16, 3)}, T=9, ragged=True, vanishing=True),
        Case("slow-first", "clockwork", "softmax", {"periods": (3, 1)}, ragged=True),
        Case("equal-periods", "clockwork", "softmax", {"periods": (2, 1, 2, 2), "hidden": (4,)}, carried=True),
        Case("asleep", "clockwork", "logistic", asleep | {"hidden": (2, 4)}, T=7, carried=True),
        Case("asleep-step", "clockwork", "softmax", asleep, T=1, carried=True, vanishing=True),
        Case("number-of-classes", "rnn", "class-softmax", {"classes": 3, "output_bias": True, "l2": 0.2}, ragged=True),
        Case("one-class", "rnn", "class-softmax", {"classes": 1}, carried=True, vanishing=True),
        Case("a-class-each", "gru", "class-softmax", {"classes": (3, 0, 5, 1, 2, 4)}, vanishing=True),
        Case("many-symbols", "rnn", "class-softmax", {"n_out": 40, "classes": tuple(7 * k % 11 for k in range(40))}),
    ]
    for k, arch in enumerate(sizes.SLOTS):
        own = SMALL.get(arch, {}) | {"hidden": (4, 2)}
        cases += [Case("weights-of-outputs", arch, LOSSES[2 + k % 2], own, ragged=True, by_output=True, carried=True)]
        learned = SMALL.get(arch, {}) | LEARNED | {"hidden": (4, 2)}
        cases += [Case("learned-state", arch, LOSSES[k % 4], learned, ragged=True)]
    cases += [
        Case("learned-state-single", "hornn-fofe", "softmax", LEARNED | {"order": 5}, T=3),
        Case("learned-state-one-step", "mlstm", "squared", LEARNED | {"embedding": 3, "l2": 0.3}, T=1),
        Case(
            "learned-state-and-alpha", "scrn", "softmax", LEARNED | {"learn_alpha": True, "context": 3, "hidden": (0,)}
        ),
        Case("learned-state-of-a-chain", "gru", "softmax", LEARNED | {"hidden": (2, 4), "direct_output": False}),
    ]
    cases += [Case("weights-of-one-step", "mlstm", "logistic", T=1, B=1, by_output=True, carried=True)]
    return cases


CASES = all_cases()
ARCHITECTURES = hfrnn.architectures()  # before any test registers one of its own


def test_every_architecture_is_in_the_oracle() -> None:
    assert set(ARCHITECTURES) == set(sizes.SLOTS)


@pytest.mark.parametrize("classes", [4, 5])
def test_a_number_of_classes_cuts_the_symbols_nearly_equally_and_in_order(classes: int) -> None:
    net = hfrnn.Network(arch="rnn", n_in=2, hidden=2, n_out=14, loss="class-softmax", classes=classes, dtype="float64")
    output, _ = net.run(np.zeros(net.n_parameters), hfrnn.Batch(np.array([[0]]), np.array([[0]])))
    size = 1 / (classes * np.exp(output[0, 0]))  # of the class of each symbol, where all of a kind are equally likely
    cuts = [round(size[0])]
    while sum(cuts) < 14:
        cuts.append(round(size[sum(cuts)]))
    assert len(cuts) == classes
    assert max(cuts) - min(cuts) == 1
    assert np.allclose(size, np.repeat(cuts, cuts))


ALWAYS = {"stack", "ragged-embedding-carried"}  # situations in which every architecture is tried by default
QUICK = {case for case in CASES if case.name in ALWAYS} | {*[case for case in CASES if case.name not in ALWAYS][::24]}
QUICK |= {case for case in CASES if case.by_output and case.arch in ("rnn", "mlstm")}
every_case = pytest.mark.parametrize(  # by module: tests of one case follow each other, for its oracle takes most time
    "case", slow_unless(QUICK.__contains__, CASES), ids=lambda case: case.id, scope="module"
)
every_checkpoint = pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=["kept", "segments"])


@every_case
def test_parameters_have_the_names_and_shapes_of_the_contract(case: Case) -> None:
    s = setting(case)
    assert {name: view.shape for name, view in s.net.views(s.theta).items()} == sizes.shapes(s.config)


@every_case
def test_output_agrees_on_every_step_that_exists(case: Case) -> None:
    s = setting(case)
    output, _ = s.net.run(s.theta, s.batch)
    exists = s.data.exists() > 0
    assert output.shape == s.expected["output"].shape
    assert_close(output[exists], s.expected["output"][exists], "output")


@every_case
def test_final_state_agrees_layer_by_layer(case: Case) -> None:
    s = setting(case)
    _, final = s.net.run(s.theta, s.batch)
    assert len(final) == len(s.config.hidden)
    for layer, (mine, theirs) in enumerate(zip(final, s.expected["state"], strict=True)):
        assert set(mine) == set(theirs)
        for name, value in theirs.items():
            if np.size(value):
                assert_close(mine[name], value, f"state {name} of layer {layer}")


@every_checkpoint
@every_case
def test_loss_and_gradient_agree_block_by_block(case: Case, checkpoint: int | None) -> None:
    s = setting(case)
    objective = s.objective(checkpoint)
    loss, gradient = objective.loss_and_gradient(s.theta)
    for value in (loss, objective.loss(s.theta)):
        assert value == pytest.approx(float(s.expected["loss"]), rel=1e-13)
    assert_blocks(s, gradient, s.expected["gradient"])


@every_case
def test_jacobian_agrees_from_both_sides(case: Case) -> None:
    s = setting(case)
    jacobian = s.objective(None).jacobian(s.theta)
    exists = s.data.exists() > 0
    Rz = (jacobian @ s.v).reshape(s.expected["Jv"].shape)
    assert_close(Rz[exists], s.expected["Jv"][exists], "J v")
    assert_blocks(s, jacobian.rmatvec(s.u.ravel()), s.expected["Jtu"])


@every_checkpoint
@every_case
def test_gauss_newton_product_agrees_block_by_block(case: Case, checkpoint: int | None) -> None:
    s = setting(case)
    assert_blocks(s, s.objective(checkpoint).gauss_newton(s.theta) @ s.v, s.expected["G"])


@every_checkpoint
@every_case
def test_damped_product_agrees_under_every_metric(case: Case, checkpoint: int | None) -> None:
    s = setting(case)
    for metric in metrics(case):
        G = s.objective(checkpoint).gauss_newton(s.theta, structural=MU, tikhonov=LAMBDA, metric=metric)
        assert_blocks(s, G @ s.v, plus(s, **{metric: MU, "v": LAMBDA}))


@every_case
def test_damping_of_the_oracle_reaches_every_block_but_the_output(case: Case) -> None:
    s = setting(case)
    damping = "matching" if case.arch in sizes.ONE_PREACTIVATION else "hidden"
    for name, block in s.expected[damping].items():
        for part, value in sizes.parts(name, block, s.config).items():
            size = np.linalg.norm(value)
            if name.startswith("output.") or sizes.NEVER_READ in part:
                assert size == 0, part
            else:
                assert size > 1e-6 or case.vanishing, part


@every_checkpoint
@every_case
def test_exact_hessian_product_agrees_block_by_block(case: Case, checkpoint: int | None) -> None:
    s = setting(case)
    assert_blocks(s, s.objective(checkpoint).hessian(s.theta) @ s.v, s.expected["hessian"])


@every_case
def test_the_network_itself_computes_the_same_on_one_shard(case: Case) -> None:
    s = setting(case)
    loss, gradient = s.net.loss_and_gradient(s.theta, s.batch)
    for value in (loss, s.net.loss(s.theta, s.batch)):
        assert value == pytest.approx(float(s.expected["loss"]), rel=1e-13)
    assert_blocks(s, gradient, s.expected["gradient"])
    assert_blocks(s, s.net.gauss_newton(s.theta, s.batch) @ s.v, s.expected["G"])
    assert_blocks(s, s.net.hessian(s.theta, s.batch) @ s.v, s.expected["hessian"])


@every_checkpoint
@every_case
def test_operators_of_one_objective_do_not_disturb_each_other(case: Case, checkpoint: int | None) -> None:
    s = setting(case)
    objective = s.objective(checkpoint)
    metric = "preactivation" if case.arch in sizes.ONE_PREACTIVATION else "hidden"
    damped = objective.gauss_newton(s.theta, structural=MU, tikhonov=LAMBDA, metric=metric)
    plain, elsewhere = objective.gauss_newton(s.theta), objective.gauss_newton(0.5 * s.theta)
    jacobian = objective.jacobian(s.theta)
    for _ in range(2):
        assert_blocks(s, damped @ s.v, plus(s, **{metric: MU, "v": LAMBDA}))
        assert_blocks(s, jacobian.rmatvec(s.u.ravel()), s.expected["Jtu"])
        elsewhere @ s.v
        assert_blocks(s, plain @ s.v, s.expected["G"])
        objective.loss(0.5 * s.theta)
        assert_blocks(s, objective.loss_and_gradient(s.theta)[1], s.expected["gradient"])


@every_case
def test_padding_is_never_looked_at(case: Case) -> None:
    if not case.ragged:
        pytest.skip("all sequences are equally long")
    s = setting(case)
    padding = s.data.exists() == 0
    inputs, targets, weights = (array.copy() for array in (s.data.inputs, s.data.targets, s.data.weights))
    inputs[padding], weights[padding] = -7, np.inf
    targets[padding] = -7 if targets.dtype.kind == "i" else np.nan
    objective = hfrnn.Objective(
        s.net, hfrnn.Batch(inputs, targets, weights, s.data.lengths, s.data.initial_state), threads=1
    )
    assert_blocks(s, objective.loss_and_gradient(s.theta)[1], s.expected["gradient"])
    G = objective.gauss_newton(s.theta, structural=MU, tikhonov=LAMBDA)
    assert_blocks(s, G @ s.v, plus(s, hidden=MU, v=LAMBDA))
