"""Free runs of small networks, with and without a drive, against runs on inputs that are written out step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.engine_cases import SMALL, random_batch, replace, vectors

import hfrnn
from hfrnn.analysis import free_runs
from hfrnn.analysis.free_runs import free_run, score_ahead, score_free_run
from hfrnn.analysis.scores import figures
from hfrnn.data.scaling import Scaling
from hfrnn.errors import InputError, NonFiniteError


def problem(loss: str = "squared", arch: str = "rnn", n_out: int = 3, **batch: Any) -> tuple[Any, Any, hfrnn.Batch]:
    net = hfrnn.Network(arch, 3, (4, 3), n_out, loss=loss, dtype="float64", **SMALL.get(arch, {}))
    data = random_batch(net, np.random.default_rng(1), 7, 5, real=True, **batch)
    return net, vectors(net, data)[0], data


SCALING = Scaling(np.array([1.0, -2.0, 3.0]), np.full(3, 2.0), np.array([5.0, 0.0, 1.0]), np.array([0.5, 3.0, 1.0]))


@pytest.mark.parametrize("scaling", [None, SCALING], ids=["plain", "scaled"])
@pytest.mark.parametrize("arch", ["rnn", "lstm", "clockwork", "hornn"])
def test_a_free_run_feeds_each_output_back_in_the_units_of_the_inputs(arch: str, scaling: Scaling | None) -> None:
    net, theta, batch = problem(arch=arch)
    found, inputs, units = free_run(net, theta, batch, 4, scaling), batch.inputs, scaling or Scaling()
    for step in range(4):
        expected = units.unscale_outputs(net.run(theta, hfrnn.Batch(units.scale_inputs(inputs)))[0][-1])
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(found[step], expected, rtol=1e-10, atol=1e-12)
        inputs = np.concatenate([inputs, expected[None]])


def test_a_free_run_begins_after_the_last_input_of_each_sequence() -> None:
    net, theta, batch = problem(ragged=True)
    found = free_run(net, theta, batch, 3)
    for b, length in enumerate(batch.lengths):
        alone = free_run(net, theta, hfrnn.Batch(batch.inputs[:length, b : b + 1]), 3)
        np.testing.assert_allclose(found[:, b : b + 1], alone, rtol=1e-12, atol=1e-14)


def test_a_free_run_needs_outputs_that_can_be_inputs_and_says_when_it_explodes() -> None:
    for net, theta, batch in (problem("logistic"), problem(n_out=2)):
        with pytest.raises(InputError, match="cannot be its inputs"):
            free_run(net, theta, batch, 2)
    with pytest.raises(InputError, match="counts the steps"):
        free_run(*problem(arch="clockwork", ragged=True), 2)
    net, theta, batch = problem()
    for l in (0, 1):
        net.views(theta)[f"output.W_y{l}"][...] *= 1e200
    with pytest.raises(NonFiniteError, match="after"):
        free_run(hfrnn.Network(**{**net.config, "activation": "relu"}), theta, batch, 400)


DRIVEN = Scaling(np.array([1.0, -2.0, 3.0]), np.array([2.0, 5.0, 0.1]), np.array([5.0, 1.0]), np.array([0.5, 3.0]))
LOOP = [2, None]  # the first output is the third input


def run_by_hand(net: Any, theta: Any, batch: hfrnn.Batch, steps: int, warm_up: int, scaling: Scaling | None) -> Any:
    """The outputs of a free run: all inputs so far are read again for every step."""
    units, found = scaling or Scaling(), []
    inputs, state = np.array(batch.inputs), batch.initial_state
    for t in range(warm_up, warm_up + steps):
        read = hfrnn.Batch(units.scale_inputs(inputs[:t]), initial_state=state)
        found.append(units.unscale_outputs(net.run(theta, read)[0][-1]))
        if t < len(inputs):
            inputs[t, :, 2] = found[-1][:, 0]
    return np.stack(found)


@pytest.mark.parametrize("scaling", [None, DRIVEN], ids=["plain", "scaled"])
@pytest.mark.parametrize(("arch", "how"), [("lstm", {}), ("clockwork", {"carried": True}), ("hornn", {})])
def test_a_drive_comes_from_the_data_and_fed_back_outputs_take_the_place_of_their_inputs(arch, how, scaling) -> None:
    net, theta, batch = problem(arch=arch, n_out=2, **how)
    for warm_up in (1, 3, 7):
        expected = run_by_hand(net, theta, batch, 8 - warm_up, warm_up, scaling)
        found = free_run(net, theta, batch, scaling=scaling, feedback=LOOP, warm_up=warm_up)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
        other = np.array(batch.inputs)
        other[warm_up:, :, 2] = 1e6  # is not read
        np.testing.assert_array_equal(
            free_run(net, theta, replace(batch, inputs=other), scaling=scaling, feedback=LOOP, warm_up=warm_up), found
        )


@pytest.mark.parametrize("how", [{}, {"ragged": True}, {"by_output": True}, {"carried": True}])
def test_a_free_run_is_scored_from_the_end_of_the_warm_up(how: dict[str, Any]) -> None:
    net, theta, batch = problem(n_out=2, **how)
    outputs = run_by_hand(net, theta, batch, 5, 3, DRIVEN)
    weights = np.array(batch.output_weights(net.backend)[2:]) * np.ones(2)
    expected = figures("squared", *(x.reshape(-1, 2) for x in (outputs, batch.targets[2:], weights)), ["a", "b"])
    found = score_free_run(net, theta, batch, ["a", "b"], DRIVEN, LOOP, 3)
    assert found.steps == expected.steps
    assert found.overall == pytest.approx(expected.overall, rel=1e-12)
    for name in "ab":
        assert found.outputs[name] == pytest.approx(expected.outputs[name], rel=1e-12)
    unscored = np.array(batch.output_weights(net.backend))[..., 0]
    unscored[:2], unscored[2] = 0, 1
    burnt = replace(batch, weights=unscored)
    known = score_free_run(net, theta, burnt, feedback=LOOP, warm_up=3)
    assert score_free_run(net, theta, burnt, feedback=LOOP) == known


@pytest.mark.parametrize(("arch", "how"), [("rnn", {}), ("rnn", {"ragged": True}), ("clockwork", {"carried": True})])
def test_errors_k_steps_ahead_are_those_of_free_runs_from_every_start(arch, how, monkeypatch) -> None:
    net, theta, batch = problem(arch=arch, n_out=2, **how)
    found = score_ahead(net, theta, batch, [4, 1], scaling=DRIVEN, feedback=LOOP, warm_up=2)
    monkeypatch.setattr(free_runs, "TOGETHER", 41)  # two starts at a time
    assert score_ahead(net, theta, batch, [1, 4], scaling=DRIVEN, feedback=LOOP, warm_up=2) == found
    weights = np.array(batch.output_weights(net.backend)) * np.ones(2)
    for k in (1, 4):
        rows: list[list[Any]] = [[], [], []]
        for start in range(1, batch.T - 3):
            z = run_by_hand(net, theta, batch, k, start + 1, DRIVEN)[-1]
            reached = batch.lengths is None or start + 4 <= np.array(batch.lengths)  # the same starts for all k
            w = weights[start + k - 1] * np.reshape(reached, (-1, 1))
            for each, x in zip(rows, (z, batch.targets[start + k - 1], w), strict=True):
                each.append(x)
        expected = figures("squared", *map(np.concatenate, rows))
        assert found[k].steps == expected.steps
        assert found[k].overall == pytest.approx(expected.overall, rel=1e-11)
    few = score_ahead(net, theta, batch, [4], scaling=DRIVEN, feedback=LOOP, warm_up=2, starts=1)[4]
    assert 0 < few.steps < found[4].steps


def test_one_step_ahead_is_the_plain_score() -> None:
    net, theta, batch = problem(n_out=2)
    found = score_ahead(net, theta, batch, [1], feedback=LOOP)[1]
    assert found.overall == pytest.approx(hfrnn.score(net, theta, batch).overall, rel=1e-12)


def test_what_a_driven_free_run_cannot_do_is_refused() -> None:
    net, theta, batch = problem(n_out=2)
    for more, words in (
        ({"feedback": [0]}, "an input for each of the 2 outputs"), ({"feedback": [1, 1]}, "a different number"),
        ({"feedback": [3, None]}, "from 0 to 2"), ({"feedback": [-1, 0]}, "for each output"),
        ({"feedback": [None, None]}, "None for an output"), ({"feedback": LOOP, "warm_up": 8}, "warm_up is 8"),
        ({"feedback": LOOP, "warm_up": 6, "steps": 3}, "at most 2"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            free_run(net, theta, batch, **more)
    with pytest.raises(InputError, match="can run for ever"):
        free_run(*problem())
    with pytest.raises(InputError, match="give a smaller number"):
        score_ahead(net, theta, batch, [7], feedback=LOOP, warm_up=2)
    with pytest.raises(InputError, match="the lengths of the batch differ"):
        free_run(*problem(n_out=2, ragged=True), feedback=LOOP)
