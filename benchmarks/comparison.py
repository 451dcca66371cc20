"""Learning curves of several methods on the same problem: thinning, medians, times to a target, tables and pictures.

A point of a curve is a validation: `seconds_processor` of training until then, and `valid_bits`. A cell is the result
of one run, as hf_vs_sgd.py writes it. Times that were never reached are infinite.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Point = Mapping[str, Any]
Curve = Sequence[Point]
Result = Mapping[str, Any]
Seeds = dict[int, Result]
"""The cells of one problem and method, by seed."""

HF = ("hf", "hf-small-text", "hf-published")
FIRST_ORDER = ("sgd", "adam", "soap", "muon", "psgd")
METHODS = (*HF, *FIRST_ORDER, "lbfgs")
OPPONENTS = {"Adam's best": ("adam",), "SGD's best": ("sgd",), "the best of all first-order methods": FIRST_ORDER}
"""Methods whose best validation bits are a target for all methods."""
MARKS = (15, 30, 60, 100, 160, 300, 600, 900)
"""Processor seconds at which methods are compared."""
BITS = "valid_bits"
"""The figure of a point that is compared, unless another one is named."""
SLACK = 1.01
"""A run ends with the first record after its budget, so a mark counts validations up to 1% later."""
TUNING = "tinyshakespeare-mlstm-64"
"""The problem on which every method's trials are compared, with TUNING_SEED."""
TUNING_SEED = 0


# ---------------------------------------------------------------------- curves


def best_within(curve: Curve, seconds: float = math.inf, key: str = BITS) -> float:
    """Return the lowest validation bits within a time, or another figure; infinity if there is no validation."""
    return min((p[key] for p in curve if p["seconds_processor"] <= SLACK * seconds), default=math.inf)


def bits_at(curve: Curve, marks: Iterable[float]) -> list[str]:
    """Return the lowest validation bits within each time, as text; nothing if there is no validation yet."""
    return [number(best_within(curve, mark), ".3f", "") for mark in marks]


def time_to(curve: Curve, value: float, key: str = BITS) -> float:
    """Return the processor seconds of the first validation with at most this value; infinity if there is none."""
    return next((float(p["seconds_processor"]) for p in curve if p[key] <= value), math.inf)


