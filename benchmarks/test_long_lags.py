"""When a task of long_lags.py is learned, and which cells are done."""

from __future__ import annotations

from typing import Any

import page_training
import pytest
from long_lags import LENGTHS, METHODS, TASKS, Cell, has_ended, seconds_below, validation_updates

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


@pytest.mark.parametrize("method", METHODS)
def test_the_options_of_a_cell_are_options_of_a_run(method: str) -> None:
    for task in TASKS:
        TrainConfig(**checked_options(Cell(task, LENGTHS[0], method, 0).options(), "the cell")).resolved()


def test_the_page_tells_processor_time_from_older_minutes() -> None:
    old = {"learned": True, "minutes": 2.0, "errors": 0.001}
    assert page_training._outcome(old) == "learned in 2.0 min"
    new = {**old, "seconds_processor": 90.0, "seconds_below_2_percent": 60.0}
    assert page_training._outcome(new) == "learned in 1.5 min (below 2% in 60 s)"
    assert page_training._outcome({**new, "seconds_processor": 50.0}) == "learned in 50 s (below 2% in 60 s)"
    assert page_training._outcome({**new, "learned": False, "errors": None}) == "not in 2 min"
