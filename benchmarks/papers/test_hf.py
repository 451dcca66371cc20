"""The tables of [K]: published figures, weights, scales, and trials that minutes of training end."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support import mpi
from support.tiny_runs import metrics, text_file

import hfrnn
from hfrnn.analysis.evaluation import evaluate
from hfrnn.runs.config import TrainConfig, checked_options
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.load import load

PAPERS = Path(__file__).resolve().parent
if not (PAPERS / "cells.py").is_file():
    pytest.skip("the benchmarks are not here", allow_module_level=True)

import hf_ptb  # noqa: E402
import hf_ptb_full  # noqa: E402
import hf_recipes  # noqa: E402
import hf_wikipedia  # noqa: E402
import script  # noqa: E402
import trials  # noqa: E402
from cells import Cell, Figure, Limit, Table  # noqa: E402
from support.paper_scripts import done, result_of  # noqa: E402

from hfrnn.sources.open import run_text  # noqa: E402

SCRIPTS = (hf_ptb, hf_ptb_full, hf_wikipedia)
TABLES = [pytest.param(module, scale, id=f"{module.__name__}-{scale}") for module in SCRIPTS for scale in module.TABLES]


# ---------------------------------------------------------------------- what is declared


@pytest.mark.parametrize(
    ("arch", "shape", "symbols", "weights", "expected"),
    [
        ("rnn", (1,), 70, 216_400, (400,)),
        ("mrnn", (1,), 70, 215_880, (280,)),
        ("lstm-krause", (1,), 70, 220_350, (195,)),
        ("mrnn", (150, 130, 110), 70, 219_090, (150, 130, 110)),
        ("mlstm", (1,), 70, 215_900, (170,)),
        ("mlstm", (1,), 85, 603_000, (300,)),
        ("mlstm", (1,), 85, 3_608_000, (800,)),
        ("mlstm", (1,), 99, 21_188_000, (2000,)),
    ],
)
def test_with_the_symbols_of_the_thesis_the_widths_and_weights_are_those_of_the_thesis(
    arch: str, shape: tuple[int, ...], symbols: int, weights: int, expected: tuple[int, ...]
) -> None:
    assert hf_recipes.widths(arch, shape, symbols, weights) == expected
    assert hfrnn.Network(arch, n_in=symbols, hidden=expected, n_out=symbols).n_parameters == weights


@pytest.mark.parametrize("weights", [1000, 20_000, 216_400])
@pytest.mark.parametrize("shape", [(1,), (150, 130, 110)])
def test_no_other_width_is_nearer(shape: tuple[int, ...], weights: int) -> None:
    def distance(width: int) -> int:
        hidden = tuple(max(1, round(width * share / shape[0])) for share in shape)
        return abs(hfrnn.Network("mrnn", n_in=50, hidden=hidden, n_out=50).n_parameters - weights)

    found = hf_recipes.widths("mrnn", shape, 50, weights)
    assert distance(found[0]) == min(map(distance, range(1, 450)))


@pytest.mark.parametrize(("module", "scale"), TABLES)
def test_every_cell_can_be_trained_with_about_the_weights_of_the_thesis(module: Any, scale: str) -> None:
    table = module.TABLES[scale]
    assert table.name == module.__name__ + ("" if scale == "paper" else f"-{scale}")
    assert len({cell.name for cell in table.cells}) == len(table.cells)
    for cell in table.cells:
        for options in table.recipe(cell).values():
            config = TrainConfig(**checked_options(options, cell.name)).resolved()
            assert config.optimizer == ("online" if "online" in cell.name else "hf")
        published = cell.published["weights"].value
        expected = published if scale != "small" else 120_000 if cell.name == "mlstm-large" else 20_000
        assert table.weights(cell) == pytest.approx(expected, rel=0.005 if scale != "small" else 0.035)


def test_the_networks_of_the_ptb_have_216_to_221_thousand_weights() -> None:
    table = hf_ptb.TABLES["paper"]
    assert {216 <= round(table.weights(cell) / 1000) <= 221 for cell in table.cells} == {True}


def test_the_list_shows_the_weights_of_every_cell() -> None:
    table = hf_ptb.TABLES["paper"]
    result = CliRunner().invoke(script.command(hf_ptb.TABLES), ["--list", "--out", "nowhere"], env={"COLUMNS": "250"})
    assert result.exit_code == 0, result.output
    for cell in table.cells:
        [line] = [line for line in result.output.splitlines() if f" {cell.name} " in line]
        assert f"{table.weights(cell):,}" in line
        assert "not begun" in line


def test_published_figures_are_those_of_the_thesis() -> None:
    found = {
        module.__name__: {
            cell.name: tuple(
                cell.published[part].value for part in ("train", "valid", "test") if part in cell.published
            )
            for cell in module.TABLES["paper"].cells
        }
        for module in SCRIPTS
    }
    assert found["hf_ptb"] == {
        "rnn-structural": (1.80, 2.04, 1.99), "rnn-line-search": (1.78, 2.03, 1.97),
        "mrnn-structural": (1.69, 1.90, 1.87), "mrnn-line-search": (1.72, 1.88, 1.85),
        "mrnn-line-search-curvature": (1.72, 1.88, 1.85),
        "lstm-online": (1.81, 2.03, 1.98), "lstm-structural": (1.75, 1.93, 1.88),
        "mrnn-stacked": (1.74, 1.90, 1.87), "mlstm-structural": (1.69, 1.86, 1.82), "mlstm-mu-0.3": (1.87,),
    }  # fmt: skip
    assert found["hf_ptb_full"] == {"mlstm-medium": (1.60, 1.74, 1.70), "mlstm-large": (1.40, 1.76, 1.72)}
    assert found["hf_wikipedia"] == {"mlstm-structural": (1.70, 1.71), "mlstm-line-search": (1.68, 1.69)}


def test_the_recipes_of_the_paper_s_scale_are_those_of_the_thesis() -> None:
    def options(module: Any, name: str) -> dict[str, Any]:
        return next(dict(cell.options) for cell in module.TABLES["paper"].cells if cell.name == name)

    rnn = options(hf_ptb, "rnn-structural")
    assert (rnn["mu"], rnn["sequence_length"], rnn["curvature_fraction"], rnn["cg_epsilon"]) == (0.01, 200, 0.25, 5e-4)
    assert options(hf_ptb, "mrnn-stacked")["mu"] == 0.3
    assert options(hf_ptb, "mlstm-structural")["mu"] == 0.1
    assert (rnn["lambda_"], options(hf_ptb_full, "mlstm-medium")["lambda_"]) == (0.0, 0.0)
    searched = options(hf_ptb, "mrnn-line-search")
    assert not {"mu", "lambda_", "rho_objective"} & searched.keys()
    assert options(hf_ptb, "mrnn-line-search-curvature") == {**searched, "rho_objective": "curvature"}
    resolved = TrainConfig(**checked_options(searched, "mrnn")).resolved()
    assert (resolved.warm_start, resolved.cg_iterations, resolved.line_search) == (0.0, 100, "minimum")
    full = options(hf_ptb_full, "mlstm-large")
    assert (full["gradient_symbols"], full["curvature_symbols"], full["sequence_length"]) == (2_160_000, 216_000, 300)
    wiki = options(hf_wikipedia, "mlstm-structural")
    assert (wiki["mu"], wiki["lambda_"], wiki["sequence_length"], wiki["level"]) == (1.0, 10.0, 1000, "byte")
    config = TrainConfig(**checked_options(rnn, "rnn")).resolved()
    assert (config.cg_iterations, config.warm_start, config.mu_growth, config.preconditioner) == (100, 0.95, 3, "none")


@pytest.mark.corpus
def test_the_symbols_of_the_ptb_are_counted() -> None:
    from hfrnn.data.corpora import load_corpus

    try:
        corpus = load_corpus(name="ptb", level="char")
    except hfrnn.InputError as error:
        pytest.skip(str(error))
    assert len(set(corpus.train)) == hf_recipes.PTB_SYMBOLS


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="each Python has its own manual")
def test_the_symbols_of_the_manual_are_counted() -> None:
    from hfrnn.data.corpora import load_corpus

    corpus = load_corpus(name="python-manual", level="char", fractions=hf_recipes.SMALL["fractions"])
    assert len(set(corpus.train)) == hf_recipes.MANUAL_SYMBOLS


# ---------------------------------------------------------------------- running


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two cells in bits, of one trial; an update takes milliseconds."""
    options = {
        "text": str(text_file(tmp_path)), "fractions": (0.6, 0.15, 0.25), "hidden": 6, "sequence_length": 17,
        "optimizer": "hf", "gradient_symbols": 300, "sample_length": 0,
    }  # fmt: skip
    cells = (
        Cell("rnn", {**options, "arch": "rnn"}, {"test": Figure(1.99, "[X]")}),
        Cell("gru", {**options, "arch": "gru"}),
    )
    return Table("tiny", "[X] table 1: a fox", cells, {"hf": {}}, minutes=0.01, metric="bits", symbols=30)


