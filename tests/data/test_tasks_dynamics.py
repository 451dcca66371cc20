"""The flip-flop and the sine generator, each against its definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from hfrnn.data.tasks import Task, TaskSequences, make_task
from hfrnn.errors import InputError


def drawn(name: str, length: int = 60, count: int = 4000) -> tuple[Task, TaskSequences]:
    task = make_task(name, length)
    return task, task.sequences(count, np.random.default_rng(1))


def followed(name: str, inputs: NDArray[Any]) -> NDArray[Any]:
    """What the flip-flop or the sine generator has to answer, step by step."""
    inputs = inputs.astype(float)
    outputs = np.zeros(inputs.shape)
    for t in range(len(inputs)):
        if name == "flip-flop":
            outputs[t] = np.where(inputs[t] != 0, inputs[t], outputs[t - 1] if t else 0)
        else:
            outputs[t] = np.sin((0.1 + 0.01 * np.round(51 * (inputs[t] - 0.25))) * (t + 1))
    return outputs


@pytest.mark.parametrize("name", ["flip-flop", "sine"])
@pytest.mark.parametrize("length", [1, 60])
def test_the_answer_follows_from_the_inputs_step_by_step(name: str, length: int) -> None:
    task, sequences = drawn(name, length, 500)
    np.testing.assert_allclose(followed(name, sequences.inputs), sequences.targets, atol=1e-6)
    assert not task.wrong(followed(name, sequences.inputs), sequences).any()
    with pytest.raises(InputError, match="has predict='all', not 'end'"):
        make_task(name, length, predict="end")


def test_flip_flop_has_pulses_of_both_signs_on_a_twentieth_of_the_steps() -> None:
    _, (inputs, targets, weights, _) = drawn("flip-flop")
    assert set(np.unique(inputs)) == {-1, 0, 1}
    for pulse in (-1, 1):
        share = (inputs == pulse).mean(axis=(0, 1))  # of each line
        assert (abs(share - 0.025) < 4 * math.sqrt(0.025 / (60 * 4000))).all()
    assert set(np.unique(targets)) == {-1, 0, 1}
    assert (weights == 1).all()


def test_sine_has_51_levels_and_a_wave_of_slope_omega() -> None:
    _, (inputs, targets, weights, _) = drawn("sine")
    assert (inputs == inputs[0]).all()
    kinds = np.bincount(np.round(51 * (inputs[0, :, 0] - 0.25)).astype(int))
    assert kinds.size == 51
    assert chisquare(kinds).pvalue > 1e-3
    assert abs(np.ptp(targets) - 2) < 0.001
    slow, fast = inputs[0].argmin(), inputs[0].argmax()
    np.testing.assert_allclose(targets[:2, [slow, fast], 0], np.sin([[0.1, 0.6], [0.2, 1.2]]), rtol=1e-6)
    assert (weights == 1).all()


@pytest.mark.parametrize(("name", "tolerance"), [("flip-flop", 0.5), ("sine", 0.1)])
def test_one_step_beyond_the_tolerance_makes_a_sequence_wrong(name: str, tolerance: float) -> None:
    task, sequences = drawn(name, 30, 10)
    outputs = sequences.targets.astype(float)
    outputs[7, 3] -= 0.99 * tolerance
    assert task.wrong(outputs, sequences).mean() == 0
    outputs[7, 3, 0] -= 0.02 * tolerance
    assert task.wrong(outputs, sequences).tolist() == [n == 3 for n in range(10)]
