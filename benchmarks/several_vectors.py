"""Would one sweep with k tangents be faster than k products?

A sweep with k tangents computes the matrix products of a step for k times as many rows. So one product on k copies of
the sequences takes about as long as a sweep with k tangents stacked along the batch, and the products of its matrices
at the rate of large ones bound any sweep. See README.md beside this file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import common
import numpy as np

import hfrnn
from hfrnn.arrays.threads import one_blas_thread
from hfrnn.engine.plan import Keep, Plan

CASES = (("lstm", 128, 100, 32), ("lstm", 15, 100, 32), ("lstm", 15, 100, 8), ("rnn", 128, 100, 32))
"""Architecture, H, T, B."""
V = 64


def processor_seconds(run: Callable[[], object], rounds: int) -> float:
    """The least processor time of one call."""
    run()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def peak() -> float:
    """The rate of a large float32 matrix product on one thread, in FLOP per processor second."""
    n = 1024
    a = np.random.default_rng(0).standard_normal((n, n), dtype=np.float32)
    with one_blas_thread():
        return 2 * n**3 / processor_seconds(lambda: a @ a, 20)


def product(arch: str, backend: str, H: int, T: int, shards: tuple[int, ...]) -> tuple[Callable[[], object], int]:
    """A call of one product on shards of the given boundaries, one thread; and the multiply-adds of its matrices."""
    net = hfrnn.Network(arch, V, H, V, backend=backend)
    rng, B = np.random.default_rng(0), shards[-1]
    x = rng.integers(V, size=(T + 1, B))
    plan = Plan(shards, None, Keep.ALL)
    G = hfrnn.Objective(net, hfrnn.Batch(x[:-1], x[1:]), threads=1, plan=plan).gauss_newton(net.init(0))
    v = rng.standard_normal(net.n_parameters).astype(net.dtype)
    out = np.empty_like(v)
    blocks = net.views(v)
    dense = sum(block.size for name, block in blocks.items() if name.split(".")[1] in ("W_h", "W_y0"))
    return lambda: G.apply(v, out), T * B * (4 * dense + blocks["layer0.W_x"].size)


@click.command(cls=common.Command)
@click.option("--vectors", "k", default=16, type=click.IntRange(2), help="Vectors k.")
@click.option("--rounds", default=7, type=click.IntRange(1), help="Rounds; the least time counts.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(k: int, rounds: int, out: Path) -> None:
    """Compare k products with one product on k copies of the sequences, in processor time."""
    facts, rows = common.machine(1), []
    rate = peak()
    for arch, H, T, B in CASES:
        for backend in ("numpy", "numba"):
            shards = (0, B // 2, B) if B >= 16 else (0, B)  # as the planner divides them
            one, operations = product(arch, backend, H, T, shards)
            stacked, _ = product(arch, backend, H, T, tuple(k * edge for edge in shards))
            seconds, bound = processor_seconds(one, rounds), processor_seconds(stacked, rounds)
            row: dict[str, Any] = {"arch": arch, "backend": backend, "H": H, "T": T, "B": B, "k": k}
            row |= {"products": k * seconds, "stacked": bound, "at_peak": k * 2 * operations / rate}
            rows.append(row)
            click.echo(
                f"{arch} {backend} H {H} B {B}: {k} products {k * seconds * 1e3:.0f} ms, stacked {bound * 1e3:.0f} ms "
                f"({k * seconds / bound:.2f} times), matrix products at their peak {row['at_peak'] * 1e3:.0f} ms"
            )
    common.write_result(out / "several-vectors-cpu.json", {"machine": facts, "peak": rate, "cases": rows})


if __name__ == "__main__":
    main()
