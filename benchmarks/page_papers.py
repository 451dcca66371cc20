"""The tables of docs/papers.md: every row of papers/reproduction.py as Markdown. See tables.py."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from page_text import RESULTS, listed, load, paragraph, table

sys.path.append(str(Path(__file__).resolve().parent / "papers"))

import hornn_ablation
import hornn_dynamic
import hornn_norms
import hornn_ptb
from reproduction import MATCHED, NOT_MATCHED, NOT_RUN, RULES, PaperTable, Row, all_tables, rows

PAPERS = RESULTS / "papers"
TABLES = all_tables(PAPERS)
FORMS = {"perplexity": ("g", ".1f"), "bits": (".2f", ".3f"), "ratio": (".2f", ".2f"), "words": (",.0f", ",.0f")}
"""How published figures and ours are written, by metric."""
PARTS = ["train", "valid", "test", "ratio", "words"]
"""What figures are of, in the order of their columns."""
DIARY = ("papers-hornn-norms",)
"""Tables that stand in benchmarks/diary/."""
SMALL = "-small"
"""The end of the folders of results at the scale `small`."""
PROBE = PAPERS / "hf_wikipedia" / "probe.json"
PROBE_COMMAND = (
    'hfrnn probe runs/papers/hf_wikipedia/mlstm-structural/hf --open "[[" --close "]]" '
    "--json benchmarks/results/papers/hf_wikipedia/probe.json"
)
"""[K] figure 5.1, on the run of a cell of hf_wikipedia.py."""


def papers(name: str) -> str:
    """Return the tables of one figure, each with its quoted figures and its pictures; the scale `small` is left out."""
    results = "../results" if name in DIARY else "../benchmarks/results"  # seen from the page
    shown = [each for each in TABLES[name] if not each.folder.endswith(SMALL)]
    return "\n\n".join(part for each in shown for part in parts(each, results))


def small() -> str:
    """Return the tables of the scale `small`, without pictures."""
    found = [each for tables in TABLES.values() for each in tables if each.folder.endswith(SMALL)]
    return "\n\n".join(f"**{each.title}**\n\n{table(*grid(each))}\n\n{commands(each)}" for each in found)


def parts(each: PaperTable, results: str) -> list[str]:
    """Return the Markdown of a table of what was run, and what stands below it."""
    ran = [row for row in each.rows if row.ours]
    found = [f"**{each.title}**", *([table(*grid(replace(each, rows=tuple(ran))))] if ran else [])]
    found += [paragraph(text) for text in (not_run(each), commands(each)) if text]
    if each.quoted:
        quoted = "; ".join(f"{name}: {value:g}" for name, value in each.quoted.items())
        found.append(paragraph(f"Quoted there from other papers: {quoted}."))
    for picture in sorted((PAPERS / each.folder).glob("*.svg")) if each.folder else ():
        number = picture.stem.removeprefix("figure-").replace("-", ".")
        what = "Validation during training" if picture.stem == "curves" else f"Figure {number}"
        found.append(f"![{what}: {each.title}]({results}/papers/{each.folder}/{picture.name})")
    return found


def grid(each: PaperTable) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a table; columns without an entry are left out."""
    there, ours = FORMS[each.metric]
    in_small = each.folder.endswith(SMALL)  # nothing to compare with
    named = sorted({part for row in each.rows for part in (*row.published, *_reached(row))}, key=PARTS.index)
    several = len(named) > 1
    lines = []
    for row in each.rows:
        line = {"row": f"`{row.name}`"}
        for part in () if in_small else named:
            line[f"published{f', {part}' if several else ''}"] = _number(row.published.get(part), there)
        for part in named:
            values = [format(found[part], ours) for found in row.ours if part in found]
            line[f"ours{f', {part}' if several else ''}"] = ", ".join(values)
        line |= {"weights": _number(row.weights, ",d"), "trained": row.epochs, "hours": row.hours}
        lines.append({**line, "state": "" if in_small else row.state})
    shown = [name for name in lines[0] if any(line[name] for line in lines)]
    return shown, [[line[name] for name in shown] for line in lines]


def not_run(each: PaperTable) -> str:
    """Return a sentence that names the rows without a result and their published figures; "" if all have one."""
    form, _ = FORMS[each.metric]
    named = [
        f"`{row.name}`" + (f" {row.published[row.part]:{form}}" if row.part in row.published else "")
        for row in each.rows if not row.ours
    ]  # fmt: skip
    figures = " (published figures beside them)" if any(row.part in row.published for row in each.rows) else ""
    return f"Not run{figures}: {', '.join(named)}." if named else ""


