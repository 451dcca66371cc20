"""Compare preconditioners for a few iterations of conjugate gradient: which source of Kronecker factors is best?

A plain network is trained for some updates on tinyshakespeare. At its last weights, the same quadratics are solved
with each preconditioner, for several draws of the sequences. The result of k iterations is judged by how far they lower
the quadratic. The preconditioners differ in the source of basis and diagonal: gradients of parts of the curvature batch
(hfrnn), or the inputs x and adjoints d of the products, summed over time:

    N1  L = mean x x',  R = mean d d'                       the factors of K-FAC for recurrent networks
    N2  D = eigenvalues of L times those of R               K-FAC
    N3  D = sum_j (Q_L' G_j Q_R)^2                          in the eigenbasis of N1, as in hfrnn/optim/kronecker.py

References: Martens & Grosse 2015 (K-FAC); Martens, Ba & Johnson 2018 (for recurrent networks); George and others 2018
(N3, EKFAC). See README.md beside this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from common import RESULTS, Command, difference, machine, print_machine, write_result
from rich.console import Console
from rich.table import Table

import hfrnn
from hfrnn.analysis.run_objective import load_objective
from hfrnn.optim.blocks import Pair, rotated
from hfrnn.optim.cg import conjugate_gradient, power_preconditioner
from hfrnn.optim.kronecker import Kronecker, kronecker
from hfrnn.training.trainer import train

Array = np.ndarray[Any, Any]
HIDDEN = 128
GRADIENT, CURVATURE = 250, 100
"""Sequences of the batches, as the preset tuned has them."""
ITERATIONS = (1, 3, 5, 10)
PARTS = (20, 50, 100)
SAME = 1e-4
"""Bound on the difference between our gradient from N1's inputs and adjoints and the library's."""


def inputs_and_adjoints(net: hfrnn.Network, theta: Array, batch: hfrnn.Batch) -> dict[str, tuple[Array, Array]]:
    """Return both sides of each block of an `rnn`: the inputs x and the adjoints d of its product, by block name.

    The arrays are (T*B, rows) and (T*B, columns) of the block. Its gradient is the transpose of the first times the
    second, as in `hfrnn/kernels/rnn.py`. A bias has the input 1. d is the first side of W_y, which the flat vector
    holds by columns.
    """
    p = {name: view.astype(np.float64) for name, view in net.views(theta).items()}
    symbols, targets = np.asarray(batch.inputs), np.asarray(batch.targets)
    T, B = symbols.shape
    h = np.zeros((T + 1, B, HIDDEN))
    for t in range(T):
        h[t + 1] = np.tanh(p["layer0.W_x"][symbols[t]] + h[t] @ p["layer0.W_h"] + p["layer0.b"])
    logits = h[1:] @ p["output.W_y0"] + p.get("output.b_y", 0.0)
    dy = np.exp(logits - logits.max(-1, keepdims=True))
    dy /= dy.sum(-1, keepdims=True)
    dy[np.arange(T)[:, None], np.arange(B), targets] -= 1
    da, later = np.zeros_like(h[1:]), np.zeros((B, HIDDEN))
    for t in reversed(range(T)):
        da[t] = (dy[t] @ p["output.W_y0"].T + later) * (1 - h[t + 1] ** 2)
        later = da[t] @ p["layer0.W_h"].T
    one, one_hot = np.ones((T, B, 1)), np.eye(net.n_in)[symbols]
    found = {"layer0.W_x": (one_hot, da), "layer0.b": (one, da), "layer0.W_h": (h[:-1], da)}
    found |= {"output.W_y0": (dy, h[1:]), "output.b_y": (one, dy)}
    return {name: (found[name][0].reshape(T * B, -1), found[name][1].reshape(T * B, -1)) for name in p}


def kfac(net: hfrnn.Network, taps: dict[str, tuple[Array, Array]], gradients: Array | None) -> Kronecker:
    """Return the preconditioner in the basis of N1, with the diagonal of N3, or of N2 without gradients of parts."""
    bases: list[Pair] = []
    diagonal = np.zeros(net.n_parameters, np.float32)
    for pair, block in zip(taps.values(), net.matrix_blocks, strict=True):
        (left, Q_L), (right, Q_R) = (np.linalg.eigh(side.T @ side / len(side)) for side in pair)  # N1
        Q_L, Q_R = Q_L.astype(np.float32), Q_R.astype(np.float32)
        if gradients is None:
            D = np.outer(left.clip(0), right.clip(0))  # N2
        else:
            G = gradients[:, block.span].reshape(-1, block.rows, block.columns)
            D = (rotated(G, Q_L, Q_R) ** 2).sum(0)  # N3
        diagonal[block.span] = D.reshape(-1)
        bases.append((Q_L, Q_R[None]))
    return Kronecker(net.matrix_blocks, (), bases, diagonal)


def preconditioners(objective: hfrnn.Objective, theta: Array, lambda_: float) -> Iterator[tuple[str, Any]]:
    """Yield the preconditioners by name."""
    net = objective.net
    yield "none", None
    single = objective.part_gradients(theta, CURVATURE)
    yield "diagonal", power_preconditioner((single**2).sum(0), lambda_, 0.75)
    for parts in PARTS:
        found = kronecker(net.matrix_blocks, objective.part_gradients(theta, parts))
        yield f"gradients of {parts} parts", found.preconditioner(lambda_)
    taps = inputs_and_adjoints(net, theta, objective.batch)
    gradient = np.concatenate([(left.T @ right / len(left)).reshape(-1) for left, right in taps.values()])
    error = difference(objective.loss_and_gradient(theta)[1], gradient)
    if error > SAME:
        raise click.ClickException(f"the gradient from inputs and adjoints differs by {error:.1e}")
    yield "K-FAC", kfac(net, taps, None).preconditioner(lambda_)
    for parts in PARTS[::2]:
        found = kfac(net, taps, objective.part_gradients(theta, parts))
        yield f"K-FAC's basis, D from {parts} parts", found.preconditioner(lambda_)


def values(product: Callable[[Array, Array], None], b: Array, preconditioner: Any) -> Array:
    """Return q after each of ITERATIONS."""
    found: dict[int, float] = {}
    limits: dict[str, Any] = {"epsilon": 0.0, "max_iterations": max(ITERATIONS)}
    conjugate_gradient(
        product, b, preconditioner=preconditioner, on_iterate=lambda it: found.update({it.iteration: it.q}), **limits
    )
    return np.array([found[k] for k in ITERATIONS])


def measure(run: Path, damping: float, draws: int) -> dict[str, list[float]]:
    """Return q after each of ITERATIONS relative to the loss, for each preconditioner; means over draws."""
    sums: dict[str, Array] = {}
    for draw in range(draws):
        loaded = load_objective(str(run), "last", "train", symbols=50 * GRADIENT, seed=draw)
        theta, gradient = loaded.theta, loaded.objective
        curvature = hfrnn.Objective(gradient.net, gradient.batch.columns(0, CURVATURE), threads=1)
        f0, g = gradient.loss_and_gradient(theta)
        A = curvature.gauss_newton(theta, structural=damping, tikhonov=damping)
        for name, preconditioner in preconditioners(curvature, theta, damping):
            sums[name] = sums.get(name, 0.0) + values(A.apply, -g, preconditioner) / (f0 * draws)
    return {name: list(q) for name, q in sums.items()}


def print_table(damping: float, found: dict[str, list[float]]) -> None:
    """Print q of every preconditioner."""
    title = f"q in percent of the loss, mu = lambda = {damping:g}"
    table = Table("CG iterations", *map(str, ITERATIONS), title=title)
    for name, q in found.items():
        table.add_row(name, *(f"{100 * x:.2f}" for x in q))
    Console().print(table)


@click.command(cls=Command)
@click.option("--updates", default=40, type=click.IntRange(1), help="Updates of the training.")
@click.option("--draws", default=5, type=click.IntRange(1), help="Draws of the sequences.")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), help="The folder of the run.")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS, help="The folder of the JSON.")
def main(updates: int, draws: int, runs: Path, out: Path) -> None:
    """Compare preconditioners on the quadratics of a partly trained network."""
    facts = machine(1)
    print_machine(facts)
    run = runs / "preconditioners"
    if not (run / "summary.json").is_file():
        options = {
            "data": "tinyshakespeare",
            "arch": "rnn",
            "hidden": HIDDEN,
            "threads": 1,
            "sample_length": 0,
        }
        train(out=run, updates=updates, validate_every=updates, **options)
    found = {f"{damping:g}": measure(run, damping, draws) for damping in (0.01, 0.1)}
    for damping, rows in found.items():
        print_table(float(damping), rows)
    result = {"machine": facts, "updates": updates, "draws": draws, "iterations": ITERATIONS, "damping": found}
    write_result(out / "preconditioners.json", result)


if __name__ == "__main__":
    main()
