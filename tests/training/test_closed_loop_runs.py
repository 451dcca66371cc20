"""Runs in a closed loop: validation by free runs, the rise of the share, and resuming to the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import call, refused
from support.data_runs import write_table

import hfrnn
from hfrnn.analysis.sequences import own_sequences
from hfrnn.engine.closed_loop import ClosedLoop
from hfrnn.runs.folder import RunFolder

HOW: dict[str, Any] = {
    "inputs": ("u", "y"), "targets": "y", "window": 25, "burn_in": 5, "arch": "rnn", "hidden": 4, "dtype": "float64",
    "backend": "numpy", "threads": 1, "closed_loop": 0.8, "closed_loop_rise": 2,
}  # fmt: skip
OPTIMIZERS: dict[str, dict[str, Any]] = {"hf": {"cg_iterations": 5}, "adam": {"log_interval": 1, "streams": 3}}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    u = np.random.default_rng(0).uniform(-1, 1, 300)
    y = np.zeros(300)
    for t in range(299):
        y[t + 1] = 0.8 * y[t] + np.tanh(u[t])
    return write_table(tmp_path / "data.csv", {"u": u, "y": 50 + 10 * y})


def weights(run: Any) -> Any:
    return hfrnn.load(run.folder, which="last").theta


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_run_is_validated_by_free_runs_and_resumes_to_the_same_bits(table, tmp_path: Path, optimizer: str) -> None:
    how = {**HOW, "data": str(table), "optimizer": optimizer, **OPTIMIZERS[optimizer]}
    run = hfrnn.train(**how, updates=4, out=tmp_path / "run")
    net, theta, _ = hfrnn.load(run.folder)
    given = own_sequences(RunFolder(run.folder), "valid")
    assert given.scaling is not None
    free = hfrnn.score_free_run(net, theta, given.batch, scaling=given.scaling, feedback=[1]).overall["mse"]
    deviation = float(given.scaling.target_deviation[0])
    assert run.summary["best"]["valid_loss"] == pytest.approx(0.5 * free / deviation**2, rel=1e-9)
    hfrnn.train(**how, updates=2, out=tmp_path / "part")
    again = hfrnn.train(resume=tmp_path / "part", updates=4)
    np.testing.assert_array_equal(weights(again), weights(run))
    two = hfrnn.train(**{**how, "threads": 2}, updates=4, out=tmp_path / "threads")
    np.testing.assert_array_equal(weights(two), weights(run))
    other = hfrnn.train(**{**how, "closed_loop": 0.4}, updates=4, out=tmp_path / "other")
    assert (weights(other) != weights(run)).any()


def test_the_share_rises_from_update_to_update(table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, int, int]] = []
    made = ClosedLoop.of_batch

    def of_batch(self: ClosedLoop, *arguments: Any) -> Any:
        if self.share < 1:
            seen.append((self.share, self.draw, self.warm_up))
        return made(self, *arguments)

    monkeypatch.setattr(ClosedLoop, "of_batch", of_batch)
    hfrnn.train(**{**HOW, "closed_loop_rise": 4, "minutes": None}, data=str(table), optimizer="adam", streams=3,
                updates=6, log_interval=1, out=tmp_path / "run")  # fmt: skip
    drawn = [each for each in dict.fromkeys(seen) if each[0] > 0]
    assert drawn == [(pytest.approx(0.8 * min(k / 4, 1)), k, 6) for k in range(1, 6)]


def test_the_feedback_of_arrays_is_named_and_kept_for_scores(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((12, 8, 3))
    np.savez(tmp_path / "data.npz", x=x, y=x[:, :, :2])
    more = ["--feedback", "0,1", "--arch", "rnn", "--hidden", 3, "--updates", 1, "--threads", 1, "--backend", "numpy"]
    start = ["train", "--data", tmp_path / "data.npz", "--out", tmp_path / "run", *more]
    call(*start, "--closed-loop", 1, "--closed-loop-rise", 0)
    first, *rest = (call("evaluate", tmp_path / "run", "--steps-ahead", "all", *given, "--json").stdout
                    for given in ([], ["--feedback", "0,1"], ["--feedback", "1,0"]))  # fmt: skip
    assert first == rest[0] != rest[1]
    assert "--closed-loop was not" in refused(*start)
    loop = [*start[:4], tmp_path / "other", *more[2:], "--closed-loop", 1]
    assert "give with --feedback" in refused(*loop)
    assert "leave one of them out" in refused(*loop, *more[:2], "--optimizer", "sgd", "--clip-error", 1)
    np.savez(tmp_path / "data.npz", x=x, y=1.0 * (x[:, :, :2] > 0))
    assert "it is for real targets with --loss squared" in refused(*loop, *more[:2])
    for other in (["--data", "addition", "--length", 20], ["--data", tmp_path / "data.npz", "--optimizer", "online"]):
        assert "--closed-loop" in refused("train", *loop[3:], *other)
