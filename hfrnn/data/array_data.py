"""Arrays of sequences from a file or from memory: their shapes, masks, lengths, parts, and the loss that fits them.

x                 (sequences, steps, n_in) real values, or (sequences, steps) integer symbols
y                 (sequences, steps, n_out) real values
                  (sequences, n_out) or (sequences,) real values: only the last step of a sequence is scored
                  (sequences, steps) or (sequences,) integer classes: softmax, at every or at the last step
mask              (sequences, steps) or (sequences, steps, n_out): weights, 0 or more, 0 where nothing is scored
lengths           (sequences,): the steps of each sequence; later ones are padding
valid_x, ...      the same for validation, and test_x, ... for the test
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
from hfrnn.data.array_shapes import ArrayFormat, UncheckedPart, arranged
from hfrnn.data.splits import part_ranges
from hfrnn.data.tasks import TaskSequences
from hfrnn.data.windows import Signals, Windows, as_column, recording_parts
from hfrnn.errors import InputError, Message
from hfrnn.option import near_hint
from hfrnn.wording import counted

PREFIXES = {"train": "", "valid": "valid_", "test": "test_"}
"""The beginning of the names of a part's arrays."""
ROLES = ("x", "y", "mask", "lengths")
NAMES = tuple(prefix + role for prefix in PREFIXES.values() for role in ROLES)
"""The names of all arrays that are read."""


@dataclass(frozen=True, eq=False)
class ArrayData:
    """Sequences of a file or from memory, in their parts, which are time-major and not scaled.

    `source` is the path of the file, for messages; `sha256` the hash of the file, or of the arrays. Only columns of a
    table have names. `reason` says why the loss was chosen, `notes` what a person should know about the data.
    """

    name: str
    source: str
    sha256: str
    train: TaskSequences
    valid: TaskSequences | None
    test: TaskSequences | None
    loss: str
    input_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()

    @property
    def parts(self) -> dict[str, TaskSequences]:
        """The parts that there are, by name."""
        return {name: part for name in PREFIXES if (part := getattr(self, name)) is not None}

    @property
    def symbols(self) -> bool:
        """Whether the inputs are symbols."""
        return self.train.inputs.ndim == 2

    @property
    def n_in(self) -> int:
        """The number of inputs of a step, or of symbols: the largest one of all parts, and 0."""
        return _size(part.inputs for part in self.parts.values())

    @property
    def n_out(self) -> int:
        """The number of outputs: of real targets of a step, or of classes."""
        return _size(part.targets for part in self.parts.values())


def _size(arrays: Any) -> int:
    found = list(arrays)
    return int(found[0].shape[2]) if found[0].ndim == 3 else max(int(each.max()) for each in found) + 1


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
    read, digest = {}, hashlib.sha256()
    for each, value in sorted(arrays.items()):
        if each not in NAMES:
            raise InputError(f"{name} has an array {shown(each)}{near_hint(each, NAMES)}: use {', '.join(NAMES)}")
        if value is None:
            continue
        what = f"{each} of {name}"
        if isinstance(value, list | tuple) and value and all(map(is_array, value)):
            raise InputError(
                f"{what} is a {type(value).__name__} of {counted(len(value), 'array')}: pad them to one length, stack "
                "them to one array with the sequences on its first axis, and give their lengths as the array lengths"
            )
        read[each] = np.ascontiguousarray(host_copy(as_array(what, value)))
        check_type(read[each].dtype, what)
        digest.update(f"{each} {read[each].dtype.str} {read[each].shape} ".encode())
        digest.update(read[each].tobytes())
    return from_arrays(
        read, "arrays" if name == "data" else name, name, digest.hexdigest(), time_first=time_first,
        fractions=fractions, loss=loss, windows=windows,
    )  # fmt: skip


def from_arrays(
    arrays: Mapping[str, NDArray[Any]], name: str, source: str, sha256: str, *, time_first: bool = False,
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
        parts = _sequence_parts(arrays, ArrayFormat(source, time_first, matlab, loss), fractions)
        return assembled(parts, loss, name, source, sha256)
    given = [each for each in arrays if each not in ("x", "y")]
    if given or time_first:
        what = given[0] if given else Message("{time_first:True}")
        raise InputError(
            Message("{window} cuts one recording, and {0} is for separate sequences: leave one of them out", what)
        )
    x, y = (as_column(arrays[role], matlab) for role in ("x", "y"))
    parts, notes = recording_parts({"train": [Signals(x, y)]}, windows, fractions, source)
    return assembled(parts, loss, name, source, sha256, notes=notes)


def check_filled(arrays: Mapping[str, NDArray[Any]], source: str) -> None:
    """Raise InputError if an array is empty, or too large in double precision."""
    for name, value in arrays.items():
        check_size(value.shape, 8, f"{name} of {source}")
        if value.size == 0:
            raise InputError(f"{name} of {source} has shape {value.shape}, which holds nothing: give some numbers")


def assembled(
    parts: Mapping[str, UncheckedPart], loss: str, name: str, source: str, sha256: str, **more: tuple[str, ...]
) -> ArrayData:
    """Return data with these parts, with the loss that was asked for or fits all of them; `more` are other fields."""
    found, reason = _chosen_loss(parts, loss, source)
    made = {part: content.sequences(f"the {part} part of {source}") for part, content in parts.items()}
    first = made["train"]
    for part, other in made.items():
        for role, one, two in zip("xy", first[:2], other[:2], strict=True):
            if one.shape[2:] != two.shape[2:]:
                raise InputError(
                    f"{role} has {_kind(one)} and {PREFIXES[part]}{role} has {_kind(two)} in {source}: give the "
                    "same in both"
                )
    if found == "softmax" and not any(part.targets.any() for part in made.values()):
        raise InputError(f"y of {source} holds only the class 0, so there is nothing to predict: give other classes")
    return ArrayData(name, source, sha256, first, made.get("valid"), made.get("test"), found, reason=reason, **more)


def _kind(values: NDArray[Any]) -> str:
    return "integers" if values.ndim == 2 else counted(values.shape[2], "real value") + " a step"


def _chosen_loss(parts: Mapping[str, UncheckedPart], loss: str, source: str) -> tuple[str, str]:
    """Return the loss that was asked for or fits the targets, and why."""
    if loss == "auto":
        if parts["train"].y.ndim == 2:
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
    arrays: Mapping[str, NDArray[Any]], layout: ArrayFormat, fractions: Sequence[float] | None
) -> dict[str, UncheckedPart]:
    """Return the parts of arrays of sequences."""
    given = [part for part, prefix in PREFIXES.items() if any(prefix + role in arrays for role in ROLES)]
    for part in given:
        for role in ("x", "y"):
            if PREFIXES[part] + role not in arrays:
                raise InputError(f"{layout.source} has no array {PREFIXES[part]}{role}: each part needs x and y")
    parts = {
        part: arranged({role: arrays.get(PREFIXES[part] + role) for role in ROLES}, PREFIXES[part], layout)
        for part in given
    }
    if given == ["train"]:
        whole = parts["train"]
        edges = part_ranges(whole.x.shape[1], fractions, layout.source, "sequence")
        return {name: whole.columns(start, stop) for name, (start, stop) in edges.items() if stop > start}
    if fractions is not None:
        raise InputError(Message("{0} has arrays for its {1} part: leave {fractions} out", layout.source, given[-1]))
    return parts