def commands(each: PaperTable) -> str:
    """Return a sentence with the commands of the rows, ROW for the name of one."""
    of_rows: dict[str, list[str]] = {}
    for row in each.rows:
        of_rows.setdefault(re.sub(rf" {re.escape(row.name)}(?= |$)", " ROW", row.command), []).append(f"`{row.name}`")
    several = len(of_rows) > 1
    said = [
        f"`{command}`" + (f" ({listed(names)})" if several and "ROW" not in command else "")
        for command, names in of_rows.items()
    ]  # fmt: skip
    return f"Commands: {listed(said)}." if several else f"Command: {said[0]}."


def _reached(row: Row) -> dict[str, float]:
    return {part: value for found in row.ours for part, value in found.items()}


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def count() -> str:
    """Return how many rows are in which state; other scales and recipes are left out."""
    states = Counter(row.state for tables in TABLES.values() for each in tables for row in each.rows
                     if row.state and not each.folder.endswith((SMALL, "-hours", "_norms")))  # fmt: skip
    return (
        f"{states.total()} rows at the scale of the papers: {states[MATCHED]} {MATCHED}, {states[NOT_MATCHED]} "
        f"{NOT_MATCHED}, {states[NOT_RUN]} {NOT_RUN}"
    )


def rules() -> str:
    """Return the rule of each kind of table."""
    return table(["rule", "a row is matched if"], [[name, text] for name, text in RULES.items()])


def probe() -> str:
    """Return what was found of [K]'s figure 5.1."""
    if not PROBE.is_file():
        return paragraph(f"Figure 5.1, a bracket probe of the first network, was not run: `{PROBE_COMMAND}`.")
    found = json.loads(PROBE.read_text("utf-8"))
    return paragraph(
        f"Figure 5.1, a bracket probe of the first network: above the control up to distance {found['remembered']:,}, "
        f"and 1,000 in [K] (`{PROBE_COMMAND}`)."
    )


# ---------------------------------------------------------------------- in words


def hornn() -> str:
    """Return the curve of every network of hornn_ptb.py that was run, and how far each is below the plain one."""
    plain, plain_there = _test_figures(load("papers/hornn_ptb/rnn.json"))
    lines = []
    for cell in hornn_ptb.TABLE.cells:
        if (PAPERS / "hornn_ptb" / f"{cell.name}.json").is_file():
            result = load(f"papers/hornn_ptb/{cell.name}.json")
            test, published = result["ours"]["perplexity"]["test"], result["published"].get("test")
            published_gain = "" if published is None else f"{plain_there - published['value']:g}"
            below = ["", ""] if cell.name == "rnn" else [published_gain, f"{plain - test:.1f}"]
            lines.append([f"`{cell.name}`", _falling(result["curve"]), f"{test:.1f}", *below])
    head = ["network", "validation after each epoch", "test", "test below rnn, published", "test below rnn, ours"]
    return table(head, lines)


def norms() -> str:
    """Return the validation of each network after each epoch, under each recipe of hornn_norms.py that was run."""
    lines = []
    for name, cell in hornn_norms.NETWORKS.items():
        files = {recipe: f"hornn_norms/{name}-{recipe}" for recipe in hornn_norms.RECIPES}
        files[hornn_ptb.CHOSEN] = f"hornn_ptb/{cell}"
        for recipe, file in sorted(files.items()):
            if (PAPERS / f"{file}.json").is_file():
                result = load(f"papers/{file}.json")
                test, published = _test_figures(result)
                lines.append([f"`{name}`", f"`{recipe}`", _falling(result["curve"]), f"{test:.1f}", f"{published:g}"])
    return table(["network", "recipe", "validation after each epoch", "test", "test, published"], lines)


def falling_rate() -> str:
    """Return the validation of rnn after each epoch of SGD with a rate that is halved, and how far others are below."""
    files = {name: f"papers/hornn_norms/{name}-{hornn_norms.FALLING}.json" for name in hornn_norms.NETWORKS}
    found = {name: load(file) for name, file in files.items() if (RESULTS / file).is_file()}
    recipe = found["rnn"]["recipe"][hornn_norms.FALLING]
    lines = []
    for epoch, points in enumerate(zip(*(each["curve"] for each in found.values()), strict=True), 1):
        rate = recipe["learning_rate"] / 2.0 ** max(epoch - recipe["constant_epochs"], 0)
        lines.append([f"{epoch}", f"{rate:.3g}", *_below(point["valid_perplexity"] for point in points)])
    ours, published = zip(*(_test_figures(each) for each in found.values()), strict=True)
    lines += [["test", "", *_below(ours)], ["test, published", "", *_below(published)]]
    plain, *others = found
    return table(["epoch", "rate", f"`{plain}`", *(f"`{name}` below it" for name in others)], lines)


