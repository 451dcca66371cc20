"""The results of dynamics.py: learning curves of the validation loss, the best trials, and times to a loss.

A point of a curve is a validation: `seconds_processor` of training until then, and `valid_loss`. Times that were never
reached are infinite.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import comparison
from comparison import Result, best_within, number
from pictures import drawn, save_picture
from rich.console import Console
from rich.table import Table

METHODS = ("hf", "adam", "sgd", "soap", "muon")
MARKS = (5, 10, 30, 60, 150)
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
    """Return HF's time divided by that of a method, for each seed that both have.

    It is the time until the higher one of their two lowest losses, so both reach it.
    """
    found = []
    for seed, other in methods.get(method, {}).items():
        if own := methods.get("hf", {}).get(seed):
            target = max(own["best"], other["best"])
            found.append(time_to(own["curve"], target) / time_to(other["curve"], target))
    return found


def rows(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return the table of all tasks: the medians of the lowest losses within some times, and HF's times."""
    head = ["task", "method (trial)", *(f"{mark} s" for mark in MARKS), "seeds", "HF's time / its time"]
    lines = []
    for task in dict.fromkeys(each["cell"]["task"] for each in results):
        methods = compared(results, task)
        for method, seeds in methods.items():
            found = list(seeds.values())
            losses = [statistics.median(best_loss(each["curve"], mark) for each in found) for mark in MARKS]
            times = [] if method == "hf" else ratios(methods, method)
            lines.append(
                [
                    task,
                    f"{method} ({found[0]['cell']['trial']})",
                    *(number(loss, ".2g", "") for loss in losses),
                    str(len(found)),
                    ", ".join(f"{ratio:.2g}" for ratio in times),
                ]
            )
    return head, lines


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
