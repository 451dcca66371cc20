"""[M] table 2: context weights fixed at 0.95 or learned, with a class softmax, words of the Penn Treebank.

The recipe is that of scrn_ptb.py with 100 classes of about equal frequency. The paper does not say of which part the
perplexities are. Without context units nothing is left to learn: those cells stand for both columns. Learned weights
start at the fixed ones, 0.95, which the paper does not say.
"""

from __future__ import annotations

from collections.abc import Iterator

from cells import WORDS, Cell, Figure, Table
from script import command
from scrn_ptb import EPOCHS, RECIPE, TRIALS, scrn

PERPLEXITIES = {
    (50, 0): (156, 156), (25, 25): (150, 145), (0, 50): (344, 157),
    (140, 0): (140, 140), (100, 40): (127, 127), (0, 140): (334, 147),
}  # fmt: skip
"""Of hidden and context units: fixed and learned."""


def cells(hidden: int, context: int) -> Iterator[Cell]:
    """The two cells of a row; one without context units."""
    options = {**RECIPE, **scrn(hidden, context), "classes": 100}
    for learned, perplexity in zip((False, True), PERPLEXITIES[hidden, context], strict=True):
        if context or not learned:
            figure = Figure(perplexity, f"[M] table 2, {'adaptive' if learned else 'fixed'} weights")
            name = f"{hidden}-{context}{'-learned' if learned else ''}"
            yield Cell(name, {**options, "learn_alpha": learned}, {"perplexity": figure})


TABLE = Table(
    name="scrn_learned",
    title="[M] table 2: fixed and learned context weights, class softmax, words of the Penn Treebank",
    cells=tuple(cell for sizes in PERPLEXITIES for cell in cells(*sizes)),
    trials=TRIALS,
    epochs=EPOCHS,
    symbols=WORDS,
)

if __name__ == "__main__":
    command(TABLE)()
