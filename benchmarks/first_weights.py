"""How much of the gradient at the last step reaches the first mark of xor and temporal order, with the first weights?

For each length and each choice of first weights, one network of 100 units reads 200 sequences. The result is the norm
of the gradient of the last step's output with respect to the state at the first mark, divided by its norm at the last
step: the median over the sequences. See README.md beside this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import common
import numpy as np
from numpy.typing import NDArray

import hfrnn
from hfrnn.data.tasks import make_task

COUNT = 200
WEIGHTS: dict[str, tuple[float, float]] = {
    "defaults of tasks": (0.1, 1.0), "`--input-scale 0.3`": (0.3, 1.0), "`--input-scale 1`": (1.0, 1.0),
    "`--spectral-radius 1.2`": (0.1, 1.2),
}  # fmt: skip
"""Input scale and spectral radius."""
CASES = (("xor", 21), ("xor", 50), ("xor", 100), ("temporal-order", 100), ("temporal-order", 200))


def reaching(task_name: str, length: int, input_scale: float, radius: float, seed: int = 0) -> float:
    """Return the median share of the gradient that reaches the first mark."""
    task = make_task(task_name, length)
    net = hfrnn.Network("rnn", n_in=task.n_in, hidden=100, n_out=task.n_out, loss=task.loss)
    theta = net.init(seed, "sutskever", radius, W_x=input_scale)
    p: dict[str, NDArray[Any]] = {name.split(".")[1]: view for name, view in net.views(theta).items()}
    inputs, _, _, lengths = task.sequences(COUNT, np.random.default_rng(seed))
    marked = (inputs == 4) | (inputs == 5) if task.symbols else inputs[..., 1] == 1
    U = (p["W_x"][inputs] if task.symbols else inputs @ p["W_x"]) + p["b"]
    h = np.zeros((task.steps + 1, COUNT, 100), U.dtype)
    for t in range(task.steps):
        h[t + 1] = np.tanh(U[t] + h[t] @ p["W_h"])
    dh, norms = np.zeros_like(h[0]), np.zeros((task.steps, COUNT))
    for t in reversed(range(task.steps)):
        dh[lengths - 1 == t] = p["W_y0"][:, 0]
        norms[t] = np.linalg.norm(dh, axis=1)
        dh = (dh * (1 - h[t + 1] ** 2)) @ p["W_h"].T
    column = np.arange(COUNT)
    return float(np.median(norms[marked.argmax(axis=0), column] / norms[lengths - 1, column]))


@click.command(cls=common.Command)
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(out: Path) -> None:
    """Compute the shares and write them."""
    found = [
        {"task": task, "length": length, "weights": name, "share": reaching(task, length, *own)}
        for name, own in WEIGHTS.items()
        for task, length in CASES
    ]
    common.write_result(out / "first-weights.json", {"machine": common.machine(1), "shares": found})


if __name__ == "__main__":
    main()
