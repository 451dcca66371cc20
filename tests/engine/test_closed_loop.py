"""Training through the feedback: which inputs it replaces, and that every plan, thread and device does the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.engine_cases import SMALL, assert_same, everything, moved, plans, random_batch, vectors
from support.fake_device import FakeBackend, HostAsDevice
from support.slow import slow_unless

import hfrnn
from hfrnn import gradcheck
from hfrnn.data.scaling import Scaling
from hfrnn.engine.closed_loop import ClosedLoopSweep, LoopInputs
from hfrnn.engine.input_map import InputMap
from hfrnn.engine.plan import Keep, Plan
from hfrnn.engine.sweep import Sweep
from hfrnn.errors import InputError
from hfrnn.gradcheck.cases import cases_of

FEEDBACK = [2, None]
SCALING = Scaling(np.array([1.0, -2.0, 0.5]), np.array([2.0, 5.0, 0.7]), np.array([0.3, 1.0]), np.array([0.9, 3.0]))
LOOP: dict[str, Any] = {"feedback": FEEDBACK, "scaling": SCALING, "warm_up": 2, "seed": 5, "draw": 2}
HALF = hfrnn.ClosedLoop(0.5, sequences=[8, 0, 3, 1, 70], **LOOP)


def problem(arch: str = "rnn", B: int = 5, backend: Any = "numpy", **how: Any) -> tuple[Any, hfrnn.Batch]:
    net = hfrnn.Network(arch, 3, (4, 3), 2, "squared", dtype="float64", l2=0.1, backend=backend, **SMALL.get(arch, {}))
    return net, random_batch(net, np.random.default_rng(1), 7, B, real=True, **how)


@pytest.mark.parametrize(("arch", "how", "plan"), slow_unless(lambda arch, how, plan: plan == "nothing-3", [
    (*how, plan) for how in (("rnn", {"ragged": True}), ("clockwork", {"carried": True}))
    for plan in ("all-3", "states-2", "nothing-3", "nothing")
]))  # fmt: skip
def test_results_depend_neither_on_the_plan_nor_on_the_threads(arch: str, how: dict[str, Any], plan: str) -> None:
    net, batch = problem(arch, **how)
    arrays = vectors(net, batch)
    one = everything(net, batch, *arrays, plan=plans(7, 5)[plan], closed_loop=HALF)
    assert_same(one, everything(net, batch, *arrays, plan=Plan((0, 5), None, Keep.ALL), closed_loop=HALF), rtol=1e-12)
    assert_same(everything(net, batch, *arrays, plan=plans(7, 5)[plan], threads=2, closed_loop=HALF), one)
    noisy = {"closed_loop": HALF, "noise": hfrnn.StateNoise(0.3, sequences=[8, 0, 3, 1, 70])}
    one = everything(net, batch, *arrays, plan=plans(7, 5)[plan], **noisy)
    assert_same(one, everything(net, batch, *arrays, plan=Plan((0, 5), None, Keep.ALL), **noisy), rtol=1e-12)


def test_a_device_computes_the_bits_of_numpy() -> None:
    fake, (net, batch) = FakeBackend(), problem("lstm", ragged=True)
    plan, arrays = plans(7, 5)["nothing-3"], vectors(net, batch)
    actual = everything(problem("lstm", backend=fake)[0], moved(batch, fake), *arrays, plan=plan, closed_loop=HALF)
    expected = everything(problem("lstm", backend=HostAsDevice())[0], batch, *arrays, plan=plan, closed_loop=HALF)
    assert_same(actual, expected)


@pytest.mark.parametrize("how", [{}, {"ragged": True}, {"carried": True}])
def test_a_whole_loop_is_a_free_run_and_a_share_of_0_none(how: dict[str, Any]) -> None:
    net, batch = problem(**how)
    theta, plain = vectors(net, batch)[0], net.without_penalty()
    whole = hfrnn.Objective(plain, batch, closed_loop=hfrnn.ClosedLoop(1.0, **LOOP))
    logits = whole.loss_and_logits(theta)[1]
    units = hfrnn.Batch(batch.inputs * SCALING.input_deviation + SCALING.input_mean).with_state(batch.initial_state)
    run = hfrnn.free_run(net, theta, units, scaling=SCALING, feedback=FEEDBACK, warm_up=2)
    exists = np.ones((7, 5), bool) if batch.lengths is None else np.arange(7)[:, None] < batch.lengths
    expected = ((run - SCALING.target_mean) / SCALING.target_deviation)[exists[1:]]
    np.testing.assert_allclose(logits[1:][exists[1:]], expected, rtol=1e-11, atol=1e-13)
    none = hfrnn.Objective(net, batch, closed_loop=hfrnn.ClosedLoop(0.0, **LOOP))
    np.testing.assert_array_equal(none.loss_and_gradient(theta)[1], net.loss_and_gradient(theta, batch)[1])


def test_a_sequence_has_the_same_steps_in_every_batch_and_the_warm_up_none() -> None:
    net, batch = problem(B=400)
    chosen = hfrnn.ClosedLoop(0.3, **LOOP).of_batch(net, batch).chosen
    assert not chosen[:2].any()
    assert abs(chosen[2:].mean() - 0.3) < 3 * (0.21 / 2000) ** 0.5
    few = problem(B=3)[1]
    part = hfrnn.ClosedLoop(0.3, sequences=[7, 399, 0], **LOOP).of_batch(net, few).chosen
    np.testing.assert_array_equal(part, chosen[:, [7, 399, 0]])
    more = hfrnn.ClosedLoop(0.6, **LOOP).of_batch(net, batch).chosen
    assert (more >= chosen).all()  # a larger share keeps the steps of a smaller one
    for name in ("seed", "draw"):
        assert (hfrnn.ClosedLoop(0.3, **{**LOOP, name: 9}).of_batch(net, batch).chosen != chosen).any()


def test_gradients_of_parts_go_through_the_feedback() -> None:
    net, batch = problem(ragged=True)
    theta = vectors(net, batch)[0]
    objective = hfrnn.Objective(net.without_penalty(), batch, checkpoint=2, closed_loop=HALF)
    gradient = objective.loss_and_gradient(theta)[1]
    parts = objective.part_gradients(theta, 3) / np.sqrt(objective.total_weight)
    np.testing.assert_allclose(parts.sum(0), gradient, rtol=1e-10, atol=1e-14)
    each = objective.per_sequence_gradients(theta) / objective.total_weight
    np.testing.assert_allclose(each.sum(0), gradient, rtol=1e-10, atol=1e-14)


BROKEN = {
    "no tangent of the inputs": (LoopInputs, "feed_tangent", lambda self, t, Rz: None),
    "no adjoint of the outputs": (ClosedLoopSweep, "_backward", Sweep._backward),
    "no tangent of U": (LoopInputs, "rforward", InputMap.rforward),
    "no adjoint of the inputs": (LoopInputs, "backward", InputMap.backward),
    "adjoints of all steps": (LoopInputs, "adjoint", lambda self, t, n_out: self.dx[:, :, :n_out]),
    "no feedback": (ClosedLoopSweep, "_forward", Sweep._forward),
    "no tangent by feedthrough": (LoopInputs, "dense_tangent", InputMap.dense_tangent),
    "no adjoint by feedthrough": (LoopInputs, "begin_adjoint", lambda self, more: self.dx.fill(0)),
    "no adjoint of the loss by feedthrough": (LoopInputs, "dense_backward", InputMap.dense_backward),
}


def noticed(feedthrough: bool) -> bool:
    """Whether a check of a closed loop finds an error."""
    loops = (case for case in cases_of("rnn", 0) if case.closed_loop is not None)
    case = next(case for case in loops if case.net.feedthrough == feedthrough)
    return any(error > gradcheck.TOLERANCES[name] for name, error, _ in gradcheck.check_case(case))


def test_outputs_may_also_depend_directly_on_inputs_that_are_outputs() -> None:
    assert not noticed(feedthrough=True)


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_routine_is_noticed(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BROKEN[what])
    assert noticed("feedthrough" in what)


def test_what_has_no_closed_loop_is_refused() -> None:
    net, batch = problem()
    logistic = hfrnn.Network("rnn", 3, 4, 2, "logistic")
    bits = hfrnn.Batch(batch.inputs, np.ones((7, 5, 2)))
    for words, make in (
        ("cannot be its inputs", lambda: hfrnn.Objective(logistic, bits, closed_loop=HALF)),
        ("as many numbers", lambda: hfrnn.Objective(net, problem(B=4)[1], closed_loop=HALF)),
        ("give a list with an input", lambda: hfrnn.Objective(net, batch, closed_loop=hfrnn.ClosedLoop(feedback=[1]))),
        (r"a hfrnn\.ClosedLoop", lambda: hfrnn.Objective(net, batch, closed_loop=0.5)),
        ("share is 2", lambda: hfrnn.ClosedLoop(2.0)), ("0 or more", lambda: hfrnn.ClosedLoop(sequences=[-1])),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            make()
    objective = hfrnn.Objective(net, batch, closed_loop=HALF)
    with pytest.raises(InputError, match="leave one of them out"):
        objective.loss_and_gradient(net.init(), clip_error=1.0)
