"""The log of a run as a small HTML table, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hfrnn.runs.metrics import Record, clock
from hfrnn.wording import four_digits

ROWS = 8
"""Largest number of rows of a table."""
COLUMNS = {
    "update": "update", "seconds": "time", "train_loss": "training loss", "valid_loss": "validation loss",
    "valid_bits": "bits", "valid_errors": "wrong", "cg_iterations": "CG", "rho": "rho", "mu": "mu",
    "learning_rate": "learning rate",
}  # fmt: skip
"""The figures of a record that a table shows if a run has them, and their headings."""


def log_table(records: Sequence[Record]) -> str:
    """Return the log of a run as an HTML table with a few rows: the first and the last record and some between.

    Records with a validation are preferred.
    """
    watched = [record for record in records if record.get("valid_loss") is not None] or list(records)
    step = max(1, -(-(len(watched) - 1) // (ROWS - 1)))
    rows = watched[:-1:step] + watched[-1:]
    names = [name for name in COLUMNS if any(record.get(name) is not None for record in rows)]
    head = "".join(f"<th>{COLUMNS[name]}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{_shown(name, record.get(name))}</td>' for name in names)}</tr>" for record in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "seconds":
        return clock(value)
    if name == "valid_errors":
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else four_digits(value)
