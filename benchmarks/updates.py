"""How many updates of Hessian-free optimization does a small network make per second, with the defaults of training?

    python benchmarks/updates.py
    python benchmarks/updates.py --before ../hfrnn-before

Every run is a process of its own that trains with the defaults of `hfrnn train`, from the first update on. With
`--before`, another checkout of the project takes turns with this one, and the ratios come from one run of the script.
Processor seconds are those of all threads, so other programs on the machine change them little. The parts of an update
are in processor seconds too: the script replaces the clock of training by the processor's.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import common

import hfrnn

CASES: dict[str, dict[str, Any]] = {
    "mlstm-64": {"arch": "mlstm", "hidden": (64,), "updates": 60},  # the built-in text
    "rnn-100-addition": {"arch": "rnn", "hidden": (100,), "data": "addition", "updates": 40},
    "rnn-100-sine": {"arch": "rnn", "hidden": (100,), "data": "sine", "updates": 15},
}
"""Options of `hfrnn.train` by name."""
PARTS = {
    "gradients": ("gradient",), "products": ("products",), "curvature and CG's vectors": ("cg", "-products"),
    "preconditioner": ("preconditioner",), "trial losses": ("search",), "validation": ("validation",),
}  # fmt: skip
"""The parts of an update, as sums of the times of a record. The forward pass before the products is no product."""
MARK = "measured "


def measure(case: str, threads: int, folder: Path) -> dict[str, float]:
    """Train, and return processor seconds and seconds per update: all of it, training alone, and the parts."""
    options = {**CASES[case], "threads": threads}
    hfrnn.train(**{**options, "updates": 1}, out=folder / "warm-up")  # compile and load what is needed
    time.perf_counter = time.process_time  # the clock of all parts
    clock, processor = time.monotonic(), time.process_time()
    result = hfrnn.train(**options, out=folder / "run")
    clock, processor = time.monotonic() - clock, time.process_time() - processor
    records = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    n = len(records)

    def mean(name: str) -> float:
        sign, name = (-1, name[1:]) if name.startswith("-") else (1, name)
        return sign * sum(record[f"seconds_{name}"] for record in records) / n

    found = {part: sum(map(mean, names)) for part, names in PARTS.items()}
    training = records[-1]["seconds_processor"] / n
    found["the rest of training"] = training - sum(found.values()) + found["validation"]
    return {
        "updates": n, "clock": clock / n, "processor": processor / n, "training": training,
        "loss": records[-1]["train_loss"], **found,
    }  # fmt: skip


def run(checkout: Path, case: str, threads: int) -> dict[str, float]:
    """Return `measure` in a process that uses the package of a checkout."""
    command = [sys.executable, __file__, "--child", "--case", case, "--threads", str(threads)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if done.returncode or not lines:
        raise click.ClickException(f"the run of {case} failed: {done.stderr[-2000:]}")
    return dict(json.loads(lines[0].removeprefix(MARK)))


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of every entry."""
    return {name: statistics.median(each[name] for each in runs) for name in runs[0]}


def show(case: str, threads: int, found: dict[str, dict[str, float]]) -> None:
    """Print the times of a case in milliseconds per update."""
    click.echo(f"\n{case}, threads {threads}: milliseconds per update")
    names = [name for name in next(iter(found.values())) if name not in ("updates", "loss")]
    for name in names:
        values = [each[name] for each in found.values()]
        ratio = f"{values[0] / values[1]:8.2f}" if len(values) > 1 and values[1] > 0 else ""
        click.echo(f"  {name:26}" + "".join(f"{1000 * value:10.2f}" for value in values) + ratio)


@click.command(cls=common.Command)
@click.option("--case", "cases", multiple=True, type=click.Choice(list(CASES)), help="What to train; all by default.")
@click.option("--threads", multiple=True, type=int, default=(1, 2), help="Threads of a run.")
@click.option("--rounds", default=3, help="Runs of each checkout; the table shows medians.")
@click.option("--before", type=click.Path(exists=True, path_type=Path), help="Another checkout, to compare with.")
@click.option("--out", default=common.RESULTS, type=click.Path(path_type=Path), help="Folder for updates-cpu.json.")
@click.option("--child", is_flag=True, hidden=True)
def main(
    cases: tuple[str, ...], threads: tuple[int, ...], rounds: int, before: Path | None, out: Path, child: bool
) -> None:
    """Count updates per second with the defaults of training, and write updates-cpu.json."""
    if child:
        with tempfile.TemporaryDirectory() as folder:
            click.echo(MARK + json.dumps(measure(cases[0], threads[0], Path(folder))))
        return
    checkouts = {"after" if before else "now": common.HERE.parent}
    if before is not None:
        checkouts = {"before": before.resolve(), **checkouts}
    facts = common.machine(max(threads))
    facts["checkouts"] = {name: common.commit(path) for name, path in checkouts.items()}
    common.print_machine(facts)
    results = []
    for case in cases or tuple(CASES):
        for count in threads:
            samples: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
            for _ in range(rounds):
                for name, checkout in checkouts.items():
                    samples[name].append(run(checkout, case, count))
            found = {name: medians(each) for name, each in samples.items()}
            show(case, count, found)
            results.append({"case": case, "threads": count, "options": CASES[case], "medians": found, "runs": samples})
    common.write_result(out / "updates-cpu.json", {"machine": facts, "rounds": rounds, "cases": results})


if __name__ == "__main__":
    main()
