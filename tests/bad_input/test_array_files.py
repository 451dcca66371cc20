"""Damaged and odd files of arrays and tables: one sentence, exit code 2, nothing written, and no pickle is loaded."""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.array_files import FLAGS, ROWS, TABLE, N, T, archive, described, good, header, mat, npy, npz, refuse, trap
from support.refusals import call, refused, sentence_of

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
    "no y": ({"y": None}, "has no array y"),
    "nothing": ({"x": None, "y": None}, "has no array x"),
    "another name": ({"x": None, "X": X}, "has no array x"),
    "only valid": ({"x": None, "y": None, "valid_x": X, "valid_y": Y}, "has no array x"),
    "valid without targets": ({"valid_x": X}, "has no array valid_y"),
    "test mask alone": ({"test_mask": np.ones((N, T))}, "has no array test_x"),
    "x of objects": ({"x": np.array([[1, "a"], [None, {}]], dtype=object)}, "holds Python objects"),
    "y of objects": ({"y": np.array([np.zeros(3), np.zeros(4)], dtype=object)}, "Python objects, which are never"),
    "mask of objects": ({"mask": np.array([None] * N)}, "Python objects"),
    "ragged": ({"x": np.array([np.zeros((k, 2)) for k in range(1, 7)], dtype=object)}, "Python objects"),
    "strings": ({"x": np.full((N, T, 1), "a")}, "holds strings"),
    "bytes": ({"y": np.full((N, T, 1), b"a")}, "holds strings"),
    "complex": ({"x": X + 1j}, "complex numbers"),
    "dates": ({"x": np.zeros((N, T, 1), dtype="M8[s]")}, "datetime64"),
    "durations": ({"y": np.zeros((N, T, 1), dtype="m8[s]")}, "timedelta64"),
    "records": ({"x": np.zeros((N, T), dtype=[("a", "f8"), ("b", "f8")])}, "records"),
    "void": ({"x": np.zeros((N, T, 1), dtype="V8")}, "values of type"),
    "scalar x": ({"x": np.float64(1)}, "has shape ()"),
    "scalar y": ({"y": np.float64(1)}, "has shape ()"),
    "vector x": ({"x": np.zeros(N)}, "has shape (6,): give (sequences, steps, n_in)"),
    "real matrix x": ({"x": X[:, :, 0]}, "or --window if it is one recording"),
    "four axes": ({"x": X[None]}, "has shape (1, 6, 8, 2)"),
    "four axes y": ({"y": Y[None]}, "has shape (1, 6, 8, 1)"),
    "empty x": ({"x": np.zeros((0, T, 2))}, "holds nothing"),
    "no steps": ({"x": np.zeros((N, 0, 2))}, "holds nothing"),
    "no inputs": ({"x": np.zeros((N, T, 0))}, "holds nothing"),
    "no outputs": ({"y": np.zeros((N, T, 0))}, "holds nothing"),
    "empty y": ({"y": np.zeros(0)}, "holds nothing"),
    "empty mask": ({"mask": np.zeros((0, T))}, "holds nothing"),
    "fewer sequences in y": ({"y": Y[1:]}, "y of bad.npz has shape (5, 8, 1), and x begins with (6, 8)"),
    "fewer steps in y": ({"y": Y[:, 1:]}, "has shape (6, 7, 1)"),
    "time first": ({"y": Y.swapaxes(0, 1)}, "has shape (8, 6, 1)"),
    "more classes than steps": ({"y": np.zeros((N, T + 1), dtype=int)}, "of classes that agree"),
    "fewer classes": ({"y": np.zeros(N - 1, dtype=int)}, "has shape (5,)"),
    "fewer last targets": ({"y": np.zeros((N - 1, 2))}, "has shape (5, 2)"),
    "which axis": ({"y": Y[:, :, 0]}, "may be one value at each of 8 steps or 8 values at the last step"),
    "mask of sequences": ({"mask": np.ones(N)}, "mask of bad.npz has shape (6,)"),
    "mask of other steps": ({"mask": np.ones((N, T - 1))}, "does not agree with x and y"),
    "mask time first": ({"mask": np.ones((T, N))}, "does not agree"),
    "mask of outputs": ({"mask": np.ones((N, T, 3))}, "does not agree"),
    "mask of outputs of classes": ({"y": CLASSES, "mask": np.ones((N, T, 2))}, "does not agree"),
    "mask of last targets": ({"y": Y[:, -1], "mask": np.ones((N, T))}, "leave the mask out"),
    "mask of zeros": ({"mask": np.zeros((N, T))}, "its mask is 0 at all of them"),
    "mask of False": ({"mask": np.zeros((N, T), dtype=bool)}, "its mask is 0 at all of them"),
    "mask of zeros in a sequence": ({"mask": nan_at(np.ones((N, T)), (3,), value=0)}, "sequence 3 (counted from 0)"),
    "mask of zeros in the last one": ({"mask": nan_at(np.ones((N, T)), (5,), value=0)}, "of the valid part"),
    "mask of outputs of zeros": ({"mask": np.zeros((N, T, 1))}, "its mask is 0 at all of them"),
    "mask in the padding": (
        {"mask": np.pad(np.ones((N, 2)), ((0, 0), (6, 0))), "lengths": np.full(N, 6)}, "its mask is 0",
    ),
    "negative mask": ({"mask": -np.ones((N, T))}, "mask of bad.npz holds a negative number, NaN or infinity"),
    "mask of NaN": ({"mask": np.full((N, T), np.nan)}, "holds a negative number, NaN or infinity"),
    "infinite mask": ({"mask": nan_at(np.ones((N, T)), (0, 0), value=np.inf)}, "NaN or infinity"),
    "lengths of zero": ({"lengths": np.zeros(N, dtype=int)}, "lengths of bad.npz holds 0: give whole numbers from 1"),
    "negative lengths": ({"lengths": np.full(N, -1)}, "holds -1"),
    "long lengths": ({"lengths": np.array([8, 8, 9, 8, 8, 8])}, "holds 9: give whole numbers from 1 to 8"),
    "huge lengths": ({"lengths": np.full(N, 2**63, dtype=np.uint64)}, "from 1 to 8"),
    "lengths of halves": ({"lengths": np.full(N, 1.5)}, "holds 1.5"),
    "lengths of NaN": ({"lengths": np.full(N, np.nan)}, "holds nan"),
    "lengths of bits": ({"lengths": np.ones(N, dtype=bool)}, "give whole numbers"),
    "fewer lengths": ({"lengths": np.full(N - 1, 3)}, "has shape (5,), and there are 6 sequences"),
    "lengths as a matrix": ({"lengths": np.full((N, 1), 3)}, "has shape (6, 1)"),
    "one length": ({"lengths": np.int64(3)}, "has shape ()"),
    "NaN in x": ({"x": nan_at(X, (2, 5, 1))}, "x holds NaN at step 5 of sequence 2, entry 1 (counted from 0)"),
    "infinity in x": ({"x": nan_at(X, (2, 5, 1), value=np.inf)}, "x holds an infinity"),
    "minus infinity in x": ({"x": nan_at(X, (0, 0, 0), value=-np.inf)}, "an infinity"),
    "huge x": ({"x": X * 1e300}, "at most 1e+15 in size"),
    "NaN in the last x": ({"x": nan_at(X, (5, 7, 0))}, "the valid part"),
    "NaN in y": ({"y": nan_at(Y, (1, 2, 0))}, "y holds NaN at step 2 of sequence 1"),
    "NaN in all y": ({"y": np.full_like(Y, np.nan)}, "or a mask that is 0 there"),
    "NaN in y where scored": ({"y": nan_at(Y, (1, 2, 0)), "mask": np.ones((N, T))}, "y holds NaN"),
    "infinity in y": ({"y": nan_at(Y, (1, 2, 0), value=np.inf)}, "y holds an infinity"),
    "huge y": ({"y": nan_at(Y, (1, 2, 0), value=-1e200)}, "y holds -1e+200"),
    "NaN in last targets": ({"y": nan_at(Y[:, -1], (1, 0))}, "y holds NaN"),
    "negative symbols": ({"x": np.full((N, T), -1)}, "x holds -1 at step 0 of sequence 0"),
    "huge symbols": ({"x": np.full((N, T), 2**40)}, "symbols and classes count from 0"),
    "huge unsigned symbols": ({"x": np.full((N, T), 2**64 - 1, dtype=np.uint64)}, "symbols and classes"),
    "many symbols": ({"x": np.full((N, T), 2**31 - 2)}, "--memory is 4GiB"),
    "negative classes": ({"y": CLASSES - 1}, "y holds -1"),
    "huge classes": ({"y": CLASSES + 2**50}, "y holds"),
    "one class": ({"y": CLASSES}, "holds only the class 0, so there is nothing to predict"),
    "many classes": ({"y": CLASSES + 2**31 - 2}, "--memory is 4GiB"),
    "other inputs in valid": ({"valid_x": X[:, :, :1], "valid_y": Y}, "x has 2 real values a step and valid_x has 1"),
    "other outputs in valid": ({"valid_x": X, "valid_y": np.concatenate([Y, Y], 2)}, "valid_y has 2 real values"),
    "symbols in valid": ({"valid_x": CLASSES, "valid_y": Y}, "valid_x has integers"),
    "classes in valid": ({"valid_x": X, "valid_y": CLASSES}, "valid_y has integers"),
    "NaN in valid": ({"valid_x": X * np.nan, "valid_y": Y}, "valid_x holds NaN"),
    "NaN in test": ({"test_x": X, "test_y": Y * np.nan}, "test_y holds NaN"),
    "valid mask of zeros": ({"valid_x": X, "valid_y": Y, "valid_mask": np.zeros((N, T))}, "the valid part"),
    "valid lengths": ({"valid_x": X, "valid_y": Y, "valid_lengths": np.zeros(N)}, "valid_lengths of bad.npz holds 0"),
    "negative lengths of valid": ({"valid_x": X, "valid_y": Y, "valid_lengths": -np.ones(N)}, "valid_lengths"),
}  # fmt: skip


