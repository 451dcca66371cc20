"""Files of arrays (.npz, .npy, .mat, .h5): sequences of numbers or symbols, or recordings; or piano rolls."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hfrnn.choices import ARRAY_FILES
from hfrnn.data.kinds.data_kind import DataKind, Reading, Shown, refuse
from hfrnn.data.kinds.number_sequences import (
    CLOSED_LOOP,
    CUT,
    DIVIDED,
    EACH_STATE,
    INPUTS,
    LOSS,
    OF_PARTS,
    OTHER_PARTS,
    ROWS,
    STANDARDIZE,
    TARGETS,
    TEST,
    VALID,
    NumberSequences,
    first_states,
    one_or_all,
    parts_of_their_own,
    reading_of,
    recording,
    slice_of,
    split_of,
    windows_of,
)
from hfrnn.errors import InputError, Message
from hfrnn.option import Option, argument, listed

if TYPE_CHECKING:
    from hfrnn.data.array_data import Files
    from hfrnn.data.held import Content
    from hfrnn.data.named_arrays import ArrayNames

TIME_FIRST = Option(
    "time_first", bool, False, "Arrays are (steps, sequences, ...) instead of (sequences, steps, ...).", group="Data"
)
MASK = Option(
    "mask", str, None, "Array of a file with weights of the targets, 0 where nothing is scored.", group="Data",
    otherwise="the array mask of a file",
)  # fmt: skip


class ArrayFile(NumberSequences):
    """The arrays x, y, mask and lengths of files and those of their parts, or arrays by other names."""

    about = "an array file"
    suffixes = reads = ARRAY_FILES
    options = (
        *DIVIDED, INPUTS, TARGETS, MASK, EACH_STATE, *CUT, TIME_FIRST, LOSS, STANDARDIZE, *CLOSED_LOOP, VALID, TEST,
        ROWS, *OF_PARTS
    )  # fmt: skip
    several = True
    names_columns = True

    @classmethod
    def resolved(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        found = super().resolved({**options, "data": ""})
        for name in ("data", *OTHER_PARTS):
            found[name] = one_or_all([*map(os.path.abspath, listed(options[name]))])
            targets = options[_targets_of(name)]
            if targets is not None and _are_pairs(listed(options[name] or options["data"])):
                found[_targets_of(name)] = (os.path.abspath(",".join(targets)),)
        return found

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[str | os.PathLike[str]]:
        found: list[str | os.PathLike[str]] = []
        for name in ("data", *OTHER_PARTS):
            paths = listed(options[name])
            found += [*paths, *(options[_targets_of(name)] or () if _are_pairs(paths) else ())]
        return found

    @classmethod
    def open(cls, options: Mapping[str, Any], given: Any = None) -> DataKind:
        """Read the arrays of files. A file of piano rolls opens as music."""
        from hfrnn.data.array_data import load_files
        from hfrnn.data.kinds.music import Music
        from hfrnn.data.music import load_rolls

        paths = listed(options["data"])
        rolls = load_rolls(paths[0]) if len(paths) == 1 and options["inputs"] is None else None
        if rolls is not None:
            refuse(options, cls.options, f"{options['data']} holds piano rolls")
            return Music(rolls)
        _check_rows(options)
        return cls(options, load_files(
            parts_of(options), time_first=options["time_first"], fractions=options["fractions"], loss=options["loss"],
            windows=None if options["window"] is None else windows_of(options), split=split_of(options),
        ))  # fmt: skip

    @property
    def checksums(self) -> dict[str, str]:
        """The checksums of the data and of each of several files, and the first class if it is not 0."""
        files, first = self.data.files, self.data.first_class
        return {
            **super().checksums,
            **({"files_sha256": " ".join(files)} if len(files) > 1 else {}),
            **({"first_class": str(first)} if first else {}),
        }

    @classmethod
    def shown(cls, path: str) -> Shown:
        from hfrnn.data.array_choice import suggested
        from hfrnn.data.music import holds_rolls
        from hfrnn.data.named_arrays import open_holding

        holding = open_holding(path)
        rows = tuple((held.name, held.shape, held.what) for held in holding.held)
        return Shown(holding.about, rows, {} if holds_rolls(path) else suggested(holding))

    @classmethod
    def read_file(cls, options: Mapping[str, Any], path: str, n_out: int, loss: str) -> Reading:
        return read_arrays(options, path, n_out, loss)


def _targets_of(name: str) -> str:
    return "targets" if name == "data" else f"{name}_targets"


def _are_pairs(paths: Sequence[str]) -> bool:
    """Return whether the targets of some files are in a file of their own."""
    return bool(paths) and paths[0].lower().endswith(".npy")


def _check_rows(options: Mapping[str, Any]) -> None:
    """Raise InputError if rows of a recording were asked for, but the arrays hold sequences."""
    name = next((each for each in ("rows", "valid_rows", "test_rows") if options[each] is not None), None)
    if name is not None and options["window"] is None:
        raise InputError(Message(
            f"{argument(name)} was given, and {{window}} was not: rows are those of a recording that {{window}} cuts"
        ))  # fmt: skip


def parts_of(options: Mapping[str, Any]) -> dict[str, Files]:
    """Return the files of each part that has files, names or rows of its own."""
    from hfrnn.data.array_data import Files

    paths = listed(options["data"])
    for name in ("data", *OTHER_PARTS):
        if _are_pairs(given := listed(options[name])) and len(given) > 1:
            raise InputError(Message(
                f"{argument(name)} names {{0}} and {{1}}, and the targets of a .npy file are in another one: give one",
                *given[:2],
            ))  # fmt: skip
    found = {"train": Files(paths, names_of(options), slice_of(options["rows"], "rows"))}
    for part in parts_of_their_own(options):
        rows = slice_of(options[f"{part}_rows"], f"{part}_rows")
        found[part] = Files(listed(options[part]) or paths, names_of(options, part), rows)
    return found


def names_of(options: Mapping[str, Any], part: str = "") -> ArrayNames:
    """Return the names of the arrays of a part; by default they are those for training."""
    from hfrnn.data.named_arrays import ArrayNames

    own = {name: options.get(f"{part}_{name}") if part else None for name in ("inputs", "targets")}
    pairs = part and _are_pairs(listed(options[part]))
    inputs, targets = (each or (None if pairs else options.get(name)) for name, each in own.items())
    by_role = {"inputs": ("x",), "targets": ("y",)}
    differ = any(each and tuple(each) != tuple(options.get(name) or by_role[name]) for name, each in own.items())
    return ArrayNames(inputs, targets, options.get("mask"), part if differ or pairs else "")


def read_arrays(options: Mapping[str, Any], path: str, n_out: int, loss: str) -> Reading:
    """Return the sequences, or the recordings, of a file of arrays. Of its parts, only that for training is read.

    With the option `trials`, an array with the steps of one trial is a list of that trial.
    """
    import numpy as np

    from hfrnn.data.array_parts import Piece, check_filled, piece_signals
    from hfrnn.data.array_shapes import ArrayFormat, arranged
    from hfrnn.data.named_arrays import ROLES, holds_trials, read_file_arrays, together
    from hfrnn.data.windows import two_axes

    _check_rows({**options, "valid_rows": None, "test_rows": None})
    names, recorded, name = names_of(options), options["window"] is not None, Path(path).name
    if path.lower().endswith(".npy") or _are_pairs(listed(options["data"])):
        names = type(names)()
    file = read_file_arrays(path, names, recorded)
    if "x" not in file.content:
        raise InputError(file.lacks["x"])
    lacks = next((file.lacks[role] for role in ("y", "mask") if role in file.lacks), None)
    note: str | Message = "" if lacks is None else _no_targets(lacks, name, names.chosen or "y" in file.content)
    if recorded:
        found, states, burn_in = [], [], options["burn_in"] or 0
        for each in piece_signals(Piece("train", file, ""), slice_of(options["rows"], "rows"))[0]:
            x, y = two_axes(each.inputs, "x", path), None
            if not note:
                missing = each.missing
                y = two_axes(each.targets if missing is None else np.where(missing, 0, each.targets), "y", path)
            found.append(recording(x, y, each.missing, 0, burn_in))
            states.append(each.states)
        return reading_of(name, found, note=note, burn_in=burn_in, initial_state=first_states(states))
    if options.get("trials") and not isinstance(file.content["x"], list) and file.content["x"].ndim < 3:
        alone: dict[str, Content] = {
            role: each if isinstance(each, list) else each.reshape(1, -1) if role == "initial_state" else [each]
            for role, each in file.content.items()
        }
        file = file._replace(content=alone)
    classes = loss == "softmax"
    arrays, _ = together(file, "")
    if note:
        kept: dict[str, Content] = {
            role: each for role, each in arrays.items() if role in ("x", "lengths", "initial_state")
        }
        kind: type = np.int64 if classes else np.float64
        given, width = kept["x"], () if classes else (n_out,)
        if isinstance(given, list):
            arrays = {**kept, "y": [np.zeros((len(each), *width), kind) for each in given]}
        else:
            arrays = {**kept, "y": np.zeros((*given.shape[:2], *width), kind)}
    check_filled(arrays, path)
    layout = ArrayFormat(path, options["time_first"] and not holds_trials(file, ""), file.matlab, loss)
    part = arranged({role: arrays.get(role) for role in ROLES}, "", layout)
    x, y, weights, lengths = part.sequences(path)  # padded: so are the predictions
    y, weights = (None, None) if note else (y, weights)
    return Reading(name, x, y, weights, lengths, note=note, initial_state=part.states)


def _no_targets(lacks: Message, name: str, chosen: bool) -> str | Message:
    """Return why a file has no targets."""
    return Message("{0}", lacks) if chosen else f"{name} has no array y"