def _below(values: Iterable[float]) -> list[str]:
    """Write the first of some perplexities, and how far the others are below it."""
    first, *others = values
    return [f"{first:.1f}", *(f"{first - each:.1f}" for each in others)]


def dynamic() -> str:
    """Return the test figures of networks in dynamic evaluation, and the trials that its rule was chosen from."""
    folder, lines = f"papers/{hornn_dynamic.FOLDER}", []
    for name in hornn_norms.NETWORKS:
        if (RESULTS / folder / f"{name}.json").is_file():
            result = load(f"{folder}/{name}.json")
            fixed, learning = result["test"]["static"], result["test"]["dynamic"]
            lines.append([f"`{name}`", f"{fixed:.1f}", f"{learning:.1f}", f"{1 - learning / fixed:.0%}"])
    trials = load(f"{folder}/trials.json")["valid_beginning"]
    tried = [[f"`{trial}`", f"{value:.1f}"] for trial, value in trials.items()]
    return "\n\n".join(
        [
            table(["network", "test, fixed weights", "test, dynamic evaluation", "less"], lines),
            f"Trials, with `rnn` on the beginning of the validation part (`{hornn_dynamic.COMMAND}`):",
            table(["rule and rate", "perplexity"], tried),
        ]
    )


def _falling(curve: list[dict[str, Any]]) -> str:
    return ", ".join(f"{point['valid_perplexity']:.1f}" for point in curve)


def prefix() -> str:
    """Return what the better 5-gram has on the beginning of text8, and what its cache gains there and in [M]."""
    found = load("ngrams-text8-prefix.json")
    five = [model for model in found["models"] if model["order"] == 5]
    best = min(five, key=lambda model: model["perplexity"]["valid"])
    plain, cached = best["perplexity"]["valid"], best["cache"]["perplexity"]["valid"]
    published = [row.published["valid"] for each in TABLES["papers-scrn-text8"] for row in each.rows[:2]]
    words, V = found["corpus"]["words"], found["corpus"]["V"]
    return paragraph(
        f"Only the beginning of text8 was measured: {words['train']:,} words to train and {words['valid']:,} to "
        f"validate, with a vocabulary of {V:,} (`python benchmarks/ngrams.py --data text8`, where the data folder has "
        f"only `text8-prefix.txt`). There the 5-gram has {plain:.1f}, and {cached:.1f} with a cache of "
        f"{best['cache']['size']} words: {1 - cached / plain:.0%} less. In [M] the cache gains "
        f"{1 - published[1] / published[0]:.0%}. The perplexities themselves cannot be compared."
    )


def ablation() -> str:
    """Return the validation of every change of the recipe that was run, beside that of the base."""
    made = rows(hornn_ablation.TABLE, PAPERS)
    base, lines = made[0].mean("valid"), []
    for each in made:
        ours = each.mean("valid")
        difference = "" if ours is None or base is None else format(ours - base, "+.1f")
        lines.append([f"`{each.name}`", _number(ours, ".1f"), difference, f"`{each.command}`"])
    return table(["cell", "validation perplexity", "difference", "command"], lines)


def restored() -> str:
    """Return what lstm-100 reached with and without a return to its best epoch."""
    without, found = load("last-weights/lstm-100.json"), load("papers/scrn_ptb/lstm-100.json")
    best = int(without["ours"]["best_epoch"])
    curves = [[point["valid_perplexity"] for point in each["curve"]] for each in (without, found)]
    tests = [_test_figures(each)[0] for each in (without, found)]
    return paragraph(
        f"An earlier run of `lstm-100` continued from its last weights. It was best after epoch {best}, at the first "
        f"rate, with {curves[0][best - 1]:.1f} in validation and {tests[0]:.1f} in the test part. Validation then rose "
        f"to {max(curves[0][best:]):.1f}, and was {curves[0][-1]:.1f} after its last epoch, {len(curves[0])}. With the "
        f"return, it had {curves[1][best + 1]:.1f} after epoch {best + 2} and {min(curves[1]):.1f} at best: "
        f"{tests[1]:.1f} in the test part."
    )


def _test_figures(result: dict[str, Any]) -> tuple[float, float]:
    """Return our test perplexity and the published one."""
    return result["ours"]["perplexity"]["test"], result["published"]["test"]["value"]
