"""When a task of long_lags.py is learned, and which cells are done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import page_training
import pytest
from click.testing import CliRunner
from long_lags import LENGTHS, METHODS, TASKS, Cell, has_ended, main, seconds_below, validation_updates
from remedies import TRIALS

from hfrnn.runs.config import TrainConfig, checked_options


def point(update: int, seconds: float, errors: float | None) -> dict[str, Any]:
    return {"update": update, "seconds_processor": seconds, "valid_errors": errors}


POINTS = [point(500, 4.0, None), point(1000, 8.0, 0.02), point(1500, 12.0, 0.019), point(2000, 16.0, 0.009)]


def test_the_first_validation_below_a_share_counts() -> None:
    assert [seconds_below(POINTS, share) for share in (0.03, 0.02, 0.01, 0.005)] == [8.0, 12.0, 16.0, None]
    assert seconds_below([], 0.02) is None
    assert seconds_below([{"seconds": 3.0, "valid_errors": 0.0}], 0.02) == 3.0


def test_the_updates_between_validations_are_a_median() -> None:
    assert validation_updates(POINTS) == 500
    assert validation_updates([point(1, 1.0, 0.5), point(2, 2.0, 0.5)]) == 1
    assert validation_updates([]) is None


@pytest.mark.parametrize(
    ("found", "ended"),
    [
        ({"seconds_processor": 90.0, "stopped": "success"}, True),
        ({"seconds_processor": 600.0, "stopped": "callback"}, True),
        ({"seconds_processor": 300.0, "stopped": "callback"}, False),
        ({"seconds_processor": 300.0, "stopped": "a loss or gradient that is not finite"}, True),
        ({"minutes": 9.98, "stopped": "time"}, True),
        ({"minutes": 5.0, "stopped": "time"}, False),
    ],
)
def test_a_cell_is_done_when_it_is_learned_or_its_budget_is_used(found: dict[str, Any], ended: bool) -> None:
    assert has_ended(found, 600.0) == ended


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("method", METHODS)
def test_the_options_of_a_cell_are_options_of_a_run(method: str) -> None:
    for task in TASKS:
        TrainConfig(**checked_options(Cell(task, LENGTHS[0], method, 0).options(LENGTHS[0]), "the cell")).resolved()


def test_the_options_of_trials_are_options_of_a_run_and_a_curriculum_begins_with_the_least_length() -> None:
    for trial in TRIALS.values():
        TrainConfig(**checked_options(trial.options_for("xor", 50, 0), "the trial")).resolved()
    assert TRIALS["curriculum"].lengths("xor", 100) == [21, 42, 84, 100]
    assert TRIALS["default"].lengths("xor", 100) == [100]


def test_the_page_tells_processor_time_from_older_minutes() -> None:
    old = {"learned": True, "minutes": 2.0, "errors": 0.001}
    assert page_training._outcome(old) == "learned in 2.0 min"
    new = {**old, "seconds_processor": 90.0, "seconds_below_2_percent": 60.0}
    assert page_training._outcome(new) == "learned in 1.5 min (below 2% in 60 s)"
    assert page_training._outcome({**new, "seconds_processor": 50.0}) == "learned in 50 s (below 2% in 60 s)"
    assert page_training._outcome({**new, "learned": False, "errors": None}) == "not in 2 min"


def test_a_curriculum_doubles_the_length_up_to_that_of_the_cell() -> None:
    assert Cell("addition", 200, "hf", 0, True).lengths() == [50, 100, 200]
    assert Cell("addition", 50, "hf", 0, True).lengths() == [50]
    assert Cell("addition", 200, "hf", 0).lengths() == [200]


@pytest.mark.slow
def test_every_run_of_a_curriculum_starts_from_the_one_before_and_shares_its_seconds(tmp_path: Path) -> None:
    arguments = ["--task", "random-permutation", "--length", "100", "--method", "hf", "--seed", "0", "--curriculum"]
    arguments += ["--runs", str(tmp_path), "--out", str(tmp_path)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "long_lags" / "random-permutation-100-hf-0-curriculum.json").read_text())
    assert found["learned"]
    assert [run["length"] for run in found["runs"]] == [50, 100]
    assert sum(run["seconds_processor"] for run in found["runs"]) == pytest.approx(found["seconds_processor"])
    assert found["curve"][-1]["seconds_processor"] == pytest.approx(found["seconds_processor"], abs=0.01)
    second = (tmp_path / "random-permutation-100-hf-0-curriculum-100" / "config.toml").read_text()
    assert "random-permutation-100-hf-0-curriculum-50" in second
    assert "done, left as it is" in CliRunner().invoke(main, arguments).output


def test_a_curriculum_ends_with_a_length_that_is_not_learned(tmp_path: Path) -> None:
    arguments = ["--task", "addition", "--length", "100", "--method", "hf", "--seed", "0", "--curriculum"]
    done = CliRunner().invoke(main, [*arguments, "--minutes", "0.001", "--runs", str(tmp_path), "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "long_lags" / "addition-100-hf-0-curriculum.json").read_text())
    assert not found["learned"]
    assert found["seconds_below_2_percent"] is None
    assert [run["length"] for run in found["runs"]] == [50]
