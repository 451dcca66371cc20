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
from hfrnn.data.synthetic import Sequences
from hfrnn.errors import InputError

KEYS = 88
"""The number of keys of a piano; key k is MIDI note 21 + k."""


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

    Examples
    --------
    >>> music = load_music("jsb")  # doctest: +SKIP
    >>> len(music.train), music.train[0].shape  # doctest: +SKIP
    (229, (129, 88))
    """
    if name not in COLLECTIONS:
        raise InputError(f"there is no music named {name!r}; use one of {', '.join(COLLECTIONS)}")
    (path,) = find_files(name, COLLECTIONS[name].files)
    if path.suffix == ".mat":
        from hfrnn.data.rolls import load_cells

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
