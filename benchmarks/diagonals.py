"""How does the diagonal of the curvature change with the size of a network?

Networks of several sizes are trained for some updates on tinyshakespeare. At their last weights, the script computes
the diagonal D of the Kronecker preconditioner from the gradients of parts of a curvature batch, and estimates the trace
of the Gauss-Newton matrix G and of structural damping's S (Hutchinson: the mean of z.Gz over random signs z). It also
computes how many entries of D are below lambda. See docs/preconditioner.md, "The shift".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from common import RESULTS, Command, machine, print_machine, write_result
from rich.console import Console
from rich.table import Table

import hfrnn
from hfrnn.analysis.run_objective import load_objective
from hfrnn.optim.kronecker import kronecker
from hfrnn.training.trainer import train

SIZES = (64, 128, 256)
SYMBOLS = 5000
"""Symbols of the curvature batch, as the preset tuned has them."""
PARTS = 20
LAMBDA = 1e-3
"""The strength of Tikhonov damping in most updates of these runs: the least that the preset tuned allows."""
SAMPLES = 20
"""Random vectors of a trace."""


def traces(objective: hfrnn.Objective, theta: Any) -> tuple[float, float]:
    """Return estimates of the traces of G and of S."""
    rng = np.random.default_rng(0)
    G, both = objective.gauss_newton(theta), objective.gauss_newton(theta, structural=1.0)
    found = []
    for _ in range(SAMPLES):
        z = rng.choice([-1.0, 1.0], len(theta)).astype(theta.dtype)
        of_G = float(z @ (G @ z))
        found.append((of_G, float(z @ (both @ z)) - of_G))
    of_G, of_S = np.mean(found, axis=0)
    return float(of_G), float(of_S)


def measure(run: Path) -> dict[str, float]:
    """Return the figures of one network."""
    loaded = load_objective(str(run), "last", "train", symbols=SYMBOLS, seed=0)
    objective, theta = hfrnn.Objective(loaded.objective.net, loaded.objective.batch, threads=1), loaded.theta
    D = kronecker(objective.net.matrix_blocks, objective.part_gradients(theta, PARTS)).diagonal
    of_G, of_S = traces(objective, theta)
    return {
        "weights": len(theta),
        "sum": float(D.sum(dtype=np.float64)),
        "mean": float(D.mean(dtype=np.float64)),
        "below_lambda": float((D < LAMBDA).mean()),
        "trace_G": of_G,
        "trace_S": of_S,
    }


def figures(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the table of a result."""
    head = ["units", "weights", "trace of G", "sum of D", "mean of D", f"D below {result['lambda']:g}", "trace of S"]
    rows = [
        [hidden, f"{row['weights']:,}", f"{row['trace_G']:.1f}", f"{row['sum']:.1f}", f"{row['mean']:.2g}",
         f"{row['below_lambda']:.1%}", f"{row['trace_S']:.0f}"]
        for hidden, row in result["sizes"].items()
    ]  # fmt: skip
    return head, rows


@click.command(cls=Command)
@click.option("--updates", default=50, type=click.IntRange(1), help="Updates of the training.")
@click.option("--hidden", "sizes", type=click.IntRange(1), multiple=True, default=SIZES, help="Units.")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), help="The folder of the runs.")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS, help="The folder of the JSON.")
def main(updates: int, sizes: tuple[int, ...], runs: Path, out: Path) -> None:
    """Measure the diagonal of the curvature of networks of several sizes."""
    facts = machine(1)
    print_machine(facts)
    found = {}
    for hidden in sizes:
        run = runs / f"diagonals-{hidden}"
        if not (run / "summary.json").is_file():
            train(
                out=run, updates=updates, validate_every=updates, data="tinyshakespeare", arch="mlstm", hidden=hidden,
                threads=1, sample_length=0,
            )  # fmt: skip
        found[str(hidden)] = measure(run)
    result = {"machine": facts, "updates": updates, "lambda": LAMBDA, "sizes": found}
    head, rows = figures(result)
    table = Table(*head)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    write_result(out / "diagonals.json", result)


if __name__ == "__main__":
    main()
