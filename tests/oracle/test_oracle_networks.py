"""Values and derivatives of every architecture against automatic differentiation, block by block and slot by slot."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="the oracle needs JAX: install the extra oracle")

from support.slow import slow_unless

import hfrnn

from . import sizes
from .settings import CHECKPOINTS, LAMBDA, LOSSES, MU, SMALL, Case, assert_blocks, assert_close, metrics, plus, setting

PHI = ["tanh", "logistic", "relu", "softplus"]
LEARNED = {"learn_initial_state": True}
HORNN = ["hornn", "hornn-max", "hornn-fofe", "hornn-gated"]


def all_cases() -> list[Case]:
    """Every architecture in seven situations, the losses taking turns; then what each architecture has of its own."""
    cases = []
    for k, arch in enumerate(sizes.SLOTS):
        loss = [LOSSES[(k + j) % 4] for j in range(4)]
        own = SMALL.get(arch, {})
        two = own | {"hidden": (4, 2)}
        embedding, inner = own | {"embedding": 3, "l2": 0.3}, two | {"direct_input": False}
        flipped = {
            "bias": not any(bias for _, bias, _ in sizes.SLOTS[arch]),
            "output_bias": arch not in sizes.OUTPUT_BIAS,
        }
        cases += [
            Case("stack", arch, loss[1], two, ragged=True, carried=True),
            Case("ragged-embedding-carried", arch, loss[2], embedding, ragged=True, carried=True),
            Case("no-direct-input-carried", arch, loss[3], inner, real=True, carried=True),
            Case("real-input-carried-flipped-biases", arch, loss[1], own | flipped, B=1, real=True, carried=True),
            Case("one-step-carried", arch, loss[2], own, T=1, carried=True, vanishing=arch == "fnn"),
            Case("weights-of-outputs", arch, LOSSES[2 + k % 2], two, ragged=True, by_output=True, carried=True),
            Case("learned-state", arch, LOSSES[k % 4], two | LEARNED, ragged=True),
        ]
    chain = {"hidden": (3, 4, 3), "direct_input": False, "direct_output": False}
    cases += [
        *(Case("single", "rnn", loss) for loss in LOSSES),
        Case("one-step-from-zero", "mlstm", "softmax", T=1, vanishing=True),
        Case("chain", "mrnn", "softmax", chain, ragged=True),
        Case("large-vocabulary", "rnn", "softmax", {"n_in": 600}),
        Case("many-sequences", "mlstm", "softmax", {"embedding": 3}, B=17, ragged=True),
    ]
    for f in ("logistic", "relu"):
        cases += [Case("stack", "rnn", "squared", {"activation": f, "hidden": (4, 3)}, ragged=True)]
    for arch in HORNN:
        far, own = {"order": 5, "hidden": (4, 3)}, {"alpha": 0.9} if arch == "hornn-fofe" else {}
        unread = arch == "hornn-max"  # the maximum may choose no state of a delay
        cases += [
            Case("order-1", arch, "softmax", {"order": 1, "activation": "logistic"}, carried=True),
            Case("order-2", arch, "squared", {"order": 2, "activation": "relu"} | own, ragged=True, carried=True),
            Case("order-beyond-the-start", arch, "logistic", {"order": 5}, T=3, vanishing=True),
            Case("order-beyond-the-start-carried", arch, "softmax", far, T=3, carried=True, vanishing=unread),
        ]
    fast, slow = {"learn_leak": True, "hidden": (4, 3)}, {"leak": 0.05}
    for arch in ("leaky", "rate"):
        cases += [
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
    cases += [
        Case("learned-state-single", "hornn-fofe", "softmax", LEARNED | {"order": 5}, T=3),
        Case("learned-state-and-alpha", "scrn", "softmax", LEARNED | learned | {"hidden": (0,)}),
        Case("learned-state-of-a-chain", "gru", "softmax", LEARNED | {"hidden": (2, 4), "direct_output": False}),
        Case("feedthrough", "state-space", "squared", {"feedthrough": True, "units": 4}, real=True, carried=True),
        Case("feedthrough-stack", "rnn", "class-softmax", {"feedthrough": True, "hidden": (4, 3)}, ragged=True),
        Case("feedthrough-embedding", "gru", "softmax", {"feedthrough": True, "embedding": 3}, ragged=True),
        Case("feedthrough-symbols", "rnn", "logistic", {"feedthrough": True}, ragged=True, by_output=True),
        Case("loss", "rnn", "gaussian", {"hidden": (4, 2)}, ragged=True, by_output=True, carried=True),
        Case("loss", "rnn", "softmax", {"label_smoothing": 0.3}, ragged=True, soft=True),
        Case("smoothed", "rnn", "softmax", {"label_smoothing": 0.3}, ragged=True),
        Case("loss-lstm", "lstm", "poisson", ragged=True, by_output=True),
        Case("loss-lstm", "lstm", "gaussian", T=1, B=1, carried=True),
        Case("weights-of-one-step", "mlstm", "logistic", T=1, B=1, by_output=True, carried=True),
    ]
    return cases


CASES = all_cases()
ARCHITECTURES = hfrnn.architectures()  # before any test registers one of its own


def test_every_architecture_is_in_the_oracle():
    assert set(ARCHITECTURES) == set(sizes.SLOTS)


ONE_LAYER, STACKS = "ragged-embedding-carried", ("rnn", "hornn-gated", "fofe-fnn")
OF_RNN = {ONE_LAYER, "real-input-carried-flipped-biases", "weights-of-outputs", "loss"}


def is_quick(case: Case) -> bool:
    """Whether a case runs by default: each architecture once (a stack compiles slowly), on `rnn` all kinds of data."""
    if case.name == "learned-context-only":
        return True
    if case.arch == "leaky":
        return case.name == "learned-stack" and case.network.get("activation", "tanh") == "tanh"
    whole = case.name == "stack" and case.arch in STACKS and "activation" not in case.network
    return whole or (case.name == ONE_LAYER and case.arch not in STACKS) or (case.arch == "rnn" and case.name in OF_RNN)


every_case = pytest.mark.parametrize(  # by module: tests of one case follow each other, for its oracle takes most time
    "case", slow_unless(is_quick, CASES), ids=lambda case: case.id, scope="module"
)


@every_case
def test_names_and_shapes_outputs_and_final_states_agree(case):
    s = setting(case)
    assert {name: view.shape for name, view in s.net.views(s.theta).items()} == sizes.shapes(s.config)
    output, final = s.net.run(s.theta, s.batch)
    exists = s.data.exists() > 0
    assert output.shape == s.expected["output"].shape
    assert_close(output[exists], s.expected["output"][exists], "output")
    assert len(final) == len(s.config.hidden)
    for layer, (mine, theirs) in enumerate(zip(final, s.expected["state"], strict=True)):
        assert set(mine) == set(theirs)
        for name, value in theirs.items():
            if np.size(value):
                assert_close(mine[name], value, f"state {name} of layer {layer}")


@pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=["kept", "segments"])
@every_case
def test_every_derivative_agrees_block_by_block(case, checkpoint):
    s = setting(case)
    objective = s.objective(checkpoint)
    loss, gradient = objective.loss_and_gradient(s.theta)
    for value in (loss, objective.loss(s.theta)):
        assert value == pytest.approx(float(s.expected["loss"]), rel=1e-13)
    assert_blocks(s, gradient, s.expected["gradient"])
    assert_blocks(s, objective.gauss_newton(s.theta) @ s.v, s.expected["G"])
    for metric in metrics(case):
        G = objective.gauss_newton(s.theta, structural=MU, tikhonov=LAMBDA, metric=metric)
        assert_blocks(s, G @ s.v, plus(s, **{metric: MU, "v": LAMBDA}))
    assert_blocks(s, objective.hessian(s.theta) @ s.v, s.expected["hessian"])


@every_case
def test_the_jacobian_agrees_from_both_sides(case):
    s = setting(case)
    jacobian = s.objective(None).jacobian(s.theta)
    exists = s.data.exists() > 0
    Rz = (jacobian @ s.v).reshape(s.expected["Jv"].shape)
    assert_close(Rz[exists], s.expected["Jv"][exists], "J v")
    assert_blocks(s, jacobian.rmatvec(s.u.ravel()), s.expected["Jtu"])


@every_case
def test_damping_of_the_oracle_reaches_every_block_but_the_output(case):
    s = setting(case)
    damping = "matching" if case.arch in sizes.ONE_PREACTIVATION else "hidden"
    for name, block in s.expected[damping].items():
        for part, value in sizes.parts(name, block, s.config).items():
            size = np.linalg.norm(value)
            if name.startswith("output.") or sizes.NEVER_READ in part:
                assert size == 0, part
            else:
                assert size > 1e-6 or case.vanishing, part
