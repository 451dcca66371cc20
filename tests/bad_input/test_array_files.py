"""Damaged and odd files of arrays and tables: one sentence, exit code 2, nothing written, and no pickle is loaded."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.array_files import (
    FLAGS,
    PACKED,
    PIECES,
    ROLL,
    ROWS,
    TABLE,
    N,
    T,
    archive,
    cells,
    described,
    good,
    header,
    mat,
    npy,
    npz,
    refuse,
    trap,
)  # fmt: skip
from support.damage import a_handful
from support.refusals import refused

X, Y = good()["x"], good()["y"]
CLASSES = np.zeros((N, T), dtype=int)


def nan_at(array: Any, *places: tuple[int, ...], value: float = np.nan) -> Any:
    found = np.array(array, dtype=float)
    for place in places:
        found[place] = value
    return found


@pytest.fixture(autouse=True)
def no_trap() -> Iterator[None]:
    yield
    assert not Path("trapped").exists(), "a pickle was loaded"


ARRAYS: dict[str, tuple[dict[str, Any], str]] = {  # changes of good arrays, and words of the sentence
    "no x": ({"x": None}, "has no array x: it holds y"),
    "valid without targets": ({"valid_x": X}, "has no array valid_y"),
    "x of objects": ({"x": np.array([[1, "a"], [None, {}]], dtype=object)}, "holds Python objects"),
    "y of objects": ({"y": np.array([np.zeros(3), np.zeros(4)], dtype=object)}, "Python objects, which are never"),
    "dates": ({"x": np.zeros((N, T, 1), dtype="M8[s]")}, "datetime64"),
    "records": ({"x": np.zeros((N, T), dtype=[("a", "f8"), ("b", "f8")])}, "records"),
    "void": ({"x": np.zeros((N, T, 1), dtype="V8")}, "values of type"),
    "scalar x": ({"x": np.float64(1)}, "has shape ()"),
    "vector x": ({"x": np.zeros(N)}, "has shape (6,): give (sequences, steps, n_in)"),
    "real matrix x": ({"x": X[:, :, 0]}, "or --window if it is one recording"),
    "fewer sequences in y": ({"y": Y[1:]}, "y of bad.npz has shape (5, 8, 1), and x begins with (6, 8)"),
    "time first": ({"y": Y.swapaxes(0, 1)}, "has shape (8, 6, 1)"),
    "more classes than steps": ({"y": np.zeros((N, T + 1), dtype=int)}, "of classes that agree"),
    "which axis": ({"y": Y[:, :, 0]}, "may be one value at each of 8 steps or 8 values at the last step"),
    "mask of other steps": ({"mask": np.ones((N, T - 1))}, "does not agree with x and y"),
    "mask of outputs": ({"mask": np.ones((N, T, 3))}, "does not agree"),
    "mask of last targets": ({"y": Y[:, -1], "mask": np.ones((N, T))}, "leave the mask out"),
    "mask of zeros": ({"mask": np.zeros((N, T))}, "its mask is 0 at all of them"),
    "mask in the padding": (
        {"mask": np.pad(np.ones((N, 2)), ((0, 0), (6, 0))), "lengths": np.full(N, 6)}, "its mask is 0",
    ),
    "negative mask": ({"mask": -np.ones((N, T))}, "mask of bad.npz holds a negative number, NaN or infinity"),
    "lengths of zero": ({"lengths": np.zeros(N, dtype=int)}, "lengths of bad.npz holds 0: give whole numbers from 1"),
    "long lengths": ({"lengths": np.array([8, 8, 9, 8, 8, 8])}, "holds 9: give whole numbers from 1 to 8"),
    "huge lengths": ({"lengths": np.full(N, 2**63, dtype=np.uint64)}, "from 1 to 8"),
    "lengths of bits": ({"lengths": np.ones(N, dtype=bool)}, "give whole numbers"),
    "fewer lengths": ({"lengths": np.full(N - 1, 3)}, "has shape (5,), and there are 6 sequences"),
    "NaN in x": ({"x": nan_at(X, (2, 5, 1))}, "x holds NaN at step 5 of sequence 2, entry 1 (counted from 0)"),
    "infinity in x": ({"x": nan_at(X, (2, 5, 1), value=np.inf)}, "x holds an infinity"),
    "huge x": ({"x": X * 1e300}, "at most 1e+15 in size"),
    "NaN in y": ({"y": nan_at(Y, (1, 2, 0))}, "y holds NaN at step 2 of sequence 1"),
    "NaN in all y": ({"y": np.full_like(Y, np.nan)}, "or a mask that is 0 there"),
    "infinity in y": ({"y": nan_at(Y, (1, 2, 0), value=np.inf)}, "y holds an infinity"),
    "negative symbols": ({"x": np.full((N, T), -1)}, "x holds -1 at step 0 of sequence 0"),
    "huge symbols": ({"x": np.full((N, T), 2**40)}, "symbols and classes count from 0"),
    "many symbols": ({"x": np.full((N, T), 2**31 - 2)}, "x of bad.npz holds 2,147,483,646, and has only 48 symbols"),
    "a name of two lines": ({"x": None, "a\nb": X}, "has no array x: it holds "),
    "negative classes": ({"y": CLASSES - 1}, "y holds -1"),
    "one class": ({"y": CLASSES}, "holds only the class 0, so there is nothing to predict"),
    "other inputs in valid": ({"valid_x": X[:, :, :1], "valid_y": Y}, "x has 2 real values a step and valid_x has 1"),
    "negative lengths of valid": ({"valid_x": X, "valid_y": Y, "valid_lengths": -np.ones(N)}, "valid_lengths"),
}  # fmt: skip


@pytest.mark.parametrize("case", a_handful(ARRAYS))
def test_arrays_that_do_not_fit_are_refused(case: str) -> None:
    changes, words = ARRAYS[case]
    content = npz(good(**changes), pack=len(case) % 2 == 0)
    assert words in refuse("bad.npz", content).replace(f"{os.getcwd()}/", "")


OPTIONS: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "softmax of halves": ({"y": CLASSES + 0.5}, ["--loss", "softmax"], "numbers that are no classes"),
    "softmax of real values": ({}, ["--loss", "softmax"], "are no probabilities"),
    "logistic beyond 1": ({}, ["--loss", "logistic"], "targets outside 0 to 1"),
    "parts twice": ({"valid_x": X, "valid_y": Y}, ["--fractions", "0.5,0.5,0"], "leave --fractions out"),
    "too many parts": ({"x": X[:2], "y": Y[:2]}, ["--fractions", "0.4,0.3,0.3"], "too few for these --fractions"),
    "window of sequences": ({}, ["--window", "4"], "give one recording (steps, n)"),
    "window and time first": ({"x": X[0], "y": Y[0]}, ["--window", "4", "--time-first"], "--time-first is for"),
    "long window": ({"x": X[0], "y": Y[0]}, ["--window", "9"], "give a smaller --window"),
    "long burn-in": ({"x": X[0], "y": Y[0]}, ["--window", "4", "--burn-in", "4"], "give a --burn-in below --window"),
    "two recordings": ({"x": X[0], "y": Y[0, 1:]}, ["--window", "4"], "x has 8 steps and y 7"),
    "a number for a recording": ({"x": np.float64(1), "y": Y[0]}, ["--window", "4"], "bad.npz is a single number"),
    "a number for targets": ({"x": X[0], "y": np.float64(1)}, ["--window", "4"], "bad.npz is a single number"),
    "NaN in a recording": ({"x": nan_at(X[0], (3, 1)), "y": Y[0]}, ["--window", "4"], "holds nan at step 3, entry 1"),
    "sequence length": ({}, ["--sequence-length", "5"], "it is for a text"),
}


@pytest.mark.parametrize("case", a_handful(OPTIONS))
def test_options_that_do_not_fit_the_arrays_are_refused(case: str) -> None:
    changes, more, words = OPTIONS[case]
    assert words in refuse("bad.npz", npz(good(**changes)), *more)


def in_zip(content: bytes) -> bytes:
    return archive({"x.npy": content, "y.npy": npy(Y)})


HEADERS: dict[str, bytes] = {
    "huge shape": header(described(f"({2**62}, {2**62})")),
    "negative shape": header(described("(-6, 8, -2)")),
    "more than there is": header(described("(600, 8, 2)"), data=b"\0" * 768),
    "shape of a string": header(described("'6'")),
    "type of None": header(described("(6, 8, 2)", "None")),
    "no dictionary": header("[1, 2, 3]\n"),
    "a call": header("__import__('os').mkdir('trapped')\n"),
    "deep brackets": header("(" * 5000 + ")" * 5000),
    "a long header": header(described("(6, 8, 2)") + " " * 60_000),
    "odd type": header(described("(6, 8, 2)", "'<q9'")),
    "objects": header(described("(6,)", "'|O'"), data=trap()),
    "order of a number": header(described("(6, 8, 2)", order="7")),
    "second version": header(described(f"({2**50}, 8, 2)"), b"\x02\x00"),
    "a pickle": trap(),
}
"""Contents of a .npy file, or of a member of a .npz file."""


@pytest.mark.parametrize("case", a_handful(HEADERS))
def test_damaged_arrays_are_refused(case: str) -> None:
    assert "x of" in (found := refuse("bad.npz", in_zip(HEADERS[case]))) or "cannot be read as a .npz file" in found
    Path("y.npy").write_bytes(npy(Y))
    try:
        assert "bad.npy" in refuse("bad.npy", HEADERS[case], "--targets", "y.npy")
    finally:
        Path("y.npy").unlink()


MEMBER = archive({"x.npy": npy(X), "y.npy": npy(Y)})
ZIPS: dict[str, bytes] = {
    "empty zip": archive({}),
    "a folder": archive({"x.npy/": b"", "y.npy": npy(Y)}),
    "two x": MEMBER.replace(b"y.npy", b"x.npy"),
    "bzip2": archive({"x.npy": npy(X), "y.npy": npy(Y)}, zipfile.ZIP_BZIP2),
    "bomb": archive({"x.npy": header(described(f"({2**26}, 8, 2)")) + bytes(2**20), "y.npy": npy(Y)},
                    zipfile.ZIP_DEFLATED),
    "encrypted": MEMBER.replace(b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00"),
    "unknown method": MEMBER.replace(b"\x14\x00\x00\x00\x00\x00", b"\x14\x00\x00\x00\x63\x00"),
    "cut": MEMBER[: len(MEMBER) // 2],
    "wrong checksum": MEMBER.replace(X.tobytes()[:8], b"\1" * 8),
    "a pickle": trap(),
    "a mat file": mat(good()),
}  # fmt: skip


@pytest.mark.parametrize("case", a_handful(ZIPS))
def test_damaged_archives_are_refused(case: str) -> None:
    assert "bad.npz" in refuse("bad.npz", ZIPS[case])


MAT = mat(good())
MATS: dict[str, bytes] = {
    "version 7.3": b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(126) + b"IM" + b"\0" * 500,
    "no x": mat({"y": Y}),
    "a cell": mat(good(x=np.array([X[0], X[1]], dtype=object))),
    "sparse": mat(good(x=__import__("scipy.sparse").sparse.eye(6).tocsc())),
    "empty": mat(good(x=np.zeros((0, 0)))),
    "cut": MAT[:300],
    "header only": MAT[:128],
    "huge element": MAT[:132] + b"\xff\xff\xff\x7f" + MAT[136:],
    "bomb": mat({"x": np.zeros((2**9, 2**10)), "y": Y}, do_compression=True)[:200],
}


@pytest.mark.parametrize("case", a_handful(MATS))
def test_damaged_files_of_matlab_are_refused(case: str) -> None:
    sentence = refuse("bad.mat", MATS[case])
    assert "bad.mat" in sentence or sentence.endswith("numbers are needed")


@pytest.mark.parametrize("suffix", a_handful(["npz", "npy", "mat", "csv"]))
def test_what_is_no_regular_file_is_refused(suffix: str) -> None:
    more = ["--targets", "y.npy"] if suffix == "npy" else TABLE if suffix in ("csv", "tsv") else []
    assert "there is no file" in refused("train", "--data", f"nowhere.{suffix}", *FLAGS, *more)
    for make in (os.mkdir, os.mkfifo, lambda path: os.symlink("/dev/zero", path), lambda path: os.symlink(path, path)):
        make(f"odd.{suffix}")
        try:
            words = "the folder holds no table" if more == TABLE and make is os.mkdir else "cannot be read"
            assert words in refused("train", "--data", f"odd.{suffix}", *FLAGS, *more)
        finally:
            os.rmdir(f"odd.{suffix}") if os.path.isdir(f"odd.{suffix}") else os.unlink(f"odd.{suffix}")


@pytest.mark.parametrize("name", ["some.TSV", "some.npz"])
def test_a_table_or_an_array_as_text_is_answered_with_the_option(name: str) -> None:
    Path(name).write_text(ROWS)
    try:
        for more in ([], ["--dry-run"]):
            assert re.search(rf"{name} is an? .*, not a text: give it as --data", refused("train", name, *FLAGS, *more))
    finally:
        Path(name).unlink()


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
