"""Cut one long text into the time-major arrays that training and evaluation read."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hfrnn.data.kinds.data_kind import Pool
from hfrnn.errors import InputError, Message
from hfrnn.wording import counted


def sequence_count(n: int, length: int) -> int:
    """Return how many sequences of that many steps a text of n symbols has: (n - 1) // length."""
    if n < length + 1:
        raise InputError(Message(
            "the training part has {0}; sequences of {1} need at least {2:,}: give more text or a smaller "
            "{sequence_length}", counted(n, "symbol"), length, length + 1,
        ))  # fmt: skip
    return (n - 1) // length


def training_sequences(symbols: ArrayLike, length: int, shift: int = 0) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Cut a text into consecutive sequences; the target of each step is the next symbol.

    `shift` is the number of symbols before the first sequence, below T. Returns inputs and targets, (T, N), for the
    N = (n - 1) // T sequences in the order of the text. N does not depend on the shift: if the last sequence does not
    fit, it starts earlier, so that it ends with the text, and overlaps the one before it. Symbols that remain at the
    end of the text are not used.
    """
    row = _row(symbols)
    count = sequence_count(len(row), length)
    end = shift + (count - 1) * length  # of all sequences but the last
    last = min(end, len(row) - 1 - length)

    def cut(first: int) -> NDArray[np.int32]:
        found = np.empty((length, count), row.dtype)
        found[:, :-1] = row[first + shift : first + end].reshape(-1, length).T
        found[:, -1] = row[first + last : first + last + length]
        return found

    return cut(0), cut(1)


def evaluation_streams(symbols: ArrayLike, streams: int, warm_up: int) -> Pool:
    """Cut a text into parallel pieces so that every predicted symbol is scored exactly once.

    The n - 1 predictions are divided evenly among the pieces (their sizes differ by at most 1). Every piece except the
    first begins with up to `warm_up` of the preceding symbols, which are not scored. So the network has context before
    the first scored symbol of the piece. A text with fewer predictions than `streams` gives fewer pieces.

    Returns inputs, targets and weights (T, B) and lengths (B,). Padding is symbol 0 with weight 0.
    """
    row = _row(symbols)
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
    return Pool(inputs, targets, weights, lengths)


class TextStreams:
    """One text as parallel streams, read in windows, for truncated backpropagation through time.

    Section 7 of docs/specification.md defines the method. Stream b reads the b-th of `count` equal pieces of the text.
    A window has `back` steps, through which errors are propagated back, and scores its last `every` steps. `every`
    divides `back`: it is the number of steps from one window to the next.
    """

    def __init__(self, symbols: ArrayLike, count: int, back: int, every: int) -> None:
        row = _row(symbols)
        if count < 1 or back < 1 or not 1 <= every <= back or back % every:
            raise InputError(Message(
                "{streams} is {0}, {sequence_length} is {1}, and {update_every} is {2}: give 1 or more of each, and a "
                "{sequence_length} that is a multiple of {update_every}", count, back, every,
            ))  # fmt: skip
        length = (len(row) - 1) // count
        if length < every:
            raise InputError(Message(
                "the training part has {0}: {1} with an update every {2} need{3} at least {4:,}; give more text or "
                "fewer {streams}", counted(len(row), "symbol"), counted(count, "stream"), every,
                "s" if count == 1 else "", count * every + 1,
            ))  # fmt: skip
        self.count, self.back, self.every, self.length = count, back, every, length
        self._inputs = np.ascontiguousarray(row[: count * length].reshape(count, length).T)  # (length, count)
        self._targets = np.ascontiguousarray(row[1 : count * length + 1].reshape(count, length).T)

    def has(self, position: int) -> bool:
        """Return whether a whole window that scores the steps from `position` exists."""
        return position + self.every <= self.length

    def steps(self, start: int, stop: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return inputs and targets (stop - start, count) of steps start to stop - 1, fewer at the streams' end."""
        return self._inputs[start:stop], self._targets[start:stop]

    def window(self, position: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64] | None]:
        """Return the window that scores the steps position, ..., position + every - 1.

        Its inputs and targets are (T, count), with T below `back` near the beginning of the streams. Its weights,
        (T, count), are 1 for the steps that are scored, else 0; None if all are.
        """
        stop = position + self.every
        start = max(stop - self.back, 0)
        weights = None
        if start < position:
            weights = np.zeros((stop - start, self.count))
            weights[position - start :] = 1
        return *self.steps(start, stop), weights


def _row(symbols: ArrayLike) -> NDArray[np.int32]:
    """Return symbols as one row of int32."""
    row = np.asarray(symbols)
    if row.size == 0:
        return np.zeros(0, dtype=np.int32)
    if row.ndim != 1 or row.dtype.kind not in "iu":
        raise InputError(f"symbols must be a row of integers, not {row.dtype} of shape {row.shape}")
    return row.astype(np.int32, copy=False)
