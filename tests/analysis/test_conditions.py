"""Accuracy of trials, and figures of each condition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from support.command_line import call, refused

import hfrnn
from hfrnn.analysis.conditions import MOST_CONDITIONS, at_last_step, by_condition
from hfrnn.analysis.sequences import own_sequences
from hfrnn.cli.evaluate import _condition_lines
from hfrnn.data.array_data import from_memory
from hfrnn.data.named_arrays import read_labels
from hfrnn.engine.batch import Batch
from hfrnn.engine.ragged_batch import RaggedBatch
from hfrnn.runs.folder import RunFolder

TRAINED: dict[str, Any] = {"arch": "rnn", "hidden": 3, "optimizer": "adam", "updates": 2, "backend": "numpy"}


def trials(folder: Path, ragged: bool) -> dict[str, Any]:
    """Trials whose class is known at their last steps; their condition; one has no scored step."""
    rng = np.random.default_rng(4)
    N, T = 30, 8
    lengths = rng.integers(5, T + 1, N) if ragged else np.full(N, T)
    kind = rng.integers(0, 2, N)
    steps = np.arange(T)
    mask = ((steps >= lengths[:, None] - 3) & (steps < lengths[:, None])) * 1.0
    mask[7] = 0
    found = {
        "x": rng.standard_normal((N, T, 1)) + kind[:, None, None], "y": np.repeat(kind[:, None], T, axis=1),
        "mask": mask, "lengths": lengths, "condition": np.array(["hard", "easy"])[rng.integers(0, 2, N)],
        "coherence": rng.integers(0, 3, N) * 0.5,
    }  # fmt: skip
    np.savez(folder / "trials.npz", **found)
    return found


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("path", [True, False])
def test_figures_of_conditions_and_of_last_answers_are_those_counted_by_hand(tmp_path, ragged, path) -> None:
    data, file = trials(tmp_path, ragged), tmp_path / "trials.npz"
    run = hfrnn.train(
        data=str(file), split="stratified", fractions=(0.5, 0.5, 0), out=tmp_path / "run", **TRAINED
    ).folder
    arguments = ["evaluate", run, *([file] if path else []), "--json"]
    net, theta, _ = hfrnn.load(run)
    answers = net.run(theta, hfrnn.Batch(data["x"].swapaxes(0, 1)))[0].argmax(axis=2).T
    right = answers == data["y"]
    kept = np.flatnonzero(data["mask"].any(axis=1))
    if not path:  # the trials that training has not seen, half of each class
        kept = held_out(run)
        assert abs(data["y"][kept, 0].mean() - data["y"][:, 0].mean()) < 0.05
    for by in ("condition", "coherence"):
        found = json.loads(call(*arguments, "--by", by).stdout)
        assert found["by"] == by
        ends = data["lengths"][kept] - 1
        assert found["trial_accuracy"] == pytest.approx(right[kept, ends].mean())
        values = data[by][kept]
        names = ["easy", "hard"] if by == "condition" else ["0", "0.5", "1"]
        assert list(found["conditions"]) == [name for name in names if name in set(map(label, values))]
        for name, row in found["conditions"].items():
            at = kept[np.array([label(value) == name for value in values])]
            assert row["trials"] == at.size
            assert row["steps"] == data["mask"][at].sum()
            assert row["accuracy"] == pytest.approx(right[at][data["mask"][at] > 0].mean())
            assert row["trial_accuracy"] == pytest.approx(right[at, data["lengths"][at] - 1].mean())


def test_the_accuracy_of_trials_of_a_run_that_scales_is_that_of_scaled_inputs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 60)
    x = 1000 + 50 * kind[:, None, None] + rng.standard_normal((60, 1, 2))  # one step: every figure is that of the last
    np.savez(tmp_path / "data.npz", x=x, y=kind[:, None])
    run = hfrnn.train(data=tmp_path / "data.npz", standardize=True, out=tmp_path / "run", **{**TRAINED, "updates": 60})
    found = json.loads(call("evaluate", run.folder, tmp_path / "data.npz", "--json").stdout)
    assert found["trial_accuracy"] == found["accuracy"] > 0.9


def test_sequences_keep_their_numbers_where_others_have_no_scored_step(tmp_path: Path) -> None:
    trials(tmp_path, False)
    run = hfrnn.train(data=str(tmp_path / "trials.npz"), out=tmp_path / "run", **TRAINED).folder
    found = json.loads(call("evaluate", run, tmp_path / "trials.npz", "--by", "sequence", "--json").stdout)
    assert list(found["conditions"]) == [str(n) for n in range(30) if n != 7]


def label(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def held_out(run: Any) -> Any:
    """The numbers of the trials for validation."""
    from hfrnn.runs.folder import RunFolder
    from hfrnn.sources.open import open_source

    folder = RunFolder(run)
    return open_source(folder.config(), folder).plain_part("valid").origin


def test_conditions_of_the_rows_of_a_table_and_of_recordings(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [(r, "ab"[r % 2], u, 0.5 * u) for r in range(6) for u in rng.standard_normal(20)]
    table = tmp_path / "table.csv"
    table.write_text("trial,kind,u,y\n" + "".join(f"{r},{k},{u},{y}\n" for r, k, u, y in rows))
    options = {"inputs": "u", "targets": "y", "window": 10, "burn_in": 2, "recording": "trial", "split": "random"}
    run = hfrnn.train(data=str(table), out=tmp_path / "run", **options, **TRAINED).folder
    found = json.loads(call("evaluate", run, table, "--by", "kind", "--json").stdout)
    assert {name: (row["trials"], row["steps"]) for name, row in found["conditions"].items()} == {
        "a": (3, 3 * 18), "b": (3, 3 * 18)
    }  # fmt: skip
    total = sum(row["steps"] * row["mse"] for row in found["conditions"].values())
    assert total / found["steps"] == pytest.approx(found["mse"])
    lines = call("evaluate", run, table, "--by", "kind").stdout.splitlines()
    assert lines[4].split()[:3] == ["kind", "trials", "steps"]


def test_a_recording_shorter_than_the_rows_ahead_has_no_conditions(tmp_path: Path) -> None:
    rows = [(r, "ab"[k % 2], 0.1 * k) for r, n in (("long", 60), ("short", 2)) for k in range(n)]
    (tmp_path / "both.csv").write_text("trial,kind,u,y\n" + "".join(f"{r},{k},{u},{u}\n" for r, k, u in rows))
    (tmp_path / "long.csv").write_text("trial,kind,u,y\n" + "".join(f"{r},{k},{u},{u}\n" for r, k, u in rows[:60]))
    options = {"inputs": "u", "targets": "y", "window": 10, "recording": "trial", "ahead": 3}
    run = hfrnn.train(data=str(tmp_path / "long.csv"), out=tmp_path / "run", **options, **TRAINED).folder
    both, alone = (
        json.loads(call("evaluate", run, tmp_path / f"{name}.csv", "--by", "kind", "--json").stdout)
        for name in ("both", "long")
    )
    assert both["conditions"] == alone["conditions"]


@pytest.mark.parametrize("ahead", [0, 3])
def test_conditions_of_the_windows_of_own_tables_are_those_of_the_rows_with_the_targets(
    tmp_path: Path, ahead: int
) -> None:  # fmt: skip
    rng = np.random.default_rng(0)
    rows = [(r, u, u - 1) for r in range(4) for u in rng.standard_normal(40)]
    table = tmp_path / "table.csv"
    table.write_text("trial,u,y,sign\n" + "".join(f"{r},{u},{y},{'neg' if y < 0 else 'pos'}\n" for r, u, y in rows))
    options = {"inputs": "u", "targets": "y", "window": 10, "burn_in": 2, "recording": "trial", "ahead": ahead}
    run = hfrnn.train(
        data=str(table), out=tmp_path / "run", split="random", fractions=(0.5, 0.5, 0), **options, **TRAINED
    )
    batch = own_sequences(RunFolder(run.folder)).batch.padded()
    positive = np.asarray(batch.targets)[:, :, 0] >= 0
    scored = np.asarray(batch.weights) > 0
    found = json.loads(call("evaluate", run.folder, "--by", "sign", "--json").stdout)["conditions"]
    for name, here in (("pos", scored & positive), ("neg", scored & ~positive)):
        assert (found[name]["trials"], found[name]["steps"]) == (here.any(axis=0).sum(), here.sum())
    each = json.loads(call("evaluate", run.folder, "--by", "sequence", "--json").stdout)["conditions"]
    assert [row["steps"] for row in each.values()] == scored.sum(axis=0).tolist()
    assert list(each) == [str(n) for n in range(batch.B)]


def test_conditions_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    data = trials(tmp_path, False)
    run = hfrnn.train(data=str(tmp_path / "trials.npz"), out=tmp_path / "run", **TRAINED).folder
    scipy.io.savemat(tmp_path / "few.mat", {**{name: data[name] for name in "xy"}, "c": [1, 2], "m": np.eye(3)})
    assert "holds 2 values, and there are 30 sequences" in refused("evaluate", run, tmp_path / "few.mat", "--by", "c")
    assert "which is no list" in refused("evaluate", run, tmp_path / "few.mat", "--by", "m")
    listed = "no such array (did you mean condition?): it holds x, y, mask, lengths, coherence, condition"
    assert listed in refused("evaluate", run, "--by", "conditions")
    with pytest.raises(hfrnn.InputError, match="at most 200 are shown"):
        by_condition(np.arange(MOST_CONDITIONS + 1).astype(str), hfrnn.Batch(np.zeros((2, 201, 1))), lambda batch: {})


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_conditions_that_are_numbers_keep_all_digits(tmp_path: Path, kind: str) -> None:
    np.savez(tmp_path / "a.npz", c=np.array([0.1, 100000.25, 100000.5, 2, 1e-7], kind))
    assert read_labels(str(tmp_path / "a.npz"), "c").tolist() == ["0.1", "100000.25", "100000.5", "2", "1e-07"]


@pytest.mark.parametrize("ragged", [False, True])
def test_trials_of_a_condition_keep_their_initial_states(ragged: bool) -> None:
    x, state = [np.zeros((T, 1)) for T in (4, 3 if ragged else 4, 4)], [{"h": np.arange(6.0).reshape(3, 2)}]
    pool = from_memory({"x": x, "y": [np.arange(len(each)) % 2 for each in x]}, fractions=(1, 0, 0)).train
    batch = RaggedBatch(pool, slice(None), state) if ragged else Batch(*pool.select(slice(None)), state)
    found: Any = by_condition(np.array(["a", "b", "a"]), batch, lambda part: {"begin": part.initial_state[0]["h"]})
    np.testing.assert_array_equal(found["a"]["begin"], state[0]["h"][[0, 2]])
    np.testing.assert_array_equal(at_last_step(batch).initial_state[0]["h"], state[0]["h"])


@pytest.mark.parametrize("ragged", [False, True])
def test_trials_count_alike_whatever_the_weights_of_their_last_steps(ragged: bool) -> None:
    x = [np.zeros((T, 1)) for T in (4, 3 if ragged else 4, 4)]
    masks = [np.r_[np.full(len(each) - 2, 1.0), n + 1.0, 0.0] for n, each in enumerate(x)]
    arrays = {"x": x, "y": [np.arange(len(each)) % 2 for each in x], "mask": masks}
    pool = from_memory(arrays, fractions=(1, 0, 0)).train
    batch = RaggedBatch(pool, slice(None)) if ragged else Batch(*pool.select(slice(None)))
    found = at_last_step(batch).padded()
    ends = [np.flatnonzero(weights).tolist() for weights in np.asarray(found.weights).T]
    assert ends == [[2], [1 if ragged else 2], [2]]
    assert np.asarray(found.weights).max() == 1


def test_a_table_of_no_conditions_is_empty() -> None:
    assert len(_condition_lines({"by": "kind", "conditions": {}}, ["mse"])) == 1
