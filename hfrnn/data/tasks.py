"""The synthetic tasks of docs/specification.md, section 9, drawn from a random generator.

Sources: Hochreiter & Schmidhuber 1997 [HS], Martens & Sutskever 2011 with Sutskever's code [MS], Pascanu et al. 2013
and their code [P].
A range [a L, b L) means all integers in it for every L: 0.1 L is not rounded.

    task                          input             scored                  classes or target
    addition, multiplication      value, marker     last step               sum, product of the two marked values
    marked-addition               value, flag       last step               sum
    xor                           bit, marker       last step               exclusive or of the two marked bits
    temporal-order(-3bit)         8 symbols         last step               the marks read as binary, X = 0, Y = 1
    random-permutation            100 symbols       last step               the first symbol
    memorization-5bit, -20bit     k + 2 symbols     every step              blank (k), then the n symbols in order
    flip-flop                     3 lines           every step              the last pulse of each line
    sine                          1 level           every step              a sine wave of that frequency

Where the sources differ or say nothing, these choices were made:

- The first mark is the highest digit of a class number (XX, XY, YX, YY = 0, 1, 2, 3).
- The cue of the temporal orders is the last input, and the answer is due at the same step, as in [HS].
- The cue of the memorizations is the input before the first recalled symbol, as in [MS]; in [P] it comes one step
  later. So every symbol is remembered for L + n steps. The n symbols are of k kinds (0..k-1; blank k, cue k+1), and
  sequences have L + 2n steps.
- xor has the lengths and marks of addition.

The last two tasks are about dynamics instead of long lags. Both are those of Sussillo and Barak 2013 [SB], on a grid
of whole steps:

    flip-flop   Each of three input lines is 0, or has a pulse of +1 or -1 with probability 0.05 a step. Each output is
                the last pulse of its line, and 0 before the first one. A pulse counts at its own step.
    sine        The input is a constant level u = j/51 + 0.25 for one of 51 frequencies j = 0..50. The output is
                sin(omega_j t) at step t = 1, 2, ..., with omega_j from 0.1 to 0.6 radians a step, in equal distances.

[SB] give the pulses by a rate and the frequencies in radians per time constant; the numbers per step are our choice.
An answer of the flip-flop is wrong if it is off by 0.5, half of the distance between two states, or more; one of the
sine generator if it is off by more than 0.1.

References
----------
[SB] D. Sussillo and O. Barak, Opening the black box: low-dimensional dynamics in high-dimensional recurrent neural
networks, Neural Computation 25, 2013.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfrnn.errors import InputError, Message

FLIP_FLOP_LINES = 3
"""Number of input lines and of outputs of the flip-flop."""
PULSES = 0.05
"""Probability of a pulse of the flip-flop, for each line and step."""
FREQUENCIES = 51
"""Number of frequencies of the sine generator."""
SLOWEST, FASTEST = 0.1, 0.6
"""The lowest and highest frequency of the sine generator, in radians a step."""


def flip_flop(steps: int, count: int, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draw pulses, and return them with the last pulse of each line: inputs and targets (T, B, 3) in float32."""
    shape = (steps, count, FLIP_FLOP_LINES)
    pulses = np.where(rng.random(shape) < PULSES, rng.integers(0, 2, shape) * 2 - 1, 0).astype(np.float32)
    step = np.arange(steps)[:, None, None]
    last = np.maximum.accumulate(np.where(pulses != 0, step, 0), axis=0)  # (T, B, 3) step of the last pulse, else 0
    return pulses, np.take_along_axis(pulses, last, axis=0)


