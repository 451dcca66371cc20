"""Do cooperative launches compute what they should on this GPU, and how fast are they beside the other two ways?

Each case runs in a process of its own, so a kernel that never ends costs one case. A result that differs from that of
single steps, or whose bits change from run to run, is an error of the case. See README.md beside this file.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import common
import numpy as np
from common import Case, alternate

import hfrnn
from hfrnn.arrays.backend import Backend, Buffers, get_backend
from hfrnn.kernels.base import Tape
from hfrnn.kernels.cuda import grid

WAYS = {"single steps": (), "blocks of their own": ("block",), "cooperative": ("grid",)}
"""The ways to compute a segment, as values of `Backend.whole_segments`."""
CASES = (
    *((arch, H, 20, B) for arch in ("rnn", "lstm", "mlstm", "gru", "gru-torch", "leaky", "rate") for H in (33, 150)
      for B in (1, 30)),
    ("state-space", 64, 20, 30), ("lstm-krause", 150, 20, 30), ("mlstm-standard", 150, 20, 30),
    *((arch, H, 100, B) for H in (256, 512, 1024) for arch in ("lstm", "mlstm", "rnn", "gru") for B in (256, 32)),
    ("lstm", 64, 100, 256), ("lstm", 128, 100, 256), ("rnn", 128, 100, 256),
)  # fmt: skip
"""Architecture, H, T and B: first those that show errors, then those that are worth the time."""
TOLERANCE = {"float32": 1e-4, "float64": 1e-10}
REPEATS = 5
"""Products whose bits must be equal."""
CASE_SECONDS = 60
OF_LAUNCHES = grid.cycles_of_launches
"""The model of single steps, which `--only` replaces, so that cooperative launches run wherever they fit."""


def measure(arch: str, H: int, T: int, B: int, rounds: int, seconds: float, backend: Backend) -> dict[str, Any]:
    """Check and time the gradient and the product of a network in each way that fits; the record of a case."""
    record: dict[str, Any] = {"arch": arch, "H": H, "T": T, "B": B, "V": 64, "differences": {}, "ways": {}}
    for dtype in ("float64", "float32"):
        case = Case(arch, H, T, B, 64, dtype=dtype, backend=backend)  # type: ignore[arg-type]
        runs = _runs(case)
        expected = {name: run() for name, run in runs["single steps"].items()}
        for way in runs:
            found = [{name: run() for name, run in runs[way].items()} for _ in range(REPEATS)]
            differences = {name: common.difference(found[0][name], expected[name]) for name in expected}
            same = all(np.array_equal(again[name], found[0][name]) for again in found for name in expected)
            record["differences"][f"{way}, {dtype}"] = {**differences, "the same bits": same}
            if max(differences.values()) > TOLERANCE[dtype] or not same:
                raise click.ClickException(f"{case}, {way}: {differences}, the same bits: {same}")
    product = {way: of_way["product"] for way, of_way in runs.items()}
    gradient = {way: of_way["gradient"] for way, of_way in runs.items()}
    for operation, calls in (("product", product), ("gradient", gradient)):
        for way, timing in alternate(calls, rounds, seconds).items():
            record["ways"].setdefault(way, {})[operation] = [timing.median, timing.minimum, timing.maximum]
    record["model"] = _model(case)
    return record


def _runs(case: Case) -> dict[str, dict[str, Any]]:
    """By way: functions that return the gradient and the product as host arrays. Ways that do not fit are left out."""
    backend, runs = case.net.backend, {}
    theta, v = backend.asarray(case.theta), backend.asarray(case.v)
    for way, allowed in WAYS.items():
        objective = hfrnn.Objective(case.net, hfrnn.Batch(case.inputs, case.targets), memory=2**33)

        def gradient(objective: Any = objective, allowed: tuple[str, ...] = allowed) -> Any:
            backend.whole_segments = allowed
            return backend.to_host(objective.loss_and_gradient(theta)[1])

        def product(G: Any, allowed: tuple[str, ...] = allowed) -> Any:
            backend.whole_segments = allowed
            return backend.to_host(G @ v)

        if way == "single steps" or _fits(case, allowed):
            backend.whole_segments = allowed
            G = objective.gauss_newton(theta)
            runs[way] = {"gradient": gradient, "product": lambda G=G, product=product: product(G)}
    return runs


def _fits(case: Case, allowed: tuple[str, ...]) -> bool:
    """Whether the kernels of this way fit, for all three routines."""
    backend, kernel = case.net.backend, case.net.layers[0].kernel
    backend.whole_segments = allowed
    tape = Tape("", Buffers(backend, case.dtype), Buffers(backend, case.dtype))
    rows = (8 * case.H,) if "lstm" in case.arch else ()
    return bool(kernel._segment(tape, case.B, *rows).fit)


def _model(case: Case) -> dict[str, Any] | None:
    """The model's choice and its cycles for a step of R-forward and backward, beside those of single steps."""
    backend, passes = case.net.backend, case.net.layers[0].kernel.products()
    item = np.dtype(case.dtype).itemsize
    way = grid.best_sharing(passes, case.B, item, backend.shared_memory, backend.processors)
    if way is None:
        return None
    steps = [grid.model(products, case.B, way.parts, way.teams, item) for products in passes]
    launches = sum(OF_LAUNCHES(products, case.B, item, backend.processors) for products in passes)
    return {**way._asdict(), "cycles": sum(step.cycles for step in steps), "cycles_of_single_steps": launches}


@click.command(cls=common.Command)
@click.option("--rounds", default=5, type=click.IntRange(1), help="Turns of each way.")
@click.option("--seconds", default=0.1, help="The least length of a turn.")
@click.option("--minutes", default=9.0, help="No case begins after this time.")
@click.option("--only", type=click.IntRange(0, len(CASES) - 1), help="Measure this case in this process.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(rounds: int, seconds: float, minutes: float, only: int | None, out: Path) -> None:
    """Check and time the three ways to compute a segment on a GPU; write cooperative-gpu.json after every case."""
    if only is not None:
        grid.cycles_of_launches = lambda *arguments: math.inf
        click.echo(json.dumps(measure(*CASES[only], rounds, seconds, get_backend("cupy"))))
        return
    end = time.monotonic() + 60 * minutes
    result: dict[str, Any] = {"machine": common.machine(1, get_backend("cupy")), "cases": [], "failed": []}
    common.print_machine(result["machine"])
    for number, case in enumerate(CASES):
        bound = min(CASE_SECONDS, end - time.monotonic())
        name = "{} H {} T {} B {}".format(*case)
        if bound <= 0:
            result["failed"].append([name, "left out for lack of time"])
            continue
        command = [sys.executable, __file__, "--only", number, "--rounds", rounds, "--seconds", seconds]
        try:
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=bound)
            if done.returncode:
                raise ValueError(" ".join(done.stderr.split())[-600:])
            record = json.loads(done.stdout.strip().splitlines()[-1])
            result["cases"].append(record)
            times = {way: f"{1e3 * of_way['product'][0]:.2f} ms" for way, of_way in record["ways"].items()}
            click.echo(f"{name}: {', '.join(f'{way} {each}' for way, each in times.items())}")
        except (subprocess.TimeoutExpired, ValueError) as error:
            result["failed"].append([name, str(error)])
            click.echo(f"{name}: FAILED: {error}")
        common.write_result(out / "cooperative-gpu.json", result)
    if result["failed"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
