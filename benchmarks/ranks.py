"""How well does the work of an objective scale over ranks, and how far can it scale on a cluster?

    python benchmarks/ranks.py

The script starts itself with mpiexec on 1, 2 and 4 ranks. The model at the end takes what it measured here (the rate of
a product on one core, the time of a message, that of the vectors of CG) and the bandwidth and latency of a network.
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import common
import numpy as np

import hfrnn
from hfrnn.cli.under_mpi import mpiexec
from hfrnn.engine.plan import SMALLEST
from hfrnn.optim.cg import conjugate_gradient
from hfrnn.ranks.mpi import launched_ranks
from hfrnn.ranks.one import Ranks

K_WEIGHTS, K_STEPS = 21_200_000, 200
"""The network of [K] with 21.2 million weights, and the steps of its sequences."""
BATCHES = (256, 16_384)
"""Sequences of a batch that the model assumes."""
CORES = (1, 16)
"""Cores of a rank that the model assumes. The vectors of CG take the time of one core."""
PAYS = 0.5
"""Least efficiency at which more ranks pay."""
NETWORKS = {"10 Gbit/s": (1.25e9, 20e-6), "100 Gbit/s": (12.5e9, 3e-6)}
"""Assumed networks: bytes per second of a rank, and seconds of a message."""
RANKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
CG_ITERATIONS = 3


def timed(task: Callable[[], object], rounds: int) -> dict[str, float]:
    """Return the wall time and the processor time of a task, after a first call that allocates buffers."""
    task()
    wall, processor = [], []
    for _ in range(rounds):
        begin, used = time.perf_counter(), time.process_time()
        task()
        wall.append(time.perf_counter() - begin)
        processor.append(time.process_time() - used)
    return {"median": statistics.median(wall), "least": min(wall), "processor": statistics.median(processor)}


def measure(size: tuple[int, int, int], arch: str, threads: int, rounds: int) -> dict[str, Any]:
    """Return the times of this rank, and the bytes that it sends."""
    ranks, (H, T, B) = launched_ranks(), size
    net, rng = hfrnn.Network(arch, 64, H, 64), np.random.default_rng(0)
    batch = hfrnn.Batch(rng.integers(0, 64, (T, B)), rng.integers(0, 64, (T, B)))
    f, theta = hfrnn.Objective(net, batch, threads=threads, comm=ranks), net.init(seed=0)
    v, out = rng.standard_normal(theta.size).astype(net.dtype), theta.copy()
    G = f.gauss_newton(theta)
    tasks: dict[str, Callable[[], object]] = {
        "gradient": lambda: f.loss_and_gradient(theta, out=out), "product": lambda: G.apply(v, out),
        "update": lambda: _update(f, theta),
    }  # fmt: skip
    found: dict[str, Any] = {"parameters": theta.size, "shards": len(f.plan.parts)}
    for name, task in tasks.items():
        before = ranks.bytes_sent
        found[name] = timed(task, rounds)
        found[name]["bytes_sent"] = (ranks.bytes_sent - before) / (rounds + 1)
    return {**found, **_exchanges(ranks, theta, rounds)}


def _update(f: hfrnn.Objective, theta: Any) -> None:
    options = hfrnn.HessianFreeOptions(cg_iterations=CG_ITERATIONS, cg_epsilon=0.0)
    hfrnn.HessianFree(hfrnn.Damping("structural"), options).update(theta, f)


def _exchanges(ranks: Ranks, theta: Any, rounds: int) -> dict[str, float]:
    """Return the seconds of a header, of the exchange of a vector, and of the vectors of a CG iteration."""
    x, y = theta.copy(), theta.copy()

    def headers() -> None:
        for _ in range(100):
            ranks.any_rank(False)

    def vector() -> None:
        if ranks.size > 1:
            start, _ = ranks.owned(ranks.size)
            ranks.sum_vector(ranks.size, {start: x}, y)

    diagonal = np.linspace(1, 2, x.size, dtype=x.dtype)

    def iterations() -> None:
        conjugate_gradient(lambda v, out: np.multiply(diagonal, v, out=out), x, max_iterations=10, epsilon=0.0)

    return {
        "header": timed(headers, rounds)["least"] / 100, "exchange": timed(vector, rounds)["least"],
        "cg_vectors": timed(iterations, rounds)["processor"] / 10,
    }  # fmt: skip


def model(
    product: float, weights: int, cg: float, header: float, network: tuple[float, float], sizes: Sequence[int] = RANKS
) -> list[Any]:
    """Return the predicted seconds and the efficiency of a CG iteration on each number of ranks.

    Parameters
    ----------
    product : float
        Seconds of a product of the whole batch on one rank. There are at least as many shards as ranks.
    weights : int
    cg : float
        Seconds of the vectors of CG, which every rank computes.
    header : float
        Seconds of Python for a message.
    network : (float, float)
        Bytes per second, and seconds of a message.
    sizes : sequence of int
        Numbers of ranks.
    """
    (bandwidth, latency), rows = network, []
    for ranks in sizes:
        sent = 2 * weights * 4 * (ranks - 1) / ranks
        messages = 3 * (ranks - 1) * header + 3 * latency * (ranks > 1)
        seconds = product / ranks + cg + sent / bandwidth + messages
        rows.append({"ranks": ranks, "seconds": seconds, "efficiency": (product + cg) / (ranks * seconds)})
    return rows


def last_that_pays(rows: list[Any]) -> int:
    """Return the largest number of ranks in rows of the model whose efficiency is at least PAYS."""
    return max(row["ranks"] for row in rows if row["efficiency"] >= PAYS)


def launch(starter: list[str], ranks: int, threads: int, arguments: list[str]) -> dict[str, Any]:
    """Return what rank 0 prints of a measurement on some ranks; `starter` is the command that starts them."""
    worker = [sys.executable, str(Path(__file__).resolve()), *arguments, "--worker", "--threads", str(threads)]
    command = worker if ranks == 1 else [*starter, "-n", str(ranks), *worker]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise click.ClickException(f"{ranks} ranks failed: {ended.stderr.strip()}")
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def predictions(runs: dict[str, Any], size: tuple[int, int, int]) -> dict[str, Any]:
    """Return the model: checked here on 2 and 4 ranks, and for the network of [K]. It takes processor times."""
    _, T, B = size
    alone, two = runs["1 rank"], runs["2 ranks"]
    weights, product, cg = alone["parameters"], alone["product"]["processor"], alone["cg_vectors"]
    bandwidth = weights * 4 / two["exchange"]
    here = {row["ranks"]: row["seconds"] for row in model(product, weights, 0.0, two["header"], (bandwidth, 0.0))}
    rate = 8 * weights * T * B / product  # a product is 4 units of 2 operations per weight and step
    vectors, clusters = cg * K_WEIGHTS / weights, []
    for batch, cores, (name, network) in itertools.product(BATCHES, CORES, NETWORKS.items()):
        large = 8 * K_WEIGHTS * K_STEPS * batch / rate / cores
        most = batch // SMALLEST
        rows = model(large, K_WEIGHTS, vectors, two["header"], network, [each for each in RANKS if each <= most])
        about = {"batch": batch, "cores": cores, "network": name, "most_ranks": most}
        clusters.append({**about, "pays_to": last_that_pays(rows), "product": large, "rows": rows})
    return {
        "check": {
            "2 ranks": {"predicted": here[2], "processor": two["product"]["processor"]},
            "vectors_sent": {f"{n} ranks": 2 * (n - 1) / n for n in (2, 4)},
        },
        "weights": K_WEIGHTS, "steps": K_STEPS, "operations_per_second": rate, "cg_vectors": vectors,
        "networks": NETWORKS, "pays": PAYS, "clusters": clusters,
    }  # fmt: skip


@click.command(cls=common.Command)
@click.option("--size", type=int, nargs=3, default=(512, 50, 256), help="H T B.")
@click.option("--arch", default="mlstm", help="Architecture.")
@click.option("--rounds", default=5, type=click.IntRange(1), help="Calls of each operation that are timed.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
@click.option("--threads", default=1, hidden=True, type=int)
@click.option("--worker", is_flag=True, hidden=True)
def main(size: tuple[int, int, int], arch: str, rounds: int, out: Path, threads: int, worker: bool) -> None:
    """Time a gradient, a product and an update on 1 and 2 ranks of one thread, and on 2 threads; predict more ranks."""
    if worker:
        found = measure(size, arch, threads, rounds)
        if launched_ranks().leads:
            print(json.dumps(found))
        return
    starter = mpiexec()
    result: dict[str, Any] = {"machine": common.machine(1), "arch": arch, "size": size}
    common.print_machine(result["machine"])
    arguments = ["--size", *map(str, size), "--arch", arch, "--rounds", str(rounds)]
    runs = {"1 rank": (1, 1), "2 threads": (1, 2), "2 ranks": (2, 1), "4 ranks": (4, 1)}
    result["runs"] = {name: launch(starter, *each, arguments) for name, each in runs.items()}
    alone = result["runs"]["1 rank"]
    for name, run in result["runs"].items():
        for operation in ("gradient", "product", "update"):
            row, (ranks, threads) = run[operation], runs[name]
            row["efficiency"] = alone[operation]["median"] / (ranks * threads * row["median"])
            row["processor_efficiency"] = alone[operation]["processor"] / (ranks * row["processor"])
            row["vectors_sent"] = row["bytes_sent"] / (4 * alone["parameters"])
            click.echo(
                f"{name:10} {operation:9} {row['median']:8.3f} s  processor {row['processor']:8.3f} s  "
                f"efficiency {row['efficiency']:5.2f}, "
                f"by processor time {row['processor_efficiency']:5.2f}  vectors sent {row['vectors_sent']:.2f}"
            )
    result["model"] = predictions(result["runs"], size)
    for each in result["model"]["clusters"]:
        click.echo(
            f"{each['batch']:,} sequences, ranks of {each['cores']} cores, {each['network']}: "
            + ", ".join(f"{row['ranks']}: {row['efficiency']:.2f}" for row in each["rows"])
        )
    result["load_after"] = common.machine(1)["load_before"]
    common.write_result(out / "ranks-cpu.json", result)


if __name__ == "__main__":
    main()