def sine(steps: int, count: int, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draw frequencies, and return their levels and sine waves: inputs and targets (T, B, 1) in float32."""
    j = rng.integers(0, FREQUENCIES, count)
    omega = SLOWEST + (FASTEST - SLOWEST) * j / (FREQUENCIES - 1)  # (B,)
    inputs = np.broadcast_to((j / FREQUENCIES + 0.25).astype(np.float32), (steps, count))
    targets = np.sin(np.arange(1, steps + 1)[:, None] * omega).astype(np.float32)
    return np.ascontiguousarray(inputs)[..., None], targets[..., None]


# ------------------------------------------------------------------ all tasks


SUCCESS = 0.01
"""A task is solved when less than this share of 10,000 new sequences is wrong ([P])."""

TOLERANCE = 0.04
"""A real-valued answer of a long lag is wrong if it differs from its target by more than this ([HS], [MS])."""

MOST_STEPS = 2**32
"""The largest number of steps of all sequences that are drawn at once."""

_NOISE, _X, _CUE, _START = 4, 4, 6, 7  # temporal order: noise 0-3, X = 4, Y = 5
_ALPHABET = 100  # random permutation: the first symbol is 0 or 1, the others 2..99


class TaskSequences(NamedTuple):
    """Sequences side by side; the fields are the arguments of `hfrnn.Batch`: `hfrnn.Batch(*sequences)`."""

    inputs: NDArray[Any]  # (T, B) int32, or (T, B, n_in) float32
    targets: NDArray[Any]  # (T, B) int32, or (T, B, n_out) float32
    weights: NDArray[np.float32]  # (T, B), 1 where the target is scored, else 0
    lengths: NDArray[np.int64]  # (B,), steps of each sequence; padding of zeros follows


@dataclass(frozen=True)
class Task:
    """One synthetic task at one length; `make_task` makes it."""

    name: str
    length: int  # L, the scale of the time lag
    n_in: int  # symbols, or real inputs per step
    n_out: int
    loss: str  # "squared", "logistic" or "softmax"
    symbols: bool  # whether inputs are integer symbols (T, B), used as one-hot vectors, not real values (T, B, n_in)
    steps: int  # T of all arrays: the longest possible sequence, so that every batch has the same shape
    predict: Literal["end", "all"]  # the steps that the loss counts: "end" or "all"
    fixed_count: int | None  # sequences in every batch, if there are so few that every batch holds all of them
    tolerance: float = TOLERANCE  # a real-valued answer is wrong if it differs from its target by more

    def sequences(self, count: int, rng: np.random.Generator) -> TaskSequences:
        """Draw new sequences.

        Parameters
        ----------
        count : int
            B >= 1. The 5-bit memorization ignores it and gives each of its 32 patterns once, in binary order.
        rng : numpy.random.Generator
            The only source of randomness: equal generators give equal sequences.

        Returns
        -------
        TaskSequences
            inputs, targets, weights (T, B, ...) and lengths (B,); zeros with weight 0 after the end of a sequence.

        Raises
        ------
        InputError
            The count is below 1, or the sequences together have more than 2^32 steps.
        """
        _check_count(self, min(count, self.fixed_count or count))
        return _DEFINITIONS[self.name].draw(self, self.fixed_count or count, rng)

    def wrong(self, outputs: NDArray[Any], sequences: TaskSequences) -> NDArray[np.bool_]:
        """Return which sequences a network gets wrong.

        A real-valued answer is wrong if it is off by more than `tolerance`. A bit is wrong if the output is above 0 for
        a 0, or not above 0 for a 1. A sequence of symbols is wrong if, at any scored step, the largest output is not
        that of the target. For the random permutation only the last step is judged, for either `predict`. NaN is wrong.

        `outputs` (T, B, n_out) are those of the network for these sequences, before any softmax or logistic function.
        """
        outputs = np.asarray(outputs)
        T, B = sequences.weights.shape
        if outputs.shape != (T, B, self.n_out):
            expected = f"the task {self.name} needs {(T, B, self.n_out)} here"
            raise InputError(
                f"outputs have shape {outputs.shape}; {expected}: give the outputs for these very sequences"
            )
        if self.name == "random-permutation":
            column = np.arange(B)
            step = sequences.lengths - 1
        else:
            step, column = np.nonzero(sequences.weights > 0)
        z, y = outputs[step, column], sequences.targets[step, column]  # (scored, n_out), (scored, ...)
        if self.loss == "squared":
            right = (np.abs(z - y) <= self.tolerance).all(axis=-1)
        elif self.loss == "logistic":
            right = np.where(y > 0.5, z > 0, z <= 0).all(axis=-1)
        else:
            right = (z.argmax(axis=-1) == y) & ~np.isnan(z).any(axis=-1)
        wrong = np.zeros(B, dtype=np.bool_)
        wrong[column[~right]] = True
        return wrong


def tasks() -> tuple[str, ...]:
    """Return the names of all tasks."""
    return tuple(_DEFINITIONS)


def make_task(name: str, length: int, *, predict: Literal["end", "all"] | None = None) -> Task:
    """Return the task of a name and a length.

    Parameters
    ----------
    name : str
        One of `tasks()`.
    length : int
        L. Sequences have T in [L, 1.1 L) steps; for random-permutation, flip-flop and sine L steps, for the
        memorizations L + 2n steps with n symbols. L is at least 21 for the tasks with two marked values, 10 for the
        temporal orders, 2 for random-permutation and 1 for the others.
    predict : {"end", "all"}, optional
        The steps that the loss counts, for the two families with targets at every step. random-permutation: the last
        step ("end", the default, [P]) or every step ("all", [MS]). memorization: every step ("all", the default) or the
        recalled symbols ("end").

    Returns
    -------
    Task

    Raises
    ------
    InputError
        The name is unknown, the length is too short, or the task does not have this `predict`.
    """
    if name not in _DEFINITIONS:
        raise InputError(f"there is no task named {name!r}; use one of {', '.join(_DEFINITIONS)}")
    known = _DEFINITIONS[name]
    try:
        length = operator.index(length)
    except TypeError as error:
        raise InputError(f"the length of the task {name} must be a whole number, not {length!r}") from error
    if length < known.least:
        raise InputError(f"the task {name} needs a length of at least {known.least}, not {length}: {known.why}")
    if predict is None:
        predict = known.predict[0]
    elif predict not in known.predict:
        raise InputError(f"the task {name} has predict={' or '.join(map(repr, known.predict))}, not {predict!r}")
    return Task(
        name, length, known.n_in, known.n_out, known.loss, known.loss == "softmax", known.steps(length), predict,
        known.fixed_count, known.tolerance,
    )  # fmt: skip


def mixed_sequences(
    task: Task, shortest: int, count: int, rng: np.random.Generator, longest: int | None = None
) -> TaskSequences:
    """Draw sequences of a task at many lengths.

    Parameters
    ----------
    task : Task
        The task at the largest length, whose number of steps all arrays have.
    shortest : int
        The smallest length.
    count : int
        B >= 1.
    rng : numpy.random.Generator
        As for `Task.sequences`.
    longest : int, optional
        The largest length, by default `task.length`. The length of a sequence is drawn from `shortest` to `longest`,
        both included.

    Returns
    -------
    TaskSequences
        In random order.

    Raises
    ------
    InputError
        `shortest` is below the least length of the task, or the sequences together have more than 2^32 steps.

    References
    ----------
    [P] train on temporal order with lengths from 50 to 200. W. Zaremba and I. Sutskever, Learning to execute, 2014,
    compare such mixtures with a length that rises.
    """
    _check_count(task, count)
    longest = task.length if longest is None else longest
    lengths, counts = np.unique(rng.integers(shortest, longest + 1, count), return_counts=True)
    parts = [
        make_task(task.name, length, predict=task.predict).sequences(int(number), rng)
        for length, number in zip(lengths.tolist(), counts, strict=True)
    ]

    def joined(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        padded = [np.pad(a, [(0, task.steps - len(a)), *[(0, 0)] * (a.ndim - 1)]) for a in arrays]
        return np.concatenate(padded, axis=1)[:, order]

    order = rng.permutation(count)
    inputs, targets, weights = (joined([part[k] for part in parts]) for k in range(3))
    return TaskSequences(inputs, targets, weights, np.concatenate([part.lengths for part in parts])[order])


def _check_count(task: Task, count: int) -> None:
    """Raise InputError for no sequences, or for too many."""
    if count < 1:
        raise InputError(f"the number of sequences must be at least 1, not {count}")
    if count * task.steps > MOST_STEPS:
        raise InputError(Message(
            "{0} sequences of the task {1} have {2} steps, and at most {3} can be drawn at once: give a smaller "
            "{length} or fewer {sequences}", count, task.name, count * task.steps, MOST_STEPS,
        ))  # fmt: skip


def _tenths(number: int, length: int) -> int:
    """Return number/10 of the length, rounded up, in exact arithmetic."""
    return -(-number * length // 10)


def _within(first: int, last: int, length: int, count: int, rng: np.random.Generator, least: int = 0) -> NDArray[Any]:
    """Draw uniform integers in [first/10 L, last/10 L) that are at least `least`."""
    return rng.integers(max(_tenths(first, length), least), _tenths(last, length), count)


def _scored(task: Task, lengths: NDArray[np.int64], tail: int) -> NDArray[np.float32]:
    """Return weights (T, B): 1 on the last `tail` steps of each sequence, or on all its steps if predict is "all"."""
    step = np.arange(task.steps)[:, None]
    scored = step < lengths
    if task.predict == "end":
        scored &= step >= lengths - tail
    return scored.astype(np.float32)


def _marked_pair(
    answer: Callable[[Any, Any], Any], binary: bool = False, flag: bool = False
) -> Callable[[Task, int, np.random.Generator], TaskSequences]:
    """Return a generator of values with two marks: marker 1 there and, without `flag`, -1 at steps 0 and T - 3."""

    def draw(task: Task, count: int, rng: np.random.Generator) -> TaskSequences:
        shape, column = (task.steps, count), np.arange(count)
        lengths = _within(10, 11, task.length, count, rng)
        first = _within(0, 1, task.length, count, rng, least=2)
        second = _within(1, 5, task.length, count, rng)
        inputs = np.zeros((*shape, 2), dtype=np.float32)
        values = rng.integers(0, 2, shape, dtype=np.int8) if binary else rng.random(shape, dtype=np.float32)
        np.multiply(values, np.arange(task.steps)[:, None] < lengths, out=inputs[..., 0])
        inputs[first, column, 1] = inputs[second, column, 1] = 1
        if not flag:
            inputs[0, :, 1] = inputs[lengths - 3, column, 1] = -1
        targets = np.zeros((*shape, 1), dtype=np.float32)
        targets[lengths - 1, column, 0] = answer(inputs[first, column, 0], inputs[second, column, 0])
        return TaskSequences(inputs, targets, _scored(task, lengths, 1), lengths)

    return draw


def _temporal_order(*places: tuple[int, int]) -> Callable[[Task, int, np.random.Generator], TaskSequences]:
    """Return a generator of noise with X or Y at one step of every range (in tenths of L); the answer is which."""

    def draw(task: Task, count: int, rng: np.random.Generator) -> TaskSequences:
        shape, column = (task.steps, count), np.arange(count)
        lengths = _within(10, 11, task.length, count, rng)
        inputs = rng.integers(0, _NOISE, shape, dtype=np.int32)
        inputs[0] = _START
        answer = np.zeros(count, dtype=np.int32)
        for first, last in places:
            mark = rng.integers(0, 2, count, dtype=np.int32)
            inputs[_within(first, last, task.length, count, rng), column] = _X + mark
            answer = 2 * answer + mark
        inputs[lengths - 1, column] = _CUE
        inputs *= np.arange(task.steps)[:, None] < lengths
        targets = np.zeros(shape, dtype=np.int32)
        targets[lengths - 1, column] = answer
        return TaskSequences(inputs, targets, _scored(task, lengths, 1), lengths)

    return draw


def _random_permutation(task: Task, count: int, rng: np.random.Generator) -> TaskSequences:
    """Draw 0 or 1, then symbols of 2..99; targets are the next inputs, and at the last step the first input."""
    inputs = rng.integers(2, _ALPHABET, (task.steps, count), dtype=np.int32)
    inputs[0] = rng.integers(0, 2, count)
    lengths = np.full(count, task.steps, dtype=np.int64)
    return TaskSequences(inputs, np.roll(inputs, -1, axis=0), _scored(task, lengths, 1), lengths)


def _memorization(symbols: int, kinds: int) -> Callable[[Task, int, np.random.Generator], TaskSequences]:
    """Return a generator of symbols, blanks, a cue at the last step before the recall, and blanks during the recall."""

    def draw(task: Task, count: int, rng: np.random.Generator) -> TaskSequences:
        if task.fixed_count:
            digits = kinds ** np.arange(symbols - 1, -1, -1)[:, None]
            kept = np.arange(count) // digits % kinds  # (symbols, B): the column number, written in base `kinds`
        else:
            kept = rng.integers(0, kinds, (symbols, count))
        blank, cue = kinds, kinds + 1
        inputs = np.full((task.steps, count), blank, dtype=np.int32)
        targets = inputs.copy()
        inputs[:symbols] = targets[-symbols:] = kept
        inputs[-symbols - 1] = cue
        lengths = np.full(count, task.steps, dtype=np.int64)
        return TaskSequences(inputs, targets, _scored(task, lengths, symbols), lengths)

    return draw


@dataclass(frozen=True)
class _Definition:
    """A task of any length; `predict` lists the choices, the default first; `why` explains the least length."""

    n_in: int
    n_out: int
    loss: str
    draw: Callable[[Task, int, np.random.Generator], TaskSequences]
    least: int
    why: str
    steps: Callable[[int], int] = lambda length: _tenths(11, length) - 1
    predict: tuple[Literal["end", "all"], ...] = ("end",)
    fixed_count: int | None = None
    tolerance: float = TOLERANCE


def _pair(loss: str, answer: Callable[[Any, Any], Any], binary: bool = False, flag: bool = False) -> _Definition:
    draw = _marked_pair(answer, binary, flag)
    return _Definition(2, 1, loss, draw, least=21, why="the first mark lies in [2, 0.1 L)")


def _dynamics(size: int, draw: Callable[..., tuple[Any, Any]], tolerance: float) -> _Definition:
    """Return a task of dynamics, whose sequences all have L steps that are all scored."""

    def sequences(task: Task, count: int, rng: np.random.Generator) -> TaskSequences:
        inputs, targets = draw(task.steps, count, rng)
        lengths = np.full(count, task.steps, dtype=np.int64)
        return TaskSequences(inputs, targets, np.ones((task.steps, count), dtype=np.float32), lengths)

    return _Definition(
        size, size, "squared", sequences, least=1, why="a sequence has at least one step", steps=lambda length: length,
        predict=("all",), tolerance=tolerance,
    )  # fmt: skip


def _order(*places: tuple[int, int]) -> _Definition:
    draw = _temporal_order(*places)
    return _Definition(8, 2 ** len(places), "softmax", draw, least=10, why="a mark's place is 0.1 L steps wide")


def _memory(symbols: int, kinds: int, fixed_count: int | None = None) -> _Definition:
    return _Definition(
        kinds + 2, kinds + 1, "softmax", _memorization(symbols, kinds), least=1, why="the cue comes after the symbols",
        steps=lambda length: length + 2 * symbols, predict=("all", "end"), fixed_count=fixed_count,
    )  # fmt: skip


_DEFINITIONS = {
    "addition": _pair("squared", np.add),
    "multiplication": _pair("squared", np.multiply),
    "xor": _pair("logistic", np.not_equal, binary=True),
    "temporal-order": _order((1, 2), (4, 5)),
    "temporal-order-3bit": _order((1, 2), (3, 4), (5, 6)),
    "random-permutation": _Definition(
        _ALPHABET, _ALPHABET, "softmax", _random_permutation, least=2,
        why="the first symbol is the target of a later step", steps=lambda length: length, predict=("end", "all"),
    ),
    "memorization-5bit": _memory(5, 2, fixed_count=32),
    "memorization-20bit": _memory(10, 5),
    "marked-addition": _pair("squared", np.add, flag=True),
    "flip-flop": _dynamics(FLIP_FLOP_LINES, flip_flop, tolerance=0.5),
    "sine": _dynamics(1, sine, tolerance=0.1),
}  # fmt: skip
