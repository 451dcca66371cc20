"""Defaults that suit the data: `hfrnn train --data addition` and `--data ptb --level word` need no further options.

They replace the general defaults, and an option of the user replaces them. The measurements behind them are in
docs/hf-and-first-order.md (long lags) and docs/data.md (words).
"""

from __future__ import annotations

from typing import Any

TASK_NETWORK = {"arch": "rnn", "hidden": (100,)}
"""Network of all synthetic tasks."""
ARRAYS = {"hidden": (96,)}
"""Size of a network for sequences of numbers of one's own."""
TASK_WEIGHTS = {"initializer": "sutskever", "spectral_radius": 1.0, "input_scale": 0.1}
"""First weights of an `rnn` for tasks with long time lags. It does not learn these tasks from the general ones."""
WORDS = {"arch": "lstm", "hidden": (128,), "embedding": 64, "classes": 100, "optimizer": "adam"}
"""Network and optimizer of a known corpus in words."""


def suited_text(name: str) -> str:
    """Return the defaults of an option that depend on the data, in words: `rnn for tasks`; "" if there are none."""
    places = (
        (TASK_NETWORK, "tasks"), (ARRAYS, "arrays and tables"), (TASK_WEIGHTS, "an rnn on long lags"),
        (WORDS, "corpora in words"),
    )  # fmt: skip
    return ", ".join(f"{_shown(values[name])} for {place}" for values, place in places if name in values)


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
