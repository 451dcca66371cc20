"""Bring arrays of sequences into one layout, time-major, and check their shapes and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.tasks import TaskSequences
from hfrnn.errors import InputError, Message

LARGEST = 1e15
"""Largest absolute value of inputs and targets: its square is far within the range of float32."""
MOST_SYMBOLS = 2**31 - 2
"""Largest number of a symbol or a class."""

Values = NDArray[Any]


class ArrayFormat(NamedTuple):
    """How the arrays of a file are to be read.

    `source` is the file, for messages. With `time_first`, the steps are on the first axis. With `matlab`, a last axis
    of length 1 may be missing. `loss` may be "auto".
    """

    source: str
    time_first: bool
    matlab: bool
    loss: str


@dataclass(frozen=True, eq=False)
class UncheckedPart:
    """Sequences of one part, time-major, before their numbers are checked; `prefix` begins the names of its arrays."""

    x: Values  # (T, N) integers or (T, N, n_in) real values
    y: Values  # (T, N) integers or (T, N, n_out) real values
    weights: NDArray[np.float32]  # (T, N) or (T, N, n_out), 0 in the padding and where nothing is scored
    lengths: NDArray[np.int64]  # (N,)
    prefix: str = ""

    def columns(self, start: int, stop: int) -> UncheckedPart:
        """Return the sequences from `start` up to, but not including, `stop`."""
        at = slice(start, stop)
        return UncheckedPart(self.x[:, at], self.y[:, at], self.weights[:, at], self.lengths[at], self.prefix)

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Which targets are scored, in the shape of y."""
        return _broadcast(self.weights > 0, self.y.shape)

    @property
    def bits(self) -> bool:
        """Whether all scored targets are 0 or 1."""
        return bool((~self.scored | (self.y == 0) | (self.y == 1)).all())

    @property
    def between(self) -> bool:
        """Whether all scored targets are from 0 to 1, or not finite."""
        return bool((~self.scored | ~((self.y < 0) | (self.y > 1))).all())

    def sequences(self, where: str) -> TaskSequences:
        """Return the sequences after checking their numbers: zeros in the padding and where nothing is scored."""
        exists = np.arange(self.x.shape[0])[:, None] < self.lengths
        x = _checked(self.x, _broadcast(exists, self.x.shape), f"{self.prefix}x", where)
        y = _checked(self.y, self.scored, f"{self.prefix}y", where)
        empty = np.flatnonzero(~(self.weights > 0).reshape(len(exists), len(self.lengths), -1).any(axis=(0, 2)))
        if empty.size:
            raise InputError(
                f"sequence {empty[0]} (counted from 0) of {where} has no scored step, its mask is 0 at all of them: "
                "leave it out"
            )
        return TaskSequences(x, y, self.weights, self.lengths)


def joined(parts: Sequence[UncheckedPart]) -> UncheckedPart | None:
    """Return the sequences of several parts side by side, padded with zeros; None if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    T = max(len(part.x) for part in parts)
    by_output = any(part.weights.ndim == 3 for part in parts)

    def padded(values: Values) -> Values:
        return np.pad(values, [(0, T - len(values)), *[(0, 0)] * (values.ndim - 1)])

    weights = [_broadcast(part.weights, part.y.shape) if by_output else part.weights for part in parts]
    x, y = (np.concatenate([padded(getattr(part, role)) for part in parts], axis=1) for role in "xy")
    return UncheckedPart(
        x, y, np.concatenate([padded(each) for each in weights], axis=1), np.concatenate([p.lengths for p in parts])
    )


def _broadcast(values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return (T, N) or (T, N, n_out) values in a shape with as many axes or one more."""
    return np.broadcast_to(values[:, :, None] if values.ndim < len(shape) else values, shape)


