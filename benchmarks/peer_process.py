"""Measure a peer in a process of its own, which ends after a number of seconds: compilers of a GPU may take long.

The process writes each result as soon as it has it, so a process that is ended loses only what it had not finished.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import click
import common
import numpy as np
from common import Candidate, Case, Timing, seconds_a_call


class Measured(NamedTuple):
    """A variant of a peer in one operation: its result and seconds a call, or why it was left out."""

    name: str
    operation: str
    variant: str
    flat: Any
    timing: Timing | None
    why: str = ""


def measured_in_process(
    peer: str, case: Case, threads: int, rounds: int, turn: float, operations: Iterable[str], bound: float
) -> tuple[list[Measured], str]:
    """Return what a peer's process measured within `bound` seconds, and why it ended early, "" if it did not."""
    with tempfile.TemporaryDirectory(prefix="hfrnn-peer-") as folder:
        arguments = (peer, folder, case.arch, case.H, case.T, case.B, case.V, case.backend, threads, rounds, turn)
        command = [sys.executable, str(Path(__file__).resolve()), *map(str, arguments), *operations]
        log = Path(folder) / "log"
        ended = ""
        with log.open("w") as output:
            try:
                done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, timeout=bound)
                if done.returncode:
                    last = log.read_text(errors="replace").strip().splitlines()[-1:]
                    ended = f"{peer}: its process ended with {done.returncode} ({' '.join(last)[:200]})"
            except subprocess.TimeoutExpired:
                ended = f"{peer}: its process was ended after {bound:.0f} seconds"
        return [_read(path) for path in sorted(Path(folder).glob("*.npz"))], ended


def _read(path: Path) -> Measured:
    with np.load(path) as found:
        words = (str(found[name]) for name in ("name", "operation", "variant"))
        times = found["times"]
        timing = Timing(*map(float, times[:3]), int(times[3])) if times.size else None
        return Measured(*words, found["flat"], timing, str(found["why"]))


def _write(path: Path, candidate: Candidate, flat: Any, times: tuple[float, ...], why: str = "") -> None:
    made = path.with_suffix(".partial")
    words = {"name": candidate.name, "operation": candidate.operation, "variant": candidate.variant, "why": why}
    with made.open("wb") as file:
        np.savez(file, flat=np.asarray(flat), times=np.asarray(times), **words)
    os.replace(made, path)


def measure(candidates: Iterable[Candidate], folder: Path, rounds: int, turn: float, operations: set[str]) -> None:
    """Time each candidate of these operations, and write its result to a file of the folder."""
    for number, candidate in enumerate(candidates):
        if candidate.operation not in operations:
            continue
        path = folder / f"{number:03d}.npz"
        try:
            run = candidate.make()
            flat = candidate.flat(run())
        except (RuntimeError, NotImplementedError) as error:  # a peer that cannot do it says so
            _write(path, candidate, (), (), str(error).splitlines()[0][:120])
            continue
        samples = [seconds_a_call(run, turn) for _ in range(rounds)]
        _write(path, candidate, flat, (statistics.median(samples), min(samples), max(samples), rounds))


def records(
    found: list[Measured], expected: Any, own_seconds: float, tolerance: float
) -> tuple[dict[str, Any], list[str]]:
    """Return the fastest variant of each name that agrees, as products.py records it, and what was left out and why."""
    best: dict[str, dict[str, Any]] = {}
    left_out = []
    for each in found:
        label = f"{each.name} ({each.variant})"
        if each.timing is None:
            left_out.append(f"{label}: {each.why}")
            continue
        error = common.difference(each.flat, expected)
        if error > tolerance:
            left_out.append(f"{label}: differs by {error:.1e}")
            continue
        record = best.setdefault(each.name, {"median": np.inf, "seconds_of_variants": {}})
        record["seconds_of_variants"][each.variant] = each.timing.median
        if each.timing.median < record["median"]:
            seconds = {"median": each.timing.median, "minimum": each.timing.minimum, "maximum": each.timing.maximum}
            more = {"rounds": each.timing.rounds, "times_hfrnn": each.timing.median / own_seconds}
            record |= {**seconds, **more, "variant": each.variant, "difference": error}
    return best, left_out


@click.command(cls=common.Command)
@click.argument("peer")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("arch")
@click.argument("sizes", nargs=4, type=int)
@click.argument("backend")
@click.argument("threads", type=int)
@click.argument("rounds", type=int)
@click.argument("turn", type=float)
@click.argument("operations", nargs=-1)
def main(peer: str, folder: Path, arch: str, sizes: tuple[int, ...], backend: str, threads: int, rounds: int,
         turn: float, operations: tuple[str, ...]) -> None:  # fmt: skip
    """Measure PEER on the case ARCH H T B V, with hfrnn's BACKEND as the place where it computes."""
    from products import PEERS

    case = Case(arch, *sizes)  # the arrays are made on the CPU
    case.backend = backend
    measure(PEERS[peer](case, threads), folder, rounds, turn, set(operations))


if __name__ == "__main__":
    main()
