"""Damaged and odd files of piano rolls: one sentence, exit code 2, and nothing written."""

from __future__ import annotations

import os

import numpy as np
import pytest
from support.array_files import PACKED, PIECES, ROLL, cells, mat, npz, refuse

ROLLS: dict[str, tuple[str, bytes, list[str], str]] = {
    "no test part": ("r.mat", mat({**PIECES, "testdata": []}), [], "testdata of r.mat is no cell array"),
    "one part": ("r.mat", mat({"traindata": cells(ROLL)}), [], "has no validdata, testdata: give all three parts"),
    "a matrix": ("r.mat", mat({**PIECES, "traindata": ROLL}), [], "traindata of r.mat is no cell array"),
    "no pieces": ("r.mat", mat({**PIECES, "traindata": cells()}), [], "no cell array with pieces"),
    "other keys": ("r.mat", mat({**PIECES, "validdata": cells(ROLL[:, 1:])}), [], "piece of shape (3, 87)"),
    "no steps": ("r.mat", mat({**PIECES, "validdata": cells(ROLL, ROLL[:0])}), [], "piece of shape (0, 88)"),
    "words": ("r.mat", mat({**PIECES, "validdata": cells(ROLL, "la la la")}), [], "holds a piece of shape"),
    "cells in cells": ("r.mat", mat({**PIECES, "validdata": cells(cells(ROLL))}), [], "holds a piece of shape"),
    "loud": ("r.mat", mat({**PIECES, "validdata": cells(ROLL * 3)}), [], "numbers other than 0 and 1"),
    "NaN": ("r.mat", mat({**PIECES, "validdata": cells(ROLL * np.nan)}), [], "numbers other than 0 and 1"),
    "packed without lengths": ("r.npz", npz({**PACKED, "test_lengths": np.zeros(0)}), [], "test_lengths"),
    "packed without a part": ("r.npz", npz({"train_packed": PACKED["train_packed"]}), [], "has no train_lengths"),
    "packed in real numbers": ("r.npz", npz({**PACKED, "test_packed": ROLL * 1.0}), [], "expected uint8 (steps, 11)"),
    "other lengths": ("r.npz", npz({**PACKED, "test_lengths": np.array([1, 1])}), [], "sum to 2, but there are 3"),
    "scaled": ("r.mat", mat(PIECES), ["--standardize"], "holds piano rolls"),
    "windows": ("r.mat", mat(PIECES), ["--window", "4"], "holds piano rolls"),
    "fractions": ("r.npz", npz(PACKED), ["--fractions", "0.5,0.5,0"], "holds piano rolls"),
}  # fmt: skip


@pytest.mark.parametrize("case", ROLLS)
def test_damaged_piano_rolls_are_refused(case: str) -> None:
    name, content, more, words = ROLLS[case]
    assert words in refuse(name, content, *more).replace(f"{os.getcwd()}/", "")