def as_float64(values: Values) -> NDArray[np.float64]:
    """Return numbers as float64; those beyond its range become infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float64)


def _checked(values: Values, counted: NDArray[np.bool_], name: str, where: str) -> Values:
    """Return values as float64, or as int32 symbols, with 0 where they do not count."""
    symbols = values.ndim == 2
    if not symbols:
        values = as_float64(values)
    wrong = counted & ((values < 0) | (values > MOST_SYMBOLS) if symbols else ~(np.abs(values) <= LARGEST))
    if wrong.any():
        t, n, *k = (int(each) for each in np.argwhere(wrong)[0])
        place = f"step {t} of sequence {n}" + (f", entry {k[0]}" if k else "") + " (counted from 0)"
        value = values[(t, n, *k)]
        if symbols:
            raise InputError(
                f"{name} holds {value} at {place} of {where}: symbols and classes count from 0 to 2^31 - 2"
            )
        what = f"{value:g}" if np.isfinite(value) else {True: "NaN", False: "an infinity"}[bool(np.isnan(value))]
        advice = f"give numbers of at most {LARGEST:g} in size" if np.isfinite(value) else "give finite numbers"
        if name.endswith("y") and not np.isfinite(value):
            advice += ", or a mask that is 0 there"
        raise InputError(f"{name} holds {what} at {place} of {where}: {advice}")
    return np.where(counted, values, 0).astype(np.int32 if symbols else np.float64)


def arranged(arrays: Mapping[str, Values | None], prefix: str, layout: ArrayFormat) -> UncheckedPart:
    """Return one part, given its arrays by role (x, y, mask, lengths), after checking their shapes."""
    x, y = arrays["x"], arrays["y"]
    assert x is not None
    assert y is not None
    x = _inputs(x, f"{prefix}x", layout)
    T, N = x.shape[:2]
    lengths = _lengths(arrays["lengths"], T, N, f"{prefix}lengths", layout)
    y, last_only = _targets(y, T, N, prefix, layout)
    exists = np.arange(T)[:, None] < lengths
    if last_only:
        if arrays["mask"] is not None:
            raise InputError(
                f"{prefix}y of {layout.source} has one target for each sequence, and {prefix}mask is for targets at "
                "every step: leave the mask out"
            )
        weights = (np.arange(T)[:, None] == lengths - 1).astype(np.float32)
        y = np.broadcast_to(y, (T, *y.shape))
    else:
        weights = _weights(arrays["mask"], y, f"{prefix}mask", layout)
        weights = np.where(_broadcast(exists, weights.shape), weights, 0).astype(np.float32)
    return UncheckedPart(x, y, weights, lengths, prefix)


def _time_major(values: Values, layout: ArrayFormat) -> Values:
    return values if layout.time_first else values.swapaxes(0, 1)


def _axes(layout: ArrayFormat, last: str = "") -> str:
    """Return the axes of an array for a message: `(sequences, steps, n_in)`."""
    first = "steps, sequences" if layout.time_first else "sequences, steps"
    return f"({first}{last and f', {last}'})"


def _inputs(x: Values, name: str, layout: ArrayFormat) -> Values:
    """Return inputs (T, N, n_in), or symbols (T, N)."""
    if x.ndim == 2 and x.dtype.kind == "f" and layout.matlab:
        x = x[:, :, None]
    if x.dtype.kind == "b":
        x = x.astype(np.float64)
    if x.ndim == 2 and x.dtype.kind == "f":
        raise InputError(Message(
            "{0} of {1} has shape {2} and real numbers: give {3}, or {window} if it is one recording (steps, n_in)",
            name, layout.source, x.shape, _axes(layout, "n_in"),
        ))  # fmt: skip
    if x.ndim not in (2, 3):
        advice = ", or {window} for one recording" if x.ndim == 1 else ""
        raise InputError(Message(
            f"{{0}} of {{1}} has shape {{2}}: give {{3}} of real numbers or {{4}} of symbols{advice}",
            name, layout.source, x.shape, _axes(layout, "n_in"), _axes(layout),
        ))  # fmt: skip
    return _time_major(x, layout)


def _targets(y: Values, T: int, N: int, prefix: str, layout: ArrayFormat) -> tuple[Values, bool]:
    """Return targets (T, N, n_out) or classes (T, N); or those of the last step, (N, n_out) or (N,), and True."""
    name, steps = f"{prefix}y of {layout.source}", (T, N) if layout.time_first else (N, T)
    if y.dtype.kind == "b":
        y = y.astype(np.uint8)
    if layout.matlab and y.ndim == 2 and 1 in y.shape and y.size == N and y.shape != steps:
        y = y.ravel()
    whole = y.dtype.kind != "f"
    classes = layout.loss == "softmax" or (layout.loss == "auto" and whole and y.ndim < 3)
    if classes:
        return _classes(y, N, steps, name, prefix, layout)
    if y.ndim == 3 and y.shape[:2] == steps:
        return _time_major(y, layout), False
    if y.ndim == 2 and y.shape == steps and (whole or layout.matlab):
        return _time_major(y, layout)[:, :, None], False
    if y.ndim == 2 and y.shape == steps and T > 1 and N > 0:
        first = ", ".join(map(str, steps))
        raise InputError(
            f"{name} has shape {y.shape}, which may be one value at each of {T} steps or {T} values at the last step: "
            f"give ({first}, 1), or ({first}, {T}) with a mask"
        )
    if y.ndim in (1, 2) and len(y) == N:
        return y.reshape(N, -1), True
    raise _disagreement(name, y, prefix, steps, f"{_axes(layout, 'n_out')} or (sequences, n_out) of real numbers")


def _classes(
    y: Values, N: int, steps: tuple[int, int], name: str, prefix: str, layout: ArrayFormat
) -> tuple[Values, bool]:
    """Return classes (T, N), or those of the last step, (N,), and True."""
    if y.dtype.kind == "f":
        rounded = np.where(np.isfinite(y), y, -1)
        if (rounded != np.round(rounded)).any() or (np.abs(rounded) > MOST_SYMBOLS).any():
            raise InputError(
                Message("{loss} is softmax, and {0} holds numbers that are no classes: give whole numbers", name)
            )
        y = rounded.astype(np.int64)  # a NaN becomes -1, which is allowed where nothing is scored
    if y.shape == steps:
        return _time_major(y, layout), False
    if y.shape == (N,):
        return y, True
    raise _disagreement(name, y, prefix, steps, f"{_axes(layout)} or (sequences,) of classes")


def _disagreement(name: str, y: Values, prefix: str, steps: tuple[int, int], expected: str) -> InputError:
    return InputError(
        f"{name} has shape {y.shape}, and {prefix}x begins with {steps}: give targets {expected} that agree with it"
    )


def _lengths(lengths: Values | None, T: int, N: int, name: str, layout: ArrayFormat) -> NDArray[np.int64]:
    """Return the steps of each sequence."""
    if lengths is None:
        return np.full(N, T, dtype=np.int64)
    found = lengths.ravel() if layout.matlab else lengths
    if found.shape != (N,):
        raise InputError(
            f"{name} of {layout.source} has shape {lengths.shape}, and there are {N} sequences: give ({N},)"
        )
    wrong = ~((found >= 1) & (found <= T)) | (found != np.floor(found))
    if found.dtype.kind == "b" or wrong.any():
        value = found[int(np.argmax(wrong))]
        raise InputError(f"{name} of {layout.source} holds {value}: give whole numbers from 1 to {T}, the steps of x")
    return found.astype(np.int64)


def _weights(mask: Values | None, y: Values, name: str, layout: ArrayFormat) -> Values:
    """Return the weights (T, N) or (T, N, n_out) of the targets."""
    T, N = y.shape[:2]
    if mask is None:
        return np.ones((T, N), dtype=np.float32)
    steps = (T, N) if layout.time_first else (N, T)
    allowed = [steps, (*steps, 1)] if y.ndim == 2 else [steps, (*steps, 1), (*steps, y.shape[2])]
    if mask.shape not in allowed:
        wanted = " or ".join(dict.fromkeys((str(allowed[0]), str(allowed[-1]))))
        raise InputError(
            f"{name} of {layout.source} has shape {mask.shape}, which does not agree with x and y: give {wanted}"
        )
    mask = as_float64(mask)
    if not ((mask >= 0) & (mask <= LARGEST)).all():
        raise InputError(f"{name} of {layout.source} holds a negative number, NaN or infinity: give weights, 0 or more")
    mask = mask[:, :, 0] if mask.ndim == 3 and mask.shape[2] == 1 else mask
    return _time_major(mask, layout)
