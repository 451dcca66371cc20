"""Arrays of sequences from a file or from memory: their shapes, masks, lengths, parts, and the loss that fits them.

x                 (sequences, steps, n_in) real values, or (sequences, steps) integer symbols
y                 (sequences, steps, n_out) real values
                  (sequences, n_out) or (sequences,) real values: only the last step of a sequence is scored
                  (sequences, steps) or (sequences,) integer classes: softmax, at every or at the last step
mask              (sequences, steps) or (sequences, steps, n_out): weights, 0 or more, 0 where nothing is scored
lengths           (sequences,): the steps of each sequence; later ones are padding
valid_x, ...      the same for validation, and test_x, ... for the test

From memory, x, y and mask may also be lists with an array for each sequence, (steps, n_in) and so on.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.arrays.array_checks import as_array, is_array
from hfrnn.arrays.backend import host_copy
from hfrnn.checks import shown
from hfrnn.data.array_files import check_size, check_type, read_array_file
from hfrnn.data.array_shapes import ArrayFormat, Arrays, UncheckedPart, arranged, stacked
from hfrnn.data.ragged import RaggedPool
from hfrnn.data.splits import part_ranges
from hfrnn.data.windows import Signals, Windows, as_column, recording_parts
from hfrnn.errors import InputError, Message
from hfrnn.option import near_hint
from hfrnn.wording import counted, left_out_note

PREFIXES = {"train": "", "valid": "valid_", "test": "test_"}
"""The beginning of the names of a part's arrays."""
ROLES = ("x", "y", "mask", "lengths")
NAMES = tuple(prefix + role for prefix in PREFIXES.values() for role in ROLES)
"""The names of all arrays that are read."""


@dataclass(frozen=True, eq=False)
class ArrayData:
    """Sequences of a file or from memory, in their parts, without padding and not scaled.

    `source` is the path of the file, for messages; `sha256` the hash of the file, or of the arrays. Only columns of a
    table have names. `reason` says why the loss was chosen, `notes` what a person should know about the data.
    """

    name: str
    source: str
    sha256: str
    train: RaggedPool
    valid: RaggedPool | None
    test: RaggedPool | None
    loss: str
    input_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()
    left_out: int = 0
    """Sequences without a scored step, which are in no part."""

    @property
    def parts(self) -> dict[str, RaggedPool]:
        """The parts that there are, by name."""
        return {name: part for name in PREFIXES if (part := getattr(self, name)) is not None}

    @property
    def symbols(self) -> bool:
        """Whether the inputs are symbols."""
        return self.train.symbols

    @property
    def n_in(self) -> int:
        """The number of inputs of a step, or of symbols: the largest one of all parts, and 0."""
        return _size(part.x for part in self.parts.values())

    @property
    def n_out(self) -> int:
        """The number of outputs: of real targets of a step, or of classes."""
        return _size(part.y for part in self.parts.values())


def _size(arrays: Any) -> int:
    found = list(arrays)
    return int(found[0].shape[1]) if found[0].ndim == 2 else max(int(each.max()) for each in found) + 1


def load_arrays(
    path: str | os.PathLike[str], targets: str | os.PathLike[str] | None = None, *, time_first: bool = False,
    fractions: Sequence[float] | None = None, loss: str = "auto", windows: Windows | None = None,
) -> ArrayData:  # fmt: skip
    """Load sequences from a .npz or .mat file with the arrays above, or from .npy files of inputs and of targets.

    The other arguments and errors are those of `from_arrays`.
    """
    found = read_array_file(path, NAMES.__contains__)
    arrays, others, digest = dict(found.arrays), found.others, found.sha256
    name, suffix = Path(path).name, Path(path).suffix.lower()
    if suffix == ".npy":
        if targets is None:
            raise InputError(Message("{0} holds the inputs only: give {targets}, a .npy file with the targets", path))
        if not os.fspath(targets).lower().endswith(".npy"):
            raise InputError(Message("{targets} is {0}, and the inputs are in a .npy file: give a .npy file", targets))
        other = read_array_file(targets, NAMES.__contains__)
        arrays["y"] = other.arrays["x"]
        digest = hashlib.sha256(f"{digest} {other.sha256}".encode()).hexdigest()
    elif targets is not None:
        raise InputError(Message("{targets} was given, and {0} holds its targets itself as y: leave it out", path))
    read = from_arrays(
        arrays, name, str(path), digest, time_first=time_first, fractions=fractions, loss=loss, windows=windows,
        matlab=suffix == ".mat", others=others,
    )  # fmt: skip
    return replace(read, notes=(*read.notes, f"not read: {', '.join(others)}")) if others else read


