"""Read a run folder into the JSON values that the report shows; nothing is written to the folder."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hfrnn.choices import UNITS
from hfrnn.errors import CheckpointError, InputError
from hfrnn.files import DESCRIPTION, read_bytes
from hfrnn.option import option_key
from hfrnn.report.verdict import verdict
from hfrnn.runs.checkpoint import array_sizes
from hfrnn.runs.config import TrainConfig, all_options
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.metrics import finite_number
from hfrnn.runs.optimizers import OPTIMIZERS
from hfrnn.runs.options import run_options
from hfrnn.wording import clock, four_digits, some_of

NUMBERS = (
    "update", "seconds", "symbols", "train_loss", "valid_loss", "train_bits", "valid_bits", "valid_perplexity",
    "valid_errors", "cg_iterations", "chosen_iteration", "mu", "lambda", "rho", "step_size", "gradient_norm",
    "step_norm", "residual_norm", "learning_rate", "clipped", "seconds_update", "seconds_gradient", "seconds_products",
    "seconds_cg", "seconds_preconditioner", "seconds_search", "seconds_validation", "seconds_before",
)  # fmt: skip
"""Fields of the records of metrics.jsonl that the page shows."""
WORDS = ("cg_stop", "failed")


def read_run(folder: RunFolder, name: str) -> dict[str, Any]:
    """Return the data of one run, finished or not, under its name on the page.

    `unit` is the name of a symbol ("character", "byte", "word"; None without text), `loss` the unit of the loss.
    `columns` holds the fields of metrics.jsonl that have a value, and `resumed` the indices of the first records after
    the run was resumed. `verdict` is a line on its result. `update` of a sample is None for the one at the end. `facts`
    and `options` are texts by name.
    """
    from hfrnn.report.examples import read_examples  # it imports the packages that compute predictions

    config, lines, summary = folder.config(), folder.metrics(), _summary(folder.path)
    columns: dict[str, list[Any]] = {key: [finite_number(line.get(key)) for line in lines] for key in NUMBERS}
    columns |= {key: [_word(line.get(key)) for line in lines] for key in WORDS}
    before = columns["seconds_before"]
    resumed = [n for n in range(1, len(lines)) if before[n] is not None and before[n] != before[n - 1]]
    samples = [{"update": line["update"], "text": line["sample"]} for line in lines if _word(line.get("sample"))]
    if _word(summary.get("sample")) and summary["sample"] != (samples[-1]["text"] if samples else None):
        samples.append({"update": None, "text": summary["sample"]})
    level, examples = config.kind.level(config.values), read_examples(folder)
    found = {
        "name": readable(name),
        "unit": UNITS.get(level),
        "loss": config.kind.loss_name(config.values),
        "words": level == "word",
        "columns": {key: column for key, column in columns.items() if any(value is not None for value in column)},
        "resumed": resumed,
        "samples": samples,
        "examples": examples,
        "verdict": readable(verdict(_task(config), level, columns, (examples or {}).get("score", ""))),
        "options": _options(config),
        "given": [option_key(name) for name in config.given],
    }
    return {**found, "facts": _facts(folder, config, summary, columns, len(resumed))}


def run_names(paths: Sequence[str | Path]) -> list[str]:
    """Return a short name for each run folder: its last path components, as few as make all names different."""
    parts = [Path(os.path.realpath(path)).parts for path in paths]
    for n, whole in enumerate(parts):
        if whole in parts[:n]:
            raise InputError(f"{paths[n]} was given twice: give each run once")
    depth = 1
    while len({whole[-depth:] for whole in parts}) < len(parts):
        depth += 1
    return ["/".join(whole[-depth:]) for whole in parts]


def option_rows(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the options of all runs (results of `read_run`) side by side.

    `values` are texts, one per run, None if the run's optimizer does not use the option. `differs` says whether the
    runs that use it have different values. `told` says whether it is shown at first: if its values differ, or if it was
    given and there is only one run or some run does not use it.
    """
    rows = []
    known = {declared.key: declared for declared in all_options().values()}
    for name in dict.fromkeys(name for run in runs for name in run["options"] if name != "out"):
        values = [run["options"].get(name) for run in runs]
        used = [value for value in values if value is not None]
        given = any(value is not None and name in run["given"] for run, value in zip(runs, values, strict=True))
        differs = len(set(used)) > 1
        told = differs or (given and (len(runs) == 1 or len(used) < len(runs)))
        group = (known[name].group if name in known else "") or "Network"
        rows.append({"group": group, "name": name, "values": values, "differs": differs, "told": told})
    groups = list(dict.fromkeys(row["group"] for row in rows))
    return sorted(rows, key=lambda row: groups.index(row["group"]))


def option_text(value: Any) -> str:
    """Return the value of an option as text for a person."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return readable(",".join(map(option_text, value)) if isinstance(value, tuple) else f"{value}")


def readable(text: str) -> str:
    """Return a text with all characters that UTF-8 cannot encode replaced; file names may contain such characters."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _word(value: Any) -> str | None:
    """Return a string unchanged; None for all other values."""
    return value if isinstance(value, str) else None


