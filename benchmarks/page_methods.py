"""The table of docs/hf-and-first-order.md: HF, Adam and SGD on texts and on long time lags, as Markdown.

See tables.py.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from comparison import Race, Result, Seeds, budget_of, by_problem, final_bits, number, race, read_cells
from page_hf_vs_sgd import BLOCK_SHIFT
from page_text import RESULTS, listed, table

METHODS = ("hf", "adam", "sgd")
NAMES = {"adam": "Adam", "sgd": "SGD", "soap": "SOAP", "muon": "Muon", "psgd": "PSGD"}
LAGS = RESULTS / "long_lags"
CELLS = ((100, False), (200, True))
"""Lengths of the tasks in the table, and whether they are reached by a curriculum."""


def compared() -> str:
    """Return the seconds that HF, Adam and SGD need until a target, in one row per problem."""
    head = ["problem", "target", "HF", "Adam", "SGD", "HF / Adam", "best bits: HF", "Adam", "SGD"]
    return table(head, [*_texts(), *_lags()])


def ratios() -> str:
    """Return HF's seconds until the best value of each first-order method, in one row per problem and method."""
    rows = []
    for problem, methods in by_problem(read_cells(BLOCK_SHIFT)).items():
        if not {"soap", "muon", "psgd"} & methods.keys():
            continue
        for method in [each for each in NAMES if each in methods]:
            seeds = sorted(methods["hf"].keys() & methods[method].keys())
            races = [_race(methods, seed, budget_of(methods), method) for seed in seeds]
            median = statistics.median(each.ratio("hf") for each in races)
            bits = ", ".join(f"{each.bits:.3f}" for each in races)
            seconds = [_seconds(name, races) for name in (method, "hf")]
            rows.append([f"`{problem}`", NAMES[method], bits, *seconds, number(median, ".2f")])
    return table(["problem", "method", "its best bits", "its seconds", "HF's seconds", "HF / method"], rows)


def share(problem: str) -> str:
    """Return the median share of Adam's time until its best value that HF needs until the same value."""
    methods = by_problem(read_cells(BLOCK_SHIFT))[problem]
    races = [_race(methods, seed, budget_of(methods)) for seed in sorted(methods["adam"])]
    return number(statistics.median(each.ratio("hf") for each in races), ".2f")


def machines() -> str:
    """Return the processors of the runs in the table: of the texts, then of the tasks."""
    texts = {each["machine"]["processor"] for each in read_cells(BLOCK_SHIFT)}
    lags = {each["machine"]["processor"] for each in _cells_of_tasks()}
    return f"texts: {listed(sorted(texts))}; tasks: {listed(sorted(lags))}"


def _texts() -> Iterable[list[str]]:
    for problem, methods in by_problem(read_cells(BLOCK_SHIFT)).items():
        budget = budget_of(methods)
        seeds = sorted(methods["adam"])
        races = [_race(methods, seed, budget) for seed in seeds]
        seconds = [_seconds(method, races) for method in METHODS]
        bests = [_median_bits(methods.get(method, {})) for method in METHODS]
        yield [f"`{problem}`", f"Adam's best in {budget:g} s", *seconds, share(problem), *bests]


def _race(methods: Mapping[str, Seeds], seed: int, budget: float, opponent: str = "adam") -> Race:
    found = race({name: runs[seed]["curve"] for name, runs in methods.items() if seed in runs}, (opponent,), budget)
    assert found is not None
    return found


def _seconds(method: str, races: Iterable[Race]) -> str:
    return ", ".join(number(each.seconds[method], ".0f") for each in races if method in each.seconds)


def _median_bits(runs: Seeds) -> str:
    return f"{statistics.median(map(final_bits, runs.values())):.3f}" if runs else ""


def _cells_of_tasks() -> Sequence[Result]:
    found = [json.loads(file.read_text("utf-8")) for file in sorted(LAGS.glob("*.json"))]
    return [each for each in found if each["cell"]["method"] in METHODS and _kind(each) in CELLS]


def _kind(result: Result) -> tuple[int, bool]:
    return result["cell"]["length"], result["cell"].get("curriculum", False)


def _lags() -> Iterable[list[str]]:
    rows: dict[tuple[int, bool, str], dict[str, list[str]]] = {}
    for each in _cells_of_tasks():
        length, curriculum = _kind(each)
        methods = rows.setdefault((length, curriculum, each["cell"]["task"]), {})
        methods.setdefault(each["cell"]["method"], []).append(_until_learned(each))
    for (length, curriculum, task), methods in sorted(rows.items()):
        name = f"{task}, length {length}{', curriculum' if curriculum else ''}"
        yield [name, "below 1% wrong", *(", ".join(methods.get(method, [])) for method in METHODS), *[""] * 4]


def _until_learned(result: Result) -> str:
    """Return the seconds of a run; older runs have minutes of a clock instead of processor seconds."""
    seconds = result.get("seconds_processor", 60 * result["minutes"])
    return f"{seconds:.0f}" if result["learned"] else f"not in {10 * math.floor(seconds / 10 + 0.5):g}"
