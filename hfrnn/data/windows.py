"""Cut one long recording into parts by time, and each part into windows.

The state of the network is zero at the beginning of a window. The first steps of a window, the burn-in, therefore
carry weight 0: the state settles before anything is scored. Training windows overlap. Validation and test windows
overlap by the burn-in only, so every step is scored once, except the burn-in of the part's first window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfrnn.choices import PARTS
from hfrnn.data.array_files import check_size
from hfrnn.data.array_shapes import LARGEST, UncheckedPart, as_float64
from hfrnn.data.splits import DEFAULT_FRACTIONS, checked_fractions
from hfrnn.errors import InputError, Message
from hfrnn.wording import counted, left_out_note

WINDOW = 200
"""Steps of a window of a table, unless a number is given."""

Values = NDArray[Any]


class Windows(NamedTuple):
    """How a recording is cut; numbers of steps."""

    window: int = WINDOW
    stride: int | None = None  # from the beginning of a training window to that of the next; None for half a window
    burn_in: int | None = None  # not scored at the beginning of a window; None for a tenth of a window
    ahead: int = 0  # from an input to the target that it predicts

    def checked(self) -> tuple[int, int, int]:
        """Return the window, the stride and the burn-in; raise InputError if they do not fit."""
        stride = max(self.window // 2, 1) if self.stride is None else self.stride
        burn_in = self.window // 10 if self.burn_in is None else self.burn_in
        if burn_in >= self.window:
            expected = "{burn_in} is {0}, and {window} is {1}: give a {burn_in} below {window}"
            raise InputError(Message(expected, burn_in, self.window))
        if stride > self.window:
            expected = "{stride} is {0}, and {window} is {1}: give a {stride} of at most {window}"
            raise InputError(Message(expected, stride, self.window))
        return self.window, stride, burn_in


def recording_parts(
    inputs: Values, targets: Values, missing: NDArray[np.bool_] | None, windows: Windows,
    fractions: Sequence[float] | None, source: str,
) -> tuple[dict[str, UncheckedPart], tuple[str, ...]]:  # fmt: skip
    """Return the parts of one recording, cut into windows, and notes for a person.

    Inputs are (steps, n_in) or (steps,), targets (steps, n_out) or (steps,), both real. Targets that are `missing`,
    (steps, n_out), are not scored. `fractions` are the shares of the steps for training, validation and test.
    """
    x, y = (two_axes(each, name, source) for each, name in ((inputs, "x"), (targets, "y")))
    if len(x) != len(y):
        raise InputError(f"x has {len(x)} steps and y {len(y)} in {source}: give as many in both")
    unknown = np.zeros(y.shape, dtype=bool) if missing is None else missing
    if windows.ahead:
        x, y, unknown = x[: -windows.ahead], y[windows.ahead :], unknown[windows.ahead :]
    shares = checked_fractions(DEFAULT_FRACTIONS if fractions is None else fractions)
    edges = [round(len(x) * share) for share in (0.0, shares[0], shares[0] + shares[1], 1.0)]
    window, stride, burn_in = windows.checked()
    if edges[1] < window:
        raise InputError(Message(
            "{0} has {1}, {2:,} of them to train on, and {window} is {3}: give a smaller {window}",
            source, counted(len(x), "row"), edges[1], window,
        ))  # fmt: skip
    _check_windows(edges[1], window, stride, x.shape[1] + 2 * y.shape[1], source)
    parts, left_out = {}, 0
    for name, share, start, stop in zip(PARTS, shares, edges[:-1], edges[1:], strict=True):
        if share == 0:
            continue
        rows = slice(start, stop)
        if name == "train":
            begins = [*range(0, stop - start - window, stride), stop - start - window]
        elif stop - start > burn_in:
            begins = list(range(0, stop - start - burn_in, window - burn_in))
        else:
            raise InputError(Message(
                "the {0} part of {1} has {2}, and {burn_in} is {3}: give other {fractions} or a smaller {burn_in}",
                name, source, counted(stop - start, "row"), burn_in,
            ))  # fmt: skip
        part = _cut(x[rows], y[rows], unknown[rows], np.array(begins), window, burn_in)
        if not part.lengths.size:
            raise InputError(
                Message("the {0} part of {1} has no target that is scored: give other {fractions}", name, source)
            )
        parts[name] = part
        left_out += len(begins) - part.lengths.size
    notes = [f"{counted(int(unknown.sum()), 'missing target')} not scored"] if unknown.any() else []
    notes += [left_out_note(left_out, "window")] if left_out else []
    return parts, tuple(notes)


def as_column(values: Values, matlab: bool) -> Values:
    """Return one recording of a file; a row (1, steps), as a MATLAB file holds a vector, becomes (steps, 1)."""
    return values.T if matlab and values.ndim == 2 and values.shape[0] == 1 else values


def two_axes(values: Values, name: str, source: str) -> Values:
    """Return the values of one recording as (steps, n), finite and as float64."""
    found = values[:, None] if values.ndim == 1 else values
    if found.ndim != 2:
        expected = "{0} of {1} has shape {2}: with {window} give one recording (steps, n)"
        raise InputError(Message(expected, name, source, values.shape))
    found = as_float64(found)
    wrong = ~(np.abs(found) <= LARGEST)
    if wrong.any():
        t, k = (int(each) for each in np.argwhere(wrong)[0])
        raise InputError(
            f"{name} of {source} holds {found[t, k]:g} at step {t}, entry {k} (counted from 0): give finite numbers of "
            f"at most {LARGEST:g} in size"
        )
    return found


def _check_windows(steps: int, window: int, stride: int, columns: int, source: str) -> None:
    """Raise InputError if overlapping windows of the training part would take too much memory."""
    count = (steps - window) // stride + 2
    try:
        check_size((count, window, columns), 8, source)
    except InputError as error:
        windows = counted(count, "window")
        raise InputError(
            Message("{0} of {1} steps take too much memory: give a larger {stride}", windows, window)
        ) from error


def _cut(x: Values, y: Values, unknown: NDArray[np.bool_], begins: Values, window: int, burn_in: int) -> UncheckedPart:
    """Return windows that begin at some steps, side by side; the last ones may be shorter."""
    lengths = np.minimum(window, len(x) - begins)
    T = int(lengths.max())
    rows = begins + np.arange(T)[:, None]  # (T, N)
    exists = np.arange(T)[:, None] < lengths
    rows = np.where(exists, rows, 0)
    weights = exists & (np.arange(T)[:, None] >= burn_in)
    if unknown.any():
        weights = weights[:, :, None] & ~unknown[rows]
        weights = weights[:, :, 0] if y.shape[1] == 1 else weights
    kept = weights.reshape(T, len(begins), -1).any(axis=(0, 2))
    weights, rows, lengths = weights[:, kept], rows[:, kept], lengths[kept]
    return UncheckedPart.of_padded(x[rows], y[rows], weights.astype(np.float32), lengths.astype(np.int64))
