"""The figures of docs/tasks.md that dynamics.py measures, as Markdown. They show the cells that there are."""

from __future__ import annotations

import statistics

from comparison import number, read_cells
from dynamics import BUDGETS
from dynamics_results import compared, missed, ratios, rows
from page_text import RESULTS, table

FOLDER = RESULTS / "dynamics"


def dynamics() -> str:
    """Return the table of all tasks and a picture of each."""
    results = read_cells(FOLDER)
    if not results:
        return "Not measured yet."
    parts = [
        "`python benchmarks/dynamics.py`: medians of the lowest validation loss within some processor seconds.\n"
        f"Adam ran for {BUDGETS['adam']:g} seconds, the others for {BUDGETS['hf']:g}. The last column is, for each "
        "seed, the time until Adam's\nlowest loss of 300 seconds is reached, divided by 300.",
        table(*rows(results)),
    ]
    for path in sorted(FOLDER.glob("*.svg")):
        alternative = f"Validation loss over processor seconds: {path.stem}"
        parts.append(f"![{alternative}](../benchmarks/results/dynamics/{path.name})")
    return "\n\n".join(parts)


def shares() -> str:
    """Return the median share of Adam's time that HF needs on each task, in a line."""
    results = read_cells(FOLDER)
    found = {task: ratios(compared(results, task), "hf") for task in sorted({each["cell"]["task"] for each in results})}
    never = missed(BUDGETS["hf"])
    return ", ".join(f"{number(statistics.median(own), '.2f', never)} on {task}" for task, own in found.items() if own)
