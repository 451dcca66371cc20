"""Where does the processor time of an update of `hf` on a text go, and how does it compare with Adam's?

    python benchmarks/update_parts.py

Each network trains on tinyshakespeare with the defaults, on one thread, with gradient batches of their final size. The
first updates are not counted, because all of them are measured and their factors are new. The same is measured with the
options that large texts had before (`BEFORE`). The parts, in processor seconds, with the symbols that each of them
reads:

    gradient        loss and gradient of the gradient batch
    forward         the forward pass over the curvature batch before the products
    products        products with the Gauss-Newton matrix and its damping
    trial losses    losses of the gradient batch for rho and the line search
    factors         gradients of parts of the curvature batch, and the Kronecker factors and bases made of them
    preconditioner  its applications in CG
    rest            vectors of CG, average of the weights, batches, log and checkpoints

Adam's updates are measured as a whole, in the same process. Other programs on the machine slow all of them down, so
ratios within a run say more than seconds. See README.md beside this file.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import click
import common
from rich.console import Console
from rich.table import Table
from timed_runs import ENDLESS, spent

from hfrnn.engine.objective import Objective
from hfrnn.optim import preconditioner
from hfrnn.optim.kronecker import Kronecker
from hfrnn.training.methods import hessian_free
from hfrnn.training.trainer import Callback, train

PARTS = ("gradient", "forward", "products", "trial losses", "factors", "preconditioner", "rest")
SKIPPED = 24
"""First updates that are not counted."""
BEFORE = {"rho_every": 5, "preconditioner_every": 20, "compare_iterates": "always"}
"""Options of large texts before trial losses became rarer."""
RATE = 0.004
"""Adam's learning rate; it does not change the time of an update."""


