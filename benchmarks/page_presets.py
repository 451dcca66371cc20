"""The tables in docs/defaults.md, presets.md, preconditioner.md (preconditioners) and constraints.md (signs).

See tables.py.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
from comparison import bits_at, number
from diagonals import figures
from page_text import load, table

from hfrnn.choices import PRESETS
from hfrnn.cli.arguments import flag_of
from hfrnn.runs.defaults import in_preset
from hfrnn.runs.defaults import rows as all_rows
from hfrnn.runs.options import run_options

OF_TRIALS = (15, 30, 45, 60, 100, 160)
"""Processor seconds at which trials of defaults are compared."""
OF_DAMPING, OF_WORDS, OF_STARTS = (15, 30, 60, 100, 160), (15, 30, 45, 60, 90), (30, 45, 60, 80, 100, 120, 150, 200)
"""Processor seconds at which trials of damping, of texts in words and of starts with other methods are compared."""
OF_BATCHES = (10, 45)
"""Processor seconds at which trials of the batches of arrays are compared."""
SYMBOLS, SECONDS = (0.5, 1.0, 1.5), (20, 30, 40)
"""Millions of symbols of gradient batches, and processor seconds, at which prototypes are compared."""


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


def cheaper_updates(hidden: int) -> str:
    """What prototypes of cheaper updates reach after so many symbols and processor seconds."""
    trials = [each for each in load("cheaper-updates.json")["trials"] if each["hidden"] == hidden]
    millions, seconds = (SYMBOLS, SECONDS) if hidden == 64 else ((0.25, 0.45), (30, 70))
    rows = []
    for each in trials:
        points, last = each["points"], each["points"][-1]
        cells = [_at(points, "symbols", 1e6 * mark) for mark in millions]
        cells += [_at(points, "seconds_processor", mark) for mark in seconds]
        per_million = [f"{1e6 * last[name] / last['symbols']:.0f}" for name in ("products", "evaluations")]
        rows.append([each["what"], *cells, *per_million])
    heads = [*(f"{mark:g} million symbols" for mark in millions), *(f"{mark} s" for mark in seconds)]
    return table(["", *heads, "products per million", "trial losses per million"], rows)


def text_defaults(text: str, file: str = "text-defaults.json", marks: Sequence[int] = OF_TRIALS) -> str:
    """The best bits of each trial of the defaults of texts after some processor seconds."""
    trials = [each for each in load(file)["trials"] if each["text"] == text]
    rows = []
    for each in trials:
        points, end = each["points"], each["points"][-1]["seconds_processor"]
        done = [mark for mark in marks if end >= 0.96 * mark]
        cells = bits_at(points, done) + [""] * (len(marks) - len(done))
        best = min(points, key=lambda p: p["valid_bits"])
        rows.append([each["what"], *cells, f"{best['valid_bits']:.3f} after {best['seconds_processor']:.0f} s"])
    return table(["", *(f"{mark} s" for mark in marks), "best"], rows)


def weaker_damping(text: str) -> str:
    """The best bits of trials of damping, and of texts in words."""
    return text_defaults(text, "weaker-damping.json", OF_WORDS if text == "words" else OF_DAMPING)


def first_order_start() -> str:
    """The best bits of HF that begins with updates of Muon or SOAP, beside HF alone."""
    return text_defaults("start", "muon-start.json", OF_STARTS)


def noise_of_steps() -> str:
    """The decrease that an update predicts with mu = 0.01, and how often noise stops CG."""
    found = load("weaker-damping.json")["noise"]
    rows = [[each["what"], f"{each['promise']:.1%}", f"{each['stopped']:.0%}"] for each in found]
    return table(["", "predicted decrease, as a share of the loss", "updates in which noise stops CG"], rows)


def damping_by_noise() -> str:
    """What HF reaches after the same number of updates with and without weaker damping in updates of little noise."""
    rows = [
        [each["what"], str(each["seed"]), f"{each['updates']:,}", f"{each['without']:.3f}", f"{each['with']:.3f}"]
        for each in load("weaker-damping.json")["rule"]
    ]
    return table(["", "seed", "updates", "without the rule", "with it"], rows)


def momentum() -> str:
    """What HF reaches after the same number of updates with several kinds of momentum."""
    trials = [each for each in load("momentum.json")["trials"] if each["bits_at_update"]]
    marks = tuple(trials[0]["bits_at_update"])
    rows = [
        [f"`{each['text']}`", str(each["seed"]), each["what"],
         *(number(each["bits_at_update"].get(mark, math.inf), ".3f", "") for mark in marks)]
        for each in trials
    ]  # fmt: skip
    return table(["problem", "seed", "m, a", *(f"{mark} updates" for mark in marks)], rows)


def array_trials(task: str) -> str:
    """The lowest validation loss of HF on a task with other options than the defaults of arrays."""
    trials = [(each["what"], run) for each in load("array-trials.json")["trials"] if (run := each["tasks"].get(task))]
    marks = max((run["best_within"] for _, run in trials), key=len)
    rows = [
        [what, *(number(run["best_within"].get(mark, math.inf), ".2g", "") for mark in marks), str(run["updates"])]
        for what, run in trials
    ]
    return table(["", *(f"{mark} s" for mark in marks), "updates"], rows)


def array_batches() -> str:
    """The lowest validation loss of HF on each task of arrays with other sizes of its batches."""
    trials = load("array-batches.json")["trials"]
    tasks = list(dict.fromkeys(task for each in trials for task in each["tasks"]))
    rows = [
        [each["what"]]
        + [
            number(each["tasks"].get(task, {}).get("best_within", {}).get(str(mark), math.inf), ".2g", "")
            for task in tasks
            for mark in OF_BATCHES
        ]
        for each in trials
    ]
    return table(["", *(f"{task}, {mark} s" for task in tasks for mark in OF_BATCHES)], rows)


def array_recordings() -> str:
    """The validation errors on recordings with the batches of arrays before and now."""
    rows = [
        [each["system"], str(each["seed"]), f"{each['seconds']:g}"]
        + [f"{each[when]['valid']:.3g}" for when in ("before", "now")]
        + [f"{each[when]['updates']:,}" for when in ("before", "now")]
        for each in load("array-recordings.json")["pairs"]
    ]
    head = ["recording", "seed", "processor seconds", "error, before", "now", "updates, before", "now"]
    return table(head, rows)


def _at(points: list[dict[str, float]], name: str, mark: float) -> str:
    """Return the bits at a mark, interpolated between two points; nothing if the run is shorter."""
    at, bits = ([p[each] for p in points] for each in (name, "valid_bits"))
    return f"{np.interp(mark, at, bits):.3f}" if at[-1] >= 0.96 * mark else ""


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
