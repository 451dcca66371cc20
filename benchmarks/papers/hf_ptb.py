"""[K] tables 4.1 to 4.5, figure 4.1 and the two values of mu: architectures and dampings on characters of the PTB.

[K] 4: 2.8 million characters to train on, in sequences of 200; each gradient from all of them, each curvature from a
quarter; at most 100 iterations of CG. Networks of 216 to 220 thousand weights, with the first strengths of damping that
[K] gives. The LSTM of the online rule has the same size.

Other here: the text is the Penn Treebank as 10,000 words, spelled out in 50 different characters (5.0 million to train
on), because the raw text is not available. It is easier: what can be compared is the differences between the cells. A
gradient is computed on 2.8 million random characters of it.

Left open by [K], and used here: the learning rate of the online rule is the better of two, halved when validation does
not improve; a run ends after 10 validations without a better one. The losses of line-search damping are those of the
gradient batch, and those of the curvature batch in the cell whose name says so.
"""

from __future__ import annotations

from typing import Any

from cells import Cell
from hf_recipes import (
    HOURS,
    LINE_SEARCH,
    ON_CURVATURE,
    PAPER,
    PTB_SYMBOLS,
    SMALL,
    at_scale,
    figures,
    scales,
    structural,
    widths_at,
)
from script import command

NETWORKS = {
    "rnn": ("rnn", (1,), 216_400),
    "mrnn": ("mrnn", (1,), 215_880),
    "lstm": ("lstm-krause", (1,), 220_350),
    "mrnn-stacked": ("mrnn", (150, 130, 110), 219_090),
    "mlstm": ("mlstm", (1,), 215_900),
}
"""Architecture, proportion of the layers and weights."""
ONLINE: dict[str, Any] = {"optimizer": "online", "streams": 1, "schedule": "halve"}
VALIDATIONS = {"small": 10_000, "hours": 250_000, "paper": 250_000}
"""Characters of the online rule between two validations."""
CELLS = (
    ("rnn-structural", "rnn", structural(0.01), {"train": 1.80, "valid": 2.04, "test": 1.99}),
    ("rnn-line-search", "rnn", LINE_SEARCH, {"train": 1.78, "valid": 2.03, "test": 1.97}),
    ("mrnn-structural", "mrnn", structural(0.3), {"train": 1.69, "valid": 1.90, "test": 1.87}),
    ("mrnn-line-search", "mrnn", LINE_SEARCH, {"train": 1.72, "valid": 1.88, "test": 1.85}),
    ("mrnn-line-search-curvature", "mrnn", ON_CURVATURE, {"train": 1.72, "valid": 1.88, "test": 1.85}),
    ("lstm-online", "lstm", ONLINE, {"train": 1.81, "valid": 2.03, "test": 1.98}),
    ("lstm-structural", "lstm", structural(0.01), {"train": 1.75, "valid": 1.93, "test": 1.88}),
    ("mrnn-stacked", "mrnn-stacked", structural(0.3), {"train": 1.74, "valid": 1.90, "test": 1.87}),
    ("mlstm-structural", "mlstm", structural(0.1), {"train": 1.69, "valid": 1.86, "test": 1.82}),
    ("mlstm-mu-0.3", "mlstm", structural(0.3), {"valid": 1.87}),
)
"""Name, network, training and bits per character."""
BATCHES = {
    "paper": {**PAPER, "data": "ptb", "gradient_symbols": 2_800_000, "curvature_fraction": 0.25},
    "hours": {**HOURS, "data": "ptb"},
    "small": SMALL,
}


def cells(scale: str) -> tuple[Cell, ...]:
    """All cells at a scale."""
    found = []
    for name, network, training, published in CELLS:
        arch, shape, weights = NETWORKS[network]
        hidden = widths_at(scale, arch, shape, PTB_SYMBOLS, weights)
        shared = dict(BATCHES[scale])
        trials = None
        if "optimizer" in training:  # the online rule has no batches
            shared = {key: shared[key] for key in ("data", "fractions", "sample_length") if key in shared}
            shared |= {"validate_every": VALIDATIONS[scale], "log_interval": VALIDATIONS[scale] // 10}
            trials = {f"rate-{rate:g}": {"learning_rate": rate} for rate in (0.1, 0.03)}
        else:
            shared["sequence_length"] = 50 if scale == "small" else 200
        source = "[K] 4.5" if set(published) == {"valid"} else "[K] table 4.5"
        options = {**shared, "arch": arch, "hidden": hidden, **at_scale(scale, training)}
        found.append(Cell(name, options, figures(published, weights, source), trials))
    return tuple(found)


TABLES = scales("hf_ptb", "[K] tables 4.1 to 4.5: architectures and dampings on the Penn Treebank", cells, PTB_SYMBOLS)

if __name__ == "__main__":
    command(TABLES)()
