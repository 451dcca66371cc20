"""Files of arrays and tables for tests: good ones, and the bytes of damaged and hostile ones."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io

from hfrnn.data.array_data import ArrayData, Files, load_files
from hfrnn.data.named_arrays import ArrayNames

from .refusals import refused

N, T, N_IN = 6, 8, 2
FLAGS = ["--arch", "rnn", "--hidden", "3", "--updates", "1", "--backend", "numpy"]
TABLE = ["--inputs", "u,v", "--targets", "y", "--window", "10"]


def good(**changes: Any) -> dict[str, Any]:
    """Return arrays x and y that fit, with some of them replaced, added or left out (None)."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, T, N_IN))
    arrays = {"x": x, "y": x.cumsum(axis=1).sum(axis=2, keepdims=True)}
    return {name: value for name, value in {**arrays, **changes}.items() if value is not None}


def load(path: Any, inputs: str | None = None, targets: Any = None, mask: str | None = None, **how: Any) -> ArrayData:
    """Return the data of one file; names of arrays have commas between them, and `how` is that of `load_files`."""
    inputs, targets = (None if each is None else tuple(str(each).split(",")) for each in (inputs, targets))
    return load_files({"train": Files((str(path),), ArrayNames(inputs, targets, mask))}, **how)


def npz(arrays: Mapping[str, Any], pack: bool = False) -> bytes:
    """Return the bytes of a .npz file; objects are pickled."""
    file = io.BytesIO()
    (np.savez_compressed if pack else np.savez)(file, **arrays)
    return file.getvalue()


def npy(array: Any) -> bytes:
    """Return the bytes of a .npy file; objects are pickled."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def mat(arrays: Mapping[str, Any], **how: Any) -> bytes:
    """Return the bytes of a .mat file."""
    file = io.BytesIO()
    scipy.io.savemat(file, dict(arrays), **how)
    return file.getvalue()


def header(text: str, version: bytes = b"\x01\x00", data: bytes = b"") -> bytes:
    """Return the bytes of a .npy file whose header holds a text."""
    content = text.encode("latin1")
    size = struct.pack("<H" if version == b"\x01\x00" else "<I", len(content))
    return b"\x93NUMPY" + version + size + content + data


def described(shape: str, dtype: str = "'<f8'", order: str = "False") -> str:
    """Return the text of a header."""
    return f"{{'descr': {dtype}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


def archive(members: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """Return the bytes of a zip file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as written:
        for name, content in members.items():
            written.writestr(name, content)
    return file.getvalue()


class Trap:
    """An object whose pickle makes a file when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open, ("trapped", "w")


def trap() -> bytes:
    """Return a pickle that makes a file when it is loaded."""
    return pickle.dumps(Trap())


def table(rows: int = 60, columns: str = "u,v,y") -> str:
    """Return the text of a table with one recording."""
    t = np.arange(rows)
    values = np.stack([np.sin(t / 3), np.cos(t / 5), np.sin(t / 3 - 0.5)], axis=1)
    return columns + "\n" + "".join(",".join(f"{each:.5f}" for each in row) + "\n" for row in values)


ROWS = table()
"""A table of 60 rows."""


def refuse(name: str, content: bytes | str, *more: str) -> str:
    """Return the sentence about a file of this name and content, and remove the file."""
    path = Path(name)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    try:
        return refused("train", "--data", name, *FLAGS, *more)
    finally:
        path.unlink()


ROLL = (np.arange(3 * 88).reshape(3, 88) % 7 == 0).astype(np.uint8)


def cells(*pieces: Any) -> Any:
    """Return a cell array."""
    found = np.empty((1, len(pieces)), dtype=object)
    found[0, :] = pieces
    return found


PIECES = {f"{part}data": cells(ROLL, ROLL[:2]) for part in ("train", "valid", "test")}
PACKED = {f"{part}_packed": np.packbits(ROLL, axis=1) for part in ("train", "valid", "test")}
PACKED |= {f"{part}_lengths": np.array([1, 2]) for part in ("train", "valid", "test")}
