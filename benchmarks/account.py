"""Where does the time of a gradient and of a Gauss-Newton product go?

A recorder (recorder.py) reads every call of an operation from the code itself: the matrix products with their shapes,
and the bytes that each pass over arrays reads and writes. What the calls need alone is measured (alone.py). The parts
of the time of a thread:

    products      every matrix product at the rate that it reaches alone, on as many threads at once
    passes        every pass over arrays: the longer of two times, that of its arithmetic in the cache and that of
                  reading and writing its operands in memory
    interpreter   the same calls with arrays of one unit and one sequence
    waiting       time in which a thread does not run. It waits for the other thread, for the interpreter's lock or for
                  other programs.
    rest          what remains, for example operands of products that are not in the cache
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import common
from alone import Stopwatch
from common import Case
from products import SIZES, UNITS
from recorder import Call, Log, Total
from recording import record, recording, recording_backend
from rich.console import Console
from rich.table import Table
from small import ROWS

import hfrnn
from hfrnn.arrays.backend import get_backend
from hfrnn.arrays.threads import product_peak
from hfrnn.engine.plan import Plan
from hfrnn.kernels.registry import kernel_class

ARCHS = ("lstm", "mlstm", "rnn", "gru", "hornn-fofe")
BACKENDS = ("numpy", "numba")
OPERATIONS = ("gradient", "product")
SHOWN = 6
"""Number of kinds of passes that the JSON lists, those with the longest time."""
Runs = dict[str, Callable[[], Any]]


def operations(case: Case, threads: int, plan: Plan | None = None) -> tuple[Runs, Plan]:
    """Return functions that compute a gradient and a Gauss-Newton product, and their plan."""
    backend = case.net.backend
    objective = hfrnn.Objective(case.net, hfrnn.Batch(case.inputs, case.targets), threads, plan=plan)
    theta, v = backend.asarray(case.theta), backend.asarray(case.v)
    gradient, product = (backend.empty(theta.shape, theta.dtype) for _ in range(2))
    with recording():
        G = objective.gauss_newton(theta)
    runs: Runs = {
        "gradient": lambda: objective.loss_and_gradient(theta, gradient),
        "product": lambda: G.apply(v, product),
    }
    return runs, objective.plan


def recorded(case: Case, plan: Plan, details: bool = True) -> dict[str, Log]:
    """Return the logs of a gradient and of a product; without `details`, they only count calls."""
    runs, _ = operations(dataclasses.replace(case, backend=recording_backend(case.net.backend)), 1, plan)
    logs = {name: record(run, computes=False, details=details) for name, run in runs.items()}
    for name, log in logs.items() if details else ():
        check_products(case, name, log.flops)
    return logs


def needed(case: Case, operation: str) -> float:
    """Return the operations that the equations ask for; no gradient is needed of inputs, so theirs are two maps."""
    return UNITS[operation] * case.unit() + 2 * case.input_unit()


def check_products(case: Case, operation: str, counted: float) -> None:
    """Raise ClickException if the recorder has missed matrix products that the equations ask for."""
    expected = needed(case, operation)
    if counted < 0.99 * expected:
        raise click.ClickException(
            f"the recorder counted {counted / 1e9:.3g} GFLOP of matrix products in the {operation} of {case}, but the "
            f"equations ask for {expected / 1e9:.3g}: teach the recorder the call that it has missed (PRODUCTS and "
            "TAUGHT in benchmarks/recorder.py)"
        )


def smallest(case: Case, plan: Plan) -> tuple[Case, Plan]:
    """Return a case with the same calls on small arrays: one sequence per shard, 16 units, and 2 symbols or 32.

    Fewer units, or a few symbols in place of many, would make other calls (hfrnn/kernels/numba/narrow.py). Sums of many
    rows in single precision make some calls more, because blocks of rows are added first.
    """
    shards, units = len(plan.parts), max(kernel_class(case.arch).least_hidden, 16)
    return dataclasses.replace(case, H=units, B=shards, V=min(case.V, 2 if case.V <= 8 else 32)), dataclasses.replace(
        plan, shards=tuple(range(shards + 1))
    )


# ---------------------------------------------------------------------- measurements


@dataclasses.dataclass(frozen=True)
class Spent:
    """Seconds of a call: by the clock, of all processors, and of the busiest thread less the mean of all."""

    wall: float
    processor: float
    imbalance: float


def spent(run: Callable[[], Any], threads: int, rounds: int, seconds: float) -> Spent:
    """Measure a call in some rounds, or fewer if it is long; return the fastest, as for calls that are timed alone."""
    run()
    found: list[Spent] = []
    begin = time.perf_counter()
    while len(found) < rounds and (not found or time.perf_counter() - begin < rounds * seconds):
        time.sleep(common.REST)
        clocks = [time.pthread_getcpuclockid(each.ident) for each in threading.enumerate() if each.ident]
        before = [time.clock_gettime(clock) for clock in clocks]
        calls, start, processor = 0, time.perf_counter(), time.process_time()
        while not calls or time.perf_counter() - start < seconds:
            run()
            calls += 1
        wall, processor = time.perf_counter() - start, time.process_time() - processor
        of_threads = [time.clock_gettime(clock) - earlier for clock, earlier in zip(clocks, before, strict=True)]
        imbalance = max(of_threads) - sum(of_threads) / threads
        found.append(Spent(wall / calls, processor / calls, max(imbalance, 0.0) / calls))
    return min(found, key=lambda each: each.wall)


def passes_of(log: Log, watch: Stopwatch, threads: int) -> dict[str, dict[str, float]]:
    """Return the passes by function: the seconds that memory and arithmetic take alone, and the longer of both."""
    found: dict[str, dict[str, float]] = defaultdict(
        lambda: dict.fromkeys(("times", "bytes", "memory", "cache", "seconds"), 0.0)
    )
    for call, total in log.totals.items():
        if call.kind == "product":
            continue
        memory = watch.memory(total, threads)
        cache = watch.work(call, total) * total.count if call.kind == "pass" else 0.0
        entry = found[call.name]
        entry["memory"] += memory
        entry["cache"] += cache
        entry["seconds"] += max(memory, cache)
    for key, total in log.loops.items():
        entry = found[total.function.py_func.__name__]
        entry["cache"] += watch.loop(key, total) * total.count
        entry["seconds"] = max(entry["memory"], entry["cache"])
    return found


def products_of(log: Log) -> list[tuple[Call, Total]]:
    """Return the matrix products, those with the most operations first."""
    found = [(call, total) for call, total in log.totals.items() if call.kind == "product"]
    return sorted(found, key=lambda pair: -pair[1].flops)


def own_product_of_a_step(log: Log, steps: int) -> tuple[Call, Total]:
    """Return the product with the most operations among those that run at every step of every shard."""
    return next(pair for pair in products_of(log) if pair[1].count >= steps)


def parts_of(case: Case, operation: str, log: Log, watch: Stopwatch, time_of: Spent, calls: float, threads: int,
             steps: int) -> dict[str, Any]:  # fmt: skip
    """Return the parts of the time of an operation; `calls` is what the interpreter takes on one thread, in seconds."""
    products = sum(watch.work(call, total, threads) * total.count for call, total in products_of(log)) / threads
    passes = passes_of(log, watch, threads)
    parts = {
        "products": products,
        "passes": sum(each["seconds"] for each in passes.values()) / threads,
        "interpreter": calls / threads,
        "waiting": max(time_of.wall - time_of.processor / threads, 0.0),
    }
    call, total = own_product_of_a_step(log, steps)
    of_step = threads * total.flops / total.count / watch.call(call, total, threads)
    rate = needed(case, operation) / time_of.wall
    longest = sorted(passes.items(), key=lambda item: -item[1]["seconds"])[:SHOWN]
    return {
        "seconds": time_of.wall, "processor": time_of.processor, "imbalance": time_of.imbalance,
        "parts": {**parts, "rest": time_of.wall - sum(parts.values())},
        "passes_in_memory": sum(each["memory"] for each in passes.values()) / threads,
        "passes_in_cache": sum(each["cache"] for each in passes.values()) / threads,
        "longest_passes": {name: each["seconds"] / threads for name, each in longest},
        "rate": rate, "rate_of_step": of_step, "rate_over_step": rate / of_step,
    }  # fmt: skip


def account(
    case: Case, threads: tuple[int, ...], watch: Stopwatch, rounds: int, seconds: float
) -> list[dict[str, Any]]:
    """Return the records of a case: one for the gradient, one for the product."""
    runs = {}
    for n in threads:
        runs[n], plan = operations(case, n)
    logs = recorded(case, plan)
    tiny_case, tiny_plan = smallest(case, plan)
    tiny_runs, _ = operations(tiny_case, 1, tiny_plan)
    tiny_logs = recorded(tiny_case, tiny_plan, details=False)
    steps, records = case.T * len(plan.parts), []
    for operation in OPERATIONS:
        log = logs[operation]
        calls = spent(tiny_runs[operation], 1, rounds, seconds / 4).processor * log.calls / tiny_logs[operation].calls
        records.append({
            "arch": case.arch, "H": case.H, "T": case.T, "B": case.B, "V": case.V, "backend": case.net.backend.name,
            "operation": operation, "shards": len(plan.parts), "segment": plan.segment, "flops": log.flops,
            "floor_flops": needed(case, operation), "calls": log.calls,
            "read": sum(total.read for call, total in log.totals.items() if call.kind != "product"),
            "written": sum(total.written for call, total in log.totals.items() if call.kind != "product"),
            "products": [
                {"call": call.name, "shapes": call.shapes(), "times": total.count,
                 "rates": {str(n): n * total.flops / total.count / watch.call(call, total, n) for n in threads}}
                for call, total in products_of(log)
            ],
            "threads": {
                str(n): parts_of(case, operation, log, watch, spent(runs[n][operation], n, rounds, seconds), calls, n,
                                 steps)
                for n in threads
            },
        })  # fmt: skip
    return records


# ---------------------------------------------------------------------- output


def print_parts(records: list[dict[str, Any]], title: str) -> None:
    """Print the parts of the time of each operation, in milliseconds."""
    parts = ("products", "passes", "interpreter", "waiting", "rest")
    table = Table("backend", "operation", "threads", "ms", *parts, "passes: memory", "in cache", "of a step's rate",
                  title=title)  # fmt: skip
    for each in records:
        table.add_section()
        for n, found in each["threads"].items():
            seconds = [found["seconds"], *(found["parts"][part] for part in parts)]
            seconds += [found["passes_in_memory"], found["passes_in_cache"]]
            cells = [f"{1e3 * value:.2f}" for value in seconds]
            table.add_row(each["backend"], each["operation"], n, *cells, f"{found['rate_over_step']:.0%}")
    Console(width=140).print(table)


def print_details(each: dict[str, Any]) -> None:
    """Print the matrix products and the longest passes of an operation."""
    table = Table("product", "times", *(f"GFLOP/s, threads: {n}" for n in each["threads"]),
                  title=f"{each['backend']}, {each['operation']}: {each['calls']:,} calls, segment {each['segment']}, "
                        f"{each['shards']} shards")  # fmt: skip
    for product in each["products"]:
        rates = [f"{rate / 1e9:.0f}" for rate in product["rates"].values()]
        table.add_row(f"{product['call']} {product['shapes']}", str(product["times"]), *rates)
    Console(width=140).print(table)
    for n, found in each["threads"].items():
        longest = ", ".join(f"{name} {1e3 * value:.2f}" for name, value in found["longest_passes"].items())
        click.echo(f"longest passes, threads {n}, ms: {longest}")


@click.command(cls=common.Command)
@click.option("--arch", "archs", multiple=True, default=ARCHS, help="Architecture; repeatable.")
@click.option("--size", "sizes", multiple=True, type=int, nargs=3, default=SIZES, help="H T B; repeatable.")
@click.option("--vocabulary", "V", default=64, type=click.IntRange(2), help="Symbols in and out.")
@click.option("--small", is_flag=True, help="The networks and sizes of small.py, on real inputs and outputs.")
@click.option("--backend", "backends", multiple=True, type=click.Choice(BACKENDS), default=BACKENDS, help="Repeatable.")
@click.option("--threads", multiple=True, type=click.IntRange(1), default=(1, 2), help="Repeatable.")
@click.option("--rounds", default=3, type=click.IntRange(1), help="Turns of each operation; the fastest counts.")
@click.option("--seconds", default=0.1, help="The least length of a turn.")
@click.option("--alone", default=0.003, help="The least length of a turn of a call that is timed alone, in seconds.")
@click.option("--details", is_flag=True, help="Print every matrix product, too.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(archs: tuple[str, ...], sizes: tuple[tuple[int, ...], ...], V: int, small: bool, backends: tuple[str, ...],
         threads: tuple[int, ...], rounds: int, seconds: float, alone: float, details: bool,
         out: Path) -> None:  # fmt: skip
    """Account for the time of a gradient and of a Gauss-Newton product, by architecture, size, backend and threads."""
    result: dict[str, Any] = {"machine": common.machine(max(threads))}
    common.print_machine(result["machine"])
    found = [name for name in backends if name == "numpy" or common.available([name], "fast")]
    watch, records = Stopwatch(alone), []
    peaks = {str(n): product_peak(n, seconds, get_backend("numpy")) for n in threads}
    speeds = {str(n): {2**bits: speed for bits, speed in watch.bandwidths(n).items()} for n in threads}
    for arch, H, T, B in ROWS if small else [(arch, *size) for arch in archs for size in sizes]:
        cases = [Case(arch, H, T, B, 0 if small else V, backend=name) for name in found]
        of_case = [each for case in cases for each in account(case, threads, watch, rounds, seconds)]
        print_parts(of_case, common.label(of_case[0]))
        for each in of_case if details else ():
            print_details(each)
        records += of_case
    for n, peak in peaks.items():
        click.echo(f"threads: {n}; peak of a matrix product: {peak / 1e9:.0f} GFLOP/s")
        rates = ", ".join(f"{size >> 10:,} KiB {speed / 1e9:.1f}" for size, speed in speeds[n].items())
        click.echo(f"bandwidth of each thread by the size of its arrays, GB/s: {rates}")
    file = out / f"account{'-small' if small else ''}-cpu.json"
    common.write_result(file, {**result, "peaks": peaks, "bandwidths": speeds, "cases": records})


if __name__ == "__main__":
    main()
