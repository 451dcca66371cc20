"""A file of arrays (.npz, .npy, .mat): sequences of numbers or symbols, or one recording; or piano rolls."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hfrnn.data.kinds.data_kind import DataKind, Reading, refuse
from hfrnn.data.kinds.number_sequences import CUT, FRACTIONS, LOSS, STANDARDIZE, TARGETS, NumberSequences, recording
from hfrnn.errors import InputError
from hfrnn.option import Option

if TYPE_CHECKING:
    from hfrnn.data.windows import Windows

SUFFIXES = (".npz", ".npy", ".mat")
TIME_FIRST = Option(
    "time_first", bool, False, "Arrays are (steps, sequences, ...) instead of (sequences, steps, ...).", group="Data"
)


class ArrayFile(NumberSequences):
    """The arrays x, y, mask and lengths of a file, and those of its parts."""

    about = "an array file"
    suffixes = reads = SUFFIXES
    options = (FRACTIONS, TARGETS, *CUT, TIME_FIRST, LOSS, STANDARDIZE)

    @classmethod
    def resolved(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        targets = options["targets"]
        named = {} if targets is None else {"targets": (os.path.abspath(",".join(targets)),)}
        return {**super().resolved(options), **named}

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[str | os.PathLike[str]]:
        pair = options["targets"] if str(options["data"]).lower().endswith(".npy") else None
        return [str(options["data"]), *(pair or ())]

    @classmethod
    def open(cls, options: Mapping[str, Any], given: Any = None) -> DataKind:
        """Read the arrays of a file. A file of piano rolls opens as music."""
        from hfrnn.data.array_data import load_arrays
        from hfrnn.data.kinds.music import Music
        from hfrnn.data.music import load_rolls

        rolls = load_rolls(options["data"])
        if rolls is not None:
            refuse(options, cls.options, f"{options['data']} holds piano rolls")
            return Music(rolls)
        targets = None if options["targets"] is None else ",".join(options["targets"])
        return cls(options, load_arrays(
            options["data"], targets, time_first=options["time_first"], fractions=options["fractions"],
            loss=options["loss"], windows=windows_of(options),
        ))  # fmt: skip

    @classmethod
    def read_file(cls, options: Mapping[str, Any], path: str, n_out: int, loss: str) -> Reading:
        return read_arrays(options, path, n_out, loss)


def windows_of(options: Mapping[str, Any]) -> Windows | None:
    """Return how to cut one recording in an array; None if the array holds sequences."""
    from hfrnn.data.windows import Windows

    return None if options["window"] is None else Windows(options["window"], options["stride"], options["burn_in"])


def read_arrays(options: Mapping[str, Any], path: str, n_out: int, loss: str) -> Reading:
    """Return the sequences, or the recording, of a file of arrays. Of its parts, only that for training is read."""
    import numpy as np

    from hfrnn.data.array_data import ROLES, check_filled
    from hfrnn.data.array_files import read_array_file
    from hfrnn.data.array_shapes import ArrayFormat, arranged
    from hfrnn.data.windows import as_column, two_axes

    found = read_array_file(path, ROLES.__contains__)
    arrays, name = found.arrays, Path(path).name
    if "x" not in arrays:
        held = ", ".join([*arrays, *found.others]) or "nothing"
        raise InputError(f"{path} has no array x: it holds {held}; name the inputs x")
    note = "" if "y" in arrays else f"{name} has no array y"
    matlab, windows = path.lower().endswith(".mat"), windows_of(options)
    if windows is not None:
        x, *rest = (two_axes(as_column(arrays[role], matlab), role, path) for role in ("x", "y") if role in arrays)
        y = rest[0] if rest else None
        if y is not None and len(x) != len(y):
            raise InputError(f"x has {len(x)} steps and y {len(y)} in {path}: give as many in both")
        burn_in = windows.checked()[2]
        return Reading(name, *recording(x, y, None, 0, burn_in), recording=True, note=note, burn_in=burn_in)
    classes = loss == "softmax"
    if note:
        T_N = arrays["x"].shape[:2]
        arrays = {
            **{role: arrays[role] for role in ("x", "lengths") if role in arrays},
            "y": np.zeros(T_N if classes else (*T_N, n_out), dtype=np.int64 if classes else np.float64),
        }
    check_filled(arrays, path)
    layout = ArrayFormat(path, options["time_first"], matlab, loss)
    part = arranged({role: arrays.get(role) for role in ROLES}, "", layout)
    x, y, weights, lengths = part.sequences(path)  # padded: so are the predictions
    return Reading(name, x, None if note else y, None if note else weights, lengths, note=note)
