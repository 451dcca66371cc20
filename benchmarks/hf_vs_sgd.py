"""Compare Hessian-free optimization with first-order methods and L-BFGS, in equal processor time on one thread.

A cell is one run: a problem, a method, a tuning trial and a seed. Each cell is written to its own JSON file when it
ends, so the benchmark can be run in pieces:

    python benchmarks/hf_vs_sgd.py --list                                    what there is
    python benchmarks/hf_vs_sgd.py --method adam                             the tuning trials, then the other cells
    python benchmarks/hf_vs_sgd.py --problem ptb-mlstm-64 --seed 1           some cells
    python benchmarks/hf_vs_sgd.py --summary                                 tables and pictures of what there is

Every first-order method has three trials; Hessian-free optimization runs with its defaults. All trials run on one
problem with one seed for the whole budget. The trial with the lowest validation bits is used for all other cells of its
method. PSGD and L-BFGS are those of other packages (opponents.py). See README.md.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import click
import common
import opponents
from comparison import (
    MARKS,
    TUNING,
    TUNING_SEED,
    Result,
    Rows,
    best_within,
    bits_table,
    budget_of,
    by_problem,
    final_bits,
    read_cells,
    thin,
    times_table,
    tuning_bits,
    tuning_table,
)
from pictures import draw_problem
from rich.console import Console
from rich.table import Table
from timed_runs import (
    ENDLESS,
    UNFINISHED,
    is_done,
    progress,
    records,
    run_within,
    spent,
    updates_per_second,
    updates_until,
    validations,
)

from hfrnn.arrays.backend import get_backend
from hfrnn.optim.hf_options import STRENGTHS
from hfrnn.runs.defaults import preset_defaults

SHAKESPEARE = {"data": "tinyshakespeare"}
PTB = {"data": "ptb", "level": "char"}
FOFE = {"data": "ptb", "level": "word", "arch": "hornn-fofe", "hidden": 128, "embedding": 64, "classes": 100}
PROBLEMS: dict[str, tuple[float, dict[str, Any]]] = {
    "tinyshakespeare-mlstm-64": (300.0, {**SHAKESPEARE, "arch": "mlstm", "hidden": 64}),
    "tinyshakespeare-mlstm-256": (900.0, {**SHAKESPEARE, "arch": "mlstm", "hidden": 256}),
    "ptb-mlstm-64": (300.0, {**PTB, "arch": "mlstm", "hidden": 64}),
    "ptb-mlstm-256": (900.0, {**PTB, "arch": "mlstm", "hidden": 256}),
    "tinyshakespeare-rnn-128": (300.0, {**SHAKESPEARE, "arch": "rnn", "hidden": 128}),
    "ptb-rnn-128": (300.0, {**PTB, "arch": "rnn", "hidden": 128}),
    "ptb-words-hornn-fofe": (300.0, FOFE),
}
"""The budget of a run in processor seconds, and the options of each problem."""


def rates(optimizer: str, *trials: tuple[float, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the trials of a first-order method, named after their learning rate and schedule."""
    return {
        f"{rate:g}-{options['schedule']}": {"optimizer": optimizer, "learning_rate": rate, **options}
        for rate, options in trials
    }


