"""Read MATLAB files up to version 7, and check every size first: SciPy can crash on damaged and hostile files.

The structure follows MATLAB's description of level 5 MAT-files: a file is a list of elements, each with a tag of its
type and its bytes. The element of a matrix holds its flags, axes and name, and then its numbers, cells or fields.
Version 7.3 is HDF5 (`hdf5.py`).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.array_files import check_size, check_type, most_bytes
from hfrnn.data.held import DEEPEST, MOST, NUMERIC, Held, Holding, Node, flattened, too_many
from hfrnn.errors import InputError
from hfrnn.wording import one_line

HDF5 = b"\x89HDF\r\n\x1a\n"
"""How a file of HDF5 begins, perhaps after a header of MATLAB."""
_INT8, _MATRIX, _COMPRESSED, _HEADER = 1, 14, 15, 128
_CLASSES = {
    1: "cell", 2: "struct", 3: "object", 4: "char", 5: "sparse", 6: "double", 7: "single", 8: "int8", 9: "uint8",
    10: "int16", 11: "uint16", 12: "int32", 13: "uint32", 14: "int64", 15: "uint64", 16: "function_handle",
    17: "opaque",
}  # fmt: skip
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""How numbers are stored, whatever their class."""
_DTYPES = {"double": "float64", "single": "float32", "logical": "bool"}  # other classes have NumPy's names
_COMPLEX, _LOGICAL = 8, 2  # flags


class _DamagedError(Exception):
    """The bytes are no element of a MATLAB file."""


def is_hdf5(content: bytes) -> bool:
    """Return whether a file is HDF5, which MATLAB writes as version 7.3."""
    return content.startswith((HDF5, b"MATLAB 7.3 MAT-file")) or content[512:520] == HDF5


def mat_names(content: bytes) -> tuple[str, ...]:
    """Return the names of the variables in a MATLAB file; none if it is damaged or of version 7.3."""
    from scipy.io import whosmat

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tuple(name for name, _, _ in whosmat(io.BytesIO(content)))
    except Exception:  # whoever reads the variables reports the damage
        return ()


