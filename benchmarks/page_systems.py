"""The figures of docs/systems.md and docs/tasks.md that systems/ and jax_sysid_recording.py measure, as Markdown."""

from __future__ import annotations

import json
import math
import statistics
import sys
from typing import Any

from page_text import RESULTS, table

sys.path.insert(0, str(RESULTS.parent / "systems"))

from recordings import SYSTEMS

FOLDER = RESULTS / "systems"
GOAL, TIMES = 1e-4, (15, 30, 60, 150)
"""A loss of jax_sysid_recording.py, and processor seconds."""
SLACK = 1.0
"""Seconds that a run may be over its limit, or that its last point may be before it."""


def systems() -> str:
    """Return a table of all systems that were measured."""
    rows = []
    for name, system in SYSTEMS.items():
        path = FOLDER / f"{name}.json"
        if not path.is_file():
            continue
        found = json.loads(path.read_text("utf-8"))
        for test, deviation in found["deviations"].items():
            rows += _rows(name if len(found["deviations"]) == 1 else f"{name}, {test}", test, deviation, found)
        if system.published:
            rows.append([name, "published", "", "", "", system.published])
    head = ("recording", "model", "seeds", "processor seconds", "validation error / deviation", "test RMSE")
    return table(head, rows) if rows else "Not measured yet."


def tanks() -> str:
    """Return the median test error on the cascaded tanks of the cell that validation chooses, in volts."""
    found = json.loads((FOLDER / "cascaded-tanks.json").read_text("utf-8"))
    chosen = min(found["cells"].values(), key=lambda own: statistics.median(run["valid_nrmse"] for run in own["runs"]))
    return f"{statistics.median(run['test']['test'] for run in chosen['runs']):.2f}"


def _rows(shown: str, test: str, deviation: float, found: dict[str, Any]) -> list[list[str]]:
    """Return the rows of a test recording: linear models, then the cells; the best one by validation is in bold."""
    unit = SYSTEMS[shown.partition(",")[0]].unit
    rows = []
    for own in found.get("linear", {}).get("models", {}).values():
        rows.append([shown, own["about"], "", "", "", _error(own["test"][test], deviation, unit)])
    medians = {
        cell: statistics.median(run["valid_nrmse"] for run in own["runs"]) for cell, own in found["cells"].items()
    }
    for cell, own in found["cells"].items():
        tests = sorted(run["test"][test] for run in own["runs"])
        error = _error(statistics.median(tests), deviation, unit)
        if len(tests) > 1:
            error += f" (from {tests[0]:.3g} to {tests[-1]:.3g})"
        if estimated := [run["test_estimated"][test] for run in own["runs"] if "test_estimated" in run]:
            error += f"; {statistics.median(estimated):.3g} from an estimated state"
        chosen = medians[cell] == min(medians.values())
        hidden = ",".join(map(str, own["runs"][0]["options"]["hidden"]))
        name = f"{cell} {hidden}"
        name = f"**{name}**" if chosen else name
        rows.append([shown, name, str(len(tests)), f"{own['seconds']:g}", f"{medians[cell]:.3g}", error])
    for tool, own in found.get("others", {}).items():
        if not own["runs"]:
            continue
        errors = []
        for key, how in (("test", ""), ("test_estimated", " from an estimated state")):
            if each := [run[key][test] for run in own["runs"] if key in run]:
                errors.append(_error(statistics.median(each), deviation, unit) + how)
        valid = statistics.median(run["valid_nrmse"] for run in own["runs"])
        about = ", ".join(f"{key} {value:g}" for key, value in own["configuration"].items())
        rows.append([shown, f"{tool}, {about}", str(len(own["runs"])), f"{own['seconds']:g}", f"{valid:.3g}",
                     "; ".join(errors)])  # fmt: skip
    return rows


def _error(error: float, deviation: float, unit: str) -> str:
    """Return a root mean squared error with its unit and the share of the variance that is explained."""
    return f"{error:.3g} {unit}".rstrip() + f", R2 {1 - (error / deviation) ** 2:.5f}".rstrip("0")


def sysid() -> str:
    """Return what jax-sysid and hfrnn reach with one state-space network: two tables."""
    path = RESULTS / "jax-sysid.json"
    if not path.is_file():
        return "Not measured yet."
    found = json.loads(path.read_text("utf-8"))
    curves = {tool: {run["seed"]: run["curve"] for run in own["runs"]} for tool, own in found.items()}
    rows = []
    for tool, own in curves.items():
        for seed, curve in own.items():
            last = curve[-1]["seconds_processor"]
            losses = [f"{_loss_at(curve, t):.2g}" if t <= last + SLACK else "" for t in TIMES]
            rows.append([tool, str(seed), _seconds(_reached(curve, GOAL)), *losses])
    head = ("tool", "seed", f"seconds to a loss of {GOAL:g}", *(f"loss after {t} s" for t in TIMES))
    ours, theirs = curves["hfrnn"], curves["jax-sysid"]
    goal = [statistics.median(_reached(curve, GOAL) for curve in own.values()) for own in (ours, theirs)]
    seeds = sorted(ours.keys() & theirs.keys())
    lowest = [_loss_at(theirs[seed], TIMES[-1]) for seed in seeds]
    after = statistics.median(_reached(ours[seed], loss) for seed, loss in zip(seeds, lowest, strict=True))
    both = [
        [f"a loss of {GOAL:g}", _seconds(goal[0]), _seconds(goal[1]), _ratio(*goal)],
        [f"jax-sysid's loss after {TIMES[-1]} s", _seconds(after), str(TIMES[-1]), _ratio(after, TIMES[-1])],
    ]
    medians = table(("median seconds to", "hfrnn", "jax-sysid", "ratio"), both)
    return f"{table(head, rows)}\n\n{medians}"


def _reached(curve: list[dict[str, float]], loss: float) -> float:
    """Return the processor seconds until a validation loss, infinity if it was not reached."""
    return next((p["seconds_processor"] for p in curve if p["valid_loss"] <= loss), math.inf)


def _loss_at(curve: list[dict[str, float]], seconds: float) -> float:
    """Return the lowest validation loss within some processor seconds."""
    return min(p["valid_loss"] for p in curve if p["seconds_processor"] <= seconds + SLACK)


def _ratio(ours: float, theirs: float) -> str:
    """Return a ratio of seconds; if the other tool was never there, the run's length bounds the ratio."""
    return f"{ours / theirs:.2g}" if math.isfinite(theirs) else f"below {ours / TIMES[-1]:.2g}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g}" if math.isfinite(seconds) else "not reached"
