"""Piano rolls of one's own: .mat files as the known music corpora come, and .npz files as `hfrnn.data.music` reads.

.mat    traindata, validdata, testdata: cells of (steps, 88) matrices of 0 and 1 (Boulanger-Lewandowski et al. 2012)
.npz    train_packed (steps of all pieces, 11) uint8, train_lengths (pieces,), and so on
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.array_files import check_size, file_content, load_mat, mat_names, npz_names, read_array_file
from hfrnn.data.pieces import KEYS, Music, pieces_of
from hfrnn.errors import InputError

PARTS = ("train", "valid", "test")
CELLS = tuple(f"{part}data" for part in PARTS)
PACKED = tuple(f"{part}_{what}" for part in PARTS for what in ("packed", "lengths"))


def load_rolls(path: str | os.PathLike[str]) -> Music | None:
    """Load piano rolls from a file of arrays.

    Parameters
    ----------
    path : path
        A .mat or .npz file.

    Returns
    -------
    Music or None
        None if the file has none of the names above: it holds other arrays.

    Raises
    ------
    InputError
        The file is missing, too large or damaged, a part is missing, or a piece is no piano roll.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".mat":
        return load_cells(path, Path(path).name) if set(CELLS) & set(mat_names(file_content(path))) else None
    if suffix == ".npz" and _has_rolls(npz_names(file_content(path))):
        found = read_array_file(path, PACKED.__contains__)
        _check_names(PACKED, found.arrays, str(path))
        for part in PARTS:
            check_size((found.arrays[f"{part}_packed"].size, 8), 4, f"{part}_packed of {path}")
        train, valid, test = (pieces_of(found.arrays, part, str(path)) for part in PARTS)
        return _music(Path(path).name, (train, valid, test), path, found.sha256)
    return None


def load_cells(path: str | os.PathLike[str], name: str) -> Music:
    """Load the piano rolls of a .mat file and call them by a name.

    Raises
    ------
    InputError
        The file is missing, too large or damaged, a part is missing, or a piece is no piano roll.
    """
    content = file_content(path)
    return _music(name, _cells(content, str(path)), path, hashlib.sha256(content).hexdigest())


def _music(name: str, parts: Sequence[list[NDArray[np.float32]]], path: str | os.PathLike[str], digest: str) -> Music:
    """Put three parts together, if their arrays fit into memory."""
    for part, pieces in zip(PARTS, parts, strict=True):
        check_size((max(map(len, pieces)), len(pieces), KEYS), 8, f"the {part} part of {path}")
    train, valid, test = parts
    return Music(name, train, valid, test, str(path), digest)


def _has_rolls(names: Sequence[str]) -> bool:
    """Return whether a .npz file holds packed rolls; `valid_lengths` alone may be that of other sequences."""
    return any(f"{part}_packed" in names for part in PARTS)


def _check_names(names: Sequence[str], found: Any, source: str) -> None:
    """Raise InputError unless all of some names are there."""
    missing = [name for name in names if name not in found]
    if missing:
        raise InputError(f"{source} holds piano rolls and has no {', '.join(missing)}: give all three parts")


def _cells(content: bytes, source: str) -> list[list[NDArray[np.float32]]]:
    """Return the pieces of the three parts of a MATLAB file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, _ = load_mat(content, source, CELLS.__contains__)
    except InputError:
        raise
    except Exception as error:  # damage surfaces in SciPy
        raise InputError(f"{source} cannot be read as a .mat file: save it again") from error
    _check_names(CELLS, found, source)
    return [[_piece(each, name, source) for each in _listed(found[name], name, source)] for name in CELLS]


def _listed(cells: Any, name: str, source: str) -> list[Any]:
    """Return the entries of a cell array."""
    pieces = list(cells.ravel()) if isinstance(cells, np.ndarray) and cells.dtype == object else []
    if not pieces:
        raise InputError(f"{name} of {source} is no cell array with pieces: give cells of (steps, {KEYS}) matrices")
    return pieces


def _piece(piece: Any, name: str, source: str) -> NDArray[np.float32]:
    """Return one piece, (steps, 88) of 0 and 1."""
    found = piece if isinstance(piece, np.ndarray) and piece.dtype.kind in "fiub" else np.zeros(0)
    if found.shape[1:] != (KEYS,) or not len(found):
        shape = getattr(piece, "shape", "no shape")
        raise InputError(f"{name} of {source} holds a piece of shape {shape}: give (steps, {KEYS}) matrices of 0 and 1")
    if not ((found == 0) | (found == 1)).all():
        raise InputError(f"{name} of {source} holds numbers other than 0 and 1: give 1 where a key sounds, else 0")
    return found.astype(np.float32)
