"""Columns that a network cannot learn from: refused without a target, named on the screen if they are constant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.data_runs import TRAINED, write_table

import hfrnn
from hfrnn.errors import InputError

RNG = np.random.default_rng(5)
X = RNG.normal(size=(12, 9, 2))
MASK = RNG.integers(0, 2, size=(12, 9, 2))
MASK[:, 0] = 1


def file(folder: Path, **arrays: Any) -> Path:
    """Write arrays of 12 sequences; the last one validates."""
    np.savez(folder / "a.npz", **{"x": X, "y": X.cumsum(axis=1), **arrays})
    return folder / "a.npz"


def test_an_output_without_a_target_to_train_on_is_refused_by_name(tmp_path: Path) -> None:
    u = np.arange(60.0)  # the last tenth validates; b is known there only
    dead = write_table(tmp_path / "dead.csv", {"u": u, "a": u + 1, "b": np.where(u < 54, np.nan, u)})
    columns: dict[str, Any] = {"data": dead, "inputs": ["u"], "window": 6, "burn_in": 0, **TRAINED}
    with pytest.raises(InputError, match=r"^b has no known target in the training part .*: leave it out of --targets"):
        hfrnn.train(**columns, targets=["a", "b"], out=tmp_path / "run")
    hfrnn.train(**columns, targets=["a"], out=tmp_path / "run")


def test_an_output_of_arrays_without_a_target_needs_weights_that_were_trained(tmp_path: Path) -> None:
    mask = MASK.copy()
    mask[:11, :, 1] = 0
    first = hfrnn.train(data=file(tmp_path, mask=MASK), out=tmp_path / "first", **TRAINED).folder
    masked = file(tmp_path, mask=mask)
    with pytest.raises(InputError, match=r"^output 1 \(counted from 0\) of a\.npz has no known target in the training"):
        hfrnn.train(data=masked, out=tmp_path / "second", **TRAINED)
    hfrnn.train(data=masked, out=tmp_path / "second", init_from=first, **TRAINED)
