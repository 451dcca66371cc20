"""Gradients and Gauss-Newton products of small networks on real values, beside an earlier build, JAX and their floor.

Processes, one with this checkout, one with another and one with JAX, take turns, so that a load of the machine counts
for all. Times are processor milliseconds, and those of the clock on several threads. The floor of a product is its four
matrix products alone: two at the rate of `matmul(out=)` at the shape of a step, forward and transposed, and two at the
peak, measured in the same turns.
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
import small_jax

from hfrnn.arrays.threads import one_blas_thread

ROWS = (
    ("rnn", 50, 100, 32), ("rnn", 100, 100, 32), ("rnn", 100, 200, 100), ("rnn", 256, 100, 64), ("lstm", 32, 100, 32),
    ("lstm", 64, 50, 128), ("gru", 64, 100, 32), ("gru-torch", 64, 100, 32), ("leaky", 100, 100, 32),
    ("rate", 100, 100, 32),
)  # fmt: skip
"""Architecture, H, T, B."""
LARGER = (
    ("lstm", 128, 50, 64),
    ("lstm", 256, 25, 128),
    ("lstm", 512, 10, 128),
    ("rnn", 512, 25, 128),
    ("mlstm", 256, 25, 128),
)
"""Sizes at which what small networks gain must cost nothing."""
INPUTS, OUTPUTS = 3, 2
GATES = {"lstm": 4, "mlstm": 5, "gru": 3, "gru-torch": 3}
"""Columns of the recurrent matrices of an architecture, in H; one H for the others."""
PEAK = 768
"""Side of the square matrices of the peak."""
VECTORS = 16
"""Vectors of a product with several."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def problem(case: tuple[str, int, int, int], backend: str) -> tuple[Any, Any, Any]:
    """Return a network with inputs and targets (T, B, n)."""
    import hfrnn

    (arch, H, T, B), rng = case, np.random.default_rng(0)
    net = hfrnn.Network(arch, INPUTS, H, OUTPUTS, loss="squared", backend=backend)
    return net, *(rng.standard_normal((T, B, n), dtype=np.float32) for n in (INPUTS, OUTPUTS))


def worker(threads: int) -> None:
    """Make cases and time their operations, as lines of JSON on standard input ask for it."""
    import hfrnn

    runs: dict[str, Callable[[], object]] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if "case" in asked:
            net, x, y = problem(asked["case"], asked["backend"])
            objective = hfrnn.Objective(net, hfrnn.Batch(x, y), threads=threads)
            theta, v = net.init(seed=0), net.init(seed=1)
            V = np.stack([net.init(seed=k) for k in range(VECTORS)], axis=1)
            G, gradient, product = objective.gauss_newton(theta), np.empty_like(v), np.empty_like(v)
            runs = {
                "gradient": lambda o=objective, t=theta, g=gradient: o.loss_and_gradient(t, g),  # type: ignore[misc]
                "product": lambda G=G, v=v, p=product: G.apply(v, p),  # type: ignore[misc]
                "several": lambda G=G, V=V: G @ V,  # type: ignore[misc]
            }
            for run in (*runs.values(), *runs.values()):
                run()
            answer: Any = [float(np.linalg.norm(each)) for each in (gradient, product)]
        else:
            answer = least(runs[asked["run"]], asked["calls"], threads)
        print(f"{json.dumps(answer)}", flush=True)


def least(run: Callable[[], object], calls: int, threads: int = 1) -> float:
    """The least milliseconds of some calls: of the processor on one thread, else of the clock."""
    found, clock = [], time.process_time if threads == 1 else time.perf_counter
    for _ in range(calls):
        start = clock()
        run()
        found.append(clock() - start)
    return 1e3 * min(found)


class Build:
    """The package of a folder, in a process of its own; or JAX, with the script of its worker."""

    def __init__(self, folder: Path, threads: int, script: Path = Path(__file__)) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(threads)], env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(folder)},
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


