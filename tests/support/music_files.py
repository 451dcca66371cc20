"""Small piano rolls as the files of a music corpus."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.music import KEYS

PARTS = ("train", "valid", "test")


def pieces_of(*lengths: int, seed: int = 0) -> list[NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    return [(rng.random((length, KEYS)) < 0.1).astype(np.float32) for length in lengths]


def stored(**replaced: Any) -> bytes:
    """An npz of three small parts; an array replaced by None is left out."""
    arrays: dict[str, Any] = {}
    for seed, part in enumerate(PARTS):
        pieces = pieces_of(3, 5 + seed, seed=seed)
        arrays[f"{part}_packed"] = np.packbits(np.concatenate(pieces).astype(np.uint8), axis=1)
        arrays[f"{part}_lengths"] = np.array([len(piece) for piece in pieces])
    arrays.update(replaced)
    file = io.BytesIO()
    np.savez(file, **{name: array for name, array in arrays.items() if array is not None})
    return file.getvalue()
