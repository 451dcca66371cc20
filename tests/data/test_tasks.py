"""The synthetic tasks: each against its definition, and a perfect predictor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from hfrnn.data.tasks import Task, TaskSequences, make_task, mixed_sequences, tasks
from hfrnn.errors import InputError

DYNAMICS = ("flip-flop", "sine")
LONG_LAGS = tuple(name for name in tasks() if name not in DYNAMICS)
MARKED = ("addition", "multiplication", "xor", "marked-addition")
ORDERS = {"temporal-order": ((1, 2), (4, 5)), "temporal-order-3bit": ((1, 2), (3, 4), (5, 6))}
MEMORIES = {"memorization-5bit": (5, 2), "memorization-20bit": (10, 5)}
LEAST = dict.fromkeys(MARKED, 21) | dict.fromkeys(ORDERS, 10) | dict.fromkeys(MEMORIES, 1) | {"random-permutation": 2}
LEAST |= dict.fromkeys(DYNAMICS, 1)
SIZES = {
    **dict.fromkeys(MARKED, (2, 1, "squared")), "xor": (2, 1, "logistic"),
    "temporal-order": (8, 4, "softmax"), "temporal-order-3bit": (8, 8, "softmax"),
    "random-permutation": (100, 100, "softmax"),
    "memorization-5bit": (4, 3, "softmax"), "memorization-20bit": (7, 6, "softmax"),
    "flip-flop": (3, 3, "squared"), "sine": (1, 1, "squared"),
}  # fmt: skip


def drawn(name: str, length: int = 105, count: int = 4000, seed: int = 1, **options: Any) -> tuple[Task, TaskSequences]:
    task = make_task(name, length, **options)
    return task, task.sequences(count, np.random.default_rng(seed))


def percent_wrong(task: Task, outputs: Any, sequences: TaskSequences) -> float:
    return 100.0 * float(task.wrong(outputs, sequences).mean())


def places(first: int, last: int, length: int, least: int = 0) -> list[int]:
    """The integers of [first/10 L, last/10 L), found one by one."""
    return [k for k in range(least, 2 * length) if first * length <= 10 * k < last * length]


def marks(hit: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(B, number of marks) steps where `hit` (T, B) holds, in order; every sequence must have as many."""
    column, step = np.nonzero(hit.T)
    assert len(set(np.bincount(column, minlength=hit.shape[1]).tolist())) == 1
    return step.reshape(hit.shape[1], -1)


def evenly(values: NDArray[Any], expected: list[int]) -> bool:
    """Whether exactly the expected values appear, all about equally often."""
    found, counts = np.unique(values, return_counts=True)
    return found.tolist() == expected and (len(expected) == 1 or chisquare(counts).pvalue > 1e-3)


def one_hot(symbols: NDArray[Any], n: int) -> NDArray[np.float32]:
    return np.eye(n, dtype=np.float32)[symbols]


def perfect(task: Task, inputs: NDArray[Any]) -> NDArray[Any]:
    """Outputs (T, B, n_out) by hand, at each step from the inputs up to it and nothing else."""
    T, B = inputs.shape[:2]
    if task.name in MARKED:
        value, marked = inputs[..., 0], inputs[..., 1] == 1
        if task.name == "multiplication":
            answer = np.cumprod(np.where(marked, value, 1), axis=0)
        else:
            answer = np.cumsum(np.where(marked, value, 0), axis=0)
        return (np.where(answer == 1, 1.0, -1.0) if task.name == "xor" else answer)[..., None]
    symbols = np.zeros((T, B), dtype=int)
    state = np.zeros(B, dtype=int)
    if task.name in ORDERS:
        for t in range(T):
            state = np.where((inputs[t] == 4) | (inputs[t] == 5), 2 * state + inputs[t] - 4, state)
            symbols[t] = state
        return one_hot(symbols, task.n_out)
    if task.name == "random-permutation":
        return np.broadcast_to(one_hot(inputs[0], 100), (T, B, 100))
    kinds = MEMORIES[task.name][1]
    cued = np.full(B, -1)  # how many steps ago the cue came
    for t in range(T):
        cued = np.where(cued >= 0, cued + 1, cued)
        symbols[t] = np.where(cued > 0, inputs[np.maximum(cued - 1, 0), np.arange(B)], kinds)
        cued = np.where(inputs[t] == kinds + 1, 0, cued)
    return one_hot(symbols, task.n_out)


