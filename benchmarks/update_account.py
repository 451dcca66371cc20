"""How much of an update of a small network goes to the interpreter, to waiting, and to a second forward pass?

    python benchmarks/update_account.py

One call per sweep instead of one per segment, and threads inside compiled code, can save no more than two parts of the
time: the interpreter, and the waiting of threads. The parts of an update of Hessian-free optimization with the defaults
of `hfrnn train` are measured here for the backend `numba`, at the sizes of its batches:

    processor    processor time of one thread
    interpreter  the same calls with one unit and one sequence per shard, as in account.py. The steps of the compiled
                 loops are in it, so this is more than a single call per sweep would save.
    waiting      time in which one of two threads neither runs nor waits for a processor: it waits for the other thread,
                 for the interpreter's lock, or for work. Linux tells how long a thread has waited for a processor. Other
                 programs can still stop one thread, for which the other one then waits: only the half of the calls that
                 other programs have delayed least count.

The forward pass before the products runs on a part of the gradient's batch, at the same parameters: a reuse of the
gradient's forward pass could save no more than this part (`preparation`).
"""

from __future__ import annotations

import dataclasses
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
from hfrnn.data.synthetic import make_task

STEPS, SYMBOLS = 50, 103
"""Steps of a sequence of the built-in text, and its symbols."""
SUMMED = ("processor", "interpreter", "two_threads", "seconds", "waiting", "imbalance", "delayed")
"""What is added up over the calls of an update."""
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


def processor_times(update: Callable[[Clock], None], rounds: int) -> dict[str, float]:
    """Return the median processor seconds of each call."""
    found: dict[str, list[float]] = {}

    def clock(name: str, run: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = run()
        found.setdefault(name, []).append(time.process_time() - start)
        return result

    update(lambda name, run: run())
    for _ in range(rounds):
        update(clock)
    return {name: statistics.median(times) for name, times in found.items()}


def schedule() -> dict[int, tuple[float, float]]:
    """Return the seconds that each thread has run, and has waited for a processor (Linux only)."""
    found = {}
    for thread in threading.enumerate():
        content = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()
        found[thread.native_id or 0] = int(content[0]) / 1e9, int(content[1]) / 1e9
    return found


def waiting(update: Callable[[Clock], None], seconds: float) -> dict[str, dict[str, float]]:
    """Return the seconds of each call on two threads, and the waiting and imbalance of the calls delayed least."""
    calls: dict[str, list[dict[str, float]]] = {}

    def clock(name: str, run: Callable[[], Any]) -> Any:
        before, start = schedule(), time.perf_counter()
        result = run()
        wall, after = time.perf_counter() - start, schedule()
        spent = [[now - then for now, then in zip(after[each], before[each], strict=True)] for each in before]
        busy = sorted(spent)[-2:]
        delayed, ran = sum(each[1] for each in busy), [each[0] for each in busy]
        calls.setdefault(name, []).append(
            {"seconds": wall, "delayed": delayed / 2, "waiting": max(wall - (sum(ran) + delayed) / 2, 0.0),
             "imbalance": (ran[-1] - ran[0]) / 2}
        )  # fmt: skip
        return result

    update(lambda name, run: run())
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        update(clock)
    return {name: least_delayed(each) for name, each in calls.items()}


def least_delayed(calls: list[dict[str, float]]) -> dict[str, float]:
    """Return the medians of the tenth of the calls that other programs have delayed least."""
    calls = sorted(calls, key=lambda call: call["delayed"] / call["seconds"])[: -(-len(calls) // 10)]
    return {"count": len(calls), **{name: statistics.median(call[name] for call in calls) for name in calls[0]}}


def measure(network: Network, rounds: int, seconds: float) -> dict[str, Any]:
    """Return the parts of an update."""
    smallest = network.smallest()
    one = processor_times(steps_of(network, network, 1), rounds)
    least = processor_times(steps_of(smallest, network, 1), rounds)
    two = processor_times(steps_of(network, network, 2), rounds)
    waits = waiting(steps_of(network, network, 2), seconds)
    calls = network.calls
    rows = {
        name: {"calls": calls[name], "processor": one[name], "interpreter": least[name], "two_threads": two[name],
               **waits[name]} for name in calls
    }  # fmt: skip
    whole = {part: sum(calls[name] * rows[name][part] for name in calls) for part in SUMMED}
    return {**dataclasses.asdict(network), "operations": rows, "update": whole}


def show(found: dict[str, Any]) -> None:
    """Print milliseconds."""
    table = Table("operation", "calls", *SUMMED, title=found["name"])
    for name, row in {**found["operations"], "update": found["update"]}.items():
        table.add_row(name, str(row.get("calls", "")), *(f"{1e3 * row[each]:.3f}" for each in SUMMED))
    Console(width=140).print(table)
    whole = found["update"]
    click.echo(
        f"interpreter {whole['interpreter'] / whole['processor']:.1%}, waiting {whole['waiting'] / whole['seconds']:.1%}, "
        f"preparation {found['operations']['preparation']['processor'] / whole['processor']:.1%}"
    )


@click.command(cls=common.Command)
@click.option("--rounds", default=21, type=click.IntRange(2), help="Updates; medians count.")
@click.option("--seconds", default=20.0, help="Time of the measurement on two threads, for each network.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(rounds: int, seconds: float, out: Path) -> None:
    """Bound what one call per sweep and threads in compiled code could save of an update."""
    result: dict[str, Any] = {"machine": common.machine(2), "rounds": rounds, "networks": []}
    common.print_machine(result["machine"])
    for network in NETWORKS:
        result["networks"].append(measure(network, rounds, seconds))
        show(result["networks"][-1])
    common.write_result(out / "update-account-cpu.json", result)


if __name__ == "__main__":
    main()
