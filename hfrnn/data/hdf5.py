"""Read HDF5 files, MATLAB's version 7.3 among them: plain numbers that lie in the file itself.

MATLAB writes a matrix with its axes in reverse order, a struct as a group, and the cells of a cell array and the fields
of a struct array as references to datasets in `/#refs#`. Attributes say which class a value has in MATLAB. Links other
than hard ones are not followed, nor are data read that lie in other files or need a filter that HDF5 does not have
itself, because HDF5 would load it as a library.
"""

from __future__ import annotations

import hashlib
import math
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.array_files import NUMBERS, check_size, most_bytes
from hfrnn.data.held import (
    DEEPEST,
    MOST,
    NUMERIC,
    Held,
    Holding,
    Node,
    flattened,
    groups_as_trials,
    too_many,
)
from hfrnn.errors import InputError, MissingExtraError, how_to_install
from hfrnn.wording import one_line

_INTERNAL = ("#refs#", "#subsystem#")  # groups of MATLAB's own
_DEFLATE, _SZIP = 1, 4
_FILTERS = {_DEFLATE, 2, 3, _SZIP, 5, 6, 32000}  # deflate, shuffle, fletcher32, szip, nbit, scaleoffset, lzf
_ABSENT = 10_000  # most chunks of a dataset that may be absent, besides as many as there are
_EXPANSION = 1100
"""More than the ratio of the sizes after and before deflate can ever be."""


def held_by_hdf5(content: bytes, source: str) -> Holding:
    """Return what a file of HDF5 holds.

    Raises
    ------
    MissingExtraError
        h5py is not installed.
    InputError
        The file is damaged, or holds too many values.
    """
    try:
        import h5py
    except ImportError as error:
        what = "a MATLAB file of version 7.3" if content.startswith(b"MATLAB") else "a file of HDF5"
        raise MissingExtraError(f"{source} is {what}, which needs h5py: {how_to_install('hdf5')}") from error
    try:
        file = h5py.File(h5py.h5f.open_file_image(content))
    except Exception as error:  # its kind depends on where the damage is
        raise InputError(f"{source} is damaged, or no file of HDF5: save it again") from error
    walk = _Walk(h5py, file, source)
    found = list(walk.members(file, 0))
    matlab = content.startswith(b"MATLAB 7.3") or walk.matlab
    held: list[Held] = [] if matlab else [*groups_as_trials("", dict(found))]
    for name, node in found:
        held.extend(flattened(name if matlab else f"/{name}", node, "." if matlab else "/"))
    about = "a MATLAB file of version 7.3" if matlab else "a file of HDF5"
    return Holding(source, about, hashlib.sha256(content).hexdigest(), tuple(held), matlab)


class _Walk:
    """Turns groups and datasets into nodes. `matlab` says whether one of them had a class of MATLAB's."""

    def __init__(self, h5py: Any, file: Any, source: str) -> None:
        self.h5py, self.file, self.source, self.matlab, self.count = h5py, file, source, False, 0
        self._around: list[Any] = [file["/"]]  # the groups that hold the value which is read

    def members(self, group: Any, depth: int) -> Iterator[tuple[str, Node]]:
        """Yield what is in a group, by name."""
        for name in sorted(group, key=_natural):
            if depth == 0 and name in _INTERNAL:
                continue
            link = group.get(name, getlink=True)
            if isinstance(link, self.h5py.HardLink):
                yield name, self.node(group[name], depth + 1)
            else:
                external = isinstance(link, self.h5py.ExternalLink)
                yield name, Node("link to another file" if external else "link, which is not followed")

    def node(self, value: Any, depth: int) -> Node:
        """Return the structure of a group or a dataset."""
        self.count += 1
        if self.count > MOST:
            raise too_many(self.source)
        if depth > DEEPEST:
            return Node("deeply nested value")
        if value in self._around:
            return Node("value that holds itself")
        self._around.append(value)
        try:
            return self._inside(value, depth)
        finally:
            self._around.pop()

    def _inside(self, value: Any, depth: int) -> Node:
        """Return the structure of a group or a dataset that does not hold itself."""
        what = _word(value.attrs.get("MATLAB_class"))
        self.matlab = self.matlab or bool(what)
        if isinstance(value, self.h5py.Group):
            return self._group(value, what, depth)
        if not isinstance(value, self.h5py.Dataset):
            return Node("type without values")
        if _attribute(value, "MATLAB_empty"):
            return self._empty(value, what)
        if self.h5py.check_ref_dtype(value.dtype) is self.h5py.Reference:
            return Node("cell", _reversed(value.shape), cells=self._referred(value, depth))
        if what and what not in NUMERIC:
            return Node(what)
        return self._numbers(value, what)

    def _group(self, group: Any, what: str, depth: int) -> Node:
        """Return a struct, a struct array or, in other files than MATLAB's, a plain group."""
        if _attribute(group, "MATLAB_sparse") is not None:
            return Node("sparse")
        if what not in ("", "struct"):
            return Node(what)
        fields: dict[str, list[Node]] = {}
        several = False
        for name, node in self.members(group, depth):
            plain = node.cells is not None and not _word(group[name].attrs.get("MATLAB_class"))
            several = several or (plain and what == "struct")  # references without a class: an element each
            fields[name] = list(node.cells or ()) if plain and what == "struct" else [node]
        if several and len({len(each) for each in fields.values()}) > 1:
            return Node("damaged struct array")
        count = len(next(iter(fields.values()))) if several else 1
        return Node("struct array" if several else "struct", (1, count), fields)

    def _empty(self, dataset: Any, what: str) -> Node:
        """Return an empty value of MATLAB, whose dataset holds its axes."""
        if math.prod(dataset.shape) > 32:
            return Node("damaged value")
        shape = tuple(map(int, np.ravel(dataset[()])))
        if what not in NUMERIC:
            return Node(what, shape, cells=[] if what == "cell" else None)
        return Node(what, shape, read=lambda: np.zeros(shape))

    def _referred(self, dataset: Any, depth: int) -> list[Node]:
        """Return what the references of a cell array, or of a field of a struct array, refer to."""
        check_size(dataset.shape, 8, f"a cell array of {self.source}")
        if why := _unread(dataset):
            return [Node(why)]
        found = []
        for reference in np.ravel(dataset[()]):  # the reverse order of the axes makes this MATLAB's order
            value = self.file[reference] if reference else None
            found.append(Node("empty reference") if value is None else self.node(value, depth + 1))
        return found

    def _numbers(self, dataset: Any, what: str) -> Node:
        """Return an array of numbers, or what it holds instead."""
        dtype, shape = dataset.dtype, dataset.shape
        if why := _unread(dataset):
            return Node(why)
        if shape is None:
            return Node("empty dataset")
        if dtype.kind not in NUMBERS or dtype.itemsize == 0:
            return Node("complex" if _is_complex(dtype) else _other(self.h5py, dtype))
        shape = _reversed(shape) if what else shape
        return Node(what or str(dtype), shape, read=_reader(dataset, what, self.source), itemsize=dtype.itemsize)


