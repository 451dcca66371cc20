"""Polyphonic music as piano rolls: which of 88 keys sound at each step.

The protocol is that of Boulanger-Lewandowski, Bengio & Vincent (2012) and their notes on evaluation: the mean
log-likelihood of a time step. Every step of every piece has the same weight, so longer pieces count more. This is the
objective of docs/specification.md, section 3, on `music_batch`, in nats per step: the cross entropy summed over the 88
keys, given all earlier chords. The first chord is predicted too, from an empty chord.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.corpora import find_files, read_text
from hfrnn.data.pieces import KEYS, Music, pieces_of
from hfrnn.data.rolls import load_cells
from hfrnn.data.synthetic import Sequences
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


def music_batch(pieces: Sequence[NDArray[np.float32]], least: int = 1) -> Sequences:
    """Put pieces side by side, for the logistic loss: the target at step t is the chord at t, the input the one before.

    Parameters
    ----------
    pieces : (T_i, 88) arrays of 0 and 1, at least one
        As in `Music`.
    least : int
        The smallest T of the arrays, so that batches of different pieces can have the same shape.

    Returns
    -------
    Sequences
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
    return Sequences(inputs, targets, weights, lengths)


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
