"""The papers' tables: trials, choice by validation, one reading of the test part, interruption, lists and tables."""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.tiny_runs import TEXT, metrics, text_file

from hfrnn.analysis.evaluation import evaluate
from hfrnn.engine.network import Network
from hfrnn.runs.checkpoint import load_checkpoint
from hfrnn.runs.config import TrainConfig, checked_options
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.load import load

PAPERS = Path(__file__).resolve().parent
if not (PAPERS / "cells.py").is_file():
    pytest.skip("the benchmarks are not here", allow_module_level=True)

import cells  # noqa: E402
import hornn_ablation  # noqa: E402
import hornn_forgetting  # noqa: E402
import hornn_norms  # noqa: E402
import hornn_ptb  # noqa: E402
import hornn_text8  # noqa: E402
import scores  # noqa: E402
import script  # noqa: E402
import scrn_learned  # noqa: E402
import scrn_ptb  # noqa: E402
import scrn_text8  # noqa: E402
import trials  # noqa: E402
from cells import Cell, Figure, Limit, Table  # noqa: E402
from support.paper_scripts import call, done, result_of  # noqa: E402

from hfrnn.sources.open import run_text  # noqa: E402

SCRIPTS = (
    hornn_ablation, hornn_forgetting, hornn_norms, hornn_ptb, hornn_text8, scrn_learned, scrn_ptb, scrn_text8,
)  # fmt: skip
EPOCHS = 3


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two cells of three trials, the second of which learns; an epoch has 20 updates, 7 a line of the log."""
    options = {
        "text": str(text_file(tmp_path)), "fractions": (0.6, 0.15, 0.25), "hidden": 6, "sequence_length": 17,
        "streams": 4, "optimizer": "sgd", "schedule": "halve", "log_interval": 7,
    }  # fmt: skip
    published = {"test": Figure(12.5, "[X] table 1"), "seconds_epoch": Figure(80, "[X]"), "weights": Figure(5e3, "[X]")}
    return Table(
        name="tiny",
        title="[X] table 1: a fox",
        cells=(Cell("rnn", {**options, "arch": "rnn"}, published), Cell("hornn", {**options, "arch": "hornn"})),
        trials={f"rate-{rate:g}": {"learning_rate": rate} for rate in (1e-4, 0.3, 1e-5)},
        epochs=EPOCHS,
        quoted={"five-gram": Figure(141, "[Y]")},
    )


def run_of(folder: Path, trial: str = "rate-0.3", cell: str = "rnn") -> Path:
    return folder / "runs" / "tiny" / cell / trial


def same_bits(runs: Sequence[Path]) -> None:
    """The runs have the same log but for the seconds, and the same best and last weights."""
    one, other = runs
    assert metrics(one) == metrics(other)
    for name in ("best", "last"):
        arrays = [load_checkpoint(run / f"{name}.safetensors")[0] for run in runs]
        assert all((arrays[0][key] == arrays[1][key]).all() for key in arrays[0])


def refuse(*arguments: Any, **options: Any) -> None:
    raise AssertionError("there was to be no training")


# ---------------------------------------------------------------------- running


def test_validation_chooses_the_trial_and_only_its_test_part_is_read_once(table, tmp_path, monkeypatch) -> None:
    read = []

    def watched(net: Network, theta: Any, vocabulary: Any, text: str, unknown: str) -> Any:
        read.append((theta, text))
        return evaluate(net, theta, vocabulary, text, unknown)

    monkeypatch.setattr(scores, "evaluate", watched)
    done(table, tmp_path, "rnn")
    result, folder = result_of(tmp_path), RunFolder(run_of(tmp_path))
    perplexities = {trial: found["valid_perplexity"] for trial, found in result["trials"].items()}
    assert list(perplexities) == list(table.trials)
    assert result["chosen"] == min(perplexities, key=perplexities.get) == "rate-0.3"
    [(theta, text)] = read
    assert text == run_text(folder, "test") != run_text(folder, "valid")
    net, best, vocabulary = load(folder.path)
    assert (theta == best).all()
    ours = result["ours"]
    assert ours["perplexity"]["test"] == evaluate(net, best, vocabulary, text).perplexity
    assert ours["perplexity"]["valid"] == min(line["valid_perplexity"] for line in result["curve"])
    assert (ours["weights"], ours["symbols_scored"]) == (net.n_parameters, len(text) - 1)


@pytest.mark.slow
def test_the_best_weights_are_scored_and_not_the_last(table: Table, tmp_path: Path) -> None:
    flat = text_file(tmp_path, "".join(sorted(set(TEXT))) * 20, "flat.txt")  # the more is learned, the worse
    options = {**table.cells[0].options, "valid": str(flat), "fractions": (0.8, 0.0, 0.2), "learning_rate": 1.0}
    table = Table("tiny", table.title, (Cell("rnn", options),), {"only": {}}, EPOCHS)
    done(table, tmp_path)
    ours, run = result_of(tmp_path)["ours"], run_of(tmp_path, "only")
    assert (ours["best_epoch"], ours["epochs"]) == (1.0, EPOCHS)
    text = run_text(RunFolder(run), "test")
    best, last = (evaluate(*load(run, which), text).perplexity for which in ("best", "last"))
    assert ours["perplexity"]["test"] == best != last


@pytest.mark.slow
def test_a_result_holds_the_published_figures_recipe_curve_and_machine(table: Table, tmp_path: Path) -> None:
    done(table, tmp_path, "rnn")
    result, lines = result_of(tmp_path), metrics(run_of(tmp_path), timed=True)
    assert result["published"]["test"] == {"value": 12.5, "source": "[X] table 1"}
    assert result["recipe"]["rate-0.3"] == json.loads(json.dumps(table.recipe(table.cells[0])["rate-0.3"]))
    validated = [line for line in lines if line["valid_loss"] is not None]
    names = ("epoch", "seconds", "valid_perplexity")
    assert result["curve"] == [{name: line[name] for name in names} for line in validated]
    assert [point["epoch"] for point in result["curve"]] == [1.0, 2.0, 3.0]
    ours = result["ours"]
    assert ours["epochs"] == EPOCHS
    spent = sum(line["seconds_update"] - line["seconds_validation"] for line in lines)
    assert ours["seconds_epoch"] == pytest.approx(spent / EPOCHS)
    assert ours["best_epoch"] == min(validated, key=lambda line: line["valid_loss"])["epoch"]
    assert result["machine"]["backend"] == "numpy"
    assert result["machine"]["packages"]["numpy"]
    assert [each["backend"] for each in result["trained_on"]] == ["numpy"]
    assert result["versions"]["data_sha256"] == RunFolder(run_of(tmp_path)).versions()["data_sha256"]


def test_the_time_left_is_that_to_the_limit_of_the_table() -> None:
    record = {"epoch": 1.5, "seconds": 60.0, "seconds_processor": 90.0}
    for limit, left in ((Limit(6), 180.0), (Limit(6, "minutes"), 180.0), (Limit(6, "minutes", "wall"), 300.0)):
        assert trials.Watch("rnn adam", "perplexity", limit, math.inf).seconds_left(record) == pytest.approx(left)


def interrupt_at(line: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGINT at that line of any log, counted over all runs."""
    count, original = itertools.count(1), trials.Watch.on_update

    def on_update(self: trials.Watch, record: dict[str, Any]) -> bool:
        if next(count) == line:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, record)

    monkeypatch.setattr(trials.Watch, "on_update", on_update)


