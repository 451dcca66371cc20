"""The cells of dynamics.py, how trials are chosen, and how times are compared."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comparison import read_cells
from dynamics import TASKS, TRIALS, Cell, data_of, wanted_cells
from dynamics_results import METHODS, best_loss, chosen_trial, compared, draw, ratios, rows, time_to
from support.pictures import needs_matplotlib

from hfrnn.engine.batch import Batch
from hfrnn.runs.config import TrainConfig, checked_options


def result(method: str, trial: str, seed: int, *losses: float, tunes: bool = False) -> dict[str, Any]:
    curve = [{"seconds_processor": 10.0 * n, "valid_loss": loss} for n, loss in enumerate(losses, 1)]
    cell = {"task": "sine", "method": method, "trial": trial, "seed": seed, "tunes": tunes}
    return {"cell": cell, "budget": 300.0, "best": min(losses), "curve": curve, "seconds_processor": 300.0}


def save(folder: Path, *results: dict[str, Any]) -> None:
    for each in results:
        (folder / f"{Cell(**each['cell']).name}.json").write_text(json.dumps(each), "utf-8")


def test_first_order_methods_have_as_many_trials() -> None:
    assert {method: len(trials) for method, trials in TRIALS.items()} == dict.fromkeys(METHODS, 3) | {"hf": 1}
    assert tuple(TRIALS) == METHODS


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TASKS)
def test_the_options_of_a_cell_are_options_of_a_run(task: str, method: str) -> None:
    for trial in TRIALS[method]:
        options = checked_options({**Cell(task, method, trial, 0).options(), "data": "sine"}, "the cell")
        assert TrainConfig(**options).resolved().threads == 1


@pytest.mark.parametrize("task", TASKS)
def test_the_data_of_a_task_do_not_depend_on_the_run(task: str) -> None:
    found, again = data_of(task), data_of(task)
    if "batches" in found:
        first, second = (each["batches"](np.random.default_rng(5)) for each in (found, again))
        other = found["batches"](np.random.default_rng(6))
        held = found["valid"], again["valid"]
    else:
        first, second, other = found["data"], again["data"], {"x": found["data"]["valid_x"][: len(found["data"]["x"])]}
        held = found["data"], again["data"]
    x, same, others = (each.inputs if isinstance(each, Batch) else each["x"] for each in (first, second, other))
    np.testing.assert_array_equal(x, same)
    assert not np.array_equal(x[: len(others)], others)
    targets = [each.targets if isinstance(each, Batch) else each["y"] for each in held]
    np.testing.assert_array_equal(*targets)


def test_the_best_trial_is_used_for_all_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path, result("adam", "0.0003", 0, 0.5, tunes=True), result("adam", "0.001", 0, 0.4, tunes=True))
    trials = [Cell("sine", "adam", trial, 0, tunes=True) for trial in TRIALS["adam"]]
    assert chosen_trial(read_cells(tmp_path), "sine", "adam", TRIALS["adam"]) is None
    assert list(wanted_cells(["sine"], ["adam"], [0, 1], tmp_path)) == trials
    assert "left out" in capsys.readouterr().out
    save(tmp_path, result("adam", "0.003", 0, 0.7, tunes=True), result("adam", "0.003", 1, 0.1))
    finals = [Cell("sine", "adam", "0.001", seed) for seed in (0, 1)]
    assert list(wanted_cells(["sine"], ["adam"], [0, 1], tmp_path)) == [*trials, *finals]
    assert list(wanted_cells(["sine"], ["hf"], [2], tmp_path)) == [Cell("sine", "hf", "default", 2)]
    assert {cell.budget for cell in trials} == {60}
    assert {cell.budget for cell in finals} == {150}


def test_times_are_those_of_the_first_validation_that_is_good_enough() -> None:
    curve = result("hf", "default", 0, 3.0, 1.0, 2.0, 0.5)["curve"]
    assert [time_to(curve, loss) for loss in (3.0, 2.5, 1.0, 0.7, 0.5)] == [10, 20, 20, 40, 40]
    assert time_to(curve, 0.4) == math.inf
    assert [best_loss(curve, seconds) for seconds in (9, 10, 25, 40)] == [math.inf, 3.0, 1.0, 0.5]


def test_the_ratio_compares_the_times_until_a_loss_that_both_methods_reach() -> None:
    hf = [
        result("hf", "default", 0, 2.0, 2.0, 0.9),
        result("hf", "default", 1, 2.0, 1.5),
        result("hf", "default", 2, 1),
    ]
    results = [*hf, result("soap", "0.001", 0, 1.5, 1.0, 0.2), result("soap", "0.001", 1, 3.0, 4.0, 2.5, 1.8)]
    assert ratios(compared(results, "sine"), "soap") == [30 / 30, 20 / 40]
    assert ratios(compared(results, "sine"), "muon") == []
    head, lines = rows(results)
    assert [(line[1], line[-1]) for line in lines] == [("hf (default)", ""), ("soap (0.001)", "1, 0.5")]
    assert {len(line) for line in lines} == {len(head)}


@needs_matplotlib
def test_a_picture_has_a_title_and_a_description(tmp_path: Path) -> None:
    draw(tmp_path / "sine.svg", "sine", [result("hf", "default", 0, 2.0, 0.5), result("adam", "0.001", 0, 3.0, 1.0)])
    texts = [each.text or "" for each in ElementTree.parse(tmp_path / "sine.svg").getroot()]
    assert any(text.startswith("sine: validation loss") for text in texts)
    assert any("hf 0.5, adam 1" in text for text in texts)
