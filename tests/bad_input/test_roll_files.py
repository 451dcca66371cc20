"""Damaged and odd files of piano rolls: one sentence, exit code 2, and nothing written."""

from __future__ import annotations

import os

import numpy as np
import pytest
from support.array_files import PACKED, PIECES, ROLL, cells, mat, npz, refuse
from support.damage import a_handful

ROLLS: dict[str, tuple[str, bytes, list[str], str]] = {
    "no test part": ("r.mat", mat({**PIECES, "testdata": []}), [], "testdata of r.mat is no cell array"),
    "one part": ("r.mat", mat({"traindata": cells(ROLL)}), [], "has no validdata, testdata: give all three parts"),
    "other keys": ("r.mat", mat({**PIECES, "validdata": cells(ROLL[:, 1:])}), [], "piece of shape (3, 87)"),
    "cells in cells": ("r.mat", mat({**PIECES, "validdata": cells(cells(ROLL))}), [], "holds a piece of shape"),
    "loud": ("r.mat", mat({**PIECES, "validdata": cells(ROLL * 3)}), [], "numbers other than 0 and 1"),
    "packed without a part": ("r.npz", npz({"train_packed": PACKED["train_packed"]}), [], "has no train_lengths"),
    "packed in real numbers": ("r.npz", npz({**PACKED, "test_packed": ROLL * 1.0}), [], "expected uint8 (steps, 11)"),
    "other lengths": ("r.npz", npz({**PACKED, "test_lengths": np.array([1, 1])}), [], "sum to 2, but there are 3"),
    "scaled": ("r.mat", mat(PIECES), ["--standardize"], "holds piano rolls"),
}  # fmt: skip


@pytest.mark.parametrize("case", a_handful(ROLLS))
def test_damaged_piano_rolls_are_refused(case: str) -> None:
    name, content, more, words = ROLLS[case]
    assert words in refuse(name, content, *more).replace(f"{os.getcwd()}/", "")