class Clock:
    """Processor seconds and symbols of parts, while it runs."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.symbols: dict[str, float] = defaultdict(float)
        self.runs = False
        self._inside = 0.0

    def timed(self, part: str, function: Callable[..., Any], symbols: Callable[..., float]) -> Callable[..., Any]:
        """Return a function that adds its own time to a part; parts inside it count for themselves."""

        def run(*arguments: Any, **options: Any) -> Any:
            outside, self._inside = self._inside, 0.0
            start = time.process_time()
            result = function(*arguments, **options)
            whole = time.process_time() - start
            if self.runs:
                self.seconds[part] += whole - self._inside
                self.symbols[part] += symbols(*arguments)
            self._inside = outside + whole
            return result

        return run


@contextmanager
def watched(clock: Clock) -> Iterator[None]:
    """Time the parts of all updates within the context."""

    def weight(objective: Any, *_: Any) -> float:
        return float(objective.total_weight)

    def nothing(*_: Any) -> float:
        return 0.0

    def products(objective: Any, *arguments: Any, **options: Any) -> Any:
        operator = prepare(objective, *arguments, **options)
        operator.apply = clock.timed("products", operator.apply, lambda *_: weight(objective))
        return operator

    def applied(factors: Kronecker, *arguments: Any) -> Any:
        return clock.timed("preconditioner", applications(factors, *arguments), nothing)

    prepare = clock.timed("forward", Objective.gauss_newton, weight)
    applications = Kronecker.preconditioner
    stoppable = hessian_free._Stoppable
    with (
        mock.patch.object(
            stoppable, "loss_and_gradient", clock.timed("gradient", Objective.loss_and_gradient, weight), create=True
        ),
        mock.patch.object(Objective, "gauss_newton", products),
        mock.patch.object(stoppable, "lazy_loss", clock.timed("trial losses", stoppable.lazy_loss, weight)),
        mock.patch.object(Objective, "part_gradients", clock.timed("factors", Objective.part_gradients, weight)),
        mock.patch.object(preconditioner, "kronecker", clock.timed("factors", preconditioner.kronecker, nothing)),
        mock.patch.object(Kronecker, "preconditioner", applied),
    ):
        yield


class Counted(Callback):
    """Start a clock after some updates, and end the run after so many more."""

    def __init__(self, clock: Clock, updates: int) -> None:
        self.clock, self.updates = clock, updates
        self.marks: list[dict[str, Any]] = []

    def on_update(self, record: dict[str, Any]) -> bool:
        if record["update"] >= SKIPPED:
            self.clock.runs = True
            self.marks.append(record)
        return bool(record["update"] >= SKIPPED + self.updates)

    def between(self) -> dict[str, float]:
        """Return the updates, seconds and symbols of the gradients between the first mark and the last."""
        first, last = self.marks[0], self.marks[-1]
        return {
            "updates": last["update"] - first["update"],
            "seconds": spent(last) - spent(first),
            "symbols": last["symbols"] - first["symbols"],
        }


def measure(arch: str, hidden: int, updates: int) -> dict[str, Any]:
    """Return the parts of an update of `hf`, now and before, and the pace of Adam."""
    found: dict[str, Any] = {"arch": arch, "hidden": hidden}
    same = {
        "data": "tinyshakespeare", "arch": arch, "hidden": hidden, "threads": 1, "backend": "numpy", "seed": 0,
        "sample_length": 0, "updates": ENDLESS, "validate_every": ENDLESS,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for name, options in (("before", BEFORE), ("now", {})):
            clock = Clock()
            count = Counted(clock, updates)
            with watched(clock):
                train(out=Path(folder) / name, callbacks=[count], first_gradient_symbols=0, **options, **same)
            found[name] = account(clock, count)
        count = Counted(Clock(), 10 * updates)
        own = {"optimizer": "adam", "learning_rate": RATE, "schedule": "constant", "log_interval": 12}
        train(out=Path(folder) / "adam", callbacks=[count], **own, **same)
    return {**found, "adam": count.between()}


def account(clock: Clock, count: Counted) -> dict[str, Any]:
    """Return the seconds and the symbols of each part of an update, and how many iterations and losses it had."""
    whole = count.between()
    n = whole["updates"]
    parts = {name: {"seconds": clock.seconds[name] / n, "symbols": clock.symbols[name] / n} for name in PARTS[:-1]}
    rest = whole["seconds"] / n - sum(part["seconds"] for part in parts.values())
    means = {name: sum(each[name] for each in count.marks[1:]) / n for name in ("cg_iterations", "evaluations")}
    return {**whole, **means, "parts": {**parts, "rest": {"seconds": rest, "symbols": 0.0}}}


def pace(found: dict[str, Any]) -> float:
    """Return symbols of gradients per processor second."""
    return float(found["symbols"] / found["seconds"])


def show(found: dict[str, Any]) -> None:
    """Print milliseconds and symbols of an update, and the pace of each method."""
    table = Table("part", "ms, before", "ms, now", "symbols, now", title=f"{found['arch']} {found['hidden']}")
    for name, part in found["now"]["parts"].items():
        before = found["before"]["parts"][name]["seconds"]
        table.add_row(name, f"{1e3 * before:.1f}", f"{1e3 * part['seconds']:.1f}", f"{part['symbols']:,.0f}")
    Console().print(table)
    for name in ("before", "now", "adam"):
        click.echo(f"{name}: {pace(found[name]):,.0f} symbols per processor second")


@click.command(cls=common.Command)
@click.option("--hidden", "sizes", type=click.IntRange(1), multiple=True, default=(64, 256), help="Units.")
@click.option("--arch", default="mlstm", help="Architecture.")
@click.option("--updates", default=40, type=click.IntRange(2), help="Updates of hf that are counted.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(sizes: tuple[int, ...], arch: str, updates: int, out: Path) -> None:
    """Account for an update of hf, part by part."""
    result: dict[str, Any] = {"machine": common.machine(1), "networks": []}
    common.print_machine(result["machine"])
    for hidden in sizes:
        result["networks"].append(measure(arch, hidden, updates))
        show(result["networks"][-1])
        common.write_result(out / "update-parts-cpu.json", result)


if __name__ == "__main__":
    main()
