"""How much of an update of a small network goes to the interpreter, to threads, and to a second forward pass?

    python benchmarks/update_account.py

One compiled call per sweep instead of one per segment, and threads inside compiled code, can save no more than the time
of the interpreter, the waiting for its lock, and the start of threads. This script bounds them for an update of
Hessian-free optimization with the defaults of `hfrnn train` and the backend `numba`, at the sizes of its batches.
The columns, medians over updates that take turns:

    processor    processor time with one thread
    interpreter  the same calls with one unit and one sequence per shard, as in account.py. It includes the steps of the
                 compiled loops, so one call per sweep would save less.
    two threads  processor time of both threads
    switches     how often one of two threads gives its processor away to wait: for work, for the other thread's result,
                 or for the interpreter's lock

`handover` is the time from the release of a lock to the return of another thread that waits for it. account.py measures
the waiting itself, but only on an idle machine. The parts above count on a busy one, too.

The forward pass before the products (`preparation`) runs on a part of the gradient's batch, at the same parameters. A
reuse of the gradient's forward pass could save no more than this part. See README.md beside this file.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import common
import numpy as np
from rich.console import Console
from rich.table import Table

import hfrnn
from hfrnn.data.tasks import make_task

STEPS, SYMBOLS = 50, 103
"""Steps of a sequence of the built-in text, and its symbols."""
SUMMED = ("processor", "interpreter", "two threads", "switches")
"""What is added up over the calls of an update."""
HANDOVERS = 2000
Clock = Callable[[str, Callable[[], Any]], Any]
"""Called with the name of an operation and a function that runs it; returns its result."""


@dataclasses.dataclass(frozen=True)
class Network:
    """A network, its batches, and how often an update calls each operation."""

    name: str
    arch: str
    hidden: int
    gradient: int
    """Sequences of the gradient batch."""
    curvature: int
    """Sequences of the curvature batch."""
    losses: int
    products: int

    def smallest(self) -> Network:
        """The same network with one unit, and with one sequence in each of two shards."""
        return dataclasses.replace(self, hidden=1, gradient=2, curvature=2)

    @property
    def calls(self) -> dict[str, int]:
        """The calls of each operation in an update."""
        return {"objectives": 1, "gradient": 1, "loss": self.losses, "preparation": 1, "product": self.products}


NETWORKS = (
    Network("mlstm-64", "mlstm", 64, 250, 100, 2, 3),
    Network("rnn-100-addition", "rnn", 100, 115, 46, 2, 4),
)


def parts_of(network: Network, like: Network) -> tuple[Any, Callable[[int], hfrnn.Batch]]:
    """Return a network, and a function that returns a batch of so many sequences."""
    symbols = SYMBOLS if network is like else 2
    rng = np.random.default_rng(0)
    if network.arch == "mlstm":
        text = rng.integers(symbols, size=(STEPS + 1, network.gradient)).astype(np.int32)
        net = hfrnn.Network("mlstm", symbols, network.hidden, symbols, backend="numba")
        return net, lambda n: hfrnn.Batch(text[:-1, :n].copy(), text[1:, :n].copy())
    task = make_task("addition", 100)
    found = task.sequences(network.gradient, rng)
    net = hfrnn.Network("rnn", 2, network.hidden, 1, loss="squared", backend="numba")
    return net, lambda n: hfrnn.Batch(*(x[:, :n].copy() for x in found[:3]))


def steps_of(network: Network, like: Network, threads: int) -> Callable[[Clock], None]:
    """Return a function that makes the calls of an update in their order; `like` is the network whose plans these are.

    A clock times every call. The objectives are new in every update, as in training, so memory is reused as it is
    there.
    """
    net, batch = parts_of(network, like)
    wide, wide_batch = (net, batch) if network is like else parts_of(like, like)
    plans = [
        dataclasses.replace(hfrnn.Objective(wide, wide_batch(of_like)).plan, shards=(0, (own + 1) // 2, own))
        for of_like, own in ((like.gradient, network.gradient), (like.curvature, network.curvature))
    ]
    batches = [batch(network.gradient), batch(network.curvature)]
    theta = net.init(seed=0)
    v = np.random.default_rng(1).standard_normal(theta.size).astype(np.float32)
    out = np.empty_like(v)

    def objectives() -> list[hfrnn.Objective]:
        return [hfrnn.Objective(net, each, threads, plan=plan) for each, plan in zip(batches, plans, strict=True)]

    def update(clock: Clock) -> None:
        gradient, curvature = clock("objectives", objectives)
        clock("gradient", lambda: gradient.loss_and_gradient(theta))
        G = clock("preparation", lambda: curvature.gauss_newton(theta, structural=0.1, tikhonov=0.01))
        for _ in range(network.products):
            clock("product", lambda: G.apply(v, out))
        for _ in range(network.losses):
            clock("loss", lambda: gradient.loss(theta))

    return update


# ---------------------------------------------------------------------- measurements


def switches() -> int:
    """Return how often the threads of this process have given their processor away to wait; 0 where nobody counts."""
    if importlib.util.find_spec("resource") is None:  # for example on Windows
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


def medians(updates: dict[str, Callable[[Clock], None]], rounds: int) -> dict[str, dict[str, tuple[float, float]]]:
    """Return the processor seconds and the switches of each operation, for updates that take turns."""
    found: dict[str, dict[str, list[tuple[float, int]]]] = {name: {} for name in updates}

    def clock_of(name: str) -> Clock:
        def clock(operation: str, run: Callable[[], Any]) -> Any:
            before, start = switches(), time.process_time()
            result = run()
            spent = time.process_time() - start, switches() - before
            found[name].setdefault(operation, []).append(spent)
            return result

        return clock

    for update in updates.values():
        update(lambda operation, run: run())
    for _ in range(rounds):
        for name, update in updates.items():
            update(clock_of(name))
    return {
        name: {
            operation: (statistics.median(each[0] for each in calls), statistics.median(each[1] for each in calls))
            for operation, calls in operations.items()
        }
        for name, operations in found.items()
    }


def handover() -> float:
    """Return the median seconds from the release of a lock to the return of the thread that waits for it."""
    there, back = threading.Lock(), threading.Lock()
    there.acquire()
    back.acquire()

    def answer() -> None:
        for _ in range(HANDOVERS):
            there.acquire()
            back.release()

    other = threading.Thread(target=answer)
    other.start()
    times = []
    for _ in range(HANDOVERS):
        start = time.perf_counter()
        there.release()
        back.acquire()
        times.append((time.perf_counter() - start) / 2)
    other.join()
    return statistics.median(times)


def measure(network: Network, rounds: int) -> dict[str, Any]:
    """Return the parts of an update."""
    found = medians(
        {
            "processor": steps_of(network, network, 1),
            "interpreter": steps_of(network.smallest(), network, 1),
            "two threads": steps_of(network, network, 2),
        },
        rounds,
    )
    rows = {
        name: {
            "calls": calls,
            **{part: found[part][name][0] for part in found},
            "switches": found["two threads"][name][1],
        }
        for name, calls in network.calls.items()
    }
    whole = {part: sum(row["calls"] * row[part] for row in rows.values()) for part in SUMMED}
    return {**dataclasses.asdict(network), "operations": rows, "update": whole}


def show(found: dict[str, Any]) -> None:
    """Print milliseconds."""
    table = Table("operation", "calls", *SUMMED, title=f"{found['name']}: milliseconds, switches")
    for name, row in {**found["operations"], "update": found["update"]}.items():
        times = [f"{1e3 * row[each]:.2f}" for each in SUMMED[:-1]]
        table.add_row(name, str(row.get("calls", "")), *times, f"{row['switches']:.0f}")
    Console(width=140).print(table)


@click.command(cls=common.Command)
@click.option("--rounds", default=21, type=click.IntRange(2), help="Updates; medians count.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(rounds: int, out: Path) -> None:
    """Bound what one call per sweep and threads in compiled code could save of an update."""
    result: dict[str, Any] = {"machine": common.machine(2), "rounds": rounds, "handover": handover(), "networks": []}
    common.print_machine(result["machine"])
    if not common.available(["numba"], "fast"):
        raise click.ClickException("the calls of an update are those of the backend numba, which is not installed")
    click.echo(f"handover of a lock: {1e6 * result['handover']:.1f} microseconds")
    for network in NETWORKS:
        result["networks"].append(measure(network, rounds))
        show(result["networks"][-1])
    common.write_result(out / "update-account-cpu.json", result)


if __name__ == "__main__":
    main()
