"""Results of the cells: a trial is chosen on the validation part, and its best weights are scored once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from cells import Cell, Limit, Table
from common import write_result
from trials import CURVES, Progress, Settings, machine_facts, train_trial, trained_on

from hfrnn.analysis.evaluation import evaluate
from hfrnn.errors import InputError
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.load import load
from hfrnn.sources.open import run_text


def train_cell(table: Table, cell: Cell, settings: Settings) -> dict[str, Progress] | None:
    """Train what is left of a cell's trials; return how far they are, or None unless all are done."""
    folder, found = settings.runs / table.name / cell.name, {}
    for trial, options in table.recipe(cell).items():
        found[trial] = train_trial(folder / trial, options, table.metric, settings)
        if not found[trial].is_done(settings.limit):
            click.echo(f"{cell.name}: time is up at {found[trial]} of {trial}; run it again to go on")
            return None
    return found


def score_cell(table: Table, cell: Cell, found: Mapping[str, Progress], settings: Settings) -> None:
    """Choose a trial on the validation part, score its best weights and write the result."""
    scored = {trial: each.best[f"valid_{table.metric}"] for trial, each in found.items() if each.best is not None}
    if not scored:
        click.echo(f"{cell.name}: no trial has reached a finite validation loss")
        return
    chosen = min(scored, key=lambda trial: scored[trial])
    run = settings.runs / table.name / cell.name / chosen
    result = score(table, cell, run, found[chosen], settings)
    result |= settings.limit.asked()
    result["trials"] = {
        trial: {
            f"valid_{table.metric}": scored.get(trial),
            "epochs": each.last("epoch"),
            "updates": each.last("update"),
            "seconds": each.last("seconds"),
            "ended": each.ended,
        }
        for trial, each in found.items()
    }
    write_result(result_path(table, cell, settings.out), result)


def score(table: Table, cell: Cell, run: Path, progress: Progress, settings: Settings) -> dict[str, Any]:
    """The result of a cell: its part read once, as one unbroken stream, with the best weights of the run chosen."""
    folder = RunFolder(run)
    net, theta, vocabulary = load(run, "best", settings.backend)
    if vocabulary is None:
        raise InputError(f"{run} was not trained on a text: the cells of these tables are")
    text = run_text(folder, table.part)
    evaluation = evaluate(net, theta, vocabulary, text, folder.config().unknown)
    best = progress.best
    assert best is not None
    reached = evaluation.perplexity if table.metric == "perplexity" else evaluation.bits_per_symbol
    known = {part: best[name] for part in ("train", "valid") if (name := f"{part}_{table.metric}") in best}
    place = CURVES[table.metric][0]
    return {
        "table": table.name,
        "cell": cell.name,
        "metric": table.metric,
        "published": {name: {"value": each.value, "source": each.source} for name, each in cell.published.items()},
        "ours": {
            table.metric: {**known, table.part: reached},
            "symbols_scored": evaluation.symbols,
            "epochs": progress.last("epoch"),
            "updates": progress.last("update"),
            f"best_{place}": best[place],
            "seconds": progress.last("seconds"),
            "seconds_processor": progress.last("seconds_processor"),
            "seconds_epoch": progress.seconds_epoch,
            "weights": net.n_parameters,
        },
        "part": table.part,
        "chosen": run.name,
        "recipe": table.recipe(cell),
        "versions": folder.versions(),
        "machine": machine_facts(settings.backend, settings.threads),
        "trained_on": trained_on(run.parent, run.name),
        "curve": progress.curve,
    }


def result_path(table: Table, cell: Cell, out: Path) -> Path:
    return out / table.name / f"{cell.name}.json"


def read_result(table: Table, cell: Cell, out: Path) -> dict[str, Any] | None:
    """The result that is there, None if there is none."""
    path = result_path(table, cell, out)
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def is_finished(table: Table, cell: Cell, out: Path, limit: Limit) -> bool:
    """Whether there is a result of the same recipe that is as long or longer."""
    result = read_result(table, cell, out)
    if result is None or not has_recipe(result, table, cell) or result.get("clock", limit.clock) != limit.clock:
        return False
    return bool(result.get(f"{limit.unit}_asked", 0) >= limit.amount)


def has_recipe(result: Mapping[str, Any], table: Table, cell: Cell) -> bool:
    """Whether a result is of the trials that the cell has now."""
    return bool(result["recipe"] == json.loads(json.dumps(table.recipe(cell))))
