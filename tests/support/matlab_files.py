"""Files as MATLAB writes them, for tests: version 7.3 by h5py, older ones by SciPy."""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.io

HEADER = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 00:00:00 2024 HDF5 schema 1.00 ."
CLASSES = {"float64": "double", "float32": "single", "bool": "logical"}


def v7(variables: Mapping[str, Any], **how: Any) -> bytes:
    """Return the bytes of a file of version 7; a list of dicts is a struct array, any other list a cell array."""
    file = io.BytesIO()
    scipy.io.savemat(file, {name: _plain(value) for name, value in variables.items()}, **how)
    return file.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        found = np.empty((1, len(value)), dtype=[(name, "O") for name in value[0]])
        for n, each in enumerate(value):
            found[0, n] = tuple(_plain(each[name]) for name in value[0])
        return found
    if isinstance(value, list):
        cells = np.empty((1, len(value)), dtype=object)
        for n, each in enumerate(value):
            cells[0, n] = _plain(each)
        return cells
    return {name: _plain(each) for name, each in value.items()} if isinstance(value, dict) else value


def v73(variables: Mapping[str, Any], **how: Any) -> bytes:
    """Return the bytes of a file of version 7.3, with the same structure as `v7`."""
    import h5py

    file = io.BytesIO()
    with h5py.File(file, "w", userblock_size=512) as written:
        numbers = itertools.count()

        def put(group: Any, name: str, value: Any) -> Any:
            if isinstance(value, dict):
                made = group.create_group(name)
                made.attrs["MATLAB_class"] = np.bytes_("struct")
                for field, each in value.items():
                    put(made, field, each)
            elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
                made = group.create_group(name)
                made.attrs["MATLAB_class"] = np.bytes_("struct")
                for field in value[0]:
                    references(made, field, [each[field] for each in value])
            elif isinstance(value, list):
                made = references(group, name, value)
                made.attrs["MATLAB_class"] = np.bytes_("cell")
            else:
                made = matrix(group, name, value)
            return made

        def references(group: Any, name: str, values: list[Any]) -> Any:
            kept = written.require_group("#refs#")
            found = [put(kept, f"r{next(numbers)}", each).ref for each in values]
            data = np.array(found, dtype=object).reshape(-1, 1)
            return group.create_dataset(name, data=data, dtype=h5py.ref_dtype)

        def matrix(group: Any, name: str, value: Any) -> Any:
            if isinstance(value, str):
                made = group.create_dataset(name, data=np.array([[ord(each)] for each in value], dtype=np.uint16))
                made.attrs["MATLAB_class"] = np.bytes_("char")
                return made
            array = np.atleast_2d(np.asarray(value))
            data = np.array(array.shape, dtype=np.uint64) if array.size == 0 else array.T
            made = group.create_dataset(name, data=data.astype(np.uint8) if array.dtype == bool else data, **how)
            made.attrs["MATLAB_class"] = np.bytes_(CLASSES.get(array.dtype.name, array.dtype.name))
            if array.size == 0:
                made.attrs["MATLAB_empty"] = np.uint8(1)
            return made

        for name, value in variables.items():
            put(written, name, value)
    return HEADER.ljust(116) + bytes(8) + b"\x00\x02IM" + file.getvalue()[128:]


def hdf5(datasets: Mapping[str, Any], **how: Any) -> bytes:
    """Return the bytes of a file of HDF5."""
    import h5py

    file = io.BytesIO()
    with h5py.File(file, "w") as written:
        for name, value in datasets.items():
            written.create_dataset(name, data=value, **how)
    return file.getvalue()


def trials(count: int = 12, classes: int = 3, seed: int = 0) -> list[dict[str, Any]]:
    """Return trials of unequal length: u (steps, 2), y (steps, 1), and a class that counts from 1."""
    rng = np.random.default_rng(seed)
    found = []
    for n in range(count):
        u = rng.normal(size=(8 + n, 2))
        found.append({"u": u, "y": u.cumsum(axis=0)[:, :1], "label": float(n % classes + 1)})
    return found
