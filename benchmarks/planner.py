"""How far is the memory that a plan expects from what is taken?

Random networks and batches of every architecture, planned for a random budget; a gradient and an operator's products
run by the plan, on as many threads as it provides for, and the peak of Python's allocations is compared with the plan's
own figure. See README.md beside this file.
"""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import click
import common
import numpy as np
from rich.console import Console
from rich.table import Table

import hfrnn
from hfrnn.engine.planner import footprint_of, make_plan


def random_case(rng: np.random.Generator) -> dict[str, Any]:
    """Sizes, an architecture and a budget between a tenth of what keeping all takes and more than it."""
    hidden = 8 * int(rng.integers(4, 20))
    return {
        "arch": str(rng.choice(hfrnn.architectures())),
        "hidden": (hidden,) if rng.random() < 0.7 else (hidden, 8 * int(rng.integers(2, 12))),
        "symbols": int(rng.integers(20, 400)),
        "embedding": None if rng.random() < 0.7 else int(rng.integers(8, 64)),
        "T": int(rng.integers(20, 160)),
        "B": int(rng.integers(20, 400)),
        "share": float(rng.uniform(0.1, 1.1)),
    }


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Plan and run one case: expected and traced bytes."""
    V, T, B = case["symbols"], case["T"], case["B"]
    net = hfrnn.Network(case["arch"], V, case["hidden"], V, embedding=case["embedding"])
    whole = footprint_of(net).bytes(make_plan(net, T, B, checkpoint=None), T, B)
    least = footprint_of(net).bytes(make_plan(net, T, B, checkpoint="sqrt"), T, B)
    plan = make_plan(net, T, B, memory=int(max(case["share"] * whole, 1.05 * least)))
    rng = np.random.default_rng(0)
    batch = hfrnn.Batch(rng.integers(V, size=(T, B)).astype(np.int32), rng.integers(V, size=(T, B)).astype(np.int32))
    theta = net.init()
    v, out = net.init(seed=1), theta.copy()
    gc.collect()
    tracemalloc.start()
    try:
        objective = hfrnn.Objective(net, batch, threads=plan.workers, plan=plan)
        objective.loss_and_gradient(theta)
        operator = objective.gauss_newton(theta, structural=0.1, tikhonov=0.1)
        for _ in range(2):
            operator.apply(v, out)
        traced = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    expected = footprint_of(net).bytes(plan, T, B)
    return {**case, "plan": plan.to_json(), "expected": expected, "traced": traced, "ratio": expected / traced}


@click.command(cls=common.Command)
@click.option("--cases", "count", default=20, type=click.IntRange(1), help="Random configurations.")
@click.option("--seed", default=0, type=int, help="Of the configurations.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(count: int, seed: int, out: Path) -> None:
    """Compare the memory that plans expect with the peak of what runs take."""
    facts, rng = common.machine(1), np.random.default_rng(seed)
    rows = [measure(random_case(rng)) for _ in range(count)]
    table = Table("architecture", "H", "V", "T", "B", "keeps", "expected, MiB", "traced, MiB", "ratio")
    for row in rows:
        sizes = "-".join(map(str, row["hidden"])), *(str(row[name]) for name in ("symbols", "T", "B"))
        mib = (f"{row[name] / 2**20:.1f}" for name in ("expected", "traced"))
        table.add_row(row["arch"], *sizes, row["plan"]["keep"], *mib, f"{row['ratio']:.3f}")
    Console().print(table)
    ratios = [row["ratio"] for row in rows]
    click.echo(f"expected over traced: {min(ratios):.3f} to {max(ratios):.3f}")
    common.write_result(out / "planner-cpu.json", {"machine": facts, "cases": rows})


if __name__ == "__main__":
    main()
