"""What the tables of [K] share: widths for a number of weights, dampings, and the recipes of each scale.

[K]'s raw Penn Treebank is not available. Its texts have other symbols than ours, so the widths here are those whose
numbers of weights are nearest to [K]'s. With [K]'s number of symbols they are [K]'s widths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cells import Cell, Figure, Table

import hfrnn

PTB_SYMBOLS, MANUAL_SYMBOLS, BYTES = 50, 103, 205
"""Characters of the Penn Treebank as words; of Python 3.11's manual; different bytes of enwik8."""
LINE_SEARCH = {"damping": "line-search"}
ON_CURVATURE = {**LINE_SEARCH, "rho_objective": "curvature"}
"""[K]'s Algorithm 5 with its losses on the curvature batch; [K] does not name the batch. Without it: the gradient's."""
PAPER: dict[str, Any] = {
    "optimizer": "hf", "preset": "published", "first_gradient_symbols": 0, "cg_epsilon": 0.0005, "rho_low": 0.25,
    "rho_high": 0.75, "line_search": "minimum", "average": 0.0, "patience": 10, "sample_length": 0,
}  # fmt: skip
"""[K] 4.1: constant batches, CG's own rule, the bounds of rho, a last line search, an end when validation stops."""
HOURS: dict[str, Any] = {"optimizer": "hf", "preset": "published", "sample_length": 0}
"""Batches that grow to 100,000 symbols, for hours of a processor instead of weeks."""
SMALL: dict[str, Any] = {
    **HOURS, "data": "python-manual", "fractions": (0.8, 0.1, 0.1), "gradient_symbols": 50_000,
    "first_gradient_symbols": 5_000,
}  # fmt: skip
"""A text that every Python has, and batches for minutes."""
SMALL_WEIGHTS = 20_000
MINUTES = {"small": 2.0, "hours": 120.0, "paper": 14_400.0}
"""Processor minutes of training of a trial at each scale; at the scale of the paper the patience ends it before."""
TRIAL: dict[str, dict[str, Any]] = {"hf": {}}
"""The only trial of a cell: [K] gives all constants."""

Published = Mapping[str, float]


def structural(mu: float) -> dict[str, Any]:
    return {"damping": "structural", "mu": mu}


def at_scale(scale: str, training: Mapping[str, Any]) -> dict[str, Any]:
    """The same; structural damping has no lambda beside mu at the scale of the paper ([K] 3.3.3)."""
    alone = scale == "paper" and training.get("damping") == "structural"
    return {**training, "lambda_": 0.0} if alone else dict(training)


def widths(arch: str, shape: Sequence[float], symbols: int, weights: int) -> tuple[int, ...]:
    """Hidden units in the proportion of `shape` with the number of weights nearest to `weights`."""

    def scaled(width: int) -> tuple[int, ...]:
        return tuple(max(1, round(width * share / shape[0])) for share in shape)

    def distance(width: int) -> int:
        return abs(hfrnn.Network(arch, n_in=symbols, hidden=scaled(width), n_out=symbols).n_parameters - weights)

    low, high = 2, 2 * int(math.sqrt(weights))  # the number of weights grows with the width
    while high - low > 2:
        middle = (low + high) // 2
        below = hfrnn.Network(arch, n_in=symbols, hidden=scaled(middle), n_out=symbols).n_parameters < weights
        low, high = (middle, high) if below else (low, middle)
    return scaled(min(range(max(low - 1, 1), high + 2), key=distance))


def widths_at(
    scale: str, arch: str, shape: Sequence[float], symbols: int, weights: int, small: int = SMALL_WEIGHTS
) -> tuple[int, ...]:
    """Hidden units of a network with about `weights`; at the small scale, `small` weights on the text of that scale."""
    if scale == "small":
        return widths(arch, shape, MANUAL_SYMBOLS, small)
    return widths(arch, shape, symbols, weights)


def figures(published: Published, weights: int, source: str) -> dict[str, Figure]:
    """Published bits per character and number of weights."""
    return {part: Figure(value, source) for part, value in {**published, "weights": weights}.items()}


def scales(
    name: str, title: str, make: Callable[[str], tuple[Cell, ...]], symbols: int, among: Sequence[str] = tuple(MINUTES)
) -> dict[str, Table]:
    """A table for each scale. `make` returns the cells of a scale."""
    return {
        scale: Table(
            name=name if scale == "paper" else f"{name}-{scale}",
            title=title if scale == "paper" else f"{title}, scale {scale}",
            cells=make(scale),
            trials=TRIAL,
            minutes=MINUTES[scale],
            metric="bits",
            symbols=MANUAL_SYMBOLS if scale == "small" else symbols,
        )
        for scale in among
    }
