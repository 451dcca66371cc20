"""The tables in docs/defaults.md, presets.md, preconditioner.md (preconditioners) and constraints.md (signs).

See tables.py.
"""

from __future__ import annotations

import statistics

from diagonals import figures
from page_text import load, table

from hfrnn.choices import PRESETS
from hfrnn.cli.arguments import flag_of
from hfrnn.runs.defaults import in_preset
from hfrnn.runs.defaults import rows as all_rows
from hfrnn.runs.options import run_options


def presets() -> str:
    """The defaults that each preset has."""
    declared = [option for option in run_options().values() if option.presets is not None]
    rows = [[f"`{flag_of(option.name)}`", *(in_preset(option, preset) for preset in PRESETS)] for option in declared]
    return table(["option", *(f"`--preset {preset}`" for preset in PRESETS)], rows)


def defaults() -> str:
    """Every default that depends on the preset, the data or the optimizer."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in all_rows():
        found.setdefault((row.option, row.value), []).append(row.where)
    rows = [[f"`{flag_of(option)}`", value, "; ".join(places)] for (option, value), places in found.items()]
    return table(["option", "default", "for"], rows)


def preconditioners() -> str:
    """How far a few iterations of CG lower the quadratic with each preconditioner."""
    found = load("preconditioners.json")
    weak, strong = found["damping"].items()
    head = [f"{k} ({damping})" for damping, _ in (weak, strong) for k in found["iterations"]]
    rows = [[name, *(f"{100 * q:.2f}" for q in (*weak[1][name], *strong[1][name]))] for name in weak[1]]
    return table(["iterations (damping)", *head], rows)


def diagonals() -> str:
    """How the diagonal of the curvature changes with the size of a network."""
    return table(*figures(load("diagonals.json")))


def signs() -> str:
    """The loss that each way to keep signs reaches with each optimizer."""
    found = load("signs-cpu.json")
    names = {"hf": "HF", "hf-kronecker": "HF, Kronecker preconditioner"}
    ways = list(next(iter(found["runs"].values())))
    rows = [
        [names.get(name, f"Adam, rate {name}")]
        + [f"{statistics.median(run['loss'] for run in runs[way]):.2g}" for way in ways]
        for name, runs in found["runs"].items()
    ]
    return table([f"loss after {found['seconds']:g} s", *ways], rows)