@pytest.mark.parametrize("name", tasks())
def test_sizes_loss_types_and_padding_are_those_of_the_definition(name: str) -> None:
    assert set(tasks()) == set(SIZES)
    task, sequences = drawn(name, 100, 300)
    assert (task.n_in, task.n_out, task.loss) == SIZES[name]
    assert task.symbols == (task.loss == "softmax")
    T, B = task.steps, task.fixed_count or 300
    assert sequences.inputs.shape == (T, B) if task.symbols else (T, B, task.n_in)
    assert sequences.targets.shape == (T, B) if task.symbols else (T, B, task.n_out)
    assert (sequences.weights.shape, sequences.lengths.shape) == ((T, B), (B,))
    assert {a.dtype.name for a in sequences[:2]} == {"int32" if task.symbols else "float32"}
    assert sequences.weights.dtype == np.float32
    behind = np.arange(T)[:, None] >= sequences.lengths
    assert not any(array[behind].any() for array in sequences[:3])
    if name in (*MARKED, *ORDERS):
        assert (marks(sequences.weights > 0) == sequences.lengths[:, None] - 1).all()  # the last step alone is scored
        assert not sequences.targets[sequences.weights == 0].any()


@pytest.mark.parametrize("predict", [None, "end", "all"])
@pytest.mark.parametrize("name", LONG_LAGS)
def test_a_perfect_predictor_is_never_wrong(name: str, predict: Any) -> None:
    if predict == "all" and name in (*MARKED, *ORDERS):
        with pytest.raises(InputError, match="has predict='end', not 'all'"):
            make_task(name, 100, predict="all")
        return
    for length in (LEAST[name], 100):
        task, sequences = drawn(name, length, 500, predict=predict)
        assert percent_wrong(task, perfect(task, sequences.inputs), sequences) == 0.0


def test_one_wrong_blank_makes_a_memorized_sequence_wrong_unless_only_the_recall_is_scored() -> None:
    for predict, errors in (("all", 100 / 32), ("end", 0.0)):
        task, sequences = drawn("memorization-5bit", 30, predict=predict)
        outputs = perfect(task, sequences.inputs).copy()
        outputs[3, 17] = one_hot(np.array(0), 3)
        assert percent_wrong(task, outputs, sequences) == errors


@pytest.mark.parametrize("name", [*MARKED, *ORDERS])
@pytest.mark.parametrize("length", [21, 105])
def test_lengths_are_uniform_on_the_range(name: str, length: int) -> None:
    task, sequences = drawn(name, length)
    expected = places(10, 11, length)
    assert evenly(sequences.lengths, expected)
    assert task.steps == expected[-1]


@pytest.mark.parametrize("name", MARKED)
@pytest.mark.parametrize("length", [21, 105])
def test_marks_are_uniform_on_their_ranges_and_minus_one_is_where_it_belongs(name: str, length: int) -> None:
    _, sequences = drawn(name, length)
    marker = sequences.inputs[..., 1]
    step = marks(marker == 1)
    assert step.shape == (4000, 2)
    assert evenly(step[:, 0], places(0, 1, length, least=2))
    assert evenly(step[:, 1], places(1, 5, length))
    if name == "marked-addition":
        assert set(np.unique(marker)) == {0, 1}
    else:
        assert set(np.unique(marker)) == {-1, 0, 1}
        assert (marks(marker == -1) == np.stack([0 * sequences.lengths, sequences.lengths - 3], axis=1)).all()