def _summary(path: Path) -> dict[str, Any]:
    """Return the content of summary.json; {} if the run has not ended."""
    file = path / "summary.json"
    try:
        found = json.loads(read_bytes(file, DESCRIPTION, links=False))
        if not isinstance(found, dict):
            raise ValueError("it holds no table")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is damaged ({error}): restore it from a copy, or remove it") from error
    return found


def _options(config: TrainConfig) -> dict[str, str | None]:
    """Return every option as text; None if the run's optimizer does not use it."""
    found: dict[str, str | None] = {}
    for name, declared in run_options().items():
        used = config.optimizer in (OPTIMIZERS.takers(name) or [config.optimizer])
        found[declared.key] = option_text(getattr(config, name)) if used else None
    return found | {name: option_text(value) for name, value in config.arch_options.items()}


def _facts(
    folder: RunFolder, config: TrainConfig, summary: dict[str, Any], columns: dict[str, list[Any]], resumed: int
) -> dict[str, str]:
    """Return the rows of the summary table for one run."""
    versions, level = folder.versions(), config.kind.level(config.values)
    failed = sum(value is not None for value in columns["failed"])
    stopped, damped = _word(summary.get("stopped")), config.optimizer in OPTIMIZERS.takers("damping")
    weights = finite_number(summary.get("parameters")) or _weights(folder.path / "last.safetensors")
    update, seconds, symbols = ((columns[key] or [None])[-1] for key in ("update", "seconds", "symbols"))
    valid = [n for n, loss in enumerate(columns["valid_loss"]) if loss is not None]
    best, measured = min(valid, key=columns["valid_loss"].__getitem__, default=None), valid[-1] if valid else None
    tools = (("Python", "python"), ("NumPy", "numpy"), ("SciPy", "scipy"))
    facts = {
        "folder": str(folder.path),
        "data": config.text or f"{_data_files(config)}{level and f', level {level}'}",
        "network": f"{config.arch} {option_text(config.hidden)}",
        "weights": "-" if weights is None else f"{weights:,}",
        "optimizer": config.optimizer + (f", {config.damping} damping" if damped else ""),
        "best validation": "-" if best is None else _figures(columns, best, "valid"),
        "best at": "-" if best is None else _when(columns, best),
        "last validation": "-" if measured is None else _figures(columns, measured, "valid"),
        "last training": _figures(columns, len(columns["update"]) - 1, "train") if update is not None else "-",
        "updates": "0" if update is None else f"{update:,}" + (f", {failed:,} failed" if failed else ""),
        "symbols" if level else "steps": "-" if symbols is None else f"{symbols:,}",
        "time": "-" if seconds is None else clock(seconds),
        "ended": f"by {stopped}" if stopped else "no: it is still running or was killed",
        "resumed": {0: "never", 1: "once"}.get(resumed, f"{resumed} times"),
        "computes with": f"{config.backend}, {config.dtype}, "
        + ("all processors" if config.threads is None else f"{config.threads} threads"),
        "machine": str(versions.get("machine", "-")),
        "hfrnn": str(versions.get("hfrnn", "-")),
        "versions": ", ".join(f"{name} {versions[key]}" for name, key in tools if key in versions) or "-",
    }
    return {key: readable(value) for key, value in facts.items()}


def _data_files(config: TrainConfig) -> str:
    """Return the paths of the files of a run, or the name of its data."""
    return some_of(list(map(str, config.data)), 2) if isinstance(config.data, tuple) else f"{config.data}"


def _task(config: TrainConfig) -> str:
    """Return the names of the files of a run without their folders, or the name of its data."""
    data = config.data if isinstance(config.data, tuple) else (config.text or config.data or config.kind.about,)
    return some_of([os.path.basename(each) or each for each in map(str, data)], 2)


def _when(columns: dict[str, list[Any]], n: int) -> str:
    """Return the update and the time of record n."""
    seconds = columns["seconds"][n]
    return f"update {columns['update'][n]:,}" + ("" if seconds is None else f", {clock(seconds)}")


def _figures(columns: dict[str, list[Any]], n: int, part: str) -> str:
    """Return the loss of record n in all of its units."""
    bits, loss, errors = columns[f"{part}_bits"][n], columns[f"{part}_loss"][n], columns["valid_errors"][n]
    figures = [] if bits is None else [f"{bits:.4f} bits"]
    if bits is not None and part == "valid" and columns["valid_perplexity"][n] is not None:
        figures.append(f"perplexity {columns['valid_perplexity'][n]:.2f}")
    if bits is None and loss is not None:
        figures.append(f"loss {four_digits(loss)}")
    if part == "valid" and errors is not None:
        figures.append(f"{errors:.1%} wrong")
    return ", ".join(figures) or "-"


def _weights(path: Path) -> int | None:
    """Return the number of parameters in a checkpoint from its header; None if it cannot be read."""
    try:
        return array_sizes(path).get("theta")
    except CheckpointError:
        return None
