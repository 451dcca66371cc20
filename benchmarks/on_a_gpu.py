"""The first quarter of an hour on a GPU: what to check and to measure, in order of importance.

Each step is a command in a process of its own, which is ended after a number of seconds, so that no step takes the time
of the others. The steps follow one another; one that fails does not stop the next. See README.md beside this file.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
import common

from hfrnn.arrays.threads import default_threads

ROOT = common.HERE.parent
TAIL = 6000
"""Characters of the end of a step's output that its record holds."""
LEAST = 10
"""Seconds without which no step begins."""


class Step(NamedTuple):
    """A command of Python, and the longest time that it may take, in seconds."""

    seconds: float
    command: str


RUN = "-m hfrnn train --data tinyshakespeare --arch mlstm --hidden 256"
STEPS = {
    "info": Step(30, "-m hfrnn info"),
    "cooperative": Step(120, "-m pytest -vv -rs -m gpu tests/kernels/test_cooperative.py"),
    "ways": Step(180, "benchmarks/cooperative.py --minutes 2.7 --out {out}"),
    "updates": Step(60, f"{RUN} --backend cupy --updates 5 --out {{scratch}}/run --json"),
    "dry-run": Step(40, f"{RUN} --backend cupy --dry-run"),
    "tf32": Step(40, f"{RUN} --backend cupy --precision tf32 --dry-run"),
    "cpu": Step(60, f"{RUN} --backend numpy --dry-run"),
    "products": Step(
        220,
        "benchmarks/products.py --backend cupy --size 256 100 256 --rounds 3 --seconds 0.1 --minutes 3.5 --out {out}",
    ),
    "engine": Step(90, "-m pytest -vv -rs -m gpu tests/engine/test_gpu.py"),
}
"""The steps in their order: first those that show errors."""


def run(step: Step, bound: float, out: Path, scratch: Path) -> dict[str, Any]:
    """Run a step for at most `bound` seconds; return its record."""
    begin = time.monotonic()
    command = [sys.executable, *step.command.format(out=out.resolve(), scratch=scratch).split()]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    log = scratch / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(bound)
            status = "done" if code == 0 else f"failed with {code}"
        except subprocess.TimeoutExpired:
            status = f"ended after {bound:.0f} seconds"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # with the processes that it has started
                process.wait()
    seconds = time.monotonic() - begin
    text = log.read_text(errors="replace")
    return {"command": step.command, "seconds": round(seconds, 1), "status": status, "output": text[-TAIL:]}


@click.command(cls=common.Command)
@click.argument("names", nargs=-1, type=click.Choice(list(STEPS)))
@click.option("--minutes", default=14.0, help="All steps together end within this time.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(names: tuple[str, ...], minutes: float, out: Path) -> None:
    """Check and measure hfrnn on a GPU; NAMES are steps, by default all. Writes on-a-gpu.json after every step."""
    end = time.monotonic() + 60 * minutes
    result: dict[str, Any] = {"machine": common.machine(default_threads()), "steps": {}}
    for name in names or STEPS:
        step, left = STEPS[name], end - time.monotonic()
        if left < LEAST:
            result["steps"][name] = {"command": step.command, "status": "left out for lack of time"}
        else:
            with tempfile.TemporaryDirectory(prefix="hfrnn-gpu-") as scratch:
                result["steps"][name] = run(step, min(step.seconds, left), out, Path(scratch))
        record = result["steps"][name]
        common.write_result(out / "on-a-gpu.json", result)
        click.echo(f"{record.get('output', '')}\n{name}: {record['status']}, {record.get('seconds', 0)} seconds\n")
    if any(record["status"] != "done" for record in result["steps"].values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