def thin(curve: Curve, count: int, key: str = BITS) -> list[Point]:
    """Return about `count` points at equal distances, with the last point and the first of the best.

    Parameters
    ----------
    curve : sequence of points
    count : int
        A curve with at most so many points is returned whole.
    key : str
        The figure whose lowest value is kept.

    Returns
    -------
    list of points
        At most `count` + 2 of them.
    """
    step = -(-len(curve) // count)
    best = min(range(len(curve)), key=lambda n: curve[n][key], default=None)
    return [p for n, p in enumerate(curve) if n % step == 0 or n in (best, len(curve) - 1)]


def median_curve(curves: Sequence[Curve], times: Iterable[float]) -> list[tuple[float, float]]:
    """Return the median of curves, interpolated between their points, at the times that lie within all of them."""
    spans = [(c[0]["seconds_processor"], c[-1]["seconds_processor"]) for c in curves if c]
    if not spans or len(spans) < len(curves):
        return []
    first, last = max(start for start, _ in spans), min(end for _, end in spans)
    inside = [t for t in times if first <= t <= last]
    values = [
        np.interp(inside, [p["seconds_processor"] for p in c], [p["valid_bits"] for p in c]) for c in curves
    ]  # fmt: skip
    return list(zip(inside, np.median(values, axis=0).tolist(), strict=True))


# ---------------------------------------------------------------------- methods against methods


@dataclass(frozen=True)
class Race:
    """The time in which every method reaches the best validation of an opponent, from one seed.

    Attributes
    ----------
    opponent : str
        The method that set the target.
    bits : float
        The target: the opponent's best validation within the budget.
    seconds : dict of str to float
        Processor seconds of each method until the target; infinity if it was not reached.
    """

    opponent: str
    bits: float
    seconds: dict[str, float]

    def ratio(self, method: str) -> float:
        """Return a method's time divided by the opponent's own time."""
        return self.seconds[method] / self.seconds[self.opponent]


def race(curves: Mapping[str, Curve], opponents: Iterable[str], budget: float) -> Race | None:
    """Return the race of all methods to the best validation of the best opponent; None if no opponent has one.

    Parameters
    ----------
    curves : mapping of str to curves
        The curve of each method, all from the same seed.
    opponents : iterable of str
        The methods that may set the target.
    budget : float
        Processor seconds of a run.
    """
    bests = {method: best_within(curves[method], budget) for method in opponents if method in curves}
    if not bests or not math.isfinite(min(bests.values())):
        return None
    opponent = min(bests, key=lambda method: bests[method])
    bits = bests[opponent]
    return Race(opponent, bits, {method: time_to(curve, bits) for method, curve in curves.items()})


# ---------------------------------------------------------------------- cells


def read_cells(folder: Path) -> list[Result]:
    """Return the results of all cells in a folder, ordered by file name."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]


def final_bits(result: Result) -> float:
    """Return the best validation bits of a cell within its budget; infinity if there is none."""
    bits = result["best"]["valid_bits"]
    return math.inf if bits is None else float(bits)


def tuning_bits(cells: Iterable[Result]) -> dict[str, dict[str, float]]:
    """Return the final bits of the tuning trials that are done, by method and trial."""
    found: dict[str, dict[str, float]] = {}
    for result in cells:
        cell = result["cell"]
        if (cell["problem"], cell["seed"]) == (TUNING, TUNING_SEED):
            found.setdefault(cell["method"], {})[cell["trial"]] = final_bits(result)
    return found


def by_problem(cells: Sequence[Result]) -> dict[str, dict[str, Seeds]]:
    """Return the cells that are compared, by problem, method and seed.

    If a method has several tuning trials, only the best one is compared; else the trial that is best in the cell.
    Small budgets come first.
    """
    trials = tuning_bits(cells)
    found: dict[str, dict[str, Seeds]] = {}
    for result in sorted(cells, key=lambda each: (each["budget"], each["cell"]["problem"] != TUNING)):
        cell = result["cell"]
        method, seed, scores = cell["method"], cell["seed"], trials.get(cell["method"], {})
        if len(scores) > 1 and cell["trial"] != min(scores, key=lambda trial: scores[trial]):
            continue
        seeds = found.setdefault(cell["problem"], {}).setdefault(method, {})
        if seed not in seeds or final_bits(result) < final_bits(seeds[seed]):
            seeds[seed] = result
    return {
        problem: {name: dict(sorted(methods[name].items())) for name in METHODS if name in methods}
        for problem, methods in found.items()
    }


# ---------------------------------------------------------------------- tables

Rows = tuple[list[str], list[list[str]]]
"""The head and the rows of a table."""


def budget_of(methods: Mapping[str, Seeds]) -> float:
    """Return the processor seconds of a problem's runs."""
    return max(float(result["budget"]) for seeds in methods.values() for result in seeds.values())


def bits_table(methods: Mapping[str, Seeds]) -> Rows:
    """Return the best validation bits of each method at the marks: medians, and every seed at the end."""
    budget = budget_of(methods)
    marks = [mark for mark in MARKS if mark < budget]
    rows = []
    for method, seeds in methods.items():
        results = list(seeds.values())
        medians = [statistics.median(best_within(each["curve"], mark) for each in results) for mark in marks]
        rows.append(
            [
                f"{method} ({results[0]['cell']['trial']})",
                *map(_bits, medians),
                ", ".join(_bits(final_bits(each)) for each in results),
                ", ".join(f"{each['updates']:,}" for each in results),
            ]
        )
    return ["method (trial)", *(f"{mark} s" for mark in marks), f"{budget:g} s, each seed", "updates"], rows


def times_table(methods: Mapping[str, Seeds]) -> Rows:
    """Return the seconds in which each method reaches the opponents' bests, and HF's ratios to the opponent's time."""
    budget = budget_of(methods)
    seeds = sorted({seed for found in methods.values() for seed in found})
    curves = {seed: {name: found[seed]["curve"] for name, found in methods.items() if seed in found} for seed in seeds}
    races = {
        name: [found for seed in seeds if (found := race(curves[seed], opponents, budget)) is not None]
        for name, opponents in OPPONENTS.items()
    }
    rows = [[method, *(_times(method, races[name]) for name in OPPONENTS)] for method in methods]
    return ["seconds until", *OPPONENTS], rows


def _times(method: str, races: Iterable[Race]) -> str:
    """Return the seconds of each seed; for HF also the ratios and their median."""
    ran = [each for each in races if method in each.seconds]
    if not ran:
        return ""
    shown = ", ".join(number(each.seconds[method], ".0f") for each in ran)
    if method not in HF:
        return shown
    ratios = [each.ratio(method) for each in ran]
    median = number(statistics.median(ratios), ".2f")
    return f"{shown} (ratio {', '.join(number(ratio, '.2f') for ratio in ratios)}; median {median})"


def tuning_table(cells: Iterable[Result]) -> Rows:
    """Return the final bits of each method's tuning trials."""
    found = tuning_bits(cells)
    rows = []
    for method in (name for name in METHODS if name in found):
        trials = found[method]
        listed = ", ".join(f"{trial}: {_bits(bits)}" for trial, bits in trials.items())
        rows.append([method, listed, min(trials, key=lambda trial: trials[trial])])
    return ["method", "trials: best validation bits", "best"], rows


def _bits(bits: float) -> str:
    return number(bits, ".3f")


def number(value: float, form: str, never: str = "never") -> str:
    """Return a number in a format; `never` if it is infinite."""
    return format(value, form) if math.isfinite(value) else never
