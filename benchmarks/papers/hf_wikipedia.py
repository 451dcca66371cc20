"""[K] table 5.2: mlstm with 21.2 million weights on enwik8, with two dampings.

[K] 5.2.1: about 95 million characters to train on, 1 to validate and 4 to test, in sequences of 1000; each gradient
from a subset of 2.1 million, each curvature from a tenth of it; structural damping with mu = 1 and lambda = 10, or
line-search damping.

Other here: characters are bytes, of which enwik8 has 205. [K]'s text had lost 0.4% of its characters. [K]'s subsets are
fixed; ours are drawn for each update.

Figure 5.1 is `hfrnn probe` on the run of the first cell.
"""

from __future__ import annotations

from cells import Cell
from hf_recipes import BYTES, HOURS, LINE_SEARCH, PAPER, SMALL, figures, scales, widths_at
from script import command

SOURCE = "[K] table 5.2"
WEIGHTS = 21_188_000
DAMPINGS = {
    "mlstm-structural": (
        {"damping": "structural+tikhonov", "mu": 1.0, "lambda_": 10.0}, {"valid": 1.70, "test": 1.71},
    ),
    "mlstm-line-search": (LINE_SEARCH, {"valid": 1.68, "test": 1.69}),
}  # fmt: skip
"""Damping and bits per character."""
ENWIK8 = {"data": "enwik8", "level": "byte"}
BATCHES = {
    "paper": {**PAPER, **ENWIK8, "gradient_symbols": 2_100_000, "curvature_fraction": 0.1},
    "hours": {**HOURS, **ENWIK8},
    "small": SMALL,
}


def cells(scale: str) -> tuple[Cell, ...]:
    """Both cells at a scale."""
    hidden = widths_at(scale, "mlstm", (1,), BYTES, WEIGHTS)
    length = 100 if scale == "small" else 1000
    shared = {**BATCHES[scale], "sequence_length": length, "arch": "mlstm", "hidden": hidden}
    return tuple(
        Cell(name, {**shared, **damping}, figures(published, WEIGHTS, SOURCE))
        for name, (damping, published) in DAMPINGS.items()
    )


TABLES = scales("hf_wikipedia", "[K] table 5.2: mlstm on enwik8", cells, BYTES)

if __name__ == "__main__":
    command(TABLES)()
