"""[S] 4 with column normalization: a plain network and those of order 3 on the words of the Penn Treebank.

[S] trains with weight decay, momentum and column normalization (max norm in [S thesis] 6.1.5), and gives no bound. Here
each column of each matrix has its own bound (`--max-norm '*=2'`). With N(0, 0.1^2), the length of a column of 400
weights is 2. A bound for all weights into a unit together would be tighter for a network of a higher order.

A cell is one network with one recipe, so its curve is the result. A number at the end of a recipe is the bound.

`sgd-4-falling` is the recipe that [S] prints but for one rule: a rate of 0.5 that is halved, momentum 0.9, errors
within 5.0. [S] halves the rate when validation does not fall, which takes dozens of epochs. Here it is halved after
every epoch from the second on, and a run has ten. We read 0.5 as the rate of a loss that is added up over the 30 steps
of a sequence and averaged over the 20 streams. Ours is the mean over all, so the rate is 30 * 0.5 = 15. (0.5 for our
mean is the other reading.) [S] gives neither the bound nor the constant of the decay. benchmarks/diary/papers.md has
the short runs that this was chosen by.
`adam` has the optimizer of hornn_ptb.py, which also has the cells of `adam-4`. Its other bounds are for rnn alone.
"""

from __future__ import annotations

from typing import Any

import hornn_ptb
from cells import WORDS, Cell, Table
from hornn_ptb import ADAM, CHOSEN
from script import command

SGD: dict[str, Any] = {
    "learning_rate": 15.0, "momentum": 0.9, "weight_decay": 1e-5, "clip_error": 5.0, "clip_value": None,
    "max_norm": "*=4", "average": 0.0, "schedule": "text8", "constant_epochs": 2,
}  # fmt: skip
BOUNDS = (2, 3, 4)
"""Of the columns, with Adam."""
EPOCHS = 10
NETWORKS = {"rnn": "rnn", "hornn-3": "hornn-3", "max-3": "hornn-max-3", "fofe-3": "hornn-fofe-3",
            "gated-3": "hornn-gated-3"}  # fmt: skip
"""The networks, and the cells of hornn_ptb.py that they are taken from."""
FALLING = "sgd-4-falling"
"""The recipe of all networks."""
BOUNDED = {f"adam-{c}": {**ADAM, "max_norm": f"*={c}"} for c in BOUNDS if f"adam-{c}" != CHOSEN}
RECIPES: dict[str, dict[str, Any]] = {FALLING: SGD, "adam": ADAM, **BOUNDED}
OF = {"rnn": tuple(RECIPES), "fofe-3": (FALLING, "adam")}
"""The recipes of the networks that have others than `FALLING`."""


def cell(network: str, recipe: str) -> Cell:
    """Return a network of hornn_ptb.py with a recipe of this table."""
    like = next(each for each in hornn_ptb.TABLE.cells if each.name == NETWORKS[network])
    options, published = like.options, {"test": like.published["test"]}
    return Cell(f"{network}-{recipe}", options, published, {recipe: RECIPES[recipe]})


TABLE = Table(
    name="hornn_norms",
    title="[S] 4: column normalization on the words of the Penn Treebank",
    cells=tuple(cell(network, recipe) for network in NETWORKS for recipe in OF.get(network, (FALLING,))),
    trials=RECIPES,
    epochs=EPOCHS,
    symbols=WORDS,
)

if __name__ == "__main__":
    command(TABLE)()
