"""Fixed points of a three-bit flip-flop: all 27 points of the cube, and the time compared with Adam in PyTorch.

Networks are trained on the task `flip-flop` with several seeds. From the same visited states, `fixed_points` and the
method of FixedPointFinder look for fixed points with the same tolerance: Adam on the mean of |F(h) - h|^2/2 over all
starts, in PyTorch and float64, with its defaults (learning rate 1.0, times 0.95 after 5 steps without progress, 5,000
steps), and with a smaller learning rate. Every point is confirmed by a step of a network in float64. One thread.

    python benchmarks/fixed_points.py                     about ten minutes, most of it Adam
    python benchmarks/fixed_points.py --adam-steps 0      without PyTorch

M. D. Golub & D. Sussillo, FixedPointFinder: a Tensorflow toolbox for identifying and characterizing fixed points in
recurrent neural networks, Journal of Open Source Software 3(31), 2018.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import common
import numpy as np

import hfrnn
from hfrnn import dynamics
from hfrnn.data.tasks import flip_flop
from hfrnn.dynamics.points import unique_points

TOLERANCE, DISTANCE = 1e-8, 1e-3
CUBE = [8, 12, 6, 1]
"""The corners, edges, faces and center of a cube: the points with 0, 1, 2 and 3 unstable directions."""
RATES = (1.0, 0.01)
"""Learning rates of Adam at the start; the first is FixedPointFinder's default."""
FACTOR, PATIENCE = 0.95, 5


def trained(seed: int, hidden: int, updates: int, folder: Path) -> tuple[hfrnn.Network, Any]:
    """Return a network that was trained on the flip-flop; the run is kept, and a finished one is used again."""
    run = folder / f"flip-flop-{hidden}-{seed}"
    if not run.exists():
        hfrnn.train(data="flip-flop", arch="rnn", hidden=hidden, updates=updates, threads=1, seed=seed, out=run)
    net, theta, _ = hfrnn.load(run)
    return net, theta


def visited(net: hfrnn.Network, theta: Any, count: int) -> Any:
    """Return states of new sequences, chosen at random."""
    x, _ = flip_flop(100, 50, np.random.default_rng(0))
    states = dynamics.trajectories(net, theta, hfrnn.Batch(x)).visited()
    return states[np.random.default_rng(1).permutation(len(states))[:count]]


def confirmed(net: hfrnn.Network, theta: Any, states: Any) -> float:
    """Return the largest |F(h) - h| of some states, by a step of the network in float64."""
    wide = hfrnn.Network(**{**net.config, "dtype": "float64"})
    batch = hfrnn.Batch(np.zeros((1, len(states), net.n_in)), initial_state=dynamics.to_state(wide, states))
    after = dynamics.to_vectors(wide, wide.run(theta, batch)[1])
    return float(np.linalg.norm(after - states, axis=1).max())


def by_hfrnn(net: hfrnn.Network, theta: Any, starts: Any) -> dict[str, Any]:
    begun = time.process_time()
    found = dynamics.fixed_points(net, theta, np.zeros(net.n_in), starts, TOLERANCE, distance=DISTANCE)
    seconds = time.process_time() - begun
    kinds = np.bincount(found.unstable, minlength=4).tolist()
    return {
        "processor_seconds": seconds, "points": len(found), "by_unstable_directions": kinds,
        "of_the_cube": sum(min(a, b) for a, b in zip(kinds, CUBE, strict=False)),
        "starts_that_reach_a_point": int(found.hits.sum()), "largest_speed": confirmed(net, theta, found.states),
    }  # fmt: skip


def by_adam(net: hfrnn.Network, theta: Any, starts: Any, rate: float, steps: int) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    views = net.views(theta)
    W, b = (torch.tensor(np.float64(views[f"layer0.{name}"])) for name in ("W_h", "b"))
    begun = time.process_time()
    h = torch.tensor(starts, requires_grad=True)
    optimizer = torch.optim.Adam([h], lr=rate)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=FACTOR, patience=PATIENCE)
    made = 0
    for made in range(1, steps + 1):
        optimizer.zero_grad()
        squares = ((torch.tanh(h @ W + b) - h) ** 2).sum(dim=1)
        if made % 10 == 1 and bool((squares <= TOLERANCE**2).all()):
            break
        q = 0.5 * squares.mean()
        q.backward()
        optimizer.step()
        plateau.step(q.item())
    seconds = time.process_time() - begun
    with torch.no_grad():
        speed = (torch.tanh(h @ W + b) - h).norm(dim=1).numpy()
    slow = speed <= TOLERANCE
    points = h.detach().numpy()[slow]
    chosen, _ = unique_points(points, speed[slow], np.zeros((len(points), 1)), DISTANCE)
    return {
        "learning_rate": rate, "steps": made, "processor_seconds": seconds, "points": len(chosen),
        "starts_that_reach_a_point": int(slow.sum()), "median_speed": float(np.median(speed)),
    }  # fmt: skip


@click.command(cls=common.Command)
@click.option("--seeds", default=3, type=click.IntRange(1), help="Networks.")
@click.option("--hidden", default=64, type=click.IntRange(1), help="Hidden units.")
@click.option("--updates", default=60, type=click.IntRange(1), help="Hessian-free updates of the training.")
@click.option("--starts", default=1000, type=click.IntRange(1), help="Visited states to start from.")
@click.option("--adam-steps", default=5000, type=click.IntRange(0), help="Largest number of steps of Adam; 0: no Adam.")
@click.option("--runs", default=Path("runs"), type=click.Path(path_type=Path), help="Folder of the trained networks.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(seeds: int, hidden: int, updates: int, starts: int, adam_steps: int, runs: Path, out: Path) -> None:
    """Find the fixed points of trained flip-flops, and compare the time with Adam in PyTorch."""
    facts, networks = common.machine(1), []
    for seed in range(seeds):
        net, theta = trained(seed, hidden, updates, runs)
        begin = visited(net, theta, starts)
        by_hfrnn(net, theta, begin[:10])  # loads what is loaded at first use
        found: dict[str, Any] = {"seed": seed, "hfrnn": by_hfrnn(net, theta, begin)}
        if adam_steps:
            found["adam"] = [by_adam(net, theta, begin, rate, adam_steps) for rate in RATES]
            found["ratios"] = [
                each["processor_seconds"] / found["hfrnn"]["processor_seconds"] for each in found["adam"]
            ]
        networks.append(found)
        click.echo(f"seed {seed}: {found}")
    result = {"machine": facts, "hidden": hidden, "updates": updates, "starts": starts, "tolerance": TOLERANCE}
    common.write_result(out / "fixed-points.json", {**result, "networks": networks})


if __name__ == "__main__":
    main()
