"""The tables of long time lags in docs/tasks.md and benchmarks/diary/, as Markdown.

See tables.py.
"""

from __future__ import annotations

import json
from typing import Any

from page_text import RESULTS, load, paragraph, table

LABELS = {
    "hf": "HF", "hf-published": "HF, published", "sgd": "SGD", "adam": "Adam", "soap": "SOAP", "muon": "Muon",
    "psgd": "PSGD",
}  # fmt: skip


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
    runs: dict[tuple[str, int, str, bool, float], dict[int, dict[str, Any]]] = {}
    for file in sorted((RESULTS / "long_lags").glob("*.json")):
        found = json.loads(file.read_text("utf-8"))
        cell = found["cell"]
        rate = found["options"].get("learning_rate", 0.0)
        key = (cell["task"], cell["length"], cell["method"], cell.get("curriculum", False), rate)
        runs.setdefault(key, {})[cell["seed"]] = found
    rows, order = [], list(LABELS)
    for key, seeds in sorted(runs.items(), key=lambda item: (*item[0][:2], order.index(item[0][2]), *item[0][3:])):
        task, length, method, curriculum, value = key
        first, rate = next(iter(seeds.values())), f", {value:g}" if value else ""
        cells = [_outcome(seeds[seed]) if seed in seeds else "" for seed in range(3)]
        label = f"{LABELS[method]}{rate}{', curriculum' if curriculum else ''}"
        rows.append([task, str(length), label, *cells, _validations(first)])
    return table(["task", "length", "method", "seed 0", "seed 1", "seed 2", "validation"], rows)


def remedies(trials: tuple[str, ...] = (), least: int = 0) -> str:
    """Return what helped with xor and temporal order: all trials, or some of them from a length on."""
    runs: dict[tuple[str, int, str], dict[int, dict[str, Any]]] = {}
    for file in sorted((RESULTS / "remedies").glob("*.json")):
        found = json.loads(file.read_text("utf-8"))
        cell = found["cell"]
        if (not trials or cell["trial"] in trials) and cell["length"] >= least:
            runs.setdefault((cell["task"], cell["length"], cell["trial"]), {})[cell["seed"]] = found
    rows = []
    for (task, length, _), seeds in sorted(runs.items()):
        about = next(iter(seeds.values()))
        what = about["about"] + (f" {about['source']}" if about["source"] else "")
        rows.append([task, str(length), what, *(_reached(seeds[k]) if k in seeds else "" for k in range(3))])
    return table(["task", "length", "trial", "seed 0", "seed 1", "seed 2"], rows)


def plateau() -> str:
    """Return what the updates 20 to 59 of the runs of remedies.py do: losses, reduction ratio and damping."""
    rows = []
    for file in sorted((RESULTS / "remedies").glob("*.json")):
        found = json.loads(file.read_text("utf-8"))
        cell, means = found["cell"], found["means"]
        if cell["seed"] == 0 and {"loss_before", "rho", "mu"} <= means.keys():
            label = [cell["task"], str(cell["length"]), found["about"]]
            rows.append(label + [f"{means[name]:.2g}" for name in ("loss_before", "train_loss", "rho", "mu")])
    return table(["task", "length", "trial", "loss before", "loss after", "rho", "mu"], rows)


def first_weights() -> str:
    """Return how much of the gradient reaches the first mark, by the first weights."""
    shares: dict[str, dict[tuple[str, int], float]] = {}
    for each in load("first-weights.json")["shares"]:
        shares.setdefault(each["weights"], {})[each["task"], each["length"]] = each["share"]
    cases = list(next(iter(shares.values())))
    rows = [[name, *(f"{found[case]:.1g}" for case in cases)] for name, found in shares.items()]
    return table(["first weights", *(f"{task}, {length}" for task, length in cases)], rows)


def _reached(found: dict[str, Any]) -> str:
    """Return when a cell of remedies.py was learned, or the least share of wrong answers."""
    seconds = f"{found['seconds_processor']:.0f} s"
    if found["learned"]:
        return f"learned in {seconds}"
    length = found["last_length"]
    return f"not in {seconds}: {found['errors']:.0%} wrong" + (
        f" at length {length}" if length != found["cell"]["length"] else ""
    )


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