@pytest.mark.slow
def test_minutes_of_training_end_a_trial_and_a_larger_budget_lengthens_it(table: Table, tmp_path: Path) -> None:
    done(table, tmp_path, "rnn")
    run = tmp_path / "runs" / "tiny" / "rnn" / "hf"
    lines = metrics(run, timed=True)
    assert [line["seconds_processor"] >= 0.6 for line in lines] == [False] * (len(lines) - 1) + [True]
    result = result_of(tmp_path)
    assert (result["metric"], result["minutes_asked"], result["clock"]) == ("bits", 0.01, "processor")
    assert "finished, left as it is" in done(table, tmp_path, "rnn")
    assert "finished with --budget 0.01" not in done(table, tmp_path, "--list")
    done(table, tmp_path, "rnn", "--budget", "0.02")
    longer = metrics(run, timed=True)
    assert longer[: len(lines)] == lines
    assert longer[-1]["seconds_processor"] >= 1.2
    assert result_of(tmp_path)["minutes_asked"] == 0.02


def test_a_result_in_bits_has_the_best_validation_its_training_bits_and_the_test(table: Table, tmp_path: Path) -> None:
    done(table, tmp_path, "rnn", "--threads", "1")
    result, run = result_of(tmp_path), tmp_path / "runs" / "tiny" / "rnn" / "hf"
    best = min((line for line in metrics(run) if line["valid_bits"] is not None), key=lambda line: line["valid_bits"])
    net, theta, vocabulary = load(run)
    test = evaluate(net, theta, vocabulary, run_text(RunFolder(run), "test")).bits_per_symbol
    ours = result["ours"]
    assert ours["bits"] == {"train": best["train_bits"], "valid": best["valid_bits"], "test": test}
    assert (ours["best_update"], ours["weights"]) == (best["update"], net.n_parameters)
    names = ["update", "seconds", "seconds_processor", "symbols", "train_bits", "valid_bits"]
    assert list(result["curve"][0]) == names
    assert [point["valid_bits"] for point in result["curve"]].count(best["valid_bits"]) >= 1
    assert result["trained_on"][0]["threads"] == result["machine"]["threads"] == 1
    [row] = [line for line in done(table, tmp_path, "--list").splitlines() if " rnn " in line]
    assert f"{test:.3f}" in row
    assert "test 1.99" in row