@pytest.mark.parametrize("case", ARRAYS)
@pytest.mark.parametrize("pack", [False, True], ids=["stored", "compressed"])
def test_arrays_that_do_not_fit_are_refused(case: str, pack: bool) -> None:
    changes, words = ARRAYS[case]
    content = npz(good(**changes), pack)
    found = refuse("bad.npz", content).replace(f"{os.getcwd()}/", "")
    assert words in found


OPTIONS: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "softmax of halves": ({"y": CLASSES + 0.5}, ["--loss", "softmax"], "numbers that are no classes"),
    "softmax of real values": ({}, ["--loss", "softmax"], "numbers that are no classes"),
    "softmax of three axes": ({"y": CLASSES[:, :, None]}, ["--loss", "softmax"], "of classes that agree"),
    "softmax of NaN": ({"y": nan_at(CLASSES, (0, 0))}, ["--loss", "softmax"], "y holds -1"),
    "logistic beyond 1": ({}, ["--loss", "logistic"], "targets outside 0 to 1"),
    "logistic classes": ({"y": CLASSES + 2}, ["--loss", "logistic"], "targets outside 0 to 1"),
    "parts twice": ({"valid_x": X, "valid_y": Y}, ["--fractions", "0.5,0.5,0"], "leave --fractions out"),
    "bad fractions": ({}, ["--fractions", "0.5,0.6,0"], "--fractions is 0.5, 0.6, 0: give three numbers"),
    "too many parts": ({"x": X[:2], "y": Y[:2]}, ["--fractions", "0.4,0.3,0.3"], "too few for these --fractions"),
    "window of sequences": ({}, ["--window", "4"], "give one recording (steps, n)"),
    "window and time first": ({"x": X[0], "y": Y[0]}, ["--window", "4", "--time-first"], "--time-first is for"),
    "long window": ({"x": X[0], "y": Y[0]}, ["--window", "9"], "give a smaller --window"),
    "long burn-in": ({"x": X[0], "y": Y[0]}, ["--window", "4", "--burn-in", "4"], "give a --burn-in below --window"),
    "long stride": ({"x": X[0], "y": Y[0]}, ["--window", "4", "--stride", "5"], "give a --stride of at most"),
    "two recordings": ({"x": X[0], "y": Y[0, 1:]}, ["--window", "4"], "x has 8 steps and y 7"),
    "NaN in a recording": ({"x": nan_at(X[0], (3, 1)), "y": Y[0]}, ["--window", "4"], "holds nan at step 3, entry 1"),
    "recording of nothing": ({"x": np.zeros((0, 2)), "y": Y[0]}, ["--window", "4"], "holds nothing"),
    "stride alone": ({}, ["--stride", "3"], "one recording that --window cuts"),
    "ahead": ({}, ["--ahead", "1"], "it is for a table"),
    "sequence length": ({}, ["--sequence-length", "5"], "it is for a text"),
    "level": ({}, ["--level", "word"], "it is for a text"),
    "length": ({}, ["--length", "50"], "it is for a synthetic task"),
    "valid file": ({}, ["--valid", "nowhere.npz"], "there is no file"),
    "online": ({}, ["--optimizer", "online"], "learns from a text"),
    "update every": ({}, ["--optimizer", "adam", "--update-every", "2"], "it is for a text"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_that_do_not_fit_the_arrays_are_refused(case: str) -> None:
    changes, more, words = OPTIONS[case]
    assert words in refuse("bad.npz", npz(good(**changes)), *more)


def in_zip(content: bytes) -> bytes:
    """Return a file whose x is these bytes."""
    return archive({"x.npy": content, "y.npy": npy(Y)})


HEADERS: dict[str, bytes] = {
    "huge shape": header(described(f"({2**62}, {2**62})")),
    "huge axis": header(described(f"({2**40}, 8, 2)")),
    "many digits": header(described(f"({'9' * 4000}, 8, 2)")),
    "negative shape": header(described("(-6, 8, -2)")),
    "more than there is": header(described("(600, 8, 2)"), data=b"\0" * 768),
    "less than an entry": header(described("(6, 8, 2)"), data=b"\0" * 3),
    "shape of a string": header(described("'6'")),
    "shape of floats": header(described("(6.0, 8.0)")),
    "shape of None": header(described("None")),
    "type of None": header(described("(6, 8, 2)", "None")),
    "type of a list": header(described("(6, 8, 2)", "['<f8']")),
    "shape of bits": header(described("(True, True)")),
    "no shape": header("{'descr': '<f8', 'fortran_order': False, }\n"),
    "more keys": header(described("(6, 8, 2)").replace("}", "'more': 1}")),
    "no dictionary": header("[1, 2, 3]\n"),
    "a call": header("__import__('os').mkdir('trapped')\n"),
    "an open bracket": header("{" * 50),
    "deep brackets": header("(" * 5000 + ")" * 5000),
    "deep minus": header("-" * 9000 + "1"),
    "a long header": header(described("(6, 8, 2)") + " " * 60_000),
    "odd type": header(described("(6, 8, 2)", "'<q9'")),
    "type of a call": header(described("(6, 8, 2)", "[('a', 'O')]")),
    "objects": header(described("(6,)", "'|O'"), data=trap()),
    "empty type": header(described("(6, 8, 2)", "'V0'")),
    "zero strings": header(described("(6, 8, 2)", "'S0'")),
    "order of a number": header(described("(6, 8, 2)", order="7")),
    "not closed": header("{'descr': '<f8', 'shape': (6,"),
    "zeros": header("\0" * 100),
    "other version": header(described("(6, 8, 2)"), b"\x03\x00", X.tobytes()),
    "unknown version": header(described("(6, 8, 2)"), b"\x09\x00", X.tobytes()),
    "second version": header(described(f"({2**50}, 8, 2)"), b"\x02\x00"),
    "no header": b"\x93NUMPY\x01\x00",
    "half a magic": b"\x93NUM",
    "no magic": b"hello",
    "nothing": b"",
    "a pickle": trap(),
    "a text": b"1 2 3\n4 5 6\n",
}
"""Contents of a .npy file, or of a member of a .npz file."""


@pytest.mark.parametrize("case", HEADERS)
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
    "no arrays": archive({"notes.txt": b"dear diary"}),
    "a folder": archive({"x.npy/": b"", "y.npy": npy(Y)}),
    "two x": MEMBER.replace(b"y.npy", b"x.npy"),
    "bzip2": archive({"x.npy": npy(X), "y.npy": npy(Y)}, zipfile.ZIP_BZIP2),
    "lzma": archive({"x.npy": npy(X), "y.npy": npy(Y)}, zipfile.ZIP_LZMA),
    "bomb": archive({"x.npy": header(described(f"({2**26}, 8, 2)")) + bytes(2**20), "y.npy": npy(Y)},
                    zipfile.ZIP_DEFLATED),
    "encrypted": MEMBER.replace(b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00"),
    "unknown method": MEMBER.replace(b"\x14\x00\x00\x00\x00\x00", b"\x14\x00\x00\x00\x63\x00"),
    "cut": MEMBER[: len(MEMBER) // 2],
    "without its end": MEMBER[:-22],
    "only its end": MEMBER[-22:],
    "wrong checksum": MEMBER.replace(X.tobytes()[:8], b"\1" * 8),
    "other magic": b"XX" + MEMBER[2:],
    "a text": ROWS.encode(),
    "a pickle": trap(),
    "an array": npy(X),
    "a pickled array": npy(np.array([1, None], dtype=object)),
    "a mat file": mat(good()),
    "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("case", ZIPS)
def test_damaged_archives_are_refused(case: str) -> None:
    assert "bad.npz" in refuse("bad.npz", ZIPS[case])


MAT = mat(good())
MATS: dict[str, bytes] = {
    "version 7.3": b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(126) + b"IM" + b"\0" * 500,
    "hdf5": b"\x89HDF\r\n\x1a\n" + b"\0" * 500,
    "no x": mat({"y": Y}),
    "no y": mat({"x": X}),
    "nothing in it": mat({}),
    "a cell": mat(good(x=np.array([X[0], X[1]], dtype=object))),
    "a struct": mat(good(x={"a": X})),
    "characters": mat(good(x="hello")),
    "sparse": mat(good(x=__import__("scipy.sparse").sparse.eye(6).tocsc())),
    "complex": mat(good(x=X + 1j)),
    "NaN": mat(good(x=nan_at(X, (0, 0, 0)))),
    "other shapes": mat(good(y=Y[:, 1:])),
    "three lengths": mat(good(lengths=np.ones(3))),
    "mask of zeros": mat(good(mask=np.zeros((N, T)))),
    "empty": mat(good(x=np.zeros((0, 0)))),
    "version 4": mat({"x": np.zeros((6, 8)), "y": np.zeros((5, 3))}, format="4"),
    "cut": MAT[:300],
    "cut in a header": MAT[:140],
    "header only": MAT[:128],
    "half a header": MAT[:60],
    "nothing": b"",
    "zeros": b"\0" * 500,
    "ones": b"\xff" * 500,
    "a pickle": trap(),
    "a text": ROWS.encode(),
    "an npz": npz(good()),
    "huge element": MAT[:132] + b"\xff\xff\xff\x7f" + MAT[136:],
    "bomb": mat({"x": np.zeros((2**9, 2**10)), "y": Y}, do_compression=True)[:200],
}


@pytest.mark.parametrize("case", MATS)
def test_damaged_files_of_matlab_are_refused(case: str) -> None:
    sentence = refuse("bad.mat", MATS[case])
    assert "bad.mat" in sentence or sentence.endswith("numbers are needed")


@pytest.mark.parametrize("suffix", ["npz", "npy", "mat", "csv", "tsv"])
def test_what_is_no_regular_file_is_refused(suffix: str) -> None:
    more = ["--targets", "y.npy"] if suffix == "npy" else TABLE if suffix in ("csv", "tsv") else []
    assert "there is no file" in refused("train", "--data", f"nowhere.{suffix}", *FLAGS, *more)
    for make in (os.mkdir, os.mkfifo, lambda path: os.symlink("/dev/zero", path), lambda path: os.symlink(path, path)):
        make(f"odd.{suffix}")
        try:
            assert "cannot be read" in refused("train", "--data", f"odd.{suffix}", *FLAGS, *more)
        finally:
            os.rmdir(f"odd.{suffix}") if os.path.isdir(f"odd.{suffix}") else os.unlink(f"odd.{suffix}")
    assert "NUL" in refused("train", "--data", f"a\0.{suffix}", *FLAGS, *more) or suffix


def test_a_file_beyond_the_bound_is_refused_unread() -> None:
    with open("sparse.npz", "wb") as file:
        file.truncate(2**40)
    try:
        assert "has 1,099,511,627,776 bytes" in refused("train", "--data", "sparse.npz", *FLAGS)
    finally:
        os.unlink("sparse.npz")


def test_the_targets_of_an_array_file_are_refused_too() -> None:
    Path("x.npy").write_bytes(npy(X))
    try:
        assert "give --targets, a .npy file" in refused("train", "--data", "x.npy", *FLAGS)
        assert "there is no file" in refused("train", "--data", "x.npy", "--targets", "y.npy", *FLAGS)
        assert "give a .npy file" in refused("train", "--data", "x.npy", "--targets", "y", *FLAGS)
        for content in (npy(np.array([1, None], dtype=object)), npy(Y[1:]), b"", trap()):
            Path("y.npy").write_bytes(content)
            refused("train", "--data", "x.npy", "--targets", "y.npy", *FLAGS)
    finally:
        Path("x.npy").unlink()
        Path("y.npy").unlink()


@pytest.mark.parametrize("name", ["some.csv", "some.TSV", "some.npz", "some.npy", "some.mat"])
def test_a_table_or_an_array_as_text_is_answered_with_the_option(name: str) -> None:
    Path(name).write_text(ROWS)
    try:
        for more in ([], ["--dry-run"]):
            assert re.search(rf"{name} is an? .*, not a text: give it as --data", refused("train", name, *FLAGS, *more))
    finally:
        Path(name).unlink()


FILES: dict[str, tuple[bytes, list[str]]] = {
    "bad.npz": (npz(good(mask=np.ones((N, T)), lengths=np.full(N, T - 1))), []),
    "packed.npz": (npz(good(x=CLASSES, y=CLASSES + np.arange(T) % 2), pack=True), []),
    "bad.npy": (npy(X), ["--targets", "y.npy"]),
    "bad.mat": (MAT, []),
    "packed.mat": (mat(good(), do_compression=True), []),
    "bad.csv": (ROWS.encode(), TABLE),
}


@pytest.mark.parametrize("name", FILES)
def test_random_damage_is_survived(name: str) -> None:
    content, more = FILES[name]
    rng = np.random.default_rng(sum(name.encode()))
    Path("y.npy").write_bytes(npy(Y))
    outcomes = []
    for _ in range(25):
        damaged = bytearray(content)
        for _ in range(int(rng.integers(1, 6))):
            damaged[int(rng.integers(len(damaged)))] = int(rng.integers(256))
        start, stop = sorted(int(each) for each in rng.integers(len(damaged), size=2))
        damaged = [damaged, damaged[:stop], damaged[:start] + damaged[stop:]][int(rng.integers(3))]
        Path(name).write_bytes(damaged)
        before = set(os.listdir())
        result = call("train", "--data", name, *FLAGS, *more, "--out", "survived", "--quiet")
        assert result.exit_code in (0, 2), result.output
        outcomes.append(result.exit_code)
        if result.exit_code:
            sentence_of(result.stderr)
            assert set(os.listdir()) == before
        shutil.rmtree("survived", ignore_errors=True)
    Path(name).unlink()
    Path("y.npy").unlink()
    assert outcomes.count(2) > 2


def test_there_are_two_hundred_bad_files() -> None:
    assert sum(map(len, (ARRAYS, OPTIONS, HEADERS, ZIPS, MATS))) > 200