def curvature(preset: str, trials: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the trials of Hessian-free optimization with a preset."""
    return {name: {"optimizer": "hf", "preset": preset, **options} for name, options in trials.items()}


SMALL_TEXT = preset_defaults("tuned", "text")
SMALL_TEXT |= dict(zip(("mu", "lambda_"), STRENGTHS["structural"], strict=True))
"""The defaults of HF for texts of fewer than a million symbols."""
CONSTANT, DIVIDE, COSINE = ({"schedule": name} for name in ("constant", "divide", "cosine"))
WHOLE = {"tinyshakespeare": 20_000, "char": 100_000, "word": 18_000}
"""Streams that read the whole training part in one window, by the data or by the level of the Penn Treebank."""
METHODS: dict[str, dict[str, dict[str, Any]]] = {
    "hf": curvature("tuned", {"default": {}}),
    "hf-small-text": curvature("tuned", {"default": SMALL_TEXT}),
    "hf-published": curvature("published", {"default": {}}),
    "sgd": rates("sgd", (0.3, DIVIDE), (1.0, DIVIDE), (1.0, {**COSINE, "warm_up": 50})),
    "adam": rates("adam", (0.004, DIVIDE), (0.008, DIVIDE), (0.008, COSINE)),
    "soap": rates("soap", (0.005, DIVIDE), (0.01, DIVIDE), (0.015, COSINE)),
    "muon": rates("muon", (0.005, DIVIDE), (0.01, DIVIDE), (0.02, COSINE)),
    "psgd": rates("psgd", (0.001, DIVIDE), (0.003, DIVIDE), (0.01, DIVIDE)),
    "lbfgs": rates("lbfgs", (0.1, CONSTANT), (0.3, CONSTANT), (1.0, CONSTANT)),
}
"""The tuning trials of each method. Hessian-free optimization has its defaults only (README.md)."""
VALIDATIONS = 100
"""Approximate number of validations of a run, unless the command says another."""
PACE_SECONDS, PACE_SHARE = 20.0, 0.1
"""Most processor seconds of the run that measures the pace, and most of it as a share of the budget. A much shorter one
would not do: HF's first updates are slower than the later ones."""
REPLANNED = (0.1, 0.3, 0.6, 0.9)
"""Shares of the budget after which a cosine schedule gets a new horizon. The pace that was measured before the run can
be wrong by a tenth, because other work slows the machine down."""
POINTS = 150
"""Approximate number of points of a curve that are kept."""
FOLDER = "hf_vs_sgd"


@dataclass(frozen=True)
class Cell:
    """One run of the benchmark."""

    problem: str
    method: str
    trial: str
    seed: int

    @property
    def name(self) -> str:
        """The name of the run folder and of the JSON file."""
        return f"{self.problem}-{self.method}-{self.trial}-{self.seed}"

    @property
    def tunes(self) -> bool:
        """Whether the cell is one of those that choose the trial."""
        return (self.problem, self.seed) == (TUNING, TUNING_SEED)

    def options(self, backend: str) -> dict[str, Any]:
        """Return the options of the run that are known before anything is measured."""
        own = METHODS[self.method][self.trial]
        same = {"seed": self.seed, "threads": 1, "backend": backend, "sample_length": 0}
        problem = PROBLEMS[self.problem][1]
        if self.method == "lbfgs":
            same["streams"] = WHOLE[problem.get("level", problem["data"])]
        return {**problem, **own, **same}


def measured_options(options: dict[str, Any], budget: float, validations: int = VALIDATIONS) -> dict[str, Any]:
    """Return the options that depend on the speed of the machine: updates, records and validations.

    Parameters
    ----------
    options : dict
        The other options of the run.
    budget : float
        Processor seconds of the run. The schedule cosine ends with them.
    validations : int
        Approximate number of validations of the run.
    """
    first_order = options["optimizer"] != "hf"
    pace = updates_per_second(options, min(PACE_SECONDS, PACE_SHARE * budget))
    found: dict[str, Any] = {"updates": ENDLESS, "validate_every": max(1, round(budget / validations * pace))}
    if first_order:
        found["log_interval"] = max(1, round(pace))  # a record takes about a second
    if options.get("schedule") == "cosine":
        found["updates"] = max(1, round(pace * budget))
    return found


def run_cosine(folder: Path, budget: float, options: dict[str, Any]) -> None:
    """Run a cell whose cosine schedule ends with its budget: the horizon is corrected by the pace of the run."""
    known = {name: value for name, value in options.items() if name != "updates"}
    run_within(folder, REPLANNED[0] * budget, options)
    for share in (*REPLANNED[1:], 1.0):
        if progress(folder)[1] in UNFINISHED:
            run_within(folder, share * budget, known, updates=updates_until(folder, budget))


# ---------------------------------------------------------------------- the trial of a method


def chosen_trial(method: str, cells: Iterable[Result]) -> str | None:
    """Return the tuning trial with the lowest validation bits; None until all trials are done."""
    scores = tuning_bits(cells).get(method, {})
    if METHODS[method].keys() - scores.keys():
        return None
    return min(METHODS[method], key=lambda trial: scores[trial])


def wanted_cells(
    problems: Iterable[str], methods: Iterable[str], seeds: Iterable[int], out: Path, trial: str | None = None
) -> Iterator[Cell]:
    """Yield the cells of problems, methods and seeds; the trial is read when it is needed.

    The tuning problem with the tuning seed comes first; it has a cell for each trial. Other cells have the chosen
    trial. They are left out with a message until all trials of their method are done. If a trial is given, all cells
    have it.
    """
    if trial is not None:
        yield from (Cell(problem, method, trial, seed) for problem, method, seed in product(problems, methods, seeds))
        return
    ordered = sorted(product(problems, seeds), key=lambda pair: pair != (TUNING, TUNING_SEED))
    left_out: dict[str, int] = {}
    for (problem, seed), method in product(ordered, list(methods)):
        if (problem, seed) == (TUNING, TUNING_SEED):
            yield from (Cell(problem, method, trial, seed) for trial in METHODS[method])
        elif chosen := chosen_trial(method, read_cells(out)):
            yield Cell(problem, method, chosen, seed)
        else:
            left_out[method] = left_out.get(method, 0) + 1
    for method, count in left_out.items():
        click.echo(
            f"{method}: {count} cells are left out until its trials are done (--problem {TUNING} --method {method} "
            f"--seed {TUNING_SEED})"
        )


# ---------------------------------------------------------------------- running


def run_cell(cell: Cell, budget: float, backend: str, runs: Path, out: Path, checks: int = VALIDATIONS) -> None:
    """Begin the run of a cell or resume it, and write its result; leave a cell with a result unchanged."""
    path, folder = out / f"{cell.name}.json", runs / cell.name
    if path.is_file():
        click.echo(f"{cell.name}: done, left as it is")
        return
    options = cell.options(backend)
    if not (folder / "config.toml").is_file():
        click.echo(f"{cell.name}: {budget:g} processor seconds")
        options |= measured_options(options, budget, checks)
    (run_cosine if options.get("schedule") == "cosine" else run_within)(folder, budget, options)
    if is_done(folder, budget):
        common.write_result(path, result_of(cell, budget, backend, folder, out))


def result_of(cell: Cell, budget: float, backend: str, folder: Path, out: Path) -> dict[str, Any]:
    """Return the result of a run that is done: its options, machine, times and learning curve."""
    names = ("update", "seconds", "valid_bits")
    points = [p for p in validations(folder, names, budget) if p["valid_bits"] is not None]
    lines, config = records(folder), tomllib.loads((folder / "config.toml").read_text("utf-8"))
    lines = [line for n, line in enumerate(lines) if n == 0 or spent(lines[n - 1]) < budget]  # the run may have gone on
    config |= config.pop("followed")
    best = min(points, key=lambda p: p["valid_bits"], default={})
    done = read_cells(out)
    trials, chosen = tuning_bits(done).get(cell.method), chosen_trial(cell.method, done)
    tuning = {"problem": TUNING, "seed": TUNING_SEED, "trials": trials, "chosen": chosen}
    marks = [*(mark for mark in MARKS if mark < budget), budget]
    last = lines[-1] if lines else {"seconds": 0.0, "update": 0}
    return {
        "machine": common.machine(1, get_backend(backend) if backend == "cupy" else None),
        "cell": asdict(cell),
        "budget": budget,
        "tuning": None if cell.tunes else tuning,
        "options": cell.options(backend),
        "config": {name: value for name, value in config.items() if name not in ("out", "versions")},
        "stopped": progress(folder)[1],
        "updates": last["update"],
        "seconds_processor": spent(last),
        "seconds": last["seconds"],
        "seconds_validation": round(sum(line["seconds_validation"] for line in lines), 3),
        "best": {name: best.get(name) for name in ("valid_bits", "seconds_processor", "update")},
        "best_within": {f"{mark:g}": _finite(best_within(points, mark)) for mark in marks},
        "curve": thin(points, POINTS),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


# ---------------------------------------------------------------------- what there is


def print_list(cells: Iterable[Cell], seconds: float | None, runs: Path, out: Path) -> None:
    """Print the state of every cell and its best validation bits."""
    results = {path.stem: result for path, result in zip(sorted(out.glob("*.json")), read_cells(out), strict=True)}
    table = Table("cell", "state", "processor seconds", "best bits")
    for cell in cells:
        result, lines = results.get(cell.name), records(runs / cell.name)
        used = result["seconds_processor"] if result else spent(lines[-1]) if lines else 0.0
        budget = result["budget"] if result else seconds or PROBLEMS[cell.problem][0]
        state = "done" if result else "begun" if lines else "not begun"
        bits = f"{final_bits(result):.3f}" if result else ""
        table.add_row(cell.name, state, f"{used:.0f} of {budget:g}", bits)
    Console().print(table)


def print_rows(rows: Rows, title: str) -> None:
    """Print a table of comparison.py."""
    table = Table(*rows[0], title=title)
    for row in rows[1]:
        table.add_row(*row)
    Console().print(table)


def summarize(out: Path) -> None:
    """Print the tables of all cells that are done, and write a picture for each problem."""
    cells = read_cells(out)
    print_rows(tuning_table(cells), f"tuning on {TUNING}, seed {TUNING_SEED}")
    for problem, methods in by_problem(cells).items():
        budget = budget_of(methods)
        print_rows(bits_table(methods), f"{problem}: best validation bits within processor seconds (medians)")
        print_rows(times_table(methods), f"{problem}: processor seconds until a target, each seed")
        draw_problem(out / f"{problem}.svg", problem, methods, budget)


@click.command(cls=common.Command)
@click.option("--problem", "problems", type=click.Choice(tuple(PROBLEMS)), multiple=True, default=tuple(PROBLEMS),
              help="Problems.")  # fmt: skip
@click.option("--method", "methods", type=click.Choice(tuple(METHODS)), multiple=True, default=tuple(METHODS),
              help="Methods.")  # fmt: skip
@click.option("--seed", "seeds", type=click.IntRange(0), multiple=True, default=(0, 1, 2), help="Seeds.")
@click.option("--trial", help="Trial of one method, instead of the chosen one: a rate that diverges needs another.")
@click.option("--list", "listing", is_flag=True, help="Print the state of the cells; train nothing.")
@click.option("--summary", is_flag=True, help="Print the tables and write the pictures; train nothing.")
@click.option("--seconds", type=click.FloatRange(0, min_open=True),
              help="Processor seconds of a run, to try the script; give other --runs and --out too.")  # fmt: skip
@click.option("--validations", default=VALIDATIONS, type=click.IntRange(1),
              help="Approximate number of validations of a run.")  # fmt: skip
@click.option("--backend", type=click.Choice(("numpy", "numba", "cupy")), default="numpy",
              help="What to compute with; give other --runs and --out for another backend.")  # fmt: skip
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs") / FOLDER, help="Folder of the runs.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS / FOLDER, help="Folder of the JSON.")
def main(
    problems: tuple[str, ...], methods: tuple[str, ...], seeds: tuple[int, ...], trial: str | None, listing: bool,
    summary: bool, seconds: float | None, validations: int, backend: str, runs: Path, out: Path,
) -> None:  # fmt: skip
    """Train the cells that are not done, one after another; the tuning trials come first."""
    opponents.register()
    if summary:
        summarize(out)
        return
    if trial is not None and (len(methods) > 1 or trial not in METHODS[methods[0]]):
        raise click.UsageError(f"--trial is {trial}: give one --method, and one of its trials")
    cells = wanted_cells(problems, methods, seeds, out, trial)
    if listing:
        print_list(cells, seconds, runs, out)
        return
    for cell in cells:
        run_cell(cell, seconds or PROBLEMS[cell.problem][0], backend, runs, out, validations)


if __name__ == "__main__":
    main()