@pytest.mark.parametrize("name", MARKED)
def test_values_are_uniform_between_0_and_1_and_bits_are_fair_at_marks_and_elsewhere(name: str) -> None:
    _, sequences = drawn(name)
    value, marker = sequences.inputs[..., 0], sequences.inputs[..., 1]
    exists = np.arange(len(value))[:, None] < sequences.lengths
    for part in (value[exists & (marker == 1)], value[exists & (marker == 0)]):
        if name == "xor":
            assert evenly(part, [0, 1])
        else:
            assert 0 <= part.min() <= part.max() < 1
            assert chisquare(np.bincount((part * 20).astype(int))).pvalue > 1e-3


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("length", [10, 105])
def test_temporal_orders_have_start_cue_noise_and_marks_in_place(name: str, length: int) -> None:
    _, sequences = drawn(name, length)
    inputs, lengths = sequences.inputs, sequences.lengths
    exists = np.arange(len(inputs))[:, None] < lengths
    assert (marks(inputs == 7)[:, 0] == 0).all()
    assert (marks(inputs == 6)[:, 0] == lengths - 1).all()
    step = marks((inputs == 4) | (inputs == 5))
    assert step.shape == (4000, len(ORDERS[name]))
    for k, place in enumerate(ORDERS[name]):
        assert evenly(step[:, k], places(*place, length))
        assert evenly(inputs[step[:, k], np.arange(4000)], [4, 5])
    assert evenly(inputs[exists & (inputs < 4)], [0, 1, 2, 3])
    assert evenly(sequences.targets[sequences.weights > 0], list(range(2 ** len(ORDERS[name]))))


def test_random_permutation_shows_0_or_1_once_then_98_others_and_is_judged_at_its_last_step_alone() -> None:
    task, (inputs, targets, _, lengths) = drawn("random-permutation", 60)
    assert task.steps == 60
    assert (lengths == 60).all()
    assert evenly(inputs[0], [0, 1])
    assert evenly(inputs[1:], list(range(2, 100)))
    assert (targets == np.roll(inputs, -1, axis=0)).all()
    for predict, scored in (("end", 1), ("all", 60)):
        task, sequences = drawn("random-permutation", 60, 100, predict=predict)
        assert (sequences.weights.sum(axis=0) == scored).all()
        assert (sequences.weights[-1] == 1).all()
        outputs = np.zeros((60, 100, 100), dtype=np.float32)  # nothing but the last answer is right
        outputs[-1] = one_hot(sequences.inputs[0], 100)
        assert percent_wrong(task, outputs, sequences) == 0.0
        outputs[-1, :25] = 0.0
        outputs[-1, :25, 7] = 1.0
        assert percent_wrong(task, outputs, sequences) == 25.0


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("length", [1, 30])
def test_memorization_is_symbols_blanks_cue_recall(name: str, length: int) -> None:
    n, kinds = MEMORIES[name]
    task, (inputs, targets, weights, lengths) = drawn(name, length)
    assert task.steps == length + 2 * n
    assert (lengths == task.steps).all()
    assert (inputs[:n] < kinds).all()
    assert (inputs[n : n + length - 1] == kinds).all()
    assert (inputs[n + length - 1] == kinds + 1).all()
    assert (inputs[n + length :] == kinds).all()
    assert (targets[: n + length] == kinds).all()
    assert (targets[n + length :] == inputs[:n]).all()
    assert (weights == 1).all()
    assert all(evenly(row, list(range(kinds))) for row in inputs[:n])
    recall = drawn(name, length, predict="end")[1].weights
    assert (recall[-n:] == 1).all()
    assert (recall[:-n] == 0).all()


def test_five_bits_are_all_32_patterns_once_whatever_the_count() -> None:
    for count in (1, 32, 1000):
        task, sequences = drawn("memorization-5bit", 10, count)
        assert task.fixed_count == 32
        assert [int("".join(map(str, column)), 2) for column in sequences.inputs[:5].T] == list(range(32))


