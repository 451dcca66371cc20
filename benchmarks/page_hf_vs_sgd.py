"""The figures of docs/hf-and-first-order.md that hf_vs_sgd.py measures; each function returns Markdown.

They show the cells that there are. See tables.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from comparison import (
    Result,
    best_within,
    bits_table,
    budget_of,
    by_problem,
    read_cells,
    time_to,
    times_table,
    tuning_table,
)
from page_text import RESULTS, table

FOLDER = RESULTS / "hf_vs_sgd"
LARGER = RESULTS / "hf_vs_sgd_larger"
"""Runs with 128 and 256 units; those with 256 have trials that were chosen before `--sequence-starts shifted`."""
EARLIER = (RESULTS / "hf_vs_sgd_lambda", RESULTS / "hf_vs_sgd_three")
"""Runs with 256 units and earlier defaults of HF, and first-order runs of the first of these times."""
ADAM = RESULTS / "hf_vs_adam"
"""Runs of Adam and of HF with a noise limit, 64 units, on a faster processor than those of the first folder."""
MUON = RESULTS / "hf_vs_muon"
"""Runs of HF and Muon on a faster processor than those of the other folders."""
EARLY = (60, 100, 160, 300)
"""Processor seconds at which options of HF are compared."""
NOTHING = "No run has been made yet."


def tuning(folder: Path = FOLDER) -> str:
    """Return the tuning trials of each method."""
    head, rows = tuning_table(read_cells(folder))
    return table(head, rows) if rows else NOTHING


def problems(folder: Path = FOLDER) -> str:
    """Return two tables for each problem, one if only one method has run, and its picture if there is one."""
    parts = []
    for problem, methods in by_problem(read_cells(folder)).items():
        parts += [f"**{problem}**, {budget_of(methods):g} processor seconds:", table(*bits_table(methods))]
        if len(methods) > 1:
            parts.append(table(*times_table(methods)))
        if (folder / f"{problem}.svg").is_file():
            alternative = f"Validation bits over processor seconds: {problem}"
            parts.append(f"![{alternative}](../benchmarks/results/{folder.name}/{problem}.svg)")
    return "\n\n".join(parts) or NOTHING


def before(now: Path = LARGER, then: Sequence[Path] = EARLIER) -> str:
    """Return what HF reached with several options, where one seed has several runs on one processor.

    A time stands beside its ratio to the time of the method that set the target.
    """
    rows = []
    earlier = [by_problem(read_cells(folder)) for folder in then]
    for problem, methods in by_problem(read_cells(now)).items():
        for seed, result in methods.get("hf", {}).items():
            runs = [each.get(problem, {}).get("hf", {}).get(seed) for each in earlier]
            same = [run for run in runs if run and run["machine"]["processor"] == result["machine"]["processor"]]
            for each in [*same, result] if same else []:
                reached = (best_within(each["curve"], mark) for mark in EARLY)
                bits = [f"{value:.3f}" if math.isfinite(value) else "" for value in reached]
                times = [_time(each, methods[method][seed]) for method in ("adam", "sgd")]
                best = f"{best_within(each['curve']):.3f}"
                rows.append([problem, str(seed), _options(each["config"]), *bits, best, *times])
    marks = [f"{mark} s" for mark in EARLY]
    return table(["problem", "seed", "options", *marks, "best", "until Adam's best", "until SGD's best"], rows)


def _options(config: Mapping[str, Any]) -> str:
    """Return the options that a run of HF had, by what its configuration holds."""
    if config.get("noise_limit"):
        return "noise limit"
    return "shift: the mean of D" if config.get("preconditioner_relative_shift") else "shift: lambda"


def _time(result: Result, opponent: Result) -> str:
    """Return the seconds of a run until the opponent's best, and their ratio to the opponent's own."""
    best = best_within(opponent["curve"], opponent["budget"])
    own, seconds = time_to(opponent["curve"], best), time_to(result["curve"], best)
    return "never" if math.isinf(seconds) else f"{seconds:.0f} s ({seconds / own:.2f})"
