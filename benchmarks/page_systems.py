"""The figures of docs/systems.md and docs/tasks.md that systems/ and jax_sysid_recording.py measure, as Markdown."""

from __future__ import annotations

import json
import statistics
import sys
from typing import Any

from page_text import RESULTS, table

sys.path.insert(0, str(RESULTS.parent / "systems"))

from recordings import SYSTEMS

FOLDER = RESULTS / "systems"


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
    return rows


def _error(error: float, deviation: float, unit: str) -> str:
    """Return a root mean squared error with its unit and the share of the variance that is explained."""
    return f"{error:.3g} {unit}".rstrip() + f", R2 {1 - (error / deviation) ** 2:.5f}".rstrip("0")


def sysid() -> str:
    """Return what jax-sysid and hfrnn reach with one state-space network, in sentences."""
    path = RESULTS / "jax-sysid.json"
    if not path.is_file():
        return "Not measured yet."
    found = json.loads(path.read_text("utf-8"))
    rows = []
    for tool, own in found.items():
        for run in own["runs"]:
            for part in (0.25, 0.5, 1.0):
                limit = part * run["curve"][-1]["seconds_processor"]
                within = [p["valid_loss"] for p in run["curve"] if p["seconds_processor"] <= limit]
                if within:
                    rows.append([tool, str(run["seed"]), f"{limit:.0f}", f"{min(within):.2g}"])
    return table(("tool", "seed", "processor seconds", "lowest validation loss"), rows)
