"""Columns that a network cannot learn from: refused without a target, named on the screen if they are constant."""

import numpy as np
import pytest
from support.data_runs import TRAINED, write_table

import hfrnn
from hfrnn.errors import InputError
from hfrnn.runs.config import TrainConfig
from hfrnn.sources.open import open_source

RNG = np.random.default_rng(5)
X = RNG.normal(size=(12, 9, 2))
MASK = RNG.integers(0, 2, size=(12, 9, 2))
MASK[:, 0] = 1


def file(folder, **arrays):
    """Write arrays of 12 sequences; the last one validates."""
    np.savez(folder / "a.npz", **{"x": X, "y": X.cumsum(axis=1), **arrays})
    return folder / "a.npz"


def test_an_output_without_a_target_to_train_on_is_refused_by_name(tmp_path):
    u = np.arange(60.0)  # the last tenth validates; b is known there only
    dead = write_table(tmp_path / "dead.csv", {"u": u, "a": u + 1, "b": np.where(u < 54, np.nan, u)})
    columns = {"data": dead, "inputs": ["u"], "window": 6, "burn_in": 0, **TRAINED}
    with pytest.raises(InputError, match=r"^b has no known target in the training part .*: leave it out of targets="):
        hfrnn.train(**columns, targets=["a", "b"], out=tmp_path / "run")
    hfrnn.train(**columns, targets=["a"], out=tmp_path / "run")


def test_an_output_of_arrays_without_a_target_needs_weights_that_were_trained(tmp_path):
    mask = MASK.copy()
    mask[:11, :, 1] = 0
    first = hfrnn.train(data=file(tmp_path, mask=MASK), out=tmp_path / "first", **TRAINED).folder
    masked = file(tmp_path, mask=mask)
    with pytest.raises(InputError, match=r"^output 1 \(counted from 0\) of a\.npz has no known target in the training"):
        hfrnn.train(data=masked, out=tmp_path / "second", **TRAINED)
    hfrnn.train(data=masked, out=tmp_path / "second", init_from=first, **TRAINED)


def constant(data, **options):
    """The lines at the start of a run that name constant columns."""
    source = open_source(TrainConfig(data=str(data), arch="rnn", **options).resolved())
    return [line for line in map(str, source.lines()) if "there is only one value of" in line]


def test_constant_columns_of_the_training_part_are_named(tmp_path):
    u = np.arange(60.0)
    table = write_table(
        tmp_path / "t.csv",
        {"u": u, "gain": np.full(60, 0.1), "a": u**2, "b": np.where(u % 3 == 0, np.nan, np.where(u < 54, 5.0, u))},
    )
    columns = {"window": 6, "ahead": 0}
    assert constant(table, inputs=["u", "gain"], targets=["a", "b"], **columns) == [
        "hint      check the data: in the training part there is only one value of input gain and target b"
    ]
    assert constant(table, inputs=["u"], targets=["a"], **columns) == []


def test_the_padding_and_what_is_not_scored_make_no_column_vary(tmp_path):
    x, y, lengths = X.copy(), X.copy(), np.full(12, 7)
    x[:, :7, 1], y[:, :, 0] = 3.0, np.where(MASK[:, :, 0] > 0, 0.5, X[:, :, 0])
    assert constant(file(tmp_path, x=x, y=y, mask=MASK, lengths=lengths)) == [
        "hint      check the data: in the training part there is only one value of input 1 (counted from 0) and "
        "target 0 (counted from 0)"
    ]
    assert constant(file(tmp_path, y=np.ones((12, 9), dtype=int))) == []  # classes
