"""The arrays of each part in a file: sequences, or recordings that are cut into windows, and their classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.array_files import check_size
from hfrnn.data.array_shapes import checked_states
from hfrnn.data.held import Content
from hfrnn.data.named_arrays import PREFIXES, ROLES, FileArrays
from hfrnn.data.trials import Trials, first_class
from hfrnn.data.windows import Signals
from hfrnn.errors import InputError, Message
from hfrnn.option import argument
from hfrnn.wording import counted


class Piece(NamedTuple):
    """The arrays of one part in one file: those whose names begin with a prefix."""

    part: str
    file: FileArrays
    prefix: str


def pieces_of(part: str, file: FileArrays, read: Mapping[str, Sequence[FileArrays]]) -> list[Piece]:
    """Return the arrays of a file by part; raise InputError if a part lacks inputs or targets, or is there twice."""
    for role in ("x", "y", "mask"):
        if role in file.lacks:
            raise InputError(file.lacks[role])
    found = [Piece(part, file, "")]
    for own, prefix in PREFIXES.items() if part == "train" else ():
        if not prefix or not any(prefix + role in file.content for role in ROLES):
            continue
        if own in read:
            raise InputError(Message(
                f"{argument(own)} was given, and {{0}} has {prefix}x itself: leave one of them out", file.source
            ))  # fmt: skip
        for role in ("x", "y"):
            if prefix + role not in file.content:
                raise InputError(f"{file.source} has no array {prefix}{role}: each part needs x and y")
        found.append(Piece(own, file, prefix))
    return found


def check_sequences(arrays: Mapping[str, Content], piece: Piece) -> None:
    """Raise InputError if the arrays of a file, chosen by name, look like one recording."""
    x, y, file = arrays["x"], arrays["y"], piece.file
    if isinstance(x, list) or isinstance(y, list):
        return
    if piece.prefix or "x" not in file.called or "lengths" in arrays or x.ndim > 2 or x.dtype.kind != "f":
        return
    steps = max(x.shape, default=0)
    vector = x.ndim == 1 or (1 in x.shape and file.matlab) or "x" in file.stacked
    if (vector and steps > 1) or (not file.matlab and x.ndim == 2 and y.ndim < 3 and len(x) == len(y) and 1 in y.shape):
        raise InputError(Message(
            "{0} of {1} has shape {2}, which looks like one recording: give {window} to cut it into sequences",
            file.called["x"], file.source, x.shape,
        ))  # fmt: skip


def piece_signals(
    piece: Piece, rows: tuple[int | None, int | None] = (None, None)
) -> tuple[list[Signals], list[str]]:  # fmt: skip
    """Return the recordings of a piece, some of their rows only, and notes for a person.

    A recording without targets has targets of no column.
    """
    file, prefix, source, notes = piece.file, piece.prefix, piece.file.source, list[str]()
    roles = {role: file.content[prefix + role] for role in ROLES if prefix + role in file.content}
    if "lengths" in roles:
        what = f"{prefix}lengths"
        raise InputError(
            Message("{window} cuts one recording, and {0} is for separate sequences: leave one of them out", what)
        )
    check_filled({prefix + role: value for role, value in roles.items()}, source)
    states = roles.pop("initial_state", None)
    lists = {role: each if isinstance(each, list) else [each] for role, each in roles.items()}
    for role, values in lists.items():
        for one in values:
            check_size(one.shape, 8, f"{prefix}{role} of {source}")
    called = {role: file.called.get(prefix + role, prefix + role) for role in lists}
    if file.matlab or (file.trials and any(isinstance(each, list) for each in roles.values())):
        trials = Trials(lists, called, source)
        lists, notes = trials.roles, trials.notes
    for role, values in lists.items():
        if len(values) != len(lists["x"]):
            held = f"{called['x']} of {source} holds {counted(len(lists['x']), 'recording')}"
            raise InputError(f"{held} and {called[role]} {len(values)}: give as many in both")
        if not all(one.ndim for one in values):
            raise InputError(f"{called[role]} of {source} is a single number: give one for each step of a recording")
    begins = None
    if states is not None:
        each_row: Content = states[None] if not isinstance(states, list) and states.ndim == 1 else states
        begins = checked_states(each_row, len(lists["x"]), f"{prefix}initial_state of {source}")
    found, lost = [], False
    for n, x in enumerate(lists["x"]):
        y, mask = (lists[role][n] if role in lists else None for role in ("y", "mask"))
        if y is not None and len(x) != len(y):
            held = f"{called['x']} has {len(x)} steps and {called['y']} {len(y)}"
            raise InputError(f"{held} in {source}: give as many in both")
        missing = None if y is None else missing_targets(y, mask, f"{called.get('mask', 'mask')} of {source}")
        y = np.zeros((len(x), 0)) if y is None else y
        state = None if begins is None else at_first_row(begins[n], len(x))
        each = Signals(x, y[:, None] if y.ndim == 1 else y, missing, state)
        if rows != (None, None):
            start, stop, _ = slice(*rows).indices(len(x))
            each = each.rows(start, stop)
            lost |= state is not None and start > 0
        if not len(each.inputs):
            asked = argument("rows" if piece.part == "train" else f"{piece.part}_rows")
            has = counted(len(x), "row")
            raise InputError(Message(f"{asked} leaves nothing of {{0}}, which has {{1}}: give others", source, has))
        found.append(each)
    if lost:
        notes = [*notes, "the first row is left out, so the initial state that is given before it is not used"]
    return found, notes


def at_first_row(state: NDArray[Any], rows: int) -> NDArray[np.float64]:
    """Return a state that is known before the first row of a recording only, (rows, n)."""
    found = np.full((rows, state.size), np.nan)
    found[0] = state
    return found


def missing_targets(y: NDArray[Any], mask: NDArray[Any] | None, name: str) -> NDArray[np.bool_] | None:
    """Return which targets of a recording are NaN or masked, (steps, n_out); None if all are known."""
    y = y[:, None] if y.ndim == 1 else y
    if y.ndim != 2:
        return None  # whoever cuts windows refuses it
    missing = np.isnan(y) if y.dtype.kind == "f" else np.zeros(y.shape, dtype=bool)
    if mask is not None:
        mask = mask[:, None] if mask.ndim == 1 else mask
        if mask.ndim != 2 or len(mask) != len(y) or mask.shape[1] not in (1, y.shape[1]):
            raise InputError(f"{name} has shape {mask.shape}, and the targets {y.shape}: give as many steps")
        if not ((mask == 0) | (mask == 1)).all():
            raise InputError(Message("{0} holds other numbers than 0 and 1: with {window} give 0 or 1", name))
        missing = missing | (mask == 0)
    return missing if missing.any() else None


def counted_from_zero(pieces: Sequence[Piece], loss: str) -> tuple[int, list[Piece]]:
    """Return 1 and pieces with other targets if the targets are classes that MATLAB counts from 1; else 0."""
    if not all(piece.file.matlab for piece in pieces):
        return 0, list(pieces)
    flat: list[NDArray[Any]] = []
    for piece in pieces:
        x, y = (piece.file.content[piece.prefix + role] for role in "xy")
        if isinstance(y, list):
            flat += [each.ravel() if 1 in each.shape else each[..., None] for each in y]
        else:
            alike = not isinstance(x, list) and y.shape == x.shape[:2]
            flat.append(y.ravel() if alike or y.ndim < 2 or 1 in y.shape else y[..., None])
    first = first_class(flat, loss)
    if not first:
        return 0, list(pieces)

    def lower(values: NDArray[Any]) -> NDArray[Any]:
        return values - 1 if loss == "softmax" and values.dtype.kind == "f" else values.astype(np.int64) - 1

    found = []
    for piece in pieces:
        name = f"{piece.prefix}y"
        y = piece.file.content[name]
        new = [lower(each) for each in y] if isinstance(y, list) else lower(y)
        found.append(piece._replace(file=piece.file._replace(content={**piece.file.content, name: new})))
    return first, found


def check_filled(arrays: Mapping[str, Content], source: str) -> None:
    """Raise InputError if an array is empty."""
    for name, value in arrays.items():
        for each in value if isinstance(value, list) else [value]:
            if each.size == 0:
                raise InputError(f"{name} of {source} has shape {each.shape}, which holds nothing: give some numbers")
