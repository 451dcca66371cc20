"""[K] table 5.1: mlstm of two sizes on characters of the whole Penn Treebank.

[K] 5.1.1: sequences of 300; each gradient from 2.16 million random characters, each curvature from 216 thousand;
structural damping with mu = 0.1.

Other here: the text is the Penn Treebank as 10,000 words, as in hf_ptb.py. It is easier: [K] quotes 1.41 bits of a
multiplicative RNN for it.
"""

from __future__ import annotations

from cells import Cell
from hf_recipes import HOURS, PAPER, PTB_SYMBOLS, SMALL, SMALL_WEIGHTS, at_scale, figures, scales, structural, widths_at
from script import command

SOURCE = "[K] table 5.1"
SIZES = {
    "mlstm-medium": (603_000, {"train": 1.60, "valid": 1.74, "test": 1.70}),
    "mlstm-large": (3_608_000, {"train": 1.40, "valid": 1.76, "test": 1.72}),
}
"""Weights and bits per character."""
BATCHES = {
    "paper": {**PAPER, "data": "ptb", "gradient_symbols": 2_160_000, "curvature_symbols": 216_000},
    "hours": {**HOURS, "data": "ptb"},
    "small": SMALL,
}


def cells(scale: str) -> tuple[Cell, ...]:
    """Both cells at a scale; the small ones have six times as many weights, one as the other."""
    found = []
    for name, (weights, published) in SIZES.items():
        hidden = widths_at(scale, "mlstm", (1,), PTB_SYMBOLS, weights, small=SMALL_WEIGHTS * weights // 603_000)
        shared = {**BATCHES[scale], "sequence_length": 50 if scale == "small" else 300}
        options = {**shared, "arch": "mlstm", "hidden": hidden, **at_scale(scale, structural(0.1))}
        found.append(Cell(name, options, figures(published, weights, SOURCE)))
    return tuple(found)


TABLES = scales("hf_ptb_full", "[K] table 5.1: mlstm on the whole Penn Treebank", cells, PTB_SYMBOLS)

if __name__ == "__main__":
    command(TABLES)()
