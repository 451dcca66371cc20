"""How does memory grow with the length of the sequences, and what do square-root checkpoints cost in time?

For each length the gradient and the Gauss-Newton product run with checkpoint "sqrt" and, where it fits, with everything
kept. See README.md beside this file.
"""

from __future__ import annotations

import collections
import dataclasses
import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from common import RESULTS, Case, Command, alternate, difference, machine, print_machine, write_result
from rich.console import Console
from rich.table import Table

import hfrnn
from hfrnn.arrays.backend import Buffers
from hfrnn.engine.sweep import Sweep

CHECKPOINTS = {"sqrt": "sqrt", "keep all": None}
OPERATIONS = ("gradient", "product")
TOLERANCE = 1e-4
GIB = 2**30


def make(case: Case, operation: str, checkpoint: str | None, threads: int) -> Callable[[], np.ndarray]:
    """An objective with its buffers, as a call that computes the operation."""
    objective = hfrnn.Objective(case.net, hfrnn.Batch(case.inputs, case.targets), threads, checkpoint)
    if operation == "gradient":
        return lambda: objective.loss_and_gradient(case.theta)[1]
    G, out = objective.gauss_newton(case.theta), np.empty_like(case.theta)
    return lambda: G.apply(case.v, out)


def buffers_by_name(T: int) -> collections.Counter[str]:
    """The bytes of all live buffers, and of what the live sweeps hold for each of T steps beside inputs and targets."""
    held: collections.Counter[str] = collections.Counter()
    for thing in gc.get_objects():
        if type(thing) is Buffers:
            held.update(thing.sizes())
        elif type(thing) is Sweep:
            for name, value in vars(thing).items():
                if isinstance(value, np.ndarray) and value.shape[0] == T:
                    held[f"sweep.{name}"] += value.nbytes
    return held


def measure_bytes(case: Case, operation: str, checkpoint: str | None, threads: int) -> tuple[dict[str, int], int]:
    """Bytes of the buffers by name after a call, and the most that Python's allocations rose by during it."""
    gc.collect()
    tracemalloc.start()
    try:
        run = make(case, operation, checkpoint, threads)
        run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return dict(buffers_by_name(case.T)), peak


def growing_bytes(case: Case, operation: str, checkpoint: str | None, threads: int) -> dict[str, int]:
    """The bytes that depend on T: of the buffers that are larger than for one step, and of the traced peak likewise."""
    held, peak = measure_bytes(case, operation, checkpoint, threads)
    one, one_peak = measure_bytes(dataclasses.replace(case, T=1), operation, checkpoint, threads)
    growing = sum(size for name, size in held.items() if size != one.get(name))
    return {"growing": growing, "buffers": sum(held.values()), "traced_growing": peak - one_peak, "traced_peak": peak}


def exponent(lengths: list[int], sizes: list[int]) -> float | None:
    """The slope of log size over log length; None from fewer than two points."""
    return float(np.polyfit(np.log(lengths), np.log(sizes), 1)[0]) if len(lengths) > 1 else None