@pytest.mark.slow
def test_a_clock_of_the_wall_counts_other_seconds(table: Table, tmp_path: Path) -> None:
    limit = Limit(0.5, "minutes", "wall")
    assert limit.is_over({"seconds": 30.0, "seconds_processor": 1.0})
    assert not limit.is_over({"seconds": 29.9, "seconds_processor": 99.0})
    done(table, tmp_path, "rnn", "--clock", "wall")
    assert result_of(tmp_path)["clock"] == "wall"
    assert "finished, left as it is" not in done(table, tmp_path, "rnn", "--minutes", "0.0001")


def test_patience_ends_a_trial_before_its_minutes(table: Table, tmp_path: Path) -> None:
    options = {**table.cells[0].options, "patience": 1, "learning_rate": 1e-9, "optimizer": "sgd", "log_interval": 1}
    options = {name: value for name, value in options.items() if name != "gradient_symbols"}
    cell = Cell("rnn", {**options, "validate_every": 1, "average": 0.0})
    table = Table("tiny", table.title, (cell,), {"hf": {}}, minutes=60, metric="bits")
    done(table, tmp_path)
    assert result_of(tmp_path)["trials"]["hf"]["ended"] == "patience"


@pytest.mark.slow
def test_each_seed_has_a_run_and_a_result_of_its_own(table: Table, tmp_path: Path) -> None:
    done(table, tmp_path, "rnn")
    before = (tmp_path / "out" / "tiny" / "rnn.json").read_bytes()
    done(table, tmp_path, "rnn", "--seed", "3")
    assert (tmp_path / "out" / "tiny" / "rnn.json").read_bytes() == before
    other = result_of(tmp_path, "rnn-seed-3")
    assert other["recipe"]["hf"]["seed"] == 3
    assert other["curve"][0]["valid_bits"] != result_of(tmp_path)["curve"][0]["valid_bits"]
    assert "rnn-seed-3" in done(table, tmp_path, "--list", "--seed", "3")
    assert "rnn-seed-3" not in done(table, tmp_path, "--list")


