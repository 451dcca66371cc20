"""From one long text to the time-major arrays that training and evaluation read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hfrnn.data.text import counted
from hfrnn.errors import CheckpointError, InputError

COUNTERS = ("epoch", "position", "parts", "drawn")
"""What a sampler's place is stored as."""
_GRADIENT, _CURVATURE, _SEPARATE = 0, 1, 2  # the sampler's independent sources of chance


def training_sequences(symbols: ArrayLike, length: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Cut a text into consecutive sequences that do not overlap; the target is the next symbol.

    Parameters
    ----------
    symbols : array_like (n,) of integers
        The text as symbol numbers.
    length : int
        Steps of a sequence, T >= 1.

    Returns
    -------
    inputs, targets : ndarray (T, N), int32
        N = (n - 1) // T sequences, C-contiguous, column k the k-th in the text; what is left at the end is unused.

    Raises
    ------
    InputError
        The text is too short for one sequence.
    """
    row = _row(symbols)
    if length < 1:
        raise InputError(f"the sequence length must be at least 1, not {length}")
    if len(row) < length + 1:
        raise InputError(
            f"the training part has {counted(len(row), 'symbol')}; sequences of {length} need at least {length + 1:,}: "
            "give more text or a smaller --sequence-length"
        )
    count = (len(row) - 1) // length
    inputs = row[: count * length].reshape(count, length).T  # (T, N)
    targets = row[1 : count * length + 1].reshape(count, length).T
    return np.ascontiguousarray(inputs), np.ascontiguousarray(targets)


class EvaluationStreams(NamedTuple):
    """One text as parallel pieces, in the order of a batch's arguments."""

    inputs: NDArray[np.int32]  # (T, B)
    targets: NDArray[np.int32]  # (T, B)
    weights: NDArray[np.float64]  # (T, B), 1 where the target is scored, else 0
    lengths: NDArray[np.int64]  # (B,), steps of each piece; padding follows


def evaluation_streams(symbols: ArrayLike, streams: int, warm_up: int) -> EvaluationStreams:
    """Cut a text into parallel pieces so that every predicted symbol is scored exactly once.

    The n - 1 predictions are shared out evenly (the pieces differ by one at most). Before each piece but the first, up
    to `warm_up` symbols that precede it are fed and not scored, so that its state is not that of a beginning.

    Parameters
    ----------
    symbols : array_like (n,) of integers, n >= 2
        The text as symbol numbers.
    streams : int
        Pieces side by side, at least 1; fewer are made where there are fewer predictions.
    warm_up : int
        Symbols fed before a piece, at least 0.

    Returns
    -------
    EvaluationStreams
        inputs, targets, weights (T, B) and lengths (B,), B = min(streams, n - 1); padding is symbol 0 of weight 0.

    Raises
    ------
    InputError
        Fewer than two symbols, or a number out of range.
    """
    row = _row(symbols)
    if streams < 1 or warm_up < 0:
        raise InputError(f"evaluation needs at least 1 stream and a warm-up of at least 0, not {streams} and {warm_up}")
    predictions = len(row) - 1
    if predictions < 1:
        raise InputError(
            f"the text to evaluate has {counted(len(row), 'symbol')}; at least 2 are needed to predict one"
        )
    count = min(streams, predictions)
    bounds = np.arange(count + 1, dtype=np.int64) * predictions // count  # piece k scores predictions [k, k + 1)
    starts = np.maximum(bounds[:-1] - warm_up, 0)
    lengths = bounds[1:] - starts
    at = starts + np.arange(lengths.max())[:, None]  # (T, B), the position in the text
    inside = at < bounds[1:]
    at = np.where(inside, at, 0)
    inputs = np.where(inside, row[at], np.int32(0))
    targets = np.where(inside, row[at + 1], np.int32(0))
    weights = (inside & (at >= bounds[:-1])).astype(np.float64)
    return EvaluationStreams(inputs, targets, weights, lengths)


class TextStreams:
    """One text as parallel streams that are read in windows, for backpropagation truncated in time (SPEC 7).

    Parameters
    ----------
    symbols : array_like (n,) of integers
    count : int
        Streams side by side, at least 1; stream b reads the b-th of `count` equal pieces.
    back : int
        Steps of a window, over which errors are sent back, at least 1.
    every : int
        Steps from one window to the next, whose predictions are scored, 1 to `back`; it divides `back`.

    Raises
    ------
    InputError
        A number out of range, or a text too short for one window.
    """

    def __init__(self, symbols: ArrayLike, count: int, back: int, every: int) -> None:
        row = _row(symbols)
        if count < 1 or back < 1 or not 1 <= every <= back or back % every:
            raise InputError(
                f"streams are {count}, steps back (--sequence-length) {back} and steps between updates "
                f"(--update-every) {every}: give 1 or more of each, and steps back that are a multiple of the others"
            )
        length = (len(row) - 1) // count
        if length < every:
            raise InputError(
                f"the training part has {counted(len(row), 'symbol')}: {counted(count, 'stream')} with an update every "
                f"{every} need{'s' if count == 1 else ''} at least {count * every + 1:,}; give more text or fewer "
                "--streams"
            )
        self.count, self.back, self.every, self.length = count, back, every, length
        self._inputs = np.ascontiguousarray(row[: count * length].reshape(count, length).T)  # (length, count)
        self._targets = np.ascontiguousarray(row[1 : count * length + 1].reshape(count, length).T)

    def has(self, position: int) -> bool:
        """Whether there is a whole window that scores the steps from `position` on."""
        return position + self.every <= self.length

    def steps(self, start: int, stop: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Inputs and targets (stop - start, count) of the steps start, ..., stop - 1; fewer at the streams' end."""
        return self._inputs[start:stop], self._targets[start:stop]

    def window(self, position: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64] | None]:
        """The window that scores the steps position, ..., position + every - 1, a multiple of `every`.

        Returns
        -------
        inputs, targets : ndarray (T, count), int32
            T = `back`, or less near the beginning, where there is nothing further back.
        weights : ndarray (T, count) or None
            1 for the steps that are scored, else 0; None where all are.
        """
        stop = position + self.every
        start = max(stop - self.back, 0)
        weights = None
        if start < position:
            weights = np.zeros((stop - start, self.count))
            weights[position - start :] = 1
        return *self.steps(start, stop), weights


class SequenceSampler:
    """Draws the sequences of every update: a gradient subset, and a random part of it for the curvature.

    An epoch is one random order of all sequences, handed out in subsets; when fewer are left than a subset needs, a new
    epoch begins. So no sequence comes twice in an epoch. All subsets are equally large, or they grow: the k-th, from 0,
    holds first * growth**k symbols, until that is as many as `symbols`.

    Parameters
    ----------
    sequences : int
        Number of sequences there are, N >= 1.
    length : int
        Steps of each, T >= 1.
    symbols : int, optional
        Predicted symbols that a gradient subset should hold, at least 1: round(symbols / T) sequences, but at least
        one and at most all. By default every subset is all sequences.
    seed : int
        Of the PCG64 generators, at least 0.
    first : int, optional
        Predicted symbols of the first subset, by default `symbols`.
    growth : float
        What the next subset is larger by, at least 1.

    Raises
    ------
    InputError
        A number out of range.
    """

    def __init__(
        self, sequences: int, length: int, symbols: int | None = None, seed: int = 0, first: int | None = None,
        growth: float = 1.0,
    ) -> None:  # fmt: skip
        for name, value, least in (("sequences", sequences, 1), ("length", length, 1), ("seed", seed, 0)):
            if value < least:
                raise InputError(f"the sampler's {name} must be at least {least}, not {value}")
        self.sequences, self.length, self.seed = sequences, length, seed
        if not (growth >= 1 and math.isfinite(growth)):
            raise InputError(f"the sampler's growth must be a number, 1 or more, not {growth}")
        self.subset = sequences if symbols is None else self._count(symbols, sequences)
        self.first = self.subset if first is None else self._count(first, self.subset)
        self.growth = float(growth)
        self._epoch, self._position, self._parts, self._drawn = 0, 0, 0, 0
        self._order = self._shuffled()

    @property
    def epoch(self) -> int:
        """The epoch of the last subset drawn, from 0."""
        return self._epoch

    @property
    def next_size(self) -> int:
        """The sequences of the next subset."""
        grown = self.first * math.exp(min(self._drawn * math.log(self.growth), 700.0))
        return self.subset if grown >= self.subset else round(grown)

    @property
    def epoch_is_over(self) -> bool:
        """Whether the next subset begins a new epoch."""
        return self._position + self.next_size > self.sequences

    @property
    def fraction(self) -> float:
        """The share of what the epoch has to give that was drawn, as far as it is known by now."""
        return min(1.0, self._position / (self.sequences - self.sequences % self.next_size))

    def draw(self) -> NDArray[np.int64]:
        """The next gradient subset.

        Returns
        -------
        ndarray (M,), int64
            Column numbers of the (T, N) arrays, increasing.
        """
        if self.epoch_is_over:
            self._epoch, self._position = self._epoch + 1, 0
            self._order = self._shuffled()
        start, self._position = self._position, self._position + self.next_size
        self._drawn += 1
        return np.sort(self._order[start : self._position])

    def draw_part(
        self, subset: NDArray[np.int64], *, fraction: float | None = None, symbols: int | None = None
    ) -> NDArray[np.int64]:
        """A random part of a gradient subset, for the curvature.

        Parameters
        ----------
        subset : ndarray (M,), int64
            What `draw` returned.
        fraction : float, optional
            The share of the subset, in (0, 1]: [K] takes 1/4 in chapter 4 and 1/10 in chapter 5.
        symbols : int, optional
            Instead of a share, the predicted symbols that the part should hold, at least 1.

        Returns
        -------
        ndarray, int64
            Increasing column numbers out of the subset, at least one; all of it where neither number is given.

        Raises
        ------
        InputError
            Both numbers, or one out of range.
        """
        count = self.part_size(len(subset), fraction=fraction, symbols=symbols)
        if count == len(subset):
            return np.array(subset)
        chosen = self._generator(_CURVATURE, self._parts).choice(len(subset), count, replace=False)
        self._parts += 1
        return np.asarray(subset)[np.sort(chosen)]

    def part_size(self, size: int, *, fraction: float | None = None, symbols: int | None = None) -> int:
        """How many sequences `draw_part` takes of a subset of so many."""
        if fraction is not None and symbols is not None:
            raise InputError("give the curvature part as a fraction or as a number of symbols, not as both")
        if fraction is not None and not 0 < fraction <= 1:
            raise InputError(f"the curvature part must be a fraction in (0, 1], not {fraction}")
        if fraction is not None:
            return max(1, round(fraction * size))
        return size if symbols is None else self._count(symbols, size)

    def draw_beside(self, subset: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Random sequences that are not in a gradient subset, to judge a step by.

        Parameters
        ----------
        subset : ndarray (M,), int64
            What `draw` returned.
        count : int
            How many, at least 1.

        Returns
        -------
        ndarray, int64
            Increasing column numbers: `count` of them, or as many as there are.

        Raises
        ------
        InputError
            The subset holds all sequences.
        """
        others = np.setdiff1d(np.arange(self.sequences), subset, assume_unique=True)
        if not others.size:
            raise InputError("the gradient batch holds all sequences, and none is left to judge the step by")
        chosen = self._generator(_SEPARATE, self._parts).choice(others.size, min(count, others.size), replace=False)
        self._parts += 1
        return others[np.sort(chosen)]

    def state_dict(self) -> dict[str, float]:
        """Where the sampler stands, in values that JSON holds; `load_state_dict` goes on exactly from here."""
        return {**self._sizes(), **{name: getattr(self, f"_{name}") for name in COUNTERS}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another sampler of the same sizes and seed stood.

        Parameters
        ----------
        state : mapping
            What `state_dict` returned.

        Raises
        ------
        CheckpointError
            The state is damaged or of a sampler with other sizes or another seed; this one is as it was.
        """
        for name, value in self._sizes().items():
            if state.get(name) != value:
                raise CheckpointError(
                    f"the stored sampler has {name} {state.get(name)}, and this one {value}; "
                    "resume with the same text, sequence length, batch size and seed"
                )
        values = [state.get(name) for name in COUNTERS]
        if not all(type(value) is int and value >= 0 for value in values) or state["position"] > self.sequences:
            raise CheckpointError(f"the stored sampler is damaged: it stands at {values}")
        self._epoch, self._position, self._parts, self._drawn = (int(state[name]) for name in COUNTERS)
        self._order = self._shuffled()

    def _sizes(self) -> dict[str, float]:
        """What must be equal for two samplers to draw the same."""
        return {name: getattr(self, name) for name in ("sequences", "length", "subset", "seed", "first", "growth")}

    def _count(self, symbols: int, most: int) -> int:
        """Sequences that hold about so many symbols: at least one, at most `most`."""
        if symbols < 1:
            raise InputError(f"a subset must hold at least 1 symbol, not {symbols}")
        return min(max(1, round(symbols / self.length)), most)

    def _shuffled(self) -> NDArray[np.int64]:
        """The order of this epoch, a function of seed and epoch alone."""
        return self._generator(_GRADIENT, self._epoch).permutation(self.sequences)

    def _generator(self, purpose: int, number: int) -> np.random.Generator:
        """A generator for one epoch or one part, so that nothing but counters need be stored."""
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, purpose, number])))


def _row(symbols: ArrayLike) -> NDArray[np.int32]:
    """Symbols as one row of int32."""
    row = np.asarray(symbols)
    if row.size == 0:
        return np.zeros(0, dtype=np.int32)
    if row.ndim != 1 or row.dtype.kind not in "iu":
        raise InputError(f"symbols must be a row of integers, not {row.dtype} of shape {row.shape}")
    return row.astype(np.int32, copy=False)