@pytest.mark.parametrize("name", ["xor", "temporal-order", "random-permutation"])
def test_mixed_sequences_are_those_of_the_task_at_every_length_in_random_order(name: str) -> None:
    task, shortest = make_task(name, 40), LEAST[name]
    found = mixed_sequences(task, shortest, 2000, np.random.default_rng(1))
    assert found.inputs.shape[:2] == found.weights.shape == (task.steps, 2000)
    behind = np.arange(task.steps)[:, None] >= found.lengths
    assert not any(array[behind].any() for array in found[:3])
    assert percent_wrong(task, perfect(task, found.inputs), found) == 0.0
    ends = {int(step) for L in range(shortest, 41) for step in drawn(name, L, 200)[1].lengths}
    assert set(found.lengths.tolist()) == ends
    assert abs(np.corrcoef(found.lengths, np.arange(2000))[0, 1]) < 0.1
    if name == "random-permutation":
        assert evenly(found.lengths, list(range(shortest, 41)))


@pytest.mark.parametrize("name", tasks())
def test_equal_seeds_give_equal_sequences_and_others_fresh_ones(name: str) -> None:
    task, first = drawn(name, 50, 20, seed=5)
    rng = np.random.default_rng(5)
    again, later = task.sequences(20, rng), task.sequences(20, rng)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert task.fixed_count or not (first.inputs == later.inputs).all()


@pytest.mark.parametrize("name", tasks())
def test_a_length_too_short_is_refused_with_the_least_one(name: str) -> None:
    least = LEAST[name]
    with pytest.raises(InputError, match=f"{name} needs a length of at least {least}, not {least - 1}:"):
        make_task(name, least - 1)
    assert make_task(name, np.int64(least)).length == least  # type: ignore[arg-type]


def test_wrong_arguments_are_refused_with_a_sentence() -> None:
    task, sequences = drawn("addition", 100, 3)
    for sentence, call in (
        (r"no task named 'add'; use one of addition, multiplication", lambda: make_task("add", 100)),
        (r"must be a whole number, not 99\.5", lambda: make_task("addition", 99.5)),
        (r"has predict='all' or 'end', not 'last'", lambda: make_task("memorization-5bit", 10, predict="last")),
        (r"at least 1, not 0", lambda: task.sequences(0, np.random.default_rng(0))),
        (r"shape \(109, 3\); .* needs \(109, 3, 1\)", lambda: task.wrong(np.zeros((109, 3)), sequences)),
    ):
        with pytest.raises(InputError, match=sentence):
            call()


def test_an_answer_is_wrong_when_off_by_more_than_four_hundredths_at_the_last_step() -> None:
    task, sequences = drawn("addition", 50, 6)
    outputs = np.full((task.steps, 6, 1), 1e9)
    last = sequences.lengths - 1
    off = np.array([0.0399, -0.0399, 0.0401, -0.0401, 0.0, np.nan])
    outputs[last, np.arange(6), 0] = sequences.targets[last, np.arange(6), 0] + off
    assert task.wrong(outputs, sequences).tolist() == [False, False, True, True, False, True]


def test_a_bit_is_read_from_the_sign_a_class_is_the_largest_output_and_nan_is_wrong() -> None:
    task, sequences = drawn("xor", 50, 400)
    bit = sequences.targets[sequences.lengths - 1, np.arange(400), 0] == 1
    for z, wrong in ((0.1, ~bit), (-0.1, bit), (np.nan, bit | True)):
        assert (task.wrong(np.full((task.steps, 400, 1), z), sequences) == wrong).all()
    task, sequences = drawn("temporal-order", 50, 400)
    outputs, last = perfect(task, sequences.inputs) - 5.0, sequences.lengths[0] - 1
    assert percent_wrong(task, outputs, sequences) == 0.0
    outputs[last, 0, sequences.targets[last, 0]] = np.nan
    assert task.wrong(outputs, sequences).nonzero()[0].tolist() == [0]


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
    _, (inputs, targets, weights, _) = drawn("flip-flop", 60)
    assert set(np.unique(inputs)) == set(np.unique(targets)) == {-1, 0, 1}
    for pulse in (-1, 1):
        share = (inputs == pulse).mean(axis=(0, 1))  # of each line
        assert (abs(share - 0.025) < 4 * math.sqrt(0.025 / (60 * 4000))).all()
    assert (weights == 1).all()


def test_sine_has_51_levels_and_a_wave_of_slope_omega() -> None:
    _, (inputs, targets, weights, _) = drawn("sine", 60)
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
