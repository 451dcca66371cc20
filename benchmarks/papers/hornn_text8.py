"""[S] table 4: higher-order networks of order 3 on the words of text8.

[S] 4.2: 500 units, the constants of the Penn Treebank without tuning, 5 epochs at a learning rate of 0.5, which is then
halved at the end of every epoch; text8 as prepared by [M]'s script. What [S] calls the test set, of 0.17M words, is the
last 1M characters, [M]'s development set: the part `valid` here. It chooses among the epochs and is what is reported.

Left open by the papers, and used here: 10 epochs, an embedding as wide as the hidden layer, f as in hornn_ptb.py, no
weight decay (an epoch has 18 times as many updates, and the text is 18 times as long) and no maximum norm.
"""

from __future__ import annotations

from cells import Cell, Figure, Table
from hornn_ptb import ACTIVATION, RECIPE
from script import command

TEXT8 = {"data": "text8", "hidden": 500, "embedding": 500, "schedule": "text8", "patience": None, "log_interval": 1000}
SOURCE = "[S] table 4, there called test"
PERPLEXITIES = {"hornn": 172, "hornn-max": 163, "hornn-fofe": 154, "hornn-gated": 144}

TABLE = Table(
    name="hornn_text8",
    title="[S] table 4: HORNNs on the words of text8",
    cells=tuple(
        Cell(
            f"{arch}-3",
            {**RECIPE, **TEXT8, **ACTIVATION, "arch": arch, "order": 3},
            {"valid": Figure(perplexity, SOURCE)},
        )
        for arch, perplexity in PERPLEXITIES.items()
    ),
    trials={"rate-0.5": {"learning_rate": 0.5}},
    epochs=10,
    part="valid",
    quoted={
        "RNN, 500": Figure(184, "[M] table 4 ([S] table 4)"),
        "LSTM, 500": Figure(156, "[M] table 4 ([S] table 4)"),
        "SCRN, 500+80": Figure(161, "[M] table 4 ([S] table 4)"),
        "end-to-end memory network": Figure(147, "Sukhbaatar et al. 2015 ([S] table 4)"),
    },
)

if __name__ == "__main__":
    command(TABLE)()
