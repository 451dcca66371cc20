"""[S] figure 6: hornn-fofe of order 3 on the words of the Penn Treebank, over the forgetting factor alpha.

The figure is a drawing without numbers; what it says in words is that 0.5 to 0.7 are best. All cells have the same
constants, as in [S] 4.1.2: those of hornn_ptb.py.
"""

from __future__ import annotations

from cells import WORDS, Cell, Figure, Table
from hornn_ptb import ACTIVATION, CHOSEN, EPOCHS, RECIPE, TRIAL
from script import command

FACTORS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

TABLE = Table(
    name="hornn_forgetting",
    title="[S] figure 6: hornn-fofe of order 3 over alpha, words of the Penn Treebank",
    cells=tuple(
        Cell(
            f"alpha-{alpha:g}",
            {**RECIPE, **ACTIVATION, "arch": "hornn-fofe", "order": 3, "alpha": alpha},
            {"test": Figure(101, "[S] table 2, whose alpha is 0.6")} if alpha == 0.6 else {},
        )
        for alpha in FACTORS
    ),
    trials={CHOSEN: TRIAL},
    epochs=EPOCHS,
    symbols=WORDS,
)

if __name__ == "__main__":
    command(TABLE)()
