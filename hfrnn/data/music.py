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
import io
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.choices import PARTS
from hfrnn.data.array_files import check_size, file_content, load_mat, mat_names, npz_names, read_array_file
from hfrnn.data.corpora import find_files, read_text
from hfrnn.data.tasks import TaskSequences
from hfrnn.errors import InputError


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
    """Load a collection of piano rolls.

    Parameters
    ----------
    name : {"jsb"}
        The chorales of J. S. Bach, one step per quarter note, from the file `jsb/JSB_Chorales.mat` or `jsb/jsb.npz`.
        It is searched and, if it is missing, downloaded like a corpus. The first has the cells `{train,valid,test}data`
        of (steps, 88) matrices. The second has `{train,valid,test}_packed`, (steps of all pieces, 11) uint8,
        with the 88 keys packed into bits, and `{train,valid,test}_lengths`, (pieces,), the steps of each piece.

    Returns
    -------
    Music

    Raises
    ------
    InputError
        The name is unknown, or the file is missing or damaged.
    HfrnnError
        The file cannot be downloaded.
    """
    if name not in COLLECTIONS:
        raise InputError(f"there is no music named {name!r}; use one of {', '.join(COLLECTIONS)}")
    (path,) = find_files(name, COLLECTIONS[name].files)
    if path.suffix == ".mat":
        return load_cells(path, name)
    data = read_text(path, "byte")
    assert isinstance(data, bytes)
    arrays = _unzipped(data, str(path))
    train, valid, test = (pieces_of(arrays, part, str(path)) for part in ("train", "valid", "test"))
    return Music(name, train, valid, test, str(path), hashlib.sha256(data).hexdigest())


def music_batch(pieces: Sequence[NDArray[np.float32]], least: int = 1) -> TaskSequences:
    """Put pieces side by side, for the logistic loss: the target at step t is the chord at t, the input the one before.

    Parameters
    ----------
    pieces : (T_i, 88) arrays of 0 and 1, at least one
        As in `Music`.
    least : int
        The smallest T of the arrays, so that batches of different pieces can have the same shape.

    Returns
    -------
    TaskSequences
        inputs (T, B, 88) float32, an empty chord and then the piece without its last chord; targets (T, B, 88) float32,
        the piece; weights (T, B) float32, 1 at every step of a piece; lengths (B,). T = max(longest piece, least).

    Raises
    ------
    InputError
        There are no pieces, or a piece has another shape or no steps.
    """
    if not pieces:
        raise InputError("a batch needs pieces, and no pieces were given; give at least one")
    for piece in pieces:
        if np.ndim(piece) != 2 or np.shape(piece)[1] != KEYS or len(piece) < 1:
            raise InputError(f"a piece has shape {np.shape(piece)}; expected (steps, {KEYS}) with at least one step")
    lengths = np.array([len(piece) for piece in pieces], dtype=np.int64)
    T, B = max(int(lengths.max()), least), len(pieces)
    inputs = np.zeros((T, B, KEYS), dtype=np.float32)
    targets = np.zeros((T, B, KEYS), dtype=np.float32)
    for column, piece in enumerate(pieces):
        targets[: len(piece), column] = piece
        inputs[1 : len(piece), column] = piece[:-1]
    weights = (np.arange(T)[:, None] < lengths).astype(np.float32)
    return TaskSequences(inputs, targets, weights, lengths)


def _unzipped(data: bytes, source: str) -> dict[str, NDArray[np.generic]]:
    """Return the six arrays of the file; pickled objects are refused."""
    names = [f"{part}_{what}" for part in ("train", "valid", "test") for what in ("packed", "lengths")]
    try:
        archive = np.load(io.BytesIO(data), allow_pickle=False)
        held = set(archive.files)
        arrays = {name: np.asarray(archive[name]) for name in names if name in held}
    except Exception as error:  # damage can surface in NumPy, zipfile or zlib
        raise InputError(f"{source} cannot be read as an npz file of plain arrays; get the file again") from error
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InputError(f"{source} has no array {', '.join(missing)}; get the file again")
    return arrays


# ------------------------------------------------------------------ pieces


KEYS = 88
"""The number of keys of a piano; key k is MIDI note 21 + k."""


@dataclass(frozen=True)
class Music:
    """A collection of piano rolls.

    Attributes
    ----------
    name : str
    train, valid, test : list of (T, 88) arrays, float32
        The pieces of each part: 1 where a key sounds, else 0.
    source : str
        The path of the file or folder.
    sha256 : str
        The hash of the file, or of the files of a folder and their names.
    note : str
        A line about the pieces for the screen, if there is more to say.
    """

    name: str
    train: list[NDArray[np.float32]]
    valid: list[NDArray[np.float32]]
    test: list[NDArray[np.float32]]
    source: str
    sha256: str
    note: str = ""

    def part(self, name: str) -> list[NDArray[np.float32]]:
        """Return the pieces of the part "train", "valid" or "test".

        Raises
        ------
        InputError
            The part has no pieces.
        """
        pieces = {"train": self.train, "valid": self.valid, "test": self.test}
        if not pieces[name]:
            held = " or ".join(each for each in pieces if pieces[each])
            raise InputError(f"{self.name} has no {name} part: use {held}")
        return pieces[name]


def pieces_of(arrays: dict[str, NDArray[np.generic]], part: str, source: str) -> list[NDArray[np.float32]]:
    """Unpack the steps of one part and cut them into pieces."""
    packed, lengths = arrays[f"{part}_packed"], arrays[f"{part}_lengths"]
    if packed.dtype != np.uint8 or packed.shape[1:] != (KEYS // 8,):
        raise InputError(
            f"{source} is damaged: {part}_packed is an array of {packed.dtype} {packed.shape}; "
            f"expected uint8 (steps, {KEYS // 8})"
        )
    if lengths.dtype.kind not in "iu" or lengths.ndim != 1 or not lengths.size or int(lengths.min()) < 1:
        raise InputError(
            f"{source} is damaged: {part}_lengths is an array of {lengths.dtype} {lengths.shape}; "
            "expected a row of whole numbers of at least 1"
        )
    if sum(lengths.tolist()) != len(packed):
        raise InputError(
            f"{source} is damaged: {part}_lengths sum to {sum(lengths.tolist())}, but there are {len(packed)} steps"
        )
    rolls = np.unpackbits(packed.astype(np.uint8), axis=1).astype(np.float32)  # (steps, 88)
    return np.split(rolls, np.cumsum(lengths)[:-1])


# ------------------------------------------------------------------ files of piano rolls


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
