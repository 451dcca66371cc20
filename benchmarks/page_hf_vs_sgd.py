"""The figures of benchmarks/diary/hf-and-first-order.md that hf_vs_sgd.py measures; each function returns Markdown.

They show the cells that there are. See tables.py.
"""

from __future__ import annotations

import math
from pathlib import Path

from comparison import (
    Result,
    best_within,
    bits_at,
    bits_table,
    budget_of,
    by_problem,
    read_cells,
    time_to,
    times_table,
    tuning_table,
)
from page_text import RESULTS, load, table

FOLDER = RESULTS / "hf_vs_sgd"
BLOCK_SHIFT = RESULTS / "hf_vs_sgd_block_shift"
"""Runs of HF with a shift of the preconditioner for each block, and first-order runs on the same machine.

HF has one shift for all blocks in the runs of all other folders.
"""
LARGER = RESULTS / "hf_vs_sgd_larger"
"""Runs with 128 and 256 units; those with 256 have trials that were chosen before `--sequence-starts shifted`."""
LAMBDA = RESULTS / "hf_vs_sgd_lambda"
"""Runs with 256 units from the time when the preconditioner's shift was lambda, and first-order runs of that time."""
ADAM = RESULTS / "hf_vs_adam"
"""Runs of Adam and of HF with both presets of texts, 64 units, on a faster processor than those of the first folder."""
MUON = RESULTS / "hf_vs_muon"
"""Runs of HF and Muon on a faster processor than those of the other folders."""
MINUTE = RESULTS / "hf_vs_sgd_minute"
"""Runs of a minute of HF and of more opponents, each with its own trials of a minute."""
EARLY = (60, 100, 160, 300)
"""Processor seconds at which options of HF are compared."""
ON_WORDS = (15, 30, 60, 90, 120, 160, 200)
"""Processor seconds at which HF and Adam are compared on words."""
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
            parts.append(f"![{alternative}](../results/{folder.name}/{problem}.svg)")
    return "\n\n".join(parts) or NOTHING


def words_penalty() -> str:
    """Return what HF and Adam reach on words with seed 0, and Adam with HF's penalty."""
    runs = by_problem(read_cells(BLOCK_SHIFT))["ptb-words-hornn-fofe"]
    other = next(each for each in load("weaker-damping.json")["trials"] if each["text"] == "words-penalty")
    curves = {"hf": runs["hf"][0]["curve"], "adam": runs["adam"][0]["curve"], other["what"]: other["points"]}
    rows = [[name, *bits_at(curve, ON_WORDS)] for name, curve in curves.items()]
    return table(["", *(f"{mark} s" for mark in ON_WORDS)], rows)


def before(now: Path = LARGER, then: Path = LAMBDA) -> str:
    """Return what HF reached with both shifts of the preconditioner, and with cheap updates where that was run.

    A seed is shown if it has runs with both shifts on one processor.

    A time stands beside its ratio to the time of the method that set the target.
    """
    rows = []
    earlier = by_problem(read_cells(then))
    for problem, methods in by_problem(read_cells(now)).items():
        runs = earlier.get(problem, {}).get("hf-small-text", {})
        for seed, result in methods.get("hf-small-text", {}).items():
            if seed not in runs or runs[seed]["machine"]["processor"] != result["machine"]["processor"]:
                continue
            compared = {"shift: lambda": runs[seed], "shift: the mean of D": result}
            if cheap := methods.get("hf", {}).get(seed):
                compared["cheap updates"] = cheap
            for label, each in compared.items():
                bits = bits_at(each["curve"], EARLY)
                times = [_time(each, methods[method][seed]) for method in ("adam", "sgd")]
                rows.append([problem, str(seed), label, *bits, f"{best_within(each['curve']):.3f}", *times])
    marks = [f"{mark} s" for mark in EARLY]
    return table(["problem", "seed", "options", *marks, "best", "until Adam's best", "until SGD's best"], rows)


def _time(result: Result, opponent: Result) -> str:
    """Return the seconds of a run until the opponent's best, and their ratio to the opponent's own."""
    best = best_within(opponent["curve"], opponent["budget"])
    own, seconds = time_to(opponent["curve"], best), time_to(result["curve"], best)
    return "never" if math.isinf(seconds) else f"{seconds:.0f} s ({seconds / own:.2f})"