def measure(
    row: tuple[str, int, int, int], backend: str, builds: list[Build], jax: Build | None, rounds: int, threads: int
) -> dict[str, Any]:
    """Return the medians of one row, and the medians of ratios within a turn."""
    arch, H, T, B = row
    jax = jax if arch in small_jax.ARCHITECTURES else None
    norms = [build.ask(case=row, backend=backend) for build in builds]
    norms += [jax.ask(case=row)] if jax else []
    parts, unit = floor_of(*row), 2 * T * B * H * H * GATES.get(arch, 1)
    asked = {
        f"{name[0]}{n}": (build, name) for name in ("gradient", "product", "several") for n, build in enumerate(builds)
    }
    asked |= {f"{name[0]}_jax": (jax, name) for name in ("gradient", "product")} if jax else {}
    times: dict[str, list[float]] = {name: [] for name in ("floor", "peak", *asked)}
    for _ in range(rounds):
        spent = {name: least(run, 3) for name, run in parts.items()}
        peak = spent["peak"] / (2 * PEAK**3)
        times["peak"].append(4 * unit * peak)
        times["floor"].append(spent["forward"] + spent["transposed"] + 2 * unit * peak)
        for key, (build, name) in asked.items():
            times[key].append(build.ask(run=name, calls=1 if name == "several" else 3))

    def ratio(left: str, right: str) -> float | None:
        if right not in times or left not in times:
            return None
        return statistics.median(a / b for a, b in zip(times[left], times[right], strict=True))

    return {
        "arch": arch, "H": H, "T": T, "B": B, "backend": backend,
        "difference": max(abs(a - b) / abs(b) for each in norms[1:] for a, b in zip(each, norms[0], strict=True)),
        "milliseconds": {name: statistics.median(each) for name, each in times.items()},
        "gradient_times": ratio("g0", "g1"), "product_times": ratio("p0", "p1"), "several_times": ratio("s0", "s1"),
        "floor_share": ratio("floor", "p1"), "several_share": VECTORS * (ratio("peak", "s1") or 0.0),
        "jax_gradient_times": ratio("g_jax", "g1"), "jax_product_times": ratio("p_jax", "p1"),
    }  # fmt: skip


@click.command(cls=common.Command)
@click.option("--before", required=True, type=click.Path(path_type=Path), help="The folder of the earlier build.")
@click.option("--backend", default="numba", help="Backend of both builds.")
@click.option("--threads", default=1, type=click.IntRange(1), help="Threads; the floor is that of one.")
@click.option("--jax/--no-jax", "with_jax", default=True, help="Measure JAX too.")
@click.option("--larger", is_flag=True, help="Networks of 128 to 512 units instead.")
@click.option("--rounds", default=9, type=click.IntRange(1), help="Turns; medians count.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(before: Path, backend: str, threads: int, with_jax: bool, larger: bool, rounds: int, out: Path) -> None:
    """Compare gradients and products of small networks with an earlier build and with JAX."""
    os.environ.update(ONE_THREAD)
    facts = {**common.machine(threads), "before": common.commit(before), "vectors": VECTORS}
    builds, rows = [Build(before, threads), Build(common.HERE.parent, threads)], []
    jax = Build(common.HERE.parent, threads, common.HERE / "small_jax.py") if with_jax else None
    name = f"{'larger' if larger else 'small'}-cpu{f'-{threads}-threads' if threads > 1 else ''}.json"
    with one_blas_thread():
        for row in LARGER if larger else ROWS:
            rows.append(measure(row, backend, builds, jax, rounds, threads))
            found = rows[-1]
            beside = "" if found["jax_product_times"] is None else (
                f"; JAX takes {found['jax_gradient_times']:.2f} and {found['jax_product_times']:.2f} times as long"
            )  # fmt: skip
            click.echo(
                f"{common.label(found)}: gradient {found['gradient_times']:.2f} times as fast, product "
                f"{found['product_times']:.2f}, {VECTORS} products {found['several_times']:.2f}; "
                f"{found['floor_share']:.0%} of a product's time is its floor, {VECTORS} at once are at "
                f"{found['several_share']:.0%} of the peak{beside}"
            )
            common.write_result(out / name, {"machine": facts, "rows": rows})


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1].isdigit():
        worker(int(sys.argv[1]))
    else:
        main()