def from_memory(
    arrays: Mapping[str, Any], *, time_first: bool = False, fractions: Sequence[float] | None = None,
    loss: str = "auto", windows: Windows | None = None, name: str = "data",
) -> ArrayData:  # fmt: skip
    """Return the data of arrays in memory, by the names above; arguments and errors are those of `from_arrays`."""
    if not isinstance(arrays, Mapping) or not all(isinstance(each, str) for each in arrays):
        raise InputError(f"{name} is no table of arrays by name: give a dict with arrays {', '.join(NAMES[:4])}, ...")
    read: dict[str, Arrays] = {}
    digest = hashlib.sha256()
    for each, value in sorted(arrays.items()):
        if each not in NAMES:
            raise InputError(f"{name} has an array {shown(each)}{near_hint(each, NAMES)}: use {', '.join(NAMES)}")
        if value is None:
            continue
        what = f"{each} of {name}"
        listed = isinstance(value, list | tuple) and value and all(map(is_array, value))
        found = [_on_host(what, one) for one in (value if listed else [value])]
        read[each] = stacked(found) if listed else found[0]
        digest.update(f"{each} ".encode())
        whole = read[each]
        for one in [whole] if isinstance(whole, np.ndarray) else whole:
            digest.update(f"{one.dtype.str} {one.shape} ".encode())
            digest.update(one.reshape(-1).view(np.uint8).data)
    return from_arrays(
        read, "arrays" if name == "data" else name, name, digest.hexdigest(), time_first=time_first,
        fractions=fractions, loss=loss, windows=windows,
    )  # fmt: skip


def _on_host(what: str, value: Any) -> NDArray[Any]:
    """Return an array in memory as a C-contiguous array of numbers on the host."""
    found = np.ascontiguousarray(host_copy(as_array(what, value)))
    check_type(found.dtype, what)
    return found


def from_arrays(
    arrays: Mapping[str, Arrays], name: str, source: str, sha256: str, *, time_first: bool = False,
    fractions: Sequence[float] | None = None, loss: str = "auto", windows: Windows | None = None, matlab: bool = False,
    others: Sequence[str] = (),
) -> ArrayData:  # fmt: skip
    """Return the data of the arrays above; raise InputError if they do not fit.

    With `windows`, `x` and `y` are one recording, (steps, n_in) and (steps, n_out). `fractions` are the shares of the
    sequences for training, validation and test, in their order, if the data have no arrays `valid_x` or `test_x`.
    With `matlab`, a last axis of length 1 may be missing. `others` names arrays that were not read, for messages.
    """
    for each in ("x", "y"):
        if each not in arrays:
            held = ", ".join([*arrays, *others]) or "nothing"
            raise InputError(f"{source} has no array {each}{near_hint(each, others)}: it holds {held}; name it {each}")
    check_filled(arrays, source)
    if windows is None:
        parts, left_out = _sequence_parts(arrays, ArrayFormat(source, time_first, matlab, loss), fractions)
        read = assembled(parts, loss, name, source, sha256, left_out=left_out)
        return replace(read, notes=(left_out_note(left_out),)) if left_out else read
    given = [each for each in arrays if each not in ("x", "y")]
    if given or time_first:
        what = given[0] if given else Message("{time_first:True}")
        raise InputError(
            Message("{window} cuts one recording, and {0} is for separate sequences: leave one of them out", what)
        )
    for role in ("x", "y"):
        if isinstance(arrays[role], list):
            raise InputError(Message(
                "{window} cuts one recording, and {0} of {1} is a list of {2}: leave one of them out", role, source,
                counted(len(arrays[role]), "array"),
            ))  # fmt: skip
        check_size(np.shape(arrays[role]), 8, f"{role} of {source}")
    x, y = (as_column(np.asarray(arrays[role]), matlab) for role in ("x", "y"))
    parts, notes = recording_parts({"train": [Signals(x, y)]}, windows, fractions, source)
    return assembled(parts, loss, name, source, sha256, notes=notes)


