"""Polyphonic music as piano rolls: which of 88 keys sound at each step.

The protocol is that of Boulanger-Lewandowski, Bengio & Vincent (2012) and their notes on evaluation: the mean
log-likelihood of a time step. Every step of every piece has the same weight, so longer pieces count more. This is the
objective of docs/specification.md, section 3, on `music_batch`, in nats per step: the cross entropy summed over the 88
keys, given all earlier chords. The first chord is predicted too, from an empty chord.

Files of piano rolls of one's own:

.mat    traindata, validdata, testdata: cells of (steps, 88) matrices of 0 and 1 (Boulanger-Lewandowski et al. 2012)
.npz    train_packed (steps of all pieces, 11) uint8, train_lengths (pieces,), and so on
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.choices import PARTS
from hfrnn.data.array_files import check_size, file_content, npz_names, read_array_file
from hfrnn.data.corpora import find_files
from hfrnn.data.matlab import load_mat, mat_names
from hfrnn.data.ragged import RaggedPool, first_rows
from hfrnn.errors import InputError
from hfrnn.wording import left_out_note


@dataclass(frozen=True)
class Collection:
    """A collection of music known by name, with the attributes of a `NamedCorpus`."""

    about: str
    files: tuple[tuple[str, ...], ...]
    size: int
    levels: tuple[str, ...] = ()


COLLECTIONS = {
    "jsb": Collection("chorales of J. S. Bach, in chords", (("jsb/JSB_Chorales.mat",), ("jsb/jsb.npz",)), 96_095)
}
"""The music known by name: the file that is downloaded, or the same pieces in packed bits."""


def load_music(name: str = "jsb") -> Music:
    """Load a collection of piano rolls: "jsb", the chorales of J. S. Bach, one step per quarter note.

    Its file, in one of the forms above, is searched and, if it is missing, downloaded like a corpus.
    """
    if name not in COLLECTIONS:
        raise InputError(f"there is no music named {name!r}; use one of {', '.join(COLLECTIONS)}")
    (path,) = find_files(name, COLLECTIONS[name].files)
    return _load_cells(path, name) if path.suffix == ".mat" else _load_packed(path, name)


def music_batch(pieces: Sequence[NDArray[np.float32]]) -> RaggedPool:
    """Put pieces one after another, for the logistic loss: an input is the chord before that of its target.

    Pieces are (T_i, 88) arrays of 0 and 1, at least one. The first input is an empty chord. Inputs and targets lie in
    the same memory, where an empty chord stands before each piece.
    """
    lengths = np.array([len(piece) for piece in pieces], dtype=np.int64)
    starts = first_rows(lengths + 1)
    rolls = np.zeros((int(lengths.sum()) + len(pieces), KEYS), dtype=np.float32)
    for start, piece in zip(starts.tolist(), pieces, strict=True):
        rolls[start + 1 : start + 1 + len(piece)] = piece
    return RaggedPool(rolls[:-1], rolls[1:], None, lengths, starts)


KEYS = 88
"""The number of keys of a piano; key k is MIDI note 21 + k."""


@dataclass(frozen=True)
class Music:
    """A collection of piano rolls.

    The pieces of a part are arrays (T, 88): 1 where a key sounds, else 0. `sha256` is the hash of the file, or of the
    files of a folder and their names. `note` is a line about the pieces for the screen, if there is more to say.
    """

    name: str
    train: list[NDArray[np.float32]]
    valid: list[NDArray[np.float32]]
    test: list[NDArray[np.float32]]
    source: str
    sha256: str
    note: str = ""

    def part(self, name: str) -> list[NDArray[np.float32]]:
        """Return the pieces of a part; raise InputError if it has none."""
        pieces: list[NDArray[np.float32]] = getattr(self, name)
        if not pieces:
            held = " or ".join(each for each in PARTS if getattr(self, each))
            raise InputError(f"{self.name} has no {name} part: use {held}")
        return pieces


def pieces_of(arrays: dict[str, NDArray[np.generic]], part: str, source: str) -> list[NDArray[np.float32]]:
    """Unpack the steps of one part and cut them into pieces."""
    packed, lengths = arrays[f"{part}_packed"], arrays[f"{part}_lengths"]
    if packed.dtype != np.uint8 or packed.shape[1:] != (KEYS // 8,):
        held = f"{part}_packed is an array of {packed.dtype} {packed.shape}"
        raise InputError(f"{source} is damaged: {held}; expected uint8 (steps, {KEYS // 8})")
    if lengths.dtype.kind not in "iu" or lengths.ndim != 1 or not lengths.size or int(lengths.min()) < 1:
        held = f"{part}_lengths is an array of {lengths.dtype} {lengths.shape}"
        raise InputError(f"{source} is damaged: {held}; expected a row of whole numbers of at least 1")
    if (steps := sum(lengths.tolist())) != len(packed):
        raise InputError(f"{source} is damaged: {part}_lengths sum to {steps}, but there are {len(packed)} steps")
    rolls = np.unpackbits(packed.astype(np.uint8), axis=1).astype(np.float32)  # (steps, 88)
    return np.split(rolls, np.cumsum(lengths)[:-1])


CELLS = tuple(f"{part}data" for part in PARTS)
PACKED = tuple(f"{part}_{what}" for part in PARTS for what in ("packed", "lengths"))


def holds_rolls(path: str | os.PathLike[str]) -> bool:
    """Return whether a file of arrays has some of the names above: it holds piano rolls."""
    suffix = Path(path).suffix.lower()
    if suffix == ".mat":
        return not set(CELLS).isdisjoint(mat_names(file_content(path)))
    # `valid_lengths` alone may be that of other sequences
    return suffix == ".npz" and not {f"{part}_packed" for part in PARTS}.isdisjoint(npz_names(file_content(path)))


def load_rolls(path: str | os.PathLike[str]) -> Music | None:
    """Load piano rolls from a file of arrays; None if it holds other arrays."""
    if not holds_rolls(path):
        return None
    load = _load_cells if Path(path).suffix.lower() == ".mat" else _load_packed
    return load(path, Path(path).name)


def _load_packed(path: str | os.PathLike[str], name: str) -> Music:
    """Load the piano rolls of a .npz file and call them by a name."""
    found = read_array_file(path, PACKED.__contains__)
    _check_names(PACKED, found.arrays, str(path))
    for part in PARTS:
        check_size((found.arrays[f"{part}_packed"].size, 8), 4, f"{part}_packed of {path}")
    return _music(name, [pieces_of(found.arrays, part, str(path)) for part in PARTS], path, found.sha256)


def _load_cells(path: str | os.PathLike[str], name: str) -> Music:
    """Load the piano rolls of a .mat file and call them by a name."""
    content, source = file_content(path), str(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, _ = load_mat(content, source, CELLS.__contains__)
    except InputError:
        raise
    except Exception as error:  # damage surfaces in SciPy
        raise InputError(f"{source} cannot be read as a .mat file: save it again") from error
    _check_names(CELLS, found, source)
    parts = [[_piece(each, cells, source) for each in _listed(found[cells], cells, source)] for cells in CELLS]
    return _music(name, parts, path, hashlib.sha256(content).hexdigest())


def _music(name: str, parts: Sequence[list[NDArray[np.float32]]], path: str | os.PathLike[str], digest: str) -> Music:
    """Put three parts together without their empty pieces, if their arrays fit into memory."""
    for part, pieces in zip(PARTS, parts, strict=True):
        if not any(map(len, pieces)):
            raise InputError(f"the {part} part of {path} has no piece with a step: give one")
        check_size((sum(map(len, pieces)), KEYS), 8, f"the {part} part of {path}")
    train, valid, test = ([piece for piece in pieces if len(piece)] for pieces in parts)
    empty = sum(len(piece) == 0 for pieces in parts for piece in pieces)
    return Music(name, train, valid, test, str(path), digest, left_out_note(empty, "piece") if empty else "")


def _check_names(names: Sequence[str], found: Any, source: str) -> None:
    """Raise InputError unless all of some names are there."""
    missing = [name for name in names if name not in found]
    if missing:
        raise InputError(f"{source} holds piano rolls and has no {', '.join(missing)}: give all three parts")


def _listed(cells: Any, name: str, source: str) -> list[Any]:
    """Return the entries of a cell array."""
    pieces = list(cells.ravel()) if isinstance(cells, np.ndarray) and cells.dtype == object else []
    if not pieces:
        raise InputError(f"{name} of {source} is no cell array with pieces: give cells of (steps, {KEYS}) matrices")
    return pieces


def _piece(piece: Any, name: str, source: str) -> NDArray[np.float32]:
    """Return one piece, (steps, 88) of 0 and 1; it may have no steps."""
    found = piece if isinstance(piece, np.ndarray) and piece.dtype.kind in "fiub" else np.zeros(1)
    if found.size == 0:
        return np.zeros((0, KEYS), dtype=np.float32)
    if found.shape[1:] != (KEYS,):
        shape = getattr(piece, "shape", "no shape")
        raise InputError(f"{name} of {source} holds a piece of shape {shape}: give (steps, {KEYS}) matrices of 0 and 1")
    if not ((found == 0) | (found == 1)).all():
        raise InputError(f"{name} of {source} holds numbers other than 0 and 1: give 1 where a key sounds, else 0")
    return found.astype(np.float32)
