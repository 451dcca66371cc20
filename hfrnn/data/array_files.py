"""Read `.npz` and `.npy` files that others may have made: plain numbers within a bound, never a pickle."""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hfrnn.errors import InputError, reason_of
from hfrnn.files import TEXT_SHARE, memory_share, read_bytes
from hfrnn.wording import one_line

NUMBERS = "fiub"
"""NumPy's letters of the types that are read: real numbers, integers and Booleans."""
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
"""What reads the header of an array: its shape, whether columns come first, and its type, by version of the format."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what NumPy writes


class ArrayFile(NamedTuple):
    """The arrays of a file that were asked for, the names of the others, and the hash of the file."""

    arrays: dict[str, NDArray[Any]]
    others: tuple[str, ...]
    sha256: str


def read_array_file(path: str | os.PathLike[str], wanted: Callable[[str], bool]) -> ArrayFile:
    """Read the arrays of numbers whose names are wanted from a regular file that ends in .npz or .npy.

    The file, and all arrays that are read, may each take a sixteenth of the machine's memory. The one array of a .npy
    file is named `x`. Pickled objects are never loaded.
    """
    content = file_content(path)
    suffix = Path(path).suffix.lower()
    read = {".npz": _read_npz, ".npy": _read_npy_file}[suffix]
    with damage_reported(path):
        arrays, others = read(content, str(path), wanted)
    return ArrayFile(arrays, others, hashlib.sha256(content).hexdigest())


@contextlib.contextmanager
def damage_reported(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise InputError for an error of a library that reads a file of arrays: the file is damaged."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that are Python expressions, and of MATLAB's objects
            yield
    except InputError:
        raise
    except Exception as error:  # damage can surface in NumPy, SciPy, h5py, zipfile or zlib
        suffix = Path(path).suffix.lower()
        raise InputError(
            f"{path} cannot be read as a {suffix} file of plain arrays ({_reason(error)}): save it again"
        ) from error


def file_content(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file of arrays or a table; raise InputError if it is missing, empty or too large."""
    what = "give a file of arrays (.npz, .npy, .mat, .h5) or a table (.csv, .tsv)"
    try:
        data = read_bytes(path, most_bytes())
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}: {what}") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path)!r} cannot be read ({reason_of(error)}): {what}") from error
    if not data:
        raise InputError(f"{path} is empty: {what}")
    return data


def most_bytes() -> int:
    """Return how many bytes a file of arrays, or all its arrays that are read, may take."""
    return memory_share(TEXT_SHARE)


def check_size(shape: tuple[int, ...], itemsize: int, name: str, taken: int = 0) -> int:
    """Return the bytes of an array; raise InputError if it, with `taken` bytes of others, is beyond the bound."""
    size, most = math.prod(shape) * itemsize, most_bytes()
    if size + taken > most:
        shown = f"({', '.join(map(_count, shape))}{',' if len(shape) == 1 else ''})"
        raise InputError(
            f"{name} has shape {shown} and takes {_count(size + taken)} bytes with the arrays before it, and at most "
            f"{most:,} are read: give fewer or shorter sequences"
        )
    return size


def _count(number: int) -> str:
    """Return a whole number for a message; a very large one by its power of two."""
    return str(number) if abs(number) < 2**63 else f"2^{number.bit_length() - 1}"


def _reason(error: Exception) -> str:
    """Return why a file cannot be read, in a few words."""
    text = one_line(str(error)).rstrip(".")
    plain = 0 < len(text) <= 120 and "allow_pickle" not in text and "<" not in text
    return text if plain else "it is damaged"


# ---------------------------------------------------------------------- NumPy


def npz_names(content: bytes) -> tuple[str, ...]:
    """Return the names of the arrays in a .npz file; none if it is damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return tuple(name.removesuffix(".npy") for name in archive.namelist())
    except Exception:  # whoever reads the arrays reports the damage
        return ()


def npz_headers(content: bytes) -> dict[str, tuple[tuple[int, ...], np.dtype[Any] | None]]:
    """Return the shape and the type of each array in a .npz file; the type is None if its header cannot be read."""
    found: dict[str, tuple[tuple[int, ...], np.dtype[Any] | None]] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            found[name] = ((), None)
            if member.compress_type in _METHODS and name != member.filename:
                with contextlib.suppress(Exception), archive.open(member) as stream:
                    shape, _, dtype = HEADERS[npy.read_magic(stream)](stream)
                    found[name] = (shape, dtype)
    return found


def _read_npz(content: bytes, source: str, wanted: Callable[[str], bool]) -> tuple[dict[str, NDArray[Any]], Any]:
    arrays: dict[str, NDArray[Any]] = {}
    taken = 0
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [each for each in archive.infolist() if each.filename.endswith(".npy")]
        names = [each.filename.removesuffix(".npy") for each in members]
        for name, member in zip(names, members, strict=True):
            if not wanted(name):
                continue
            if name in arrays:
                raise InputError(f"{source} has two arrays {name}: save it again with one of each name")
            if member.compress_type not in _METHODS:
                raise InputError(f"array {name} of {source} is compressed in another way than NumPy's: save it again")
            with archive.open(member) as stream:
                arrays[name] = _read_npy(stream, f"array {name} of {source}", member.file_size, taken)
            taken += arrays[name].nbytes
    return arrays, tuple(name for name in names if name not in arrays)


def _read_npy_file(content: bytes, source: str, wanted: Callable[[str], bool]) -> tuple[dict[str, NDArray[Any]], Any]:
    return {"x": _read_npy(io.BytesIO(content), f"the array of {source}", len(content), 0)}, ()


def _read_npy(stream: IO[bytes], name: str, available: int, taken: int) -> NDArray[Any]:
    """Return an array in NumPy's format; its header is checked before its numbers are read."""
    version = npy.read_magic(stream)
    if version not in HEADERS:
        raise InputError(f"{name} has version {version[0]}.{version[1]} of NumPy's format: save it as plain numbers")
    shape, fortran, dtype = HEADERS[version](stream)
    check_type(dtype, name)
    if any(size < 0 for size in shape):
        raise InputError(f"{name} has shape {shape}, which no array has: the file is damaged, save it again")
    size = check_size(shape, dtype.itemsize, name, taken)
    data = stream.read(size) if size <= available else b""
    if len(data) != size:
        raise InputError(f"{name} ends before its last number: the file is damaged, save it again")
    return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")


def check_type(dtype: np.dtype[Any], name: str) -> None:
    """Raise InputError unless a type is that of real numbers, integers or Booleans."""
    if dtype.kind not in NUMBERS or dtype.itemsize == 0:
        kinds = {"O": "Python objects, which are never loaded", "c": "complex numbers", "U": "strings", "S": "strings"}
        held = "records" if dtype.names is not None else kinds.get(dtype.kind, f"values of type {dtype}")
        raise InputError(f"{name} holds {held}: save an array of real numbers or integers")
