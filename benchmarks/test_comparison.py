"""Times to a target, medians and thinned curves."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import comparison
import pytest
from comparison import (
    Race,
    best_within,
    bits_table,
    by_problem,
    median_curve,
    race,
    read_cells,
    thin,
    time_to,
    times_table,
    tuning_table,
)


def curve(*points: tuple[float, float]) -> list[dict[str, float]]:
    return [{"seconds_processor": seconds, "valid_bits": bits} for seconds, bits in points]


def cell(problem: str, method: str, trial: str, seed: int, *points: tuple[float, float]) -> dict[str, Any]:
    found = curve(*points)
    bits = best_within(found, 100)
    return {
        "cell": {"problem": problem, "method": method, "trial": trial, "seed": seed},
        "budget": 100.0,
        "updates": 1000,
        "best": {"valid_bits": bits if math.isfinite(bits) else None},
        "curve": found,
    }


FALLING = curve((5, 4.0), (20, 3.0), (40, 3.5), (60, 2.5), (99, 2.7))


def test_best_within_takes_the_lowest_so_far() -> None:
    assert [best_within(FALLING, seconds) for seconds in (20, 50, 60, 100)] == [3.0, 3.0, 2.5, 2.5]
    assert best_within(FALLING, 4) == best_within([], 100) == math.inf


def test_a_mark_counts_a_validation_one_percent_later() -> None:
    assert best_within(curve((100.9, 2.0)), 100) == 2.0
    assert best_within(curve((101.1, 2.0)), 100) == math.inf


def test_time_to_is_the_first_validation_at_or_below_the_target() -> None:
    assert [time_to(FALLING, bits) for bits in (4.0, 3.2, 2.6)] == [5, 20, 60]
    assert time_to(FALLING, 2.4) == math.inf


def test_thinning_keeps_the_last_and_the_best_point() -> None:
    points = curve(*((float(n), 1.0 if n == 333 else 5.0) for n in range(1000)))
    found = thin(points, 150)
    assert len(found) <= 152
    assert found[0] == points[0]
    assert found[-1] == points[-1]
    assert points[333] in found
    assert [each for each in points if each in found] == found


@pytest.mark.parametrize("length", [0, 1, 150])
def test_a_short_curve_is_not_thinned(length: int) -> None:
    points = curve(*((float(n), 1.0) for n in range(length)))
    assert thin(points, 150) == points


def test_the_median_curve_interpolates_within_all_curves() -> None:
    curves = [curve((0, 4.0), (10, 2.0)), curve((2, 3.0), (8, 3.0)), curve((0, 1.0), (20, 1.0))]
    assert median_curve(curves, [0, 2, 5, 8, 9]) == [(2, 3.0), (5, 3.0), (8, pytest.approx(2.4))]
    assert median_curve([], [1.0]) == median_curve([[], curves[0]], [1.0]) == []


def test_a_race_goes_to_the_best_of_the_opponents() -> None:
    curves = {"hf": curve((10, 2.4), (30, 2.1)), "sgd": curve((80, 2.3)), "adam": curve((20, 2.6), (90, 2.2))}
    assert race(curves, ("adam", "sgd"), 100) == Race("adam", 2.2, {"hf": 30, "sgd": math.inf, "adam": 90})
    found = race(curves, ("sgd",), 100)
    assert found is not None
    assert found.ratio("hf") == pytest.approx(30 / 80)
    assert found.ratio("adam") == pytest.approx(90 / 80)
    assert race(curves, ("muon",), 100) is None
    assert race({"sgd": []}, ("sgd",), 100) is None


def test_only_the_best_tuning_trial_is_compared() -> None:
    problem = comparison.TUNING
    cells = [
        cell(problem, "sgd", "slow", 0, (50, 3.0)),
        cell(problem, "sgd", "fast", 0, (50, 2.0)),
        cell(problem, "sgd", "fast", 1, (50, 2.5)),
        cell("other", "sgd", "slow", 0, (50, 1.0)),
        cell("other", "hf", "default", 0),
    ]
    found = by_problem(cells)
    assert {seed: each["cell"]["trial"] for seed, each in found[problem]["sgd"].items()} == {0: "fast", 1: "fast"}
    assert list(found["other"]) == ["hf"]
    assert tuning_table(cells)[1] == [["sgd", "slow: 3.000, fast: 2.000", "fast"]]


def test_a_single_trial_of_the_tuning_problem_does_not_choose_for_other_problems() -> None:
    cells = [cell(comparison.TUNING, "adam", "cosine", 0, (50, 3.0)), cell("other", "adam", "divide", 0, (50, 1.0))]
    found = by_problem(cells)
    assert {problem: methods["adam"][0]["cell"]["trial"] for problem, methods in found.items()} == {
        comparison.TUNING: "cosine", "other": "divide"
    }  # fmt: skip


def test_the_best_trial_of_a_problem_is_compared_if_none_was_for_tuning() -> None:
    trials = {"slow": 2.5, "fast": 2.0, "unstable": 3.0}
    cells = [cell("text", "soap", trial, 0, (10, bits)) for trial, bits in trials.items()]
    for ordered in (cells, cells[::-1]):
        assert by_problem(ordered)["text"]["soap"][0]["cell"]["trial"] == "fast"


def test_the_tables_show_medians_and_every_seed() -> None:
    cells = [cell("text", "sgd", "a", seed, (10, 3.0), (80, 2.0 + seed / 10)) for seed in range(3)]
    cells += [cell("text", "hf", "b", seed, (14, 3.5), (20 * (seed + 1), 2.0 + seed / 10)) for seed in (0, 2)]
    methods = by_problem(cells)["text"]
    head, rows = bits_table(methods)
    assert head == ["method (trial)", "15 s", "30 s", "60 s", "100 s, each seed", "updates"]
    assert rows[0] == ["hf (b)", "3.500", "2.750", "2.100", "2.000, 2.200", "1,000, 1,000"]
    assert rows[1][1:4] == ["3.000"] * 3
    assert times_table(methods)[1] == [
        ["hf", "", *["20, 60 (ratio 0.25, 0.75; median 0.50)"] * 2],
        ["sgd", "", *["80, 80, 80"] * 2],
    ]


def test_a_target_that_was_not_reached_is_never() -> None:
    cells = [cell("text", "sgd", "a", 0, (10, 2.0)), cell("text", "hf", "b", 0, (10, 3.0))]
    assert times_table(by_problem(cells)["text"])[1][0][2] == "never (ratio never; median never)"


def test_a_folder_without_cells_has_none(tmp_path: Path) -> None:
    assert read_cells(tmp_path / "none") == []
    (tmp_path / "a.json").write_text(json.dumps(cell("text", "sgd", "a", 0)), "utf-8")
    assert bits_table(by_problem(read_cells(tmp_path))["text"])[1][0][-2] == "never"
