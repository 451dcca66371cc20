"""Hessian-free optimization with each damping, SGD with momentum and Adam: the same network, text, weights and minutes.

Every method gets the same number of tuning trials, shorter runs on the first seed; validation chooses one, which is
then trained afresh from every seed. For `--arch lstm-krause` the online rule takes part. Curves over seconds, updates
and work. What is there already is left as it is, so methods can be trained one at a time. See README.md.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click
import common
from rich.console import Console
from rich.table import Table
from timed_runs import curve, run_for

HF = {"optimizer": "hf"}


def lowered(optimizer: str, *rates: float) -> dict[str, dict[str, Any]]:
    """The trials of a first-order method, whose rate is divided by 1.5 after an epoch without a fall in validation."""
    return {f"rate-{rate:g}": {"schedule": "divide", "optimizer": optimizer, "learning_rate": rate} for rate in rates}


METHODS: dict[str, dict[str, dict[str, Any]]] = {
    "structural": {f"mu-{mu:g}": {**HF, "damping": "structural", "mu": mu} for mu in (0.1, 0.03, 0.3)},
    "tikhonov": {
        f"lambda-{lambda_:g}": {**HF, "damping": "tikhonov", "lambda_": lambda_} for lambda_ in (1.0, 0.1, 10.0)
    },
    "structural+tikhonov": {
        f"mu-{mu:g}": {**HF, "damping": "structural+tikhonov", "mu": mu, "lambda_": 0.1} for mu in (0.1, 0.03, 0.3)
    },
    "line-search": {
        f"fraction-{share:g}": {**HF, "damping": "line-search", "curvature_fraction": share}
        for share in (0.2, 0.5, 0.1)
    },
    "sgd": lowered("sgd", 0.3, 0.1, 1.0),
    "adam": lowered("adam", 0.003, 0.01, 0.001),
    "online": lowered("online", 0.1, 0.03, 0.3),
}
"""The trials of each method, as many for all; --trials takes the first of them."""
FORWARD, GRADIENT, PRODUCT = 1, 3, 4
"""Work on a symbol, in forward passes: a loss, a gradient, a Gauss-Newton product with the forward pass kept."""


def work(line: dict[str, Any], before: float) -> float:
    """The work of a line of the log, in forward passes over a symbol; `before` are the symbols of the lines before."""
    symbols = line["symbols"] - before
    if line["cg_iterations"] is None:
        return float(GRADIENT * symbols)
    on_gradient = symbols * (GRADIENT + FORWARD * line["evaluations"])
    return float(on_gradient + PRODUCT * line["products"] * line["curvature_symbols"])


def points(folder: Path, minutes: float) -> list[dict[str, Any]]:
    """The learning curve of a run, within its minutes."""
    names = (
        "update",
        "seconds",
        "symbols",
        "valid_bits",
        "cg_iterations",
        "products",
        "evaluations",
        "curvature_symbols",
    )
    total, before, found = 0.0, 0.0, []
    for line in curve(folder, names, minutes):
        total, before = total + work(line, before), line["symbols"]
        found.append({**{name: line[name] for name in ("update", "seconds", "symbols", "valid_bits")}, "work": total})
    return found


def best(found: list[dict[str, Any]]) -> float:
    """The least validation bits of a curve."""
    return min((point["valid_bits"] for point in found if point["valid_bits"] is not None), default=math.inf)


def draw(results: dict[str, Any], out: Path) -> None:
    """A picture of all curves: validation bits over seconds, updates and work."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "hfrnn"
    from matplotlib import pyplot as plt

    figure, places = plt.subplots(1, 3, figsize=(13, 4), sharey=True)
    for number, (method, found) in enumerate(results.items()):
        for run, seed in enumerate(found["seeds"].values()):
            for place, name in zip(places, ("seconds", "update", "work"), strict=True):
                label = f"{method} ({found['chosen']})" if run == 0 else None
                at = [point[name] for point in seed]
                place.plot(at, [point["valid_bits"] for point in seed], color=f"C{number}", label=label, lw=1.2)
    for place, name in zip(places, ("seconds", "updates", "forward passes over a symbol"), strict=True):
        place.set_xlabel(name)
        place.grid(alpha=0.3)
        if name != "seconds":
            place.set_xscale("log")
    places[0].set_ylabel("validation bits per character")
    places[0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


@click.command(cls=common.Command)
@click.option("--data", default="tinyshakespeare", help="Corpus, in characters.")
@click.option("--arch", default="mlstm", help="Architecture.")
@click.option("--hidden", default=64, type=click.IntRange(1), help="Units.")
@click.option("--method", "methods", type=click.Choice(tuple(METHODS)), multiple=True, help="Methods (default: all).")
@click.option("--trials", default=3, type=click.IntRange(1, 3), help="Tuning trials of each method.")
@click.option("--tuning", default=1.5, type=click.FloatRange(0, min_open=True), help="Minutes of a tuning trial.")
@click.option("--seeds", default=2, type=click.IntRange(1), help="Seeds.")
@click.option("--minutes", default=5.0, type=click.FloatRange(0, min_open=True), help="Of a run.")
@click.option("--threads", default=2, type=click.IntRange(1), help="Threads.")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs/hf_vs_sgd"), help="The folder of the runs.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(
    data: str, arch: str, hidden: int, methods: tuple[str, ...], trials: int, tuning: float, seeds: int,
    minutes: float, threads: int, runs: Path, out: Path,
) -> None:  # fmt: skip
    """Train all methods for the same minutes, and compare."""
    shared = {
        "data": data, "arch": arch, "hidden": hidden, "threads": threads, "sample_length": 0,
    }  # fmt: skip
    names = methods or tuple(name for name in METHODS if name != "online" or arch == "lstm-krause")
    title = f"{data}-{arch}-{hidden}"
    results: dict[str, Any] = {}
    for name in names:
        tried = dict(list(METHODS[name].items())[:trials])
        scores = {}
        for trial, options in tried.items():
            folder = runs / title / f"{name}-{trial}-tuning"
            run_for(folder, tuning, {**shared, **options, "seed": 0})
            scores[trial] = best(points(folder, tuning))
        trial = min(scores, key=lambda each: scores[each])
        curves = {}
        for seed in range(seeds):
            folder = runs / title / f"{name}-{trial}-{seed}"
            run_for(folder, minutes, {**shared, **tried[trial], "seed": seed})
            curves[str(seed)] = points(folder, minutes)
        results[name] = {"trials": scores, "chosen": trial, "options": tried[trial], "seeds": curves}
    table = Table("method", "trial", "bits, each seed", title=f"{title}, {minutes:g} minutes")
    for name, found in results.items():
        table.add_row(name, found["chosen"], ", ".join(f"{best(each):.3f}" for each in found["seeds"].values()))
    Console().print(table)
    result = {"machine": common.machine(threads), "minutes": minutes, "tuning": tuning, **shared, "methods": results}
    common.write_result(out / f"hf_vs_sgd-{title}.json", json.loads(json.dumps(result)))
    draw(results, out / f"hf_vs_sgd-{title}.svg")


if __name__ == "__main__":
    main()
