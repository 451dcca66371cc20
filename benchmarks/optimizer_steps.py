"""How long does an update of SGD or Adam take with NumPy, and with the compiled passes of the backend numba?

A step with clipping and without it, and the running average of the parameters. Both ways give the same parameters.
Times are processor milliseconds of one thread. See README.md beside this file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import common
import numpy as np
from several_vectors import processor_seconds

from hfrnn.kernels.registry import vector_passes
from hfrnn.optim.average import Average
from hfrnn.optim.compiled_steps import OnePassAdam, OnePassAverage, OnePassSGD
from hfrnn.optim.first_order import SGD, Adam, FirstOrder

SIZES = (2_000_000, 4_000_000, 8_000_000)
BOUND = 1.0
"""Far below the norm of the gradient, so that every gradient is clipped."""
TOLERANCE = 1e-6


def updates(optimizer: FirstOrder, n: int, bound: float | None) -> tuple[Callable[[], None], np.ndarray]:
    """A call that makes an update of the same parameters, and the array for the new ones."""
    rng = np.random.default_rng(0)
    theta, kept = (rng.standard_normal(n, dtype=np.float32) for _ in range(2))
    gradient, new = kept.copy(), np.empty_like(theta)

    def update() -> None:
        if bound is not None:
            gradient[...] = kept  # NumPy clips in place
            optimizer.lazy_clip(gradient, bound)
        optimizer.lazy_step(theta, gradient, 1e-3, out=new)

    return update, new


def averages(average: Average, n: int) -> tuple[Callable[[], None], np.ndarray]:
    """A call that adds the same parameters to an average, and the average."""
    theta = np.random.default_rng(0).standard_normal(n, dtype=np.float32)
    average.add(np.zeros_like(theta))
    assert average.value is not None
    return lambda: average.add(theta), average.value


def measure(n: int, passes: Any, rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds of every kind of update of n weights, by backend."""
    found = {}
    for name, plain, fused in (("sgd", SGD(), OnePassSGD(passes)), ("adam", Adam(), OnePassAdam(passes))):
        for bound in (None, BOUND):
            pair = {"numpy": updates(plain, n, bound), "numba": updates(fused, n, bound)}
            found[name if bound is None else f"{name}, clipped"] = timed(pair, rounds)
    pair = {"numpy": averages(Average(0.99), n), "numba": averages(OnePassAverage(passes, 0.99), n)}
    return {**found, "average": timed(pair, rounds)}


def timed(pair: dict[str, tuple[Callable[[], None], np.ndarray]], rounds: int) -> dict[str, float]:
    """Milliseconds of both calls, whose results must agree."""
    times = {name: processor_seconds(call, rounds) * 1e3 for name, (call, _) in pair.items()}
    error = common.difference(pair["numba"][1], pair["numpy"][1])
    if error > TOLERANCE:
        raise click.ClickException(f"the results differ by {error:.1e}")
    return {**times, "times_faster": times["numpy"] / times["numba"]}


@click.command(cls=common.Command)
@click.option("--rounds", default=15, type=click.IntRange(1), help="Updates of each kind.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(rounds: int, out: Path) -> None:
    """Time updates of SGD and Adam with NumPy and with compiled passes."""
    result: dict[str, Any] = {"machine": common.machine(1), "sizes": {}}
    common.print_machine(result["machine"])
    passes = vector_passes("numba")
    for n in SIZES:
        result["sizes"][str(n)] = found = measure(n, passes, rounds)
        for name, times in found.items():
            click.echo(
                f"{n} weights, {name}: numpy {times['numpy']:.2f} ms, numba {times['numba']:.2f} ms, "
                f"{times['times_faster']:.2f} times faster"
            )
    common.write_result(out / "optimizer-steps-cpu.json", result)


if __name__ == "__main__":
    main()
