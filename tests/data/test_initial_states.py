"""Initial states in data: arrays with one state for each sequence, and columns of tables."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.data_runs import TRAINED, write_table
from support.engine_cases import cases, random_state, replace
from support.pairwise import label

import hfrnn
from hfrnn.analysis.sequences import evaluate_sequences, file_sequences
from hfrnn.data.array_data import from_memory
from hfrnn.data.windows import Windows
from hfrnn.engine.layers import state_rows, state_width
from hfrnn.engine.ragged_batch import RaggedBatch
from hfrnn.errors import InputError
from hfrnn.runs.folder import RunFolder
from hfrnn.sources.open import open_source

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("case", cases("carried"), ids=label)
def test_rows_of_entries_are_the_state_that_they_spell(case: Any) -> None:
    net, batch = case.net(hidden=(4, 3)), case.data()
    theta, state = net.init(seed=1), random_state(net, RNG, batch.B)
    state = [{name: 0 if isinstance(x, int) else x for name, x in layer.items()} for layer in state]
    rows = state_rows(state)
    assert rows.shape == (batch.B, state_width(net.layers))
    for layer in state:
        for value in layer.values():
            if not isinstance(value, int):
                value[..., 1, :] = 0
    rows[1] = np.nan  # stands for zeros
    one, other = replace(batch, initial_state=state), replace(batch, initial_state=rows)
    expected = net.loss_and_gradient(theta, one)
    for given in (other, pickle.loads(pickle.dumps(other))):
        found = net.loss_and_gradient(theta, given)
        assert found[0] == expected[0]
        np.testing.assert_array_equal(found[1], expected[1])
    assert net.loss(theta, other.columns(1, 3)) == net.loss(theta, one.columns(1, 3))
    with pytest.raises(InputError, match="and the network's state"):
        net.loss(theta, replace(batch, initial_state=rows[:, 1:]))


def test_wrong_rows_are_refused() -> None:
    x = np.zeros((5, 2, 1))
    for rows, message in (
        (np.zeros((3, 4)), "one row for each sequence"),
        (np.array([[1, np.nan], [0, 0]]), "NaN in a part of a row"),
        (np.full((2, 4), np.inf), "infinity"),
    ):
        with pytest.raises(InputError, match=message):
            hfrnn.Batch(x, initial_state=rows)


def test_arrays_bring_a_state_for_each_sequence() -> None:
    x, states = [RNG.standard_normal((T, 1)) for T in (5, 3, 4, 6)], RNG.standard_normal((4, 2))
    data = from_memory({"x": x, "y": x, "initial_state": states}, fractions=(0.75, 0.25, 0))
    assert data.valid is not None
    np.testing.assert_array_equal(data.train.states, states[:3])
    np.testing.assert_array_equal(data.valid.states, states[3:])
    ragged = RaggedBatch(data.train, np.array([2, 0])).by_length()
    np.testing.assert_array_equal(ragged.initial_state, states[[0, 2]])
    np.testing.assert_array_equal(ragged.columns(1, 2).initial_state, states[[2]])
    for wrong in (states[:3], states[:, 0], np.full((4, 2), np.nan)):
        with pytest.raises(InputError, match="initial_state of data"):
            from_memory({"x": x, "y": x, "initial_state": wrong})


def test_rows_that_begin_later_say_that_the_given_state_is_not_used() -> None:
    arrays = {"x": np.ones((40, 1)), "y": np.ones((40, 1)), "initial_state": np.ones(3)}
    said, used = (from_memory(arrays, windows=Windows(8), rows={"train": rows}).notes for rows in ((1, None), (0, 30)))
    assert "the first row is left out, so the initial state that is given before it is not used" in said
    assert not any("initial state" in note for note in used)


def test_columns_of_a_table_hold_the_state_before_its_rows(tmp_path: Path) -> None:
    steps = {"u": RNG.standard_normal(60), "y": RNG.standard_normal(60)}
    known = np.full((2, 60), np.nan)
    known[:, [0, 20]] = [[1, 2], [3, 4]]  # the other windows begin with zeros
    table = write_table(tmp_path / "t.csv", {**steps, "a": known[0], "b": known[1], "r": [0] * 20 + [1] * 40})
    how: dict[str, Any] = {**TRAINED, "hidden": 2, "updates": 1, "window": 10, "stride": 10, "burn_in": 2}
    how |= {"data": str(table), "inputs": "u", "targets": "y", "recording": "r", "fractions": (0.5, 0.5, 0)}
    run = hfrnn.train(**how, initial_state=("a", "b"), out=tmp_path / "run")
    folder, zeros = RunFolder(tmp_path / "run"), hfrnn.train(**how, out=tmp_path / "zeros")
    parts = open_source(folder.config(), folder).data.data
    np.testing.assert_array_equal(parts.train.states, [[1, 3], [2, 4], [np.nan, np.nan]])
    assert np.isnan(parts.valid.states).all()
    given = file_sequences(folder, run.net, str(table))
    np.testing.assert_array_equal(given.batch.initial_state, [[1, 3], [2, 4]])
    found = evaluate_sequences(run.net, run.theta, folder.config(), None, folder, str(table))
    assert found["initial_state"] == "given"
    own = evaluate_sequences(run.net, run.theta, folder.config(), "valid", folder)  # no row there has a state
    assert own["initial_state"] == "zeros"
    assert (run.theta != zeros.theta).any()
    with pytest.raises(InputError, match="initial_state has 1 column, and the network's state 2 entries"):
        hfrnn.train(**how, initial_state="a", out=tmp_path / "other")
    assert not (tmp_path / "other").exists()
    known[:, 20] = np.nan
    how["data"] = str(write_table(tmp_path / "gap.csv", {**steps, "a": known[0], "r": [0] * 20 + [1] * 40}))
    with pytest.raises(InputError, match=r"column a of .* has no value in line 22, the first one of a recording"):
        hfrnn.train(**how, initial_state="a", out=tmp_path / "other")
