"""The cells of hf_vs_sgd.py and what they are measured with."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import page_hf_vs_sgd
import pytest
from comparison import HF, METHODS, TUNING, TUNING_SEED
from hf_vs_sgd import METHODS as TRIALS
from hf_vs_sgd import PROBLEMS, Cell, chosen_trial, run_cosine, wanted_cells
from pictures import described, draw_problem
from support.pictures import needs_matplotlib
from timed_runs import _Pace, is_done, records, spent, updates_until

from hfrnn.runs.config import TrainConfig, checked_options

TRIALS_OF_ADAM, TRIALS_OF_SGD = next(iter(TRIALS["adam"])), next(iter(TRIALS["sgd"]))


def result(method: str, trial: str, bits: float | None, problem: str = TUNING) -> dict[str, Any]:
    points = [] if bits is None else [{"seconds_processor": t, "valid_bits": bits + 9 / t} for t in (5.0, 50.0, 250.0)]
    return {
        "cell": {"problem": problem, "method": method, "trial": trial, "seed": TUNING_SEED},
        "budget": 300.0,
        "updates": 100,
        "best": {"valid_bits": bits},
        "curve": points,
    }


def save(folder: Path, *results: dict[str, Any]) -> None:
    for each in results:
        (folder / f"{Cell(**each['cell']).name}.json").write_text(json.dumps(each), "utf-8")


def test_both_shifts_are_compared_for_seeds_that_ran_on_one_processor(tmp_path: Path) -> None:
    machines = {"machine": {"processor": "one"}}
    hf, cheap = result("hf-small-text", "default", 2.3), result("hf", "default", 2.25)
    adam, sgd = result("adam", TRIALS_OF_ADAM, 2.4), result("sgd", TRIALS_OF_SGD, 2.2)
    now, then, elsewhere = tmp_path / "now", tmp_path / "then", tmp_path / "elsewhere"
    for folder, results in {now: (hf, cheap, adam, sgd), then: (result("hf-small-text", "default", 2.35),)}.items():
        folder.mkdir()
        save(folder, *({**each, **machines} for each in results))
    elsewhere.mkdir()
    save(elsewhere, {**result("hf-small-text", "default", 2.35), "machine": {"processor": "another"}})
    *_, earlier, later, last = page_hf_vs_sgd.before(now, then).splitlines()
    assert "| shift: lambda | 2.530 | 2.530 | 2.530 | 2.386 | 2.386 | 250 s (1.00) | never |" in earlier
    assert "| shift: the mean of D | 2.480 | 2.480 | 2.480 | 2.336 | 2.336 | 250 s (1.00) | never |" in later
    assert "| cheap updates | 2.430 | 2.430 | 2.430 | 2.286 | 2.286 | 50 s (0.20) | never |" in last
    assert "lambda" not in page_hf_vs_sgd.before(now, elsewhere)


def test_all_first_order_methods_have_as_many_trials() -> None:
    assert tuple(TRIALS) == METHODS
    assert {name: len(trials) for name, trials in TRIALS.items()} == {name: 1 if name in HF else 3 for name in METHODS}
    assert TUNING in PROBLEMS


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_options_of_a_cell_are_options_of_a_run(problem: str, method: str) -> None:
    for trial in TRIALS[method]:
        options = checked_options(Cell(problem, method, trial, 0).options("numpy"), "the cell")
        assert TrainConfig(**options).resolved().threads == 1


def test_names_of_cells_are_different() -> None:
    names = [Cell(p, m, t, s).name for p in PROBLEMS for m in METHODS for t in TRIALS[m] for s in range(3)]
    assert len(set(names)) == len(names)


def test_the_trial_with_the_lowest_bits_is_chosen_when_all_are_done() -> None:
    first, second, third = TRIALS["adam"]
    done = [result("adam", first, 2.5), result("adam", second, 2.4)]
    assert chosen_trial("adam", done) is None
    assert chosen_trial("adam", [*done, result("adam", third, None)]) == second
    assert chosen_trial("adam", [*done, result("adam", third, 2.3)]) == third
    assert chosen_trial("adam", [*done, result("adam", third, 2.3, "ptb-mlstm-64")]) is None


def test_tuning_comes_first_and_other_cells_wait_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problems, methods = ("ptb-mlstm-64", TUNING), ("adam", "sgd")
    cells = list(wanted_cells(problems, methods, (0, 1), tmp_path))
    assert [(cell.method, cell.trial) for cell in cells] == [(m, t) for m in methods for t in TRIALS[m]]
    assert all(cell.tunes for cell in cells)
    assert "adam: 3 cells are left out" in capsys.readouterr().out
    save(tmp_path, *(result("adam", trial, n + 2.0) for n, trial in enumerate(TRIALS["adam"])))
    waiting = [cell for cell in wanted_cells(problems, methods, (0, 1), tmp_path) if not cell.tunes]
    best = next(iter(TRIALS["adam"]))
    assert waiting == [
        Cell("ptb-mlstm-64", "adam", best, 0),
        Cell("ptb-mlstm-64", "adam", best, 1),
        Cell(TUNING, "adam", best, 1),
    ]


def test_a_given_trial_is_that_of_all_cells(tmp_path: Path) -> None:
    problem, trial = "tinyshakespeare-mlstm-256", "0.004-divide"
    cells = list(wanted_cells((problem,), ("adam",), (1, 2), tmp_path, trial))
    assert cells == [Cell(problem, "adam", trial, seed) for seed in (1, 2)]


def test_seconds_stand_in_for_seconds_processor() -> None:
    assert spent({"seconds": 3.0}) == 3.0
    assert spent({"seconds": 3.0, "seconds_processor": 2.5}) == 2.5


def test_a_run_that_has_not_begun_is_not_done(tmp_path: Path) -> None:
    assert not is_done(tmp_path / "none", 10.0)


def test_the_pace_leaves_out_the_first_record() -> None:
    pace = _Pace(4.0)
    ends = [pace.on_update({"update": n, "seconds": t}) for n, t in ((10, 2.0), (20, 3.0), (30, 4.0))]
    assert ends == [False, False, True]
    assert pace.updates_per_second() == pytest.approx(10.0)
    only = _Pace(1.0)
    assert only.on_update({"update": 10, "seconds": 2.0})
    assert only.updates_per_second() == pytest.approx(5.0)


def test_the_updates_of_a_budget_follow_the_pace_of_the_second_half(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("")
    lines = [{"update": n, "seconds_processor": t} for n, t in ((10, 9.0), (20, 10.0), (40, 15.0), (60, 20.0))]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert updates_until(tmp_path, 30.0) == 100
    assert updates_until(tmp_path, 5.0) == 60
    (tmp_path / "metrics.jsonl").write_text(json.dumps(lines[0]) + "\n")
    assert updates_until(tmp_path, 18.0) == 20


@pytest.mark.slow
def test_a_cosine_ends_with_its_budget_whatever_pace_was_measured(tmp_path: Path) -> None:
    options = {"data": "addition", "length": 30, "optimizer": "adam", "schedule": "cosine", "log_interval": 20}
    options |= {"validate_every": 100, "threads": 1, "backend": "numpy", "hidden": 2, "updates": 10**6}
    run_cosine(tmp_path / "run", 2.0, options)
    last = records(tmp_path / "run")[-1]
    assert 1.5 < spent(last) < 2.5
    assert last["learning_rate"] < 0.2 * records(tmp_path / "run")[0]["learning_rate"]
    assert is_done(tmp_path / "run", 2.0)


@needs_matplotlib
def test_a_picture_has_a_title_and_a_description(tmp_path: Path) -> None:
    methods = {name: {0: result(name, "a", bits)} for name, bits in (("hf", 2.0), ("adam", 2.2), ("sgd", None))}
    draw_problem(tmp_path / "p.svg", "a < b", methods, 300.0)
    root = ElementTree.parse(tmp_path / "p.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert root.attrib["role"] == "img"
    assert [child.tag for child in root][:2] == [f"{space}title", f"{space}desc"]
    assert root[0].text == "a < b: validation bits over processor seconds"
    assert "hf 2.000, adam 2.200" in (root[1].text or "")


def test_only_the_outer_element_is_described() -> None:
    svg = described("<svg width='1'><svg x='2'/></svg>", "t", "d")
    assert svg.count("<title") == svg.count("role=") == 1


def test_the_page_shows_the_cells_that_there_are(tmp_path: Path) -> None:
    assert page_hf_vs_sgd.tuning(tmp_path) == page_hf_vs_sgd.problems(tmp_path) == page_hf_vs_sgd.NOTHING
    save(tmp_path, result("hf", "default", 2.0, "ptb-mlstm-64"))
    assert "**ptb-mlstm-64**, 300 processor seconds:" in page_hf_vs_sgd.problems(tmp_path)
    assert "![" not in page_hf_vs_sgd.problems(tmp_path)
    (tmp_path / "ptb-mlstm-64.svg").touch()
    save(tmp_path, result("adam", "0.004-divide", 2.5))
    assert page_hf_vs_sgd.tuning(tmp_path).endswith("| adam | 0.004-divide: 2.500 | 0.004-divide |")
    assert page_hf_vs_sgd.problems(tmp_path).endswith(f"(../results/{tmp_path.name}/ptb-mlstm-64.svg)")
