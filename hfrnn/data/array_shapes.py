"""Bring arrays of sequences into one layout, without padding, and check their shapes and numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.array_files import check_size
from hfrnn.data.ragged import RaggedPool, first_rows
from hfrnn.errors import InputError, Message
from hfrnn.losses import SUMS_TO_1
from hfrnn.wording import counted

LARGEST = 1e15
"""Largest absolute value of inputs and targets: its square is far within the range of float32."""
MOST_SYMBOLS = 2**31 - 2
"""Largest number of a symbol or a class."""
BLOCK = 2**15
"""Numbers that are checked at once, so that the check takes little memory."""

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
    """Sequences of one part before their numbers are checked, one after another without padding.

    Its arrays belong to it: `sequences` writes to them. With `last_only`, y has one row for each sequence, the targets
    of its last step. `numbers` are those of the sequences in the arrays of the part, before some were left out, and
    `prefix` begins the names of these arrays. `origin` are their numbers in all files of the data.
    """

    x: Values  # (rows,) integers or (rows, n_in) real values
    y: Values  # (rows,) integers or (rows, n_out) real values
    weights: NDArray[np.float32] | None  # (rows,) or (rows, n_out), 0 where nothing is scored; None: 1 everywhere
    lengths: NDArray[np.int64]  # (N,)
    prefix: str = ""
    last_only: bool = False
    numbers: NDArray[np.int64] | None = None
    origin: NDArray[np.int64] | None = None
    states: NDArray[np.float64] | None = None  # (N, n), NaN where they are not given

    @classmethod
    def of_padded(
        cls, x: Values, y: Values, weights: Values | None, lengths: NDArray[np.int64], prefix: str = "",
        last_only: bool = False,
    ) -> UncheckedPart:  # fmt: skip
        """Return the sequences of time-major arrays, (T, N, ...), without their padding."""
        exists = np.arange(x.shape[0]) < lengths[:, None]  # (N, T)

        def rows(values: Values) -> Values:
            return values.swapaxes(0, 1)[exists]

        own = None if weights is None else rows(weights).astype(np.float32, copy=False)
        return cls(rows(x), y.copy() if last_only else rows(y), own, lengths, prefix, last_only)

    def taken(self, chosen: NDArray[np.int64]) -> UncheckedPart:
        """Return some sequences by number, in this order."""
        starts, lengths = first_rows(self.lengths)[chosen], self.lengths[chosen]
        rows = np.repeat(starts - first_rows(lengths), lengths) + np.arange(int(lengths.sum()))
        numbers, origin = (chosen if each is None else each[chosen] for each in (self.numbers, self.origin))
        weights = self.weights if self.weights is None else self.weights[rows]
        y = self.y[chosen if self.last_only else rows]
        return replace(
            self, x=self.x[rows], y=y, weights=weights, lengths=lengths, numbers=numbers, origin=origin,
            states=None if self.states is None else self.states[chosen],
        )  # fmt: skip

    def columns(self, start: int, stop: int) -> UncheckedPart:
        """Return the sequences from `start` up to, but not including, `stop`; their numbers begin with 0."""
        edges = np.concatenate([[0], np.cumsum(self.lengths)])
        rows, at = slice(int(edges[start]), int(edges[stop])), slice(start, stop)
        origin = np.arange(start, stop) if self.origin is None else self.origin[at]
        weights, numbers = self.weights if self.weights is None else self.weights[rows], self.numbers
        if numbers is not None:
            numbers = numbers[at] - (numbers[start - 1] + 1 if start else 0)
        y = self.y[at if self.last_only else rows]
        return replace(
            self, x=self.x[rows], y=y, weights=weights, lengths=self.lengths[at], numbers=numbers, origin=origin,
            states=None if self.states is None else self.states[at],
        )  # fmt: skip

    def scored_only(self) -> tuple[UncheckedPart, int]:
        """Return the sequences with a scored step, and the number of the others."""
        if self.weights is None:
            return self, 0
        weights = self.weights.reshape(len(self.weights), -1).max(axis=1, initial=0)
        kept = np.maximum.reduceat(weights, first_rows(self.lengths)) > 0
        if kept.all():
            return self, 0
        rows = np.repeat(kept, self.lengths)
        numbers, origin = (np.arange(kept.size) if each is None else each for each in (self.numbers, self.origin))
        found = replace(
            self, x=self.x[rows], y=self.y[rows], weights=self.weights[rows], lengths=self.lengths[kept],
            numbers=numbers[kept], origin=origin[kept], states=None if self.states is None else self.states[kept],
        )  # fmt: skip
        return found, int((~kept).sum())

    def at_every_step(self) -> UncheckedPart:
        """Return the sequences with targets and weights at every step, 0 except at the last one if that is scored."""
        if not self.last_only:
            return self
        ends = np.cumsum(self.lengths) - 1
        y = np.zeros((len(self.x), *self.y.shape[1:]), self.y.dtype)
        weights = np.zeros(len(self.x), np.float32)
        y[ends], weights[ends] = self.y, 1
        return replace(self, y=y, weights=weights, last_only=False)

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Which targets are scored, in the shape of y."""
        if self.weights is None:
            return np.broadcast_to(True, self.y.shape)
        return _broadcast(self.weights > 0, self.y.shape)

    @property
    def bits(self) -> bool:
        """Whether all scored targets are 0 or 1."""
        return bool((~self.scored | (self.y == 0) | (self.y == 1)).all())

    @property
    def between(self) -> bool:
        """Whether all scored targets are from 0 to 1, or not finite."""
        return bool((~self.scored | ~((self.y < 0) | (self.y > 1))).all())

    @property
    def sums_to_1(self) -> bool:
        """Whether the scored rows of y, (rows, n_out), are probabilities that sum to 1."""
        scored = self.scored.all(axis=1)
        return bool(((self.y >= 0).all(axis=1) & (abs(self.y.sum(axis=1) - 1) < SUMS_TO_1))[scored].all())

    def sequences(self, where: str) -> RaggedPool:
        """Return the sequences after checking their numbers; targets that are not scored become zeros."""
        x = self._checked(self.x, None, "x", where)
        y = self._checked(self.y, self.scored if self.weights is not None else None, "y", where)
        starts = first_rows(self.lengths)
        return RaggedPool(
            x, y, self.weights, self.lengths, starts, self.last_only, origin=self.origin, states=self.states
        )

    def _checked(self, values: Values, counted: NDArray[np.bool_] | None, role: str, where: str) -> Values:
        """Return values as real numbers or int32 symbols, with 0 where they do not count; None: all count."""
        symbols = values.ndim == 1
        kind = np.dtype(np.int32 if symbols else stored_type(values.dtype))
        for start in range(0, len(values), rows := max(BLOCK // max(math.prod(values.shape[1:]), 1), 1)):
            block = values[start : start + rows] if symbols else as_float64(values[start : start + rows])
            wrong = (block < 0) | (block > MOST_SYMBOLS) if symbols else ~(np.abs(block) <= LARGEST)
            if counted is not None:
                wrong &= counted[start : start + rows]
            if wrong.any():
                row, *k = (int(each) for each in np.argwhere(wrong)[0])
                raise self._wrong_number(block[(row, *k)], start + row, k, role, where)
        if counted is not None and not counted.all():
            values[~counted] = 0
        return values.astype(kind, copy=False)

    def _wrong_number(self, value: Any, row: int, entry: list[int], role: str, where: str) -> InputError:
        """Return the error of a number that cannot be an input or a target."""
        name = self.prefix + role
        if role == "y" and self.last_only:
            n, t = row, int(self.lengths[row]) - 1
        else:
            starts = first_rows(self.lengths)
            n = int(np.searchsorted(starts, row, side="right")) - 1
            t = row - int(starts[n])
        number = n if self.numbers is None else int(self.numbers[n])
        symbols = not entry and (self.x if role == "x" else self.y).ndim == 1
        place = f"step {t} of sequence {number}" + (f", entry {entry[0]}" if entry else "") + " (counted from 0)"
        if symbols:
            return InputError(
                f"{name} holds {value} at {place} of {where}: symbols and classes count from 0 to 2^31 - 2"
            )
        what = f"{value:g}" if np.isfinite(value) else {True: "NaN", False: "an infinity"}[bool(np.isnan(value))]
        advice = f"give numbers of at most {LARGEST:g} in size" if np.isfinite(value) else "give finite numbers"
        if role == "y" and not np.isfinite(value):
            advice += ", or a mask that is 0 there"
        return InputError(f"{name} holds {what} at {place} of {where}: {advice}")


def joined(parts: Sequence[UncheckedPart]) -> UncheckedPart | None:
    """Return the sequences of several parts one after another; None if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    last_only = all(part.last_only for part in parts)
    parts = [part if last_only else part.at_every_step() for part in parts]
    weights = None
    if any(part.weights is not None for part in parts):
        given = [np.ones(len(part.x), np.float32) if part.weights is None else part.weights for part in parts]
        if any(each.ndim == 2 for each in given):
            n_out = parts[0].y.shape[1]
            given = [np.repeat(each[:, None], n_out, axis=1) if each.ndim == 1 else each for each in given]
        weights = np.concatenate(given)
    x, y, lengths = (np.concatenate([getattr(part, role) for part in parts]) for role in ("x", "y", "lengths"))
    return UncheckedPart(x, y, weights, lengths, parts[0].prefix, last_only, states=_joined_states(parts))


def _joined_states(parts: Sequence[UncheckedPart]) -> NDArray[np.float64] | None:
    """Return the states of several parts, NaN for one that has none; None if no part has any."""
    widths = {each.states.shape[1] for each in parts if each.states is not None}
    if not widths:
        return None
    if len(widths) > 1:
        first, other = sorted(widths)[:2]
        raise InputError(f"initial_state has {first} columns in one file and {other} in another: give as many in all")
    n = widths.pop()
    return np.concatenate(
        [np.full((each.lengths.size, n), np.nan) if each.states is None else each.states for each in parts]
    )


def _broadcast(values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return values in a shape with as many axes or one more."""
    return np.broadcast_to(values[..., None] if values.ndim < len(shape) else values, shape)


def stored_type(given: np.dtype[Any]) -> type[np.floating[Any]]:
    """Return float32 for types whose numbers it holds exactly, else float64.

    >>> stored_type(np.dtype("uint8")), stored_type(np.dtype("int32"))
    (<class 'numpy.float32'>, <class 'numpy.float64'>)
    """
    return np.float32 if np.can_cast(given, np.float32) else np.float64


def as_float64(values: Values) -> NDArray[np.float64]:
    """Return numbers as float64; those beyond its range become infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float64)


Arrays = Values | list[Values]
"""An array, or one for each sequence, of unequal lengths."""


def arranged(given: Mapping[str, Arrays | None], prefix: str, layout: ArrayFormat) -> UncheckedPart:
    """Return one part, given its arrays by role (x, y, mask, lengths, initial_state), after checking their shapes."""
    part = _arranged({role: each for role, each in given.items() if role != "initial_state"}, prefix, layout)
    states = checked_states(given.get("initial_state"), part.lengths.size, f"{prefix}initial_state of {layout.source}")
    return replace(part, states=states)


def checked_states(given: Arrays | None, N: int, name: str) -> NDArray[np.float64] | None:
    """Return the states before the first steps of N sequences, (N, n), after checking them; None without any."""
    if given is None:
        return None
    if isinstance(given, list) or given.ndim != 2 or len(given) != N or given.dtype.kind not in "fiu":
        what = "a list" if isinstance(given, list) else f"of shape {given.shape} and type {given.dtype}"
        raise InputError(
            f"{name} is {what}: give an array ({N}, n) of real numbers, the entries of each state in a row"
        )
    found = as_float64(given)
    if not (np.abs(found) <= LARGEST).all():
        raise InputError(f"{name} holds NaN, infinity or a number beyond {LARGEST:g}: give finite numbers")
    return found


def _arranged(given: Mapping[str, Arrays | None], prefix: str, layout: ArrayFormat) -> UncheckedPart:
    """Return one part without states."""
    arrays = {role: each for role, each in given.items() if not isinstance(each, list)}
    if len(arrays) < len(given):
        return _arranged_lists(given, prefix, layout)
    x, y = arrays["x"], arrays["y"]
    assert x is not None
    assert y is not None
    x = _inputs(x, f"{prefix}x", layout)
    T, N = x.shape[:2]
    lengths = _lengths(arrays["lengths"], T, N, f"{prefix}lengths", layout)
    y, last_only = _targets(y, T, N, prefix, layout)
    steps = int(lengths.sum())
    weights = None
    if last_only:
        if arrays["mask"] is not None:
            raise _mask_of_last(prefix, layout.source)
    elif arrays["mask"] is not None:
        weights = _weights(arrays["mask"], y, f"{prefix}mask", layout)
    check_size((steps, *x.shape[2:]), 8, f"{prefix}x of {layout.source}")
    check_size((len(y) if last_only else steps, *y.shape[1 if last_only else 2 :]), 8, f"{prefix}y of {layout.source}")
    return UncheckedPart.of_padded(x, y, weights, lengths, prefix, last_only)


def stacked(arrays: list[Values]) -> Arrays:
    """Return arrays of one shape as one array with the sequences on its first axis; others as they are.

    >>> stacked([np.zeros((3, 2)), np.zeros((3, 2))]).shape
    (2, 3, 2)
    """
    return np.stack(arrays) if len({each.shape for each in arrays}) == 1 else arrays


def _arranged_lists(arrays: Mapping[str, Arrays | None], prefix: str, layout: ArrayFormat) -> UncheckedPart:
    """Return one part, given its arrays by role, some of them lists with an array for each sequence.

    The arrays of a list have the steps first, whatever the layout says. Their shapes are checked as if all sequences
    were a single one.
    """
    source, layout = layout.source, layout._replace(time_first=False)
    x, y, mask = arrays["x"], arrays["y"], arrays["mask"]
    if not isinstance(x, list):
        which = prefix + ("y" if isinstance(y, list) else "mask")
        raise InputError(
            f"{which} of {source} is a list of arrays of unequal shapes, and {prefix}x is one array: give {prefix}x as "
            "such a list too"
        )
    if arrays["lengths"] is not None:
        raise InputError(
            f"{prefix}x of {source} is a list of arrays, which have lengths of their own: leave {prefix}lengths out"
        )
    lengths = np.array([len(each) if each.ndim else 0 for each in x], dtype=np.int64)
    S, N = int(lengths.sum()), len(x)
    together = _inputs(_joined(x, lengths, f"{prefix}x", source), f"{prefix}x", layout)[:, 0]
    check_size(together.shape, 8, f"{prefix}x of {source}")
    if not isinstance(y, list):
        assert y is not None
        found, last_only = _targets(y, int(lengths.max()), N, prefix, layout)
        if not last_only:
            raise _no_list(f"{prefix}y", prefix, source, ", or one target for each sequence")
        if mask is not None:
            raise _mask_of_last(prefix, source)
        return UncheckedPart(together, found.copy(), None, lengths, prefix, last_only=True)
    targets, _ = _targets(_joined(y, lengths, f"{prefix}y", source), S, 1, prefix, layout)
    check_size(targets.shape, 8, f"{prefix}y of {source}")
    weights = None
    if mask is not None:
        if not isinstance(mask, list):
            raise _no_list(f"{prefix}mask", prefix, source)
        joined = _joined(mask, lengths, f"{prefix}mask", source, column=False)
        weights = _weights(joined, targets, f"{prefix}mask", layout)[:, 0].astype(np.float32)
    return UncheckedPart(together, targets[:, 0], weights, lengths, prefix)


def _joined(arrays: list[Values], lengths: NDArray[np.int64], name: str, source: str, column: bool = True) -> Values:
    """Return the arrays of all sequences as those of a single one, (1, steps, ...).

    With `column`, real numbers (steps,) become (steps, 1).
    """
    if len(arrays) != len(lengths):
        raise InputError(
            f"{name} of {source} is a list of {counted(len(arrays), 'array')}, and there are {len(lengths)} sequences: "
            "give as many"
        )
    for n, (each, length) in enumerate(zip(arrays, lengths.tolist(), strict=True)):
        first = arrays[0]
        if each.ndim == 0 or each.shape[1:] != first.shape[1:] or each.dtype.kind != first.dtype.kind:
            raise InputError(
                f"{name} of {source} holds an array of shape {each.shape} and type {each.dtype} for sequence {n} "
                f"(counted from 0), and one of shape {first.shape} and type {first.dtype} for sequence 0: give arrays "
                "that differ in the number of steps only"
            )
        if len(each) != length:
            raise InputError(
                f"{name} of {source} has {counted(len(each), 'step')} for sequence {n} (counted from 0), and its "
                f"inputs have {length}: give as many"
            )
    together = np.concatenate(arrays)
    if column and together.ndim == 1 and together.dtype.kind == "f":
        together = together[:, None]
    return together[None]


def _no_list(name: str, prefix: str, source: str, more: str = "") -> InputError:
    return InputError(
        f"{name} of {source} is one array, and {prefix}x is a list of arrays of unequal lengths: give {name} as such a "
        f"list{more}"
    )


def _mask_of_last(prefix: str, source: str) -> InputError:
    return InputError(
        f"{prefix}y of {source} has one target for each sequence, and {prefix}mask is for targets at every step: leave "
        "the mask out"
    )


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
        x = x.astype(np.float32)
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
    soft = layout.loss == "softmax" and y.ndim == 3 and y.shape[:2] == steps and not (layout.matlab and y.shape[2] == 1)
    classes = (layout.loss == "softmax" and not soft) or (layout.loss == "auto" and whole and y.ndim < 3)
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
    if layout.matlab and y.shape == (*steps, 1):
        y = y[:, :, 0]
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


def _weights(mask: Values, y: Values, name: str, layout: ArrayFormat) -> Values:
    """Return the weights (T, N) or (T, N, n_out) of the targets."""
    T, N = y.shape[:2]
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