def _reader(dataset: Any, what: str, source: str) -> Callable[[], NDArray[Any]]:
    """Return a function that reads a dataset; one of MATLAB's with its axes in MATLAB's order."""

    def read() -> NDArray[Any]:
        _check_chunks(dataset, source)
        found = np.asarray(dataset[()])
        found = found.astype(found.dtype.newbyteorder("="))
        if what == "logical":
            found = found.astype(bool)
        return found.transpose() if what else found

    return read


def _reversed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(shape[::-1])


def _natural(name: str) -> tuple[Any, ...]:
    """Return a key that sorts `u2` before `u10`."""
    parts = re.split("([0-9]+)", name)
    return tuple((int(each) if len(each) < 20 else -1) if n % 2 else each for n, each in enumerate(parts)), name


def _word(value: Any) -> str:
    """Return an attribute that is a short text; "" if there is none."""
    if isinstance(value, bytes | np.bytes_):
        value = value.decode("latin1")
    return one_line(value[:60]) if isinstance(value, str) else ""


def _attribute(value: Any, name: str) -> Any:
    """Return a number in an attribute; None if there is none."""
    found = value.attrs.get(name)
    return found if isinstance(found, np.integer | int) else None


def _unread(dataset: Any) -> str:
    """Return why the numbers of a dataset are not read: "" if they lie in the file, in filters of HDF5's own."""
    plist = dataset.id.get_create_plist()
    if plist.get_layout() == 3 or dataset.is_virtual:
        return "virtual dataset with numbers of other files"
    if plist.get_external_count():
        return "dataset with numbers in other files"
    filters = [plist.get_filter(n)[0] for n in range(plist.get_nfilters())]
    unknown = next((each for each in filters if each not in _FILTERS), None)
    return "" if unknown is None else f"dataset compressed by the filter {unknown}, which HDF5 does not have itself"


def _is_complex(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "c" or (dtype.names is not None and {"real", "imag"} <= set(dtype.names))


def _other(h5py: Any, dtype: np.dtype[Any]) -> str:
    """Return what a dataset holds that holds no numbers."""
    if dtype.kind in "SU" or h5py.check_string_dtype(dtype) is not None:
        return "char"
    if h5py.check_vlen_dtype(dtype) is not None:
        return "dataset of arrays of unequal length"
    return "dataset of records" if dtype.names is not None else f"dataset of type {one_line(str(dtype)[:40])}"


def _check_chunks(dataset: Any, source: str) -> None:
    """Raise InputError if a chunk of a dataset would take more memory than all its numbers may."""
    if dataset.chunks is None:
        return
    name = one_line(dataset.name or "a dataset")
    if len(dataset.chunks) != len(dataset.shape):  # reading it would not end
        raise InputError(f"{name} of {source} has other axes than its chunks: the file is damaged, save it again")
    grid = math.prod(-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True))
    if grid > _ABSENT + 2 * dataset.id.get_num_chunks():  # HDF5 would go through all of them
        raise InputError(f"{name} of {source} lacks most of its chunks: the file is damaged, save it again")
    size = check_size(dataset.chunks, dataset.dtype.itemsize, f"a chunk of {name} of {source}")
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(n)[0] for n in range(plist.get_nfilters())]
    if not filters:
        return
    most = most_bytes()
    for n in range(dataset.id.get_num_chunks()):
        chunk = dataset.id.get_chunk_info(n)
        if chunk.size * _EXPANSION <= most:
            continue
        _, raw = dataset.id.read_direct_chunk(chunk.chunk_offset)
        whole = len(zlib.decompressobj().decompress(raw, size + 1024)) if filters[-1] == _DEFLATE else 0
        if whole >= size + 1024 or chunk.size > size + 1024:
            raise InputError(f"a chunk of {name} of {source} unpacks to more than it should: save it again")