def load_mat(content: bytes, source: str, wanted: Callable[[str], bool]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return variables of a MATLAB file as SciPy loads them, and the names of the others."""
    from scipy.io import loadmat, whosmat

    if is_hdf5(content):
        raise InputError(f"{source} is a MATLAB file of version 7.3: save it in MATLAB with -v7")
    for _ in _variables(content, source):  # checks their size
        pass
    taken, names, others = 0, [], []
    for name, shape, _ in whosmat(io.BytesIO(content)):
        if wanted(name):
            taken += check_size(tuple(shape), 8, f"array {name} of {source}", taken)
            names.append(name)
        else:
            others.append(name)
    found = loadmat(io.BytesIO(content), variable_names=names, struct_as_record=True) if names else {}
    return {name: found[name] for name in names if name in found}, tuple(others)


def held_by_mat(content: bytes, source: str) -> Holding:
    """Return what a MATLAB file up to version 7 holds; raise InputError if it is damaged."""
    from scipy.io import whosmat

    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    held: list[Held] = []
    if order is None:  # version 4: real matrices, sparse ones and texts
        for name, shape, what in whosmat(io.BytesIO(content)):
            known = what in NUMERIC
            node = Node(what, tuple(shape), read=_reader_of_version_4(content, source, name) if known else None)
            held.append(Held(name, (node,), trials=False, refused="" if known else f"a {what} array"))
    else:
        parser = _Parser(order, source)
        for body in _variables(content, source):
            name, node = parser.matrix(body)
            if name:  # what MATLAB keeps for objects has no name
                held.extend(flattened(name, node))
    digest = hashlib.sha256(content).hexdigest()
    return Holding(source, "a MATLAB file", digest, tuple(held), matlab=True)


def _variables(content: bytes, source: str) -> Iterator[memoryview]:
    """Yield the bytes of each variable, unpacked, within a bound for all of them together."""
    order = {b"IM": "<", b"MI": ">"}.get(content[126:128])
    left, position = most_bytes(), _HEADER
    while order is not None and position + 8 <= len(content):
        kind, size = struct.unpack_from(f"{order}II", content, position)
        position += 8
        piece: bytes = content[position : position + size]
        position += size
        if kind == _COMPRESSED:
            unpacker, pieces = zlib.decompressobj(), []
            with contextlib.suppress(zlib.error):  # the element ends early then
                while piece and left >= 0:
                    pieces.append(unpacker.decompress(piece, 2**20))
                    left -= len(pieces[-1])
                    piece = unpacker.unconsumed_tail
            if left < 0:
                raise InputError(f"{source} unpacks to more than a sixteenth of the memory: give fewer sequences")
            whole = memoryview(b"".join(pieces))
            if len(whole) >= 8 and struct.unpack_from(f"{order}I", whole)[0] == _MATRIX:
                yield whole[8:]
        elif kind == _MATRIX:
            yield memoryview(piece)


class _Parser:
    """Parses variables. `count` is the number of values that were found."""

    def __init__(self, order: str, source: str) -> None:
        self.order, self.source, self.count = order, source, 0

    def element(self, data: memoryview, at: int) -> tuple[int, memoryview, int]:
        """Return the type and the bytes of the element at a place, and the place of the next one."""
        if at + 8 > len(data):
            raise _DamagedError
        kind, size = struct.unpack_from(f"{self.order}II", data, at)
        if kind >> 16:  # a small element: type and bytes in one tag
            kind, size = kind & 0xFFFF, kind >> 16
            if size > 4:
                raise _DamagedError
            return kind, data[at + 4 : at + 4 + size], at + 8
        if at + 8 + size > len(data):
            raise _DamagedError
        padding = 0 if kind == _COMPRESSED else -size % 8
        return kind, data[at + 8 : at + 8 + size], at + 8 + size + padding

    def matrix(self, data: memoryview, depth: int = 0) -> tuple[str, Node]:
        """Return the name and the structure of a matrix, which lies inside `depth` structs, cells and objects."""
        self.count += 1
        if self.count > MOST:
            raise too_many(self.source)
        if not len(data):  # an empty matrix in a cell or a field
            return "", Node("double", (0, 0), read=lambda: np.zeros((0, 0)))
        _, flags, at = self.element(data, 0)
        if len(flags) < 8:
            raise _DamagedError
        word = struct.unpack_from(f"{self.order}I", flags)[0]
        what, bits = _CLASSES.get(word & 0xFF, "value of an unknown class"), word >> 8 & 0xFF
        if what == "opaque":
            return self._opaque(data, at, depth)
        _, axes, at = self.element(data, at)
        shape = tuple(map(int, np.frombuffer(axes, f"{self.order}i4")))
        if any(each < 0 for each in shape):
            raise _DamagedError
        _, named, at = self.element(data, at)
        name = bytes(named).decode("latin1")
        if depth > DEEPEST:
            raise InputError(f"{self.source} holds values more than {DEEPEST} levels deep: save plain arrays")
        if what in ("struct", "cell"):
            size = self.sized(shape, data)
            return name, (self._struct if what == "struct" else self._cell)(data, at, shape, size, depth)
        if bits & _COMPLEX and what in NUMERIC:
            return name, Node("complex", shape)
        if what not in NUMERIC:
            self._check_depth(data, at, depth)
            return name, Node(what, shape)
        what = "logical" if bits & _LOGICAL else what
        if 0 in shape:
            return name, Node(what, shape, read=lambda: np.zeros(shape))
        kind, numbers, _ = self.element(data, at)
        dtype = np.dtype(_DTYPES.get(what, what))
        return name, Node(what, shape, read=self._reader(kind, numbers, shape, dtype), itemsize=dtype.itemsize)

    def _reader(
        self, kind: int, numbers: memoryview, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Callable[[], NDArray[Any]]:
        """Return a function that makes an array of stored numbers."""
        stored = np.dtype(f"{self.order}{_TYPES[kind]}") if kind in _TYPES else None
        if stored is None or math.prod(shape) * stored.itemsize != len(numbers):
            raise _DamagedError
        return lambda: np.frombuffer(numbers, stored).astype(dtype).reshape(shape, order="F")

    def sized(self, shape: tuple[int, ...], data: memoryview) -> int:
        """Return the number of elements of a struct or a cell array; each takes eight bytes at least."""
        size = math.prod(shape)
        if size * 8 > len(data):
            raise _DamagedError
        return size

    def _cell(self, data: memoryview, at: int, shape: tuple[int, ...], size: int, depth: int) -> Node:
        cells = []
        for _ in range(size):
            kind, body, at = self.element(data, at)
            if kind != _MATRIX:
                raise _DamagedError
            cells.append(self.matrix(body, depth + 1)[1])
        return Node("cell", shape, cells=cells)

    def _struct(self, data: memoryview, at: int, shape: tuple[int, ...], size: int, depth: int) -> Node:
        _, width, at = self.element(data, at)
        _, listed, at = self.element(data, at)
        if len(width) < 4:
            raise _DamagedError
        length = struct.unpack_from(f"{self.order}i", width)[0]
        if length < 1:
            raise _DamagedError
        text = bytes(listed)
        names = [text[n : n + length].split(b"\0")[0].decode("latin1") for n in range(0, len(text), length)]
        fields: dict[str, list[Node]] = {name: [] for name in names}
        for _ in range(size):
            for name in names:
                kind, body, at = self.element(data, at)
                if kind != _MATRIX:
                    raise _DamagedError
                fields[name].append(self.matrix(body, depth + 1)[1])
        return Node("struct" if size == 1 else "struct array", shape, fields)

    def _check_depth(self, data: memoryview, at: int, depth: int) -> None:
        """Raise InputError if the matrices inside an object, which is not read, lie too deep."""
        while at + 8 <= len(data):
            kind, body, at = self.element(data, at)
            if kind == _MATRIX:
                self.matrix(body, depth + 1)

    def _opaque(self, data: memoryview, at: int, depth: int) -> tuple[str, Node]:
        """Return an object of a class of its own, such as a table or a string: it has no axes."""
        words = []
        for _ in range(3):
            kind, text, at = self.element(data, at)
            words.append(bytes(text).decode("latin1") if kind == _INT8 else "")
        self._check_depth(data, at, depth)
        return words[0], Node(one_line(words[2][:60]) or "object")


def _reader_of_version_4(content: bytes, source: str, name: str) -> Callable[[], NDArray[Any]]:
    """Return a function that reads a variable of a file of version 4."""

    def read() -> NDArray[Any]:
        from scipy.io import loadmat

        value = np.asarray(loadmat(io.BytesIO(content), variable_names=[name])[name])
        check_type(value.dtype, f"{name} of {source}")
        return value

    return read