def check_filled(arrays: Mapping[str, Arrays], source: str) -> None:
    """Raise InputError if an array is empty."""
    for name, value in arrays.items():
        for each in [value] if isinstance(value, np.ndarray) else value:
            if each.size == 0:
                raise InputError(f"{name} of {source} has shape {each.shape}, which holds nothing: give some numbers")


def assembled(
    parts: Mapping[str, UncheckedPart], loss: str, name: str, source: str, sha256: str, **more: Any
) -> ArrayData:
    """Return data with these parts, with the loss that was asked for or fits all of them; `more` are other fields."""
    found, reason = _chosen_loss(parts, loss, source)
    made: dict[str, RaggedPool] = {
        part: content.sequences(f"the {part} part of {source}") for part, content in parts.items()
    }
    first = made["train"]
    for part, other in made.items():
        for role, one, two in (("x", first.x, other.x), ("y", first.y, other.y)):
            if one.shape[1:] != two.shape[1:]:
                raise InputError(
                    f"{role} has {_kind(one)} and {PREFIXES[part]}{role} has {_kind(two)} in {source}: give the "
                    "same in both"
                )
    if found == "softmax" and not any(part.y.any() for part in made.values()):
        raise InputError(f"y of {source} holds only the class 0, so there is nothing to predict: give other classes")
    return ArrayData(name, source, sha256, first, made.get("valid"), made.get("test"), found, reason=reason, **more)


def _kind(values: NDArray[Any]) -> str:
    return "integers" if values.ndim == 1 else counted(values.shape[1], "real value") + " a step"


def _chosen_loss(parts: Mapping[str, UncheckedPart], loss: str, source: str) -> tuple[str, str]:
    """Return the loss that was asked for or fits the targets, and why."""
    if loss == "auto":
        if parts["train"].y.ndim == 1:
            return "softmax", "y holds classes"
        if all(part.bits for part in parts.values()):
            return "logistic", "all targets are 0 or 1"
        return "squared", "the targets are real numbers"
    if loss == "logistic" and not all(part.between for part in parts.values()):
        raise InputError(
            Message("{loss} is logistic, and y of {0} has targets outside 0 to 1: use {loss:squared}", source)
        )
    return loss, "as given"


def _sequence_parts(
    arrays: Mapping[str, Arrays], layout: ArrayFormat, fractions: Sequence[float] | None
) -> tuple[dict[str, UncheckedPart], int]:
    """Return the parts of arrays of sequences, and how many sequences are in none, without a scored step."""
    given = [part for part, prefix in PREFIXES.items() if any(prefix + role in arrays for role in ROLES)]
    parts, left_out = {}, 0
    for part in given:
        roles = {role: arrays.get(PREFIXES[part] + role) for role in ROLES}
        for role in ("x", "y"):
            if roles[role] is None:
                raise InputError(f"{layout.source} has no array {PREFIXES[part]}{role}: each part needs x and y")
        found = arranged(roles, PREFIXES[part], layout)
        parts[part], more = scored_part(found, f"the {part} part of {layout.source}")
        left_out += more
    if given == ["train"]:
        whole = parts["train"]
        edges = part_ranges(whole.lengths.size, fractions, layout.source, "sequence")
        return {name: whole.columns(start, stop) for name, (start, stop) in edges.items() if stop > start}, left_out
    if fractions is not None:
        raise InputError(Message("{0} has arrays for its {1} part: leave {fractions} out", layout.source, given[-1]))
    return parts, left_out


def scored_part(part: UncheckedPart, where: str) -> tuple[UncheckedPart, int]:
    """Return the sequences of a part with a scored step, and the number of the others; raise InputError without any."""
    found, left_out = part.scored_only()
    if not found.lengths.size:
        raise InputError(f"{where} has no scored step, its mask is 0 at all of them: give a mask that is above 0")
    return found, left_out