@pytest.mark.slow
def test_an_interrupted_cell_goes_on_to_the_same_bits(table: Table, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(9 + 4, patch)  # the first trial has three lines an epoch
        stopped = call(table, tmp_path, "rnn")
    assert stopped.exit_code == 130, stopped.output
    assert "the same command goes on" in stopped.output
    assert len(metrics(run_of(tmp_path, "rate-0.0001"))) == 9
    assert len(metrics(run_of(tmp_path))) == 4
    assert not (tmp_path / "out").exists()
    done(table, tmp_path, "rnn")
    done(table, tmp_path / "whole", "rnn")
    for trial in table.trials:
        same_bits([run_of(folder, trial) for folder in (tmp_path, tmp_path / "whole")])
    assert result_of(tmp_path)["ours"]["perplexity"] == result_of(tmp_path / "whole")["ours"]["perplexity"]


@pytest.mark.slow
def test_a_cell_stops_after_its_minutes_and_goes_on_to_the_same_bits(table, tmp_path, monkeypatch) -> None:
    seconds = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(seconds))
    with monkeypatch.context() as patch:
        patch.setattr(trials, "time", clock)
        patch.setattr(script, "time", clock)
        output = done(table, tmp_path, "rnn", "hornn", "--minutes", "0.1")
    assert "rnn: time is up at epoch" in output
    assert "hornn: time is up at epoch" in output
    assert 0 < len(metrics(run_of(tmp_path, "rate-0.0001"))) < 6
    assert not run_of(tmp_path).exists()
    assert not (tmp_path / "out").exists()
    done(table, tmp_path, "rnn")
    done(table, tmp_path / "whole", "rnn")
    same_bits([run_of(folder, "rate-0.0001") for folder in (tmp_path, tmp_path / "whole")])


