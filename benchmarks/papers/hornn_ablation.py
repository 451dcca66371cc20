"""[S] 4, ablation of the recipe: the plain network on the words of the Penn Treebank, one change at a time.

The base is the recipe of hornn_ptb: Adam at 0.004, halved after every epoch from the second on, a decoupled
decay of 0.1, columns no longer than 4, gradients within the norm 1, 20 streams. Every other cell changes one of these.
All cells are trained for the same number of epochs and compared by validation; fofe-3 takes no part in the choice.
"""

from __future__ import annotations

from typing import Any

from cells import WORDS, Cell, Table
from hornn_ptb import ACTIVATION, RECIPE, TRIAL
from script import command

CHANGES: dict[str, dict[str, Any]] = {
    "base": {},
    "bound-6": {"max_norm": "*=6"},
    "decay-0.03": {"weight_decay": 0.03},
    "decay-0.3": {"weight_decay": 0.3},
    "rate-0.002": {"learning_rate": 0.002},
    "rate-0.008": {"learning_rate": 0.008},
    "clip-0.25": {"clip_norm": 0.25},
    "clip-4": {"clip_norm": 4.0},
    "errors-5": {"clip_error": 5.0},
    "streams-10": {"streams": 10},
    "streams-40": {"streams": 40},
    "tanh": {"activation": "tanh"},
    "relu": {"activation": "relu"},
}
"""What each cell changes."""

TABLE = Table(
    name="hornn_ablation",
    title="[S] 4: one change of the recipe at a time, rnn on the words of the Penn Treebank",
    cells=tuple(
        Cell(
            f"rnn-{name}",
            {**RECIPE, **ACTIVATION, "arch": "rnn"},
            {},
            {name: {**TRIAL, **change}},
        )
        for name, change in CHANGES.items()
    ),
    trials=CHANGES,
    epochs=1,
    symbols=WORDS,
)

if __name__ == "__main__":
    command(TABLE)()