def measure(case: Case, operation: str, fits: bool, threads: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Bytes and seconds of one operation at one length; both ways must agree before they are timed."""
    ways = {name: checkpoint for name, checkpoint in CHECKPOINTS.items() if fits or checkpoint is not None}
    record: dict[str, Any] = {"operation": operation, "T": case.T, "difference": None, "time_ratio": None}
    record["ways"] = {name: growing_bytes(case, operation, checkpoint, threads) for name, checkpoint in ways.items()}
    runs = {name: make(case, operation, checkpoint, threads) for name, checkpoint in ways.items()}
    if fits:
        record["difference"] = difference(runs["sqrt"]().copy(), runs["keep all"]())
        if record["difference"] > TOLERANCE:
            raise click.ClickException(f"{operation} of {case} differs by {record['difference']:.1e} with checkpoints")
    for name, timing in alternate(runs, rounds, seconds).items():
        record["ways"][name] |= dataclasses.asdict(timing)
    if fits:
        record["time_ratio"] = record["ways"]["sqrt"]["median"] / record["ways"]["keep all"]["median"]
    return record


def available_bytes() -> int:
    """What the system says is free to use; 4 GiB where it does not say."""
    info = Path("/proc/meminfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), 4 * GIB)


def expected_bytes(records: list[dict[str, Any]], T: int) -> float:
    """What keeping all needs at T, in proportion to the most that was measured at a shorter length; 0 if unknown."""
    known = [(r["T"], r["ways"]["keep all"]["traced_peak"]) for r in records if "keep all" in r["ways"]]
    # twice: while one way is measured, the other's buffers may still be held
    return max((2.0 * peak * T / length for length, peak in known), default=0.0)


def summarise(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The growth exponents, for each operation and way."""
    summary: dict[str, Any] = {}
    for operation in OPERATIONS:
        for way in CHECKPOINTS:
            rows = [r for r in records if r["operation"] == operation and way in r["ways"]]
            lengths = [r["T"] for r in rows]
            summary[f"{operation}, {way}"] = {
                key: exponent(lengths, [r["ways"][way][key] for r in rows]) for key in ("growing", "traced_growing")
            }
    return summary


def print_table(records: list[dict[str, Any]], summary: dict[str, Any], title: str) -> None:
    table = Table("operation", "T", "kept", "grows, MiB", "traced, MiB", "ms", "sqrt over all", title=title)
    for record in records:
        for way, found in record["ways"].items():
            ratio = record["time_ratio"] if way == "sqrt" else None
            sizes = (f"{found[key] / 2**20:.1f}" for key in ("growing", "traced_growing"))
            ms, times = f"{found['median'] * 1e3:.1f}", "" if ratio is None else f"{ratio:.2f}"
            table.add_row(record["operation"], str(record["T"]), way, *sizes, ms, times)
    Console().print(table)
    for name, fitted in summary.items():
        if fitted["growing"] is not None:
            click.echo(
                f"{name}: buffers grow as T^{fitted['growing']:.2f}, traced memory as T^{fitted['traced_growing']:.2f}"
            )


@click.command(cls=Command)
@click.option("--arch", default="mlstm", help="Architecture.")
@click.option("--hidden", "H", default=512, type=click.IntRange(1), help="Units.")
@click.option("--batch", "B", default=64, type=click.IntRange(1), help="Sequences.")
@click.option("--vocabulary", "V", default=64, type=click.IntRange(2), help="Symbols in and out.")
@click.option("--steps", multiple=True, type=click.IntRange(2), default=(100, 400, 1600), help="Length; repeatable.")
@click.option("--long", is_flag=True, help="Also 6400 steps.")
@click.option("--threads", default=2, type=click.IntRange(1), help="Threads.")
@click.option("--rounds", default=3, type=click.IntRange(1), help="Turns of each way.")
@click.option("--seconds", default=0.3, help="The least length of a turn.")
@click.option("--limit", type=float, help="GiB within which keeping all is tried.  [default: 80% of what is free]")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS, help="The folder of the JSON.")
def main(
    arch: str, H: int, B: int, V: int, steps: tuple[int, ...], long: bool, threads: int, rounds: int, seconds: float,
    limit: float | None, out: Path,
) -> None:  # fmt: skip
    """Measure the memory that depends on the sequences' length and the time that square-root checkpoints cost."""
    facts = machine(threads)
    print_machine(facts)
    bound = 0.8 * available_bytes() if limit is None else limit * GIB
    records: list[dict[str, Any]] = []
    for T in sorted({*steps, *([6400] if long else [])}):
        case = Case(arch, H, T, B, V)
        fits = expected_bytes(records, T) <= bound
        click.echo(f"measuring {case}" + ("" if fits else ": keeping all would not fit"))
        records += [measure(case, operation, fits, threads, rounds, seconds) for operation in OPERATIONS]
    summary = summarise(records)
    print_table(records, summary, f"{arch}, H {H}, B {B}, V {V}")
    result = {"machine": facts, "arch": arch, "H": H, "B": B, "V": V, "exponents": summary, "lengths": records}
    write_result(out / "memory-cpu.json", result)


if __name__ == "__main__":
    main()
