"""Pieces of music as piano rolls: which of 88 keys sound at each step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hfrnn.errors import InputError

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
