"""[S] 4 with column normalization: a plain network and FOFE-HORNN on the words of the Penn Treebank.

[S] trains with weight decay, momentum and column normalization (max norm in [S thesis] 6.1.5), and gives no bound. Here
each column of each matrix has its own bound (`--max-norm '*=2'`). With N(0, 0.1^2), the length of a column of 400
weights is 2. A bound for all weights into a unit together would be tighter for a network of a higher order.

A cell is one network with one recipe, so its curve is the result. The recipes are the same for both networks; those
with a number at the end differ in the bound alone. The cells of the recipe `adam-4` are those of hornn_ptb.py.

`sgd` has the momentum of [S thesis] 6.1.3 and errors within 5.0. Its rate was chosen among 2, 4 and 15 by the
validation of rnn with the bound 2 after 300 updates. 15 is the rate of [S] for losses that are added up over the 30
steps of a sequence; ours are means. Without a bound that rate diverges, with errors within 5.0 too. `adam` has the
optimizer of hornn_ptb.py.
"""

from __future__ import annotations

from typing import Any

from cells import WORDS, Cell, Figure, Table
from hornn_ptb import ACTIVATION, ADAM, CHOSEN, PERPLEXITIES, RECIPE
from script import command

SGD: dict[str, Any] = {
    "learning_rate": 4.0, "momentum": 0.9, "weight_decay": 1e-5, "clip_error": 5.0, "clip_value": None,
}  # fmt: skip
BOUNDS = (1, 2, 3, 4, 6)
EPOCHS = 25
NETWORKS: dict[str, tuple[dict[str, Any], Figure]] = {
    "rnn": ({"arch": "rnn"}, Figure(123, "Mikolov et al. 2011, quoted in [S] table 3")),
    "fofe-3": ({"arch": "hornn-fofe", "order": 3}, Figure(PERPLEXITIES["hornn-fofe"][3], "[S] table 2")),
}


def recipes() -> dict[str, dict[str, Any]]:
    """The options of each recipe but the chosen one, by name."""
    found = {"sgd": SGD, "adam": ADAM}
    for c in BOUNDS:
        found |= {f"{name}-{c}": {**options, "max_norm": f"*={c}"} for name, options in (("sgd", SGD), ("adam", ADAM))}
    return {name: options for name, options in found.items() if name != CHOSEN}


TABLE = Table(
    name="hornn_norms",
    title="[S] 4: column normalization on the words of the Penn Treebank",
    cells=tuple(
        Cell(f"{network}-{recipe}", {**RECIPE, **ACTIVATION, **arch}, {"test": published}, {recipe: options})
        for network, (arch, published) in NETWORKS.items()
        for recipe, options in recipes().items()
    ),
    trials=recipes(),
    epochs=EPOCHS,
    symbols=WORDS,
)

if __name__ == "__main__":
    command(TABLE)()
