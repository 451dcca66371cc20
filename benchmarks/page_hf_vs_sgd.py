"""The figures of docs/hf-and-first-order.md that hf_vs_sgd.py measures; each function returns Markdown.

They show the cells that there are. See tables.py.
"""

from __future__ import annotations

from pathlib import Path

from comparison import bits_table, budget_of, by_problem, read_cells, times_table, tuning_table
from page_text import RESULTS, table

FOLDER = RESULTS / "hf_vs_sgd"
LARGER = RESULTS / "hf_vs_sgd_larger"
"""Runs with 128 and 256 units; those with 256 have trials that were chosen before `--sequence-starts shifted`."""
MUON = RESULTS / "hf_vs_muon"
"""Runs of HF and Muon on a faster processor than those of the other folders."""
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
