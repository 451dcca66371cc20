"""Wrong names and odd recordings in files of arrays: one sentence, exit code 2, nothing written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.array_files import N, T, good, npz, refuse

RECORDING = {name: values[0] for name, values in good().items()}
WINDOW = ["--window", "4"]
CASES: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "another name": ({}, ["--inputs", "u"], "--inputs has 'u', and"),
    "other targets": ({}, ["--targets", "z"], "--targets has 'z', and"),
    "another mask": ({}, ["--mask", "z"], "--mask has 'z', and"),
    "other names for validation": ({}, ["--valid-inputs", "z"], "--valid-inputs has 'z', and"),
    "a file that is not there": ({}, ["--test", "nowhere.npz"], "there is no file"),
    "validation twice": (
        {"valid_x": good()["x"], "valid_y": good()["y"]}, ["--valid", "bad.npz"], "has valid_x itself: leave one",
    ),
    "rows without a window": ({}, ["--rows", "0:3"], "--rows was given, and --window was not"),
    "rows beyond the end": (RECORDING, [*WINDOW, "--rows", "9:"], "--rows leaves nothing of"),
    "rows that are none": (RECORDING, [*WINDOW, "--rows", "a:b"], "give A:B with A below B"),
    "no rows to validate on": (RECORDING, [*WINDOW, "--valid-rows", "9:"], "--valid-rows leaves nothing of"),
    "mask of sequences": ({**RECORDING, "mask": np.ones((N, T))}, WINDOW, "has shape (6, 8), and the targets (8, 1)"),
    "weights": ({**RECORDING, "mask": np.full(T, 0.5)}, WINDOW, "holds other numbers than 0 and 1"),
    "lengths": ({**RECORDING, "lengths": np.ones(1)}, WINDOW, "lengths is for separate sequences"),
    "no known target": ({**RECORDING, "y": np.full(T, np.nan)}, WINDOW, "has no target that is scored"),
    "unequal columns": (
        {"a": np.ones((N, T)), "b": np.ones((N, T + 1))}, ["--inputs", "a,b"], "have shapes (6, 8) and (6, 9)",
    ),
    "text": ({"a": np.array(["a", "b"])}, ["--inputs", "a"], "a is an array of <U1: numbers are needed"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_arrays_that_cannot_be_chosen_are_refused(case: str) -> None:
    changes, flags, words = CASES[case]
    assert words in refuse("bad.npz", npz(good(**changes)), *flags)


def test_several_files_of_one_array_are_refused() -> None:
    assert "the targets of a .npy file are in another one" in refuse("x.npy", b"x", "--data", "y.npy", "--targets", "z")
