"""The figures of docs/tasks.md that dynamics.py measures, as Markdown. They show the cells that there are."""

from __future__ import annotations

import statistics

from comparison import read_cells
from dynamics import BUDGET
from dynamics_results import compared, ratios, rows
from page_text import RESULTS, table

FOLDER = RESULTS / "dynamics"


def dynamics() -> str:
    """Return the table of all tasks and a picture of each."""
    results = read_cells(FOLDER)
    if not results:
        return "Not measured yet."
    parts = [
        "`python benchmarks/dynamics.py`: medians of the lowest validation loss within some processor seconds. The "
        "last\ncolumn has for each seed HF's time divided by that of the method, until the higher one of their two "
        f"lowest\nlosses of {BUDGET:g} seconds: below 1, HF is faster.",
        table(*rows(results)),
    ]
    for path in sorted(FOLDER.glob("*.svg")):
        alternative = f"Validation loss over processor seconds: {path.stem}"
        parts.append(f"![{alternative}](../benchmarks/results/dynamics/{path.name})")
    return "\n\n".join(parts)


def soap_ratios() -> str:
    """Return the median of HF's time divided by SOAP's on each task, in a line."""
    results = read_cells(FOLDER)
    found = {
        task: ratios(compared(results, task), "soap") for task in sorted({each["cell"]["task"] for each in results})
    }
    return ", ".join(f"{statistics.median(own):.2g} on {task}" for task, own in found.items() if own)
