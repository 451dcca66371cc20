"""The results of dynamics.py: learning curves of the validation loss, the best trials, and times to Adam's loss.

A point of a curve is a validation: `seconds_processor` of training until then, and `valid_loss`. Times that were never
reached are infinite.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import comparison
from comparison import Result, best_within, number
from pictures import drawn, save_picture
from rich.console import Console
from rich.table import Table

METHODS = ("hf", "adam", "sgd", "soap", "muon")
MARKS = (10, 30, 60, 150, 300)
"""Processor seconds at which methods are compared."""
LOSS = "valid_loss"
"""The figure of a point that is compared."""

best_loss = functools.partial(best_within, key=LOSS)
time_to = functools.partial(comparison.time_to, key=LOSS)


def chosen_trial(results: Sequence[Result], task: str, method: str, trials: Iterable[str]) -> str | None:
    """Return the trial with the lowest loss on a task; None until all trials are done."""
    found = {each["cell"]["trial"]: each["best"] for each in _of(results, task, method) if each["cell"]["tunes"]}
    missing = set(trials) - found.keys()
    return None if missing or not found else min(found, key=lambda trial: found[trial])


def compared(results: Sequence[Result], task: str) -> dict[str, dict[int, Result]]:
    """Return the results of each method on a task, without the trials, by method and seed."""
    found = {
        method: {each["cell"]["seed"]: each for each in _of(results, task, method) if not each["cell"]["tunes"]}
        for method in METHODS
    }
    return {method: dict(sorted(seeds.items())) for method, seeds in found.items() if seeds}


def _of(results: Iterable[Result], task: str, method: str) -> list[Result]:
    return [each for each in results if (each["cell"]["task"], each["cell"]["method"]) == (task, method)]


def ratios(methods: Mapping[str, Mapping[int, Result]], method: str) -> list[float]:
    """Return a method's time to Adam's lowest loss, as a share of Adam's budget, for each seed that both have."""
    adam, own = methods.get("adam", {}), methods.get(method, {})
    return [time_to(own[seed]["curve"], adam[seed]["best"]) / adam[seed]["budget"] for seed in adam if seed in own]


def rows(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return the table of all tasks: the medians of the lowest losses within some times, and the shares of HF."""
    head = ["task", "method (trial)", *(f"{mark} s" for mark in MARKS), "seeds", "time to Adam's lowest loss / 300 s"]
    lines = []
    for task in dict.fromkeys(each["cell"]["task"] for each in results):
        methods = compared(results, task)
        for method, seeds in methods.items():
            found = list(seeds.values())
            losses = [
                statistics.median(best_loss(each["curve"], mark) for each in found)
                if mark <= found[0]["budget"] else math.inf
                for mark in MARKS
            ]  # fmt: skip
            shares = ratios(methods, method)
            never = missed(found[0]["budget"])
            median = statistics.median(shares) if shares else math.inf
            listed = ", ".join(number(share, ".2f", never) for share in shares)
            listed += f" (median {median:.2f})" if math.isfinite(median) else ""
            lines.append(
                [
                    task,
                    f"{method} ({found[0]['cell']['trial']})",
                    *(number(loss, ".2g", "") for loss in losses),
                    str(len(found)),
                    "" if method == "adam" else listed,
                ]
            )
    return head, lines


def missed(budget: float) -> str:
    """Return how a table says that a run of so many processor seconds did not reach a loss."""
    return f"not in {budget:g} s"


def print_table(results: Sequence[Result]) -> None:
    """Print the table of all tasks."""
    head, lines = rows(results)
    table = Table(*head)
    for line in lines:
        table.add_row(*line)
    Console().print(table)


def draw(path: Path, task: str, results: Sequence[Result]) -> None:
    """Write the picture of a task: one colour for each method, a line for each seed, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    methods = compared(results, task)
    with matplotlib.rc_context({"svg.hashsalt": "hfrnn"}):
        figure, axis = plt.subplots(figsize=(8, 4.5), layout="constrained")
        for method, seeds in methods.items():
            for n, result in enumerate(seeds.values()):
                at, losses = ([point[key] for point in result["curve"]] for key in ("seconds_processor", "valid_loss"))
                label = f"{method} ({result['cell']['trial']}), {len(seeds)} seeds" if n == 0 else None
                axis.plot(at, losses, color=f"C{METHODS.index(method)}", linewidth=1.2, alpha=0.8, label=label)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlim(left=2)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_xlabel("processor seconds of training")
        axis.set_ylabel("validation loss")
        axis.set_title(task)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
        content = drawn(figure)
    lowest = {name: min(result["best"] for result in seeds.values()) for name, seeds in methods.items()}
    listed = ", ".join(f"{name} {loss:.2g}" for name, loss in sorted(lowest.items(), key=lambda pair: pair[1]))
    title = f"{task}: validation loss over processor seconds"
    save_picture(path, content, title, f"{title}, a line for each seed. Lowest losses: {listed}.")