@pytest.mark.slow
def test_the_scales_of_a_script_are_different_tables(table: Table, tmp_path: Path) -> None:
    small = Table("tiny-small", "small", table.cells, table.trials, minutes=0.001, metric="bits")
    tables: Any = {"small": small, "paper": table}
    assert "[X] table 1" in done(tables, tmp_path, "--list")
    assert "small: 0.001 processor minutes" in done(tables, tmp_path, "--list", "--scale", "small")
    done(tables, tmp_path, "rnn", "--scale", "small")
    assert (tmp_path / "out" / "tiny-small" / "rnn.json").is_file()
    assert not (tmp_path / "out" / "tiny").exists()


@pytest.mark.slow
def test_a_cell_of_the_small_scale_learns_in_seconds(tmp_path: Path) -> None:
    tables = hf_ptb.TABLES
    paths = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    arguments = ["mlstm-structural", "--scale", "small", "--budget", "0.05", *paths]
    result = CliRunner().invoke(script.command(tables), arguments)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out" / "hf_ptb-small" / "mlstm-structural.json").read_text())
    assert found["ours"]["bits"]["test"] < 4.5
    assert found["ours"]["weights"] == pytest.approx(20_000, rel=0.03)


def test_the_online_rule_begins_at_the_small_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []

    def begin(**options: Any) -> None:
        seen.append(options)
        raise hfrnn.NonFiniteError("stop")

    monkeypatch.setattr(trials, "train", begin)
    paths = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    CliRunner().invoke(script.command(hf_ptb.TABLES), ["lstm-online", "--scale", "small", *paths])
    assert (seen[0]["optimizer"], seen[0]["epochs"], seen[0]["learning_rate"]) == ("online", 10**6, 0.1)
    CliRunner().invoke(script.command(hf_ptb.TABLES), ["mlstm-structural", "--scale", "small", *paths])
    assert (seen[-1]["optimizer"], seen[-1]["updates"]) == ("hf", 10**9)


@mpi.needs_mpi
@pytest.mark.slow
def test_two_ranks_train_the_bits_of_one_process_and_score_once(tmp_path: Path) -> None:
    arguments = ["mlstm-structural", "--scale", "small", "--threads", "1", "--budget", "0.02", "--clock", "wall"]
    found = []
    for ranks in (1, 2):
        folder = tmp_path / str(ranks)
        paths = ["--runs", str(folder / "runs"), "--out", str(folder / "out")]
        folder.mkdir()
        finished = mpi.run(ranks, PAPERS / "hf_ptb.py", *arguments, *paths, folder=folder, seconds=300)
        assert finished.returncode == 0, finished.stderr
        assert finished.stdout.count("wrote ") == 1
        result = json.loads((folder / "out" / "hf_ptb-small" / "mlstm-structural.json").read_text())
        assert result["trained_on"][0]["ranks"] == ranks
        found.append([(point["update"], point["valid_bits"]) for point in result["curve"]])
    common = min(map(len, found))
    assert common > 1
    assert found[0][:common] == found[1][:common]
