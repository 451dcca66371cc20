"""The table of long time lags in benchmarks/diary/hf-and-first-order.md, as Markdown.

See tables.py.
"""

from __future__ import annotations

import json
from typing import Any

from page_text import RESULTS, load, paragraph, table

LABELS = {"hf": "HF", "hf-published": "HF, published", "sgd": "SGD", "adam": "Adam"}


def as_typed() -> str:
    """What commands reach that leave the options to the defaults of their data."""
    found = load("as-typed.json")["runs"]
    rows = []
    for command, each in found.items():
        best, own = each["best"], each["options"]
        reached = (
            f"{best['valid_errors']:.1%} wrong"
            if best["valid_errors"] is not None
            else f"perplexity {best['valid_perplexity']:.0f}"
        )
        hidden = ",".join(map(str, own["hidden"]))
        more = "".join(f", {name} {own[name]}" for name in ("embedding", "classes") if own[name])
        rows.append([
            f"`{command}`", f"`{own['arch']}` {hidden}{more}, {own['optimizer']}", each["stopped"],
            f"{each['updates']:,}", f"{each['seconds'] / 60:.1f}", f"{each['seconds_processor']:.0f}", reached,
        ])  # fmt: skip
    head = ["command", "chosen by default", "ended by", "updates", "minutes", "processor seconds", "validation"]
    machines = [each["machine"] for each in found.values()]
    loads = [facts["load_before"] for facts in machines]
    about = paragraph(
        f"`{machines[0]['command']}` on {machines[0]['date'][:10]}, {machines[0]['processor']}, one thread, beside "
        f"other programs (load average {min(loads):.1f} to {max(loads):.1f})."
    )
    return f"{about}\n\n{table(head, rows)}"


def long_lags() -> str:
    """Which method learned which task over which length, and when."""
    runs: dict[tuple[str, int, str, bool], dict[int, dict[str, Any]]] = {}
    for file in sorted((RESULTS / "long_lags").glob("*.json")):
        found = json.loads(file.read_text("utf-8"))
        cell = found["cell"]
        key = (cell["task"], cell["length"], cell["method"], cell.get("curriculum", False))
        runs.setdefault(key, {})[cell["seed"]] = found
    rows, order = [], list(LABELS)
    for key, seeds in sorted(runs.items(), key=lambda item: (*item[0][:2], order.index(item[0][2]), item[0][3])):
        task, length, method, curriculum = key
        first = next(iter(seeds.values()))
        rate = f", {first['options']['learning_rate']:g}" if "learning_rate" in first["options"] else ""
        cells = [_outcome(seeds[seed]) if seed in seeds else "" for seed in range(3)]
        label = f"{LABELS[method]}{rate}{', curriculum' if curriculum else ''}"
        rows.append([task, str(length), label, *cells, _validations(first)])
    return table(["task", "length", "method", "seed 0", "seed 1", "seed 2", "validation"], rows)


def _outcome(found: dict[str, Any]) -> str:
    """Return when a cell was learned; older cells have minutes of a clock instead of processor time."""
    minutes = found["seconds_processor"] / 60 if "seconds_processor" in found else found["minutes"]
    if found["learned"]:
        nearly = found.get("seconds_below_2_percent")
        when = f"{minutes:.1f} min" if minutes >= 1 else f"{60 * minutes:.0f} s"
        return f"learned in {when}" + ("" if nearly is None else f" (below 2% in {nearly:.0f} s)")
    return f"not in {minutes:.0f} min" + ("" if found["errors"] is None else f": {found['errors']:.0%} wrong")


def _validations(found: dict[str, Any]) -> str:
    """Return how often a run was validated; the first point of an older curve is a validation."""
    updates = found.get("validation_updates")
    if updates is None:
        updates = found["curve"][0]["update"] if found["curve"] else 1
    if updates == 1:
        return "every update"
    many = found["cell"]["method"] in ("sgd", "adam") and updates < 500
    return f"every {updates:g} updates" + (", about a third of the minutes" if many else "")
