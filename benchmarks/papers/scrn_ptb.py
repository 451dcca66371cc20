"""[M] table 1: structurally constrained networks beside plain ones and LSTM, words of the Penn Treebank.

The recipe is [M] 3: an update every 5 steps, from their losses sent back 50 steps (10 in the plain network, SRN), 32
streams, a learning rate of 0.05 that is divided by 1.5 when validation does not improve.

Their published code (main.lua, rnn.lua) sums the losses over the 32 streams and the 5 steps of an update
(`criterion.sizeAverage = false`), while ours is the mean of a symbol: their 0.05 is 0.05 * 32 * 5 = 8 here.
From the code too: all weights N(0, 0.05^2) (its output map starts at 0), the logistic function in the SRN, no biases
but in the LSTM, no momentum.

Left open, and used here: the paper renormalises the gradient without giving a bound, and the code by default bounds
the error signals of a step by 50, summed over the streams; here the gradient's norm is held to 1, which the LSTM needs
and the others hardly reach. The LSTM is sent back 50 steps too. At most 60 epochs, ended after 6 validations without a
better one. The LSTM and the SCRN return to the best weights when the rate is divided, as in the code. The SRN was
measured before there was an option for that, and does not.
"""

from __future__ import annotations

from typing import Any

from cells import WORDS, Cell, Figure, Table
from script import command

RATE = 0.05 * 32 * 5
RECIPE: dict[str, Any] = {
    "data": "ptb", "level": "word", "init_scale": 0.05, "optimizer": "sgd", "sequence_length": 50, "update_every": 5,
    "streams": 32, "learning_rate": RATE, "momentum": 0.0, "clip_norm": 1.0, "schedule": "divide", "patience": 6,
    "log_interval": 500,
}  # fmt: skip
EPOCHS = 60
TRIALS: dict[str, dict[str, Any]] = {f"rate-{RATE:g}": {}}
SOURCE = "[M] table 1"


def srn(hidden: int) -> dict[str, Any]:
    """The plain network."""
    return {"arch": "rnn", "hidden": hidden, "bias": False, "activation": "logistic", "sequence_length": 10}


def lstm(hidden: int) -> dict[str, Any]:
    return {"arch": "lstm", "hidden": hidden, "restore_best": True}


def scrn(hidden: int, context: int) -> dict[str, Any]:
    return {"arch": "scrn", "hidden": hidden, "context": context, "restore_best": True}


PERPLEXITIES = (
    ("srn-50", srn(50), 153, 144),
    ("srn-100", srn(100), 137, 129),
    ("srn-300", srn(300), 133, 129),
    ("lstm-50", lstm(50), 129, 123),
    ("lstm-100", lstm(100), 120, 115),
    ("lstm-300", lstm(300), 123, 119),
    ("scrn-40-10", scrn(40, 10), 133, 127),
    ("scrn-90-10", scrn(90, 10), 124, 119),
    ("scrn-100-40", scrn(100, 40), 120, 115),
    ("scrn-300-40", scrn(300, 40), 120, 115),
)
"""Name, network, validation and test."""

TABLE = Table(
    name="scrn_ptb",
    title="[M] table 1: SCRN on the words of the Penn Treebank",
    cells=tuple(
        Cell(name, {**RECIPE, **network}, {"valid": Figure(valid, SOURCE), "test": Figure(test, SOURCE)})
        for name, network, valid, test in PERPLEXITIES
    ),
    trials=TRIALS,
    epochs=EPOCHS,
    symbols=WORDS,
    quoted={"n-gram": Figure(141, SOURCE), "n-gram with cache": Figure(125, SOURCE)},
)

if __name__ == "__main__":
    command(TABLE)()
