"""[K] table 4.5 and figure 4.1 in small: architectures of about the same number of weights on characters, by HF.

Structural damping with the first strength that [K] gives each architecture, and line-search damping for the two of
figure 4.1. Every cell is a run of so many minutes from each seed; what is there already is left as it is.
See README.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import common
import numpy as np
from rich.console import Console
from rich.table import Table
from timed_runs import curve, run_for

import hfrnn


@dataclass(frozen=True)
class Cell:
    """A row of the table: the network, its damping, and the bits a character published in validation."""

    name: str
    arch: str
    shape: tuple[float, ...]
    options: dict[str, Any]
    published: float

    def hidden(self, symbols: int, weights: int) -> tuple[int, ...]:
        """Widths in the proportion of `shape` with the number of weights nearest to `weights`."""

        def widths(scale: int) -> tuple[int, ...]:
            return tuple(max(1, round(scale * share)) for share in self.shape)

        def distance(scale: int) -> int:
            net = hfrnn.Network(self.arch, n_in=symbols, hidden=widths(scale), n_out=symbols)
            return abs(net.n_parameters - weights)

        return widths(min(range(4, 2 * int(math.sqrt(weights))), key=distance))


def structural(mu: float) -> dict[str, Any]:
    return {"damping": "structural", "mu": mu}


LINE_SEARCH = {"damping": "line-search"}
STACK = (1.0, 130 / 150, 110 / 150)
CELLS = (
    Cell("mlstm", "mlstm", (1.0,), structural(0.1), 1.86),
    Cell("mrnn line-search", "mrnn", (1.0,), LINE_SEARCH, 1.88),
    Cell("mrnn", "mrnn", (1.0,), structural(0.3), 1.90),
    Cell("mrnn stacked", "mrnn", STACK, structural(0.3), 1.90),
    Cell("lstm-krause", "lstm-krause", (1.0,), structural(0.01), 1.93),
    Cell("rnn line-search", "rnn", (1.0,), LINE_SEARCH, 2.03),
    Cell("rnn", "rnn", (1.0,), structural(0.01), 2.04),
)


HF = {"optimizer": "hf", "preset": "published"}


def symbols_of(data: str) -> int:
    """The different characters of a corpus's training part."""
    from hfrnn.data.corpora import load_corpus

    return len(set(load_corpus(None, data, "char").train))


def results(
    cells: list[Cell], runs: Path, seeds: int, minutes: float, shared: dict[str, Any], weights: int
) -> Iterator[dict[str, Any]]:
    """Train the cells and say what they reached."""
    V = symbols_of(shared["data"])
    for cell in cells:
        hidden = cell.hidden(V, weights)
        options = {**shared, **cell.options, "arch": cell.arch, "hidden": hidden, **HF}
        curves = {}
        for seed in range(seeds):
            folder = runs / f"{cell.name.replace(' ', '-')}-{seed}"
            run_for(folder, minutes, {**options, "seed": seed})
            curves[str(seed)] = curve(folder, ("update", "seconds", "symbols", "train_bits", "valid_bits"), minutes)
        best = [min(point["valid_bits"] for point in points) for points in curves.values()]
        yield {
            "cell": cell.name,
            "hidden": hidden,
            "weights": hfrnn.Network(cell.arch, n_in=V, hidden=hidden, n_out=V).n_parameters,
            "options": options,
            "published_valid_bits": cell.published,
            "valid_bits": best,
            "seeds": curves,
        }


@click.command(cls=common.Command)
@click.option("--data", default="tinyshakespeare", help="Corpus, in characters.")
@click.option("--weights", default=50_000, type=click.IntRange(1000), help="About so many, in every network.")
@click.option(
    "--cell", "names", type=click.Choice([cell.name for cell in CELLS]), multiple=True, help="Cells (default: all)."
)
@click.option("--seeds", default=1, type=click.IntRange(1), help="Seeds.")
@click.option("--minutes", default=5.0, type=click.FloatRange(0, min_open=True), help="Of a run.")
@click.option("--threads", default=2, type=click.IntRange(1), help="Threads.")
@click.option(
    "--runs", type=click.Path(path_type=Path), default=Path("runs/characters"), help="The folder of the runs."
)
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(
    data: str, weights: int, names: tuple[str, ...], seeds: int, minutes: float, threads: int, runs: Path, out: Path
) -> None:
    """Train the cells one after another and print them beside [K], best first."""
    shared = {"data": data, "threads": threads, "sample_length": 0}
    cells = [cell for cell in CELLS if not names or cell.name in names]
    found = list(results(cells, runs / f"{data}-{weights}", seeds, minutes, shared, weights))
    found.sort(key=lambda each: float(np.mean(each["valid_bits"])))
    title = f"{data}, {minutes:g} minutes a run"
    table = Table("network", "hidden", "weights", "bits, each seed", "[K] table 4.5", title=title)
    for each in found:
        sizes, bits = ", ".join(map(str, each["hidden"])), ", ".join(f"{best:.3f}" for best in each["valid_bits"])
        table.add_row(each["cell"], sizes, f"{each['weights']:,}", bits, f"{each['published_valid_bits']:.2f}")
    Console().print(table)
    result = {"machine": common.machine(threads), "minutes": minutes, **shared, "cells": found}
    common.write_result(out / f"characters-{data}.json", json.loads(json.dumps(result)))


if __name__ == "__main__":
    main()
