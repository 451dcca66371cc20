"""Gradients and Gauss-Newton products of small networks on real values, beside an earlier build and their floor.

Two processes, one with this checkout and one with another, take turns on one thread, so that a load of the machine
counts for both. Times are processor milliseconds. The floor of a product is its four matrix products alone: two at the
rate of `matmul(out=)` at the shape of a step, forward and transposed, and two at the peak, measured in the same turns.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import common
import numpy as np

from hfrnn.arrays.threads import one_blas_thread

ROWS = (
    ("rnn", 50, 100, 32), ("rnn", 100, 100, 32), ("rnn", 100, 200, 100), ("rnn", 256, 100, 64), ("lstm", 32, 100, 32),
    ("lstm", 64, 50, 128), ("gru", 64, 100, 32), ("gru-torch", 64, 100, 32), ("leaky", 100, 100, 32),
    ("rate", 100, 100, 32),
)  # fmt: skip
"""Architecture, H, T, B."""
INPUTS, OUTPUTS = 3, 2
GATES = {"lstm": 4, "gru": 3, "gru-torch": 3}
"""Columns of the recurrent matrices of an architecture, in H; one H for the others."""
PEAK = 768
"""Side of the square matrices of the peak."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def worker() -> None:
    """Make cases and time their operations, as lines of JSON on standard input ask for it."""
    import hfrnn

    runs: dict[str, Callable[[], object]] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if "case" in asked:
            (arch, H, T, B), rng = asked["case"], np.random.default_rng(0)
            net = hfrnn.Network(arch, INPUTS, H, OUTPUTS, loss="squared", backend=asked["backend"])
            x, y = (rng.standard_normal((T, B, n), dtype=np.float32) for n in (INPUTS, OUTPUTS))
            objective = hfrnn.Objective(net, hfrnn.Batch(x, y), threads=1)
            theta, v = net.init(seed=0), net.init(seed=1)
            G, gradient, product = objective.gauss_newton(theta), np.empty_like(v), np.empty_like(v)
            runs = {
                "gradient": lambda o=objective, t=theta, g=gradient: o.loss_and_gradient(t, g),  # type: ignore[misc]
                "product": lambda G=G, v=v, p=product: G.apply(v, p),  # type: ignore[misc]
            }
            for run in (*runs.values(), *runs.values()):
                run()
            answer: Any = [float(np.linalg.norm(each)) for each in (gradient, product)]
        else:
            answer = least(runs[asked["run"]], asked["calls"])
        print(f"{json.dumps(answer)}", flush=True)


def least(run: Callable[[], object], calls: int) -> float:
    """The least processor milliseconds of some calls."""
    found = []
    for _ in range(calls):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return 1e3 * min(found)


class Build:
    """The package of a folder, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "worker"], env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(folder)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, **what: Any) -> Any:
        """Return the answer to one question."""
        print(json.dumps(what), file=self.process.stdin, flush=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise click.ClickException("a process with one of the two builds ended")
        return json.loads(line)


def floor_of(arch: str, H: int, T: int, B: int) -> dict[str, Callable[[], object]]:
    """Return the matrix products of a product by themselves: those of all steps, both ways, and one of the peak."""
    rng, columns = np.random.default_rng(0), GATES.get(arch, 1) * H
    h, W = (rng.standard_normal(shape, dtype=np.float32) for shape in ((B, H), (H, columns)))
    a, W_T, back = h @ W, np.ascontiguousarray(W.T), np.empty_like(h)
    square = rng.standard_normal((PEAK, PEAK), dtype=np.float32)
    result = np.empty_like(square)

    def steps(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
        for _ in range(T):
            np.matmul(left, right, out=out)

    return {
        "forward": lambda: steps(h, W, a), "transposed": lambda: steps(a, W_T, back),
        "peak": lambda: np.matmul(square, square, out=result),
    }  # fmt: skip


def measure(row: tuple[str, int, int, int], backend: str, builds: list[Build], rounds: int) -> dict[str, Any]:
    """Return the medians of one row, and the medians of ratios within a turn."""
    arch, H, T, B = row
    norms = [build.ask(case=row, backend=backend) for build in builds]
    parts = floor_of(*row)
    times: dict[str, list[float]] = {name: [] for name in ("floor", *(f"{o}{n}" for o in ("g", "p") for n in (0, 1)))}
    for _ in range(rounds):
        spent = {name: least(run, 3) for name, run in parts.items()}
        hoisted = 2 * 2 * T * B * H * H * GATES.get(arch, 1) * spent["peak"] / (2 * PEAK**3)
        times["floor"].append(spent["forward"] + spent["transposed"] + hoisted)
        for letter, run in (("g", "gradient"), ("p", "product")):
            for n, build in enumerate(builds):
                times[f"{letter}{n}"].append(build.ask(run=run, calls=3))

    def ratio(left: str, right: str) -> float:
        return statistics.median(a / b for a, b in zip(times[left], times[right], strict=True))

    return {
        "arch": arch, "H": H, "T": T, "B": B, "backend": backend,
        "difference": max(abs(a - b) / abs(b) for a, b in zip(*norms, strict=True)),
        "milliseconds": {name: statistics.median(each) for name, each in times.items()},
        "gradient_times": ratio("g0", "g1"), "product_times": ratio("p0", "p1"), "floor_share": ratio("floor", "p1"),
    }  # fmt: skip


@click.command(cls=common.Command)
@click.option("--before", required=True, type=click.Path(path_type=Path), help="The folder of the earlier build.")
@click.option("--backend", default="numba", help="Backend of both builds.")
@click.option("--rounds", default=9, type=click.IntRange(1), help="Turns; medians count.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(before: Path, backend: str, rounds: int, out: Path) -> None:
    """Compare gradients and products of small networks with an earlier build, on one thread."""
    os.environ.update(ONE_THREAD)
    facts = {**common.machine(1), "before": common.commit(before)}
    builds, rows = [Build(before), Build(common.HERE.parent)], []
    with one_blas_thread():
        for row in ROWS:
            rows.append(measure(row, backend, builds, rounds))
            found = rows[-1]
            click.echo(
                f"{common.label(found)}: gradient {found['gradient_times']:.2f} times as fast, product "
                f"{found['product_times']:.2f}; {found['floor_share']:.0%} of a product's time is its floor"
            )
            common.write_result(out / "small-cpu.json", {"machine": facts, "rows": rows})


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        worker()
    else:
        main()