@pytest.mark.slow
def test_what_is_finished_is_not_run_again(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done(table, tmp_path, "rnn")
    path = tmp_path / "out" / "tiny" / "rnn.json"
    before = path.read_bytes()
    monkeypatch.setattr(trials, "train", refuse)
    with monkeypatch.context() as patch:
        patch.setattr(scores, "evaluate", refuse)
        assert "finished, left as it is" in done(table, tmp_path, "rnn")
    assert path.read_bytes() == before
    path.unlink()
    done(table, tmp_path, "rnn")  # the runs are there
    assert result_of(tmp_path)["ours"]["perplexity"] == json.loads(before)["ours"]["perplexity"]


@pytest.mark.slow
def test_more_epochs_lengthen_the_runs_of_a_finished_cell(table: Table, tmp_path: Path) -> None:
    done(table, tmp_path, "rnn", "--epochs", "2")
    assert [point["epoch"] for point in result_of(tmp_path)["curve"]] == [1.0, 2.0]
    assert "finished with --epochs 2" in done(table, tmp_path, "--list")
    done(table, tmp_path, "rnn")
    assert [point["epoch"] for point in result_of(tmp_path)["curve"]] == [1.0, 2.0, 3.0]
    done(table, tmp_path / "whole", "rnn")
    same_bits([run_of(folder) for folder in (tmp_path, tmp_path / "whole")])


@pytest.mark.slow
def test_without_names_all_cells_are_run_and_a_part_without_test_is_scored(table: Table, tmp_path: Path) -> None:
    table = Table("tiny", table.title, table.cells, {"rate-0.3": {"learning_rate": 0.3}}, 1, part="valid")
    done(table, tmp_path)
    for cell in ("rnn", "hornn"):
        net, best, vocabulary = load(run_of(tmp_path, cell=cell))
        text = run_text(RunFolder(run_of(tmp_path, cell=cell)), "valid")
        assert result_of(tmp_path, cell)["ours"]["perplexity"] == {
            "valid": evaluate(net, best, vocabulary, text).perplexity
        }


def test_a_trial_that_is_not_finite_ends_and_is_not_chosen(table: Table, tmp_path: Path) -> None:
    rates = {"rate-huge": {"learning_rate": 1e38}, "rate-0.3": {"learning_rate": 0.3}}
    table = Table("tiny", table.title, table.cells, rates, 1)
    assert "rate-huge has ended" in done(table, tmp_path, "rnn")
    result = result_of(tmp_path)
    assert result["chosen"] == "rate-0.3"
    assert result["trials"]["rate-huge"]["ended"] == trials.NOT_FINITE


@pytest.mark.slow
def test_runs_of_another_recipe_are_refused(table: Table, tmp_path: Path) -> None:
    done(table, tmp_path, "rnn", "--epochs", "1")
    other = Cell("rnn", {**table.cells[0].options, "hidden": 7, "momentum": 0.5})
    result = call(Table("tiny", table.title, (other,), table.trials, EPOCHS), tmp_path)
    assert result.exit_code == 1
    assert "begun with another hidden, momentum" in result.output
    assert "--runs" in result.output


def test_an_unknown_cell_is_refused_with_the_names(table: Table, tmp_path: Path) -> None:
    result = call(table, tmp_path, "gru")
    assert result.exit_code == 2
    assert "there is no cell gru: use rnn, hornn" in result.output


# ---------------------------------------------------------------------- list and table


def rows(text: str, name: str) -> list[str]:
    """The fields of the line of that cell."""
    [line] = [line for line in text.splitlines() if line.lstrip("│|┃ ").startswith(f"{name} ")]
    return [field.strip() for field in line.strip("│|").replace("|", "│").split("│")]


@pytest.mark.slow
def test_the_list_shows_what_is_published_and_how_far_each_cell_is(table: Table, tmp_path: Path) -> None:
    assert rows(done(table, tmp_path, "--list"), "rnn") == ["rnn", "test 12.5", "80", "5,000", "not begun"]
    assert rows(done(table, tmp_path, "--list"), "hornn")[-1] == "not begun"
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(9 + 4, patch)
        call(table, tmp_path)
    state = rows(done(table, tmp_path, "--list"), "rnn")[-1]
    assert state.startswith("rate-0.0001 epoch 3.00, rate-0.3 epoch 1.")
    done(table, tmp_path, "rnn")
    row, ours = rows(done(table, tmp_path, "--list"), "rnn"), result_of(tmp_path)["ours"]
    assert row[2:5] == [*(f"{ours['perplexity'][part]:.1f}" for part in ("valid", "test")), f"{ours['best_epoch']:g}"]
    assert row[-1] == "finished"


def test_listing_trains_nothing(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "train", refuse)
    done(table, tmp_path, "--list")
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_script_runs_from_any_folder(tmp_path: Path) -> None:
    arguments = [sys.executable, str(PAPERS / "scrn_ptb.py"), "--list", "--out", str(tmp_path)]
    environment = {**os.environ, "COLUMNS": "250", "PYTHONPATH": str(PAPERS.parent.parent)}
    found = subprocess.run(arguments, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert rows(found.stdout, "scrn-100-40")[1] == "valid 120, test 115"


# ---------------------------------------------------------------------- the papers' tables


@pytest.mark.parametrize("module", SCRIPTS, ids=lambda module: module.__name__)
def test_every_cell_is_a_network_that_can_be_trained_under_a_name_of_its_own(module: Any) -> None:
    table = module.TABLE
    assert table.name == module.__name__
    assert len({cell.name for cell in table.cells}) == len(table.cells)
    for cell in table.cells:
        for trial, options in table.recipe(cell).items():
            config = TrainConfig(**checked_options(options, cell.name)).resolved()
            optimizer = "adam" if trial.startswith("adam") or module is hornn_ablation else "sgd"
            assert (config.optimizer, config.level, config.epochs) == (optimizer, "word", None)
            assert config.sequence_length % (config.update_every or 1) == 0
        weights = replace(table, symbols=table.symbols or 44_000).weights(cell)
        if "weights" in cell.published:  # published to two digits
            assert weights == pytest.approx(cell.published["weights"].value, rel=0.01)


def test_the_networks_of_hornn_ptb_have_the_weights_of_the_paper() -> None:
    expected = {"rnn": 8_320_000, "hornn-3": 8_640_000, "lstm": 9_280_000, "hornn-gated-3": 9_600_000}
    found = {cell.name: hornn_ptb.TABLE.weights(cell) for cell in hornn_ptb.TABLE.cells}
    assert {name: found[name] for name in expected} == expected


def test_the_cells_of_hornn_norms_differ_in_the_network_alone_under_one_recipe() -> None:
    recipes: dict[str, list[Any]] = {}
    for cell in hornn_norms.TABLE.cells:
        ((name, options),) = hornn_norms.TABLE.recipe(cell).items()
        assert cell.name.endswith(name)
        recipes.setdefault(name, []).append({k: x for k, x in options.items() if k not in ("arch", "order")})
    assert all(each == options[0] for options in recipes.values() for each in options)
    assert {name: (len(options), options[0].get("max_norm")) for name, options in recipes.items()} == {
        "sgd-4-falling": (5, "*=4"), "adam": (2, None), "adam-2": (1, "*=2"), "adam-3": (1, "*=3"),
    }  # fmt: skip


def test_the_recipe_of_hornn_ptb_is_adam_with_the_bound_that_hornn_norms_leaves_out() -> None:
    assert hornn_ptb.TABLE.trials == {"adam-4": {**hornn_norms.RECIPES["adam"], "max_norm": "*=4"}}


def test_each_cell_of_the_ablation_changes_one_option_of_the_base() -> None:
    base, *others = [options for cell in hornn_ablation.TABLE.cells
                     for options in hornn_ablation.TABLE.recipe(cell).values()]  # fmt: skip
    ((_, bounded),) = hornn_ptb.TABLE.recipe(hornn_ptb.TABLE.cells[0]).items()
    assert base == bounded
    for options in others:
        assert len({name for name in base | options if base.get(name) != options.get(name)}) == 1


def test_published_figures_are_those_of_the_papers() -> None:
    found = {
        module.__name__: {cell.name: [cell.published[part].value for part in cells.PARTS if part in cell.published]
                          for cell in module.TABLE.cells} for module in SCRIPTS
    }  # fmt: skip
    orders = [found["hornn_ptb"][f"{arch}-{n}"][0] for arch in hornn_ptb.PERPLEXITIES for n in (2, 3, 4)]
    assert orders == [111, 108, 109, 110, 109, 108, 103, 101, 100, 102, 100, 100]
    assert [found["hornn_ptb"][name] for name in ("fnn-4", "fofe-fnn-1", "fofe-fnn-2")] == [[], [108], [108]]
    assert list(found["hornn_text8"].values()) == [[172], [163], [154], [144]]
    assert list(found["scrn_ptb"].values())[::3] == [[153, 144], [129, 123], [133, 127], [120, 115]]
    assert found["scrn_learned"] == {
        "50-0": [156], "25-25": [150], "25-25-learned": [145], "0-50": [344], "0-50-learned": [157],
        "140-0": [140], "100-40": [127], "100-40-learned": [127], "0-140": [334], "0-140-learned": [147],
    }  # fmt: skip
    assert found["scrn_text8"]["scrn-500-80"] == [161]
    assert found["scrn_text8"]["scrn-100-20"] == [201]
    assert len(found["scrn_text8"]) == 18


def test_the_summed_loss_of_the_scrn_code_becomes_a_mean_by_its_learning_rate() -> None:
    recipe = scrn_ptb.RECIPE
    assert recipe["learning_rate"] == pytest.approx(0.05 * recipe["streams"] * recipe["update_every"])
    steps = {cell.options["arch"]: cell.options["sequence_length"] for cell in scrn_ptb.TABLE.cells}
    assert steps == {"rnn": 10, "lstm": 50, "scrn": 50}
