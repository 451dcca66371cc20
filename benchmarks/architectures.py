"""How near does each architecture's Gauss-Newton product come to its matrix products at the machine's peak?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click
import common
import numpy as np
from common import REFERENCE, Case, alternate
from products import UNITS, hfrnn_candidates
from rich.console import Console
from rich.table import Table

import hfrnn
from hfrnn.arrays.backend import get_backend
from hfrnn.arrays.threads import product_peak
from hfrnn.kernels.registry import resolve_backend


def measure(cases: dict[str, Case], threads: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Return the times of the product of one architecture on each backend, measured in turn."""
    runs = {}
    for backend, case in cases.items():
        (group,) = (c for c in hfrnn_candidates(case, threads, REFERENCE, 1) if c.operation == "product")
        run = group.make()
        along = float(group.flat(run()).astype("float64") @ case.v)
        if not (np.isfinite(along) and along > 0):
            raise click.ClickException(f"{case}: v.Gv is {along}, expected a number above 0")
        runs[backend] = run
    first, *others = alternate(runs, rounds, seconds).items()
    case = cases[first[0]]
    return {
        "arch": case.arch,
        "compiled": case.backend == "numba" == resolve_backend("auto", case.arch),
        "parameters": case.net.n_parameters,
        "unit_flops": case.unit(),
        "product": dataclasses.asdict(first[1]),
        **{f"product_{backend}": dataclasses.asdict(timing) for backend, timing in others},
    }


@click.command(cls=common.Command)
@click.option("--size", type=int, nargs=3, default=(256, 50, 256), help="H T B.")
@click.option("--vocabulary", "V", default=64, type=click.IntRange(2), help="Symbols in and out.")
@click.option("--threads", default=2, type=click.IntRange(1), help="Threads of hfrnn and of the peak.")
@click.option("--rounds", default=7, type=click.IntRange(1), help="Turns of each architecture.")
@click.option("--seconds", default=0.3, help="The least length of a turn.")
@click.option("--backend", default="numpy", type=click.Choice(["numpy", "numba", "cupy"]), help="hfrnn's.")
@click.option("--against", type=click.Choice(["numpy", "numba"]), help="Another backend to measure in turn with it.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(
    size: tuple[int, ...], V: int, threads: int, rounds: int, seconds: float, backend: str,
    against: str | None, out: Path,
) -> None:  # fmt: skip
    """Time the product of every architecture, beside the floor of its matrix products (input and output maps too)."""
    device, (H, T, B) = get_backend(backend), size
    gpu = None if device.on_host else device
    result: dict[str, Any] = {"machine": common.machine(threads, gpu), "backend": backend}
    common.print_machine(result["machine"])
    peak, rows = product_peak(threads, seconds, device), []
    for arch in hfrnn.architectures():
        cases = {each: Case(arch, H, T, B, V, backend=each) for each in (backend, against) if each}
        rows.append(measure(cases, threads, rounds, seconds))
        peak = max(peak, product_peak(threads, seconds, device))
    table = Table(
        "architecture",
        "weights",
        "product, ms",
        "floor, ms",
        "time over floor",
        *([f"time over {against}'s"] if against else []),
        title=f"H={H} T={T} B={B} V={V}",
    )
    for row in rows:
        row["peak"], row["floor"] = peak, UNITS["product"] * row["unit_flops"] / peak
        row["time_over_floor"] = row["product"]["median"] / row["floor"]
        ratio = [f"{row['product']['median'] / row[f'product_{against}']['median']:.2f}"] if against else []
        ms = f"{row['product']['median'] * 1e3:.2f}", f"{row['floor'] * 1e3:.2f}"
        table.add_row(row["arch"], f"{row['parameters']:,}", *ms, f"{row['time_over_floor']:.2f}", *ratio)
    Console().print(table)
    name = "architectures-gpu" if gpu else f"architectures-cpu{'' if backend == 'numpy' else '-' + backend}"
    common.write_result(out / f"{name}.json", {**result, "architectures": rows})


if __name__ == "__main__":
    main()
