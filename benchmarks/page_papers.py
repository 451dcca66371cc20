"""The tables of docs/papers.md: every row of papers/reproduction.py as Markdown. See tables.py."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from page_text import RESULTS, load, paragraph, table

sys.path.append(str(Path(__file__).resolve().parent / "papers"))

import hornn_ablation
from reproduction import MATCHED, NOT_MATCHED, NOT_RUN, RULES, PaperTable, Row, all_tables, rows

PAPERS = RESULTS / "papers"
TABLES = all_tables(PAPERS)
FORMS = {"perplexity": ("g", ".1f"), "bits": (".2f", ".3f"), "ratio": (".2f", ".2f"), "words": (",.0f", ",.0f")}
"""How published figures and ours are written, by metric."""
PARTS = ["train", "valid", "test", "ratio", "words"]
"""What figures are of, in the order of their columns."""
PROBE = PAPERS / "hf_wikipedia" / "probe.json"
PROBE_COMMAND = (
    'hfrnn probe runs/papers/hf_wikipedia/mlstm-structural/hf --open "[[" --close "]]" '
    "--json benchmarks/results/papers/hf_wikipedia/probe.json"
)
"""[K] figure 5.1, on the run of a cell of hf_wikipedia.py."""


def papers(name: str) -> str:
    """Return the tables of one figure, each with its quoted figures and its picture."""
    return "\n\n".join(part for each in TABLES[name] for part in parts(each))


def parts(each: PaperTable) -> list[str]:
    """Return the Markdown of a table, and what stands below it."""
    found = [f"**{each.title}**", table(*grid(each))]
    if each.quoted:
        quoted = "; ".join(f"{name}: {value:g}" for name, value in each.quoted.items())
        found.append(paragraph(f"Quoted there from other papers: {quoted}."))
    for picture in sorted((PAPERS / each.folder).glob("*.svg")) if each.folder else ():
        number = picture.stem.removeprefix("figure-").replace("-", ".")
        what = "Validation during training" if picture.stem == "curves" else f"Figure {number}"
        found.append(f"![{what}: {each.title}](../benchmarks/results/papers/{each.folder}/{picture.name})")
    return found


def grid(each: PaperTable) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a table; columns without an entry are left out."""
    there, ours = FORMS[each.metric]
    in_small = each.folder.endswith("-small")  # nothing to compare with
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
        lines.append({**line, "state": "" if in_small else row.state, "command": f"`{row.command}`"})
    shown = [name for name in lines[0] if any(line[name] for line in lines)]
    return shown, [[line[name] for name in shown] for line in lines]


def _reached(row: Row) -> dict[str, float]:
    return {part: value for found in row.ours for part, value in found.items()}


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def count() -> str:
    """Return how many rows are in which state; other scales and recipes are left out."""
    states = Counter(row.state for tables in TABLES.values() for each in tables for row in each.rows
                     if not each.folder.endswith(("-small", "-hours", "_norms")))  # fmt: skip
    return (
        f"{states.total()} rows at the scale of the papers: {states[MATCHED]} {MATCHED}, {states[NOT_MATCHED]} "
        f"{NOT_MATCHED}, {states[NOT_RUN]} {NOT_RUN}"
    )


def rules() -> str:
    """Return the rule of each kind of table."""
    return table(["rule", "a row is matched if"], [[name, text] for name, text in RULES.items()])


def probe() -> str:
    """Return the row of [K]'s figure 5.1."""
    head, published = ["published", "ours", "state", "command"], "above the control up to distance 1,000"
    ours, state = "", NOT_RUN
    if PROBE.is_file():
        found = json.loads(PROBE.read_text("utf-8"))
        ours = f"above the control up to distance {found['remembered']:,}"
        state = MATCHED if found["remembered"] >= 1000 else NOT_MATCHED
    return table(head, [[published, ours, state, f"`{PROBE_COMMAND}`"]])


# ---------------------------------------------------------------------- in words


def hornn() -> str:
    """Return what rnn and hornn-fofe-3 reached, and that neither had converged."""
    found = []
    for name in ("rnn", "hornn-fofe-3"):
        result = load(f"papers/hornn_ptb/{name}.json")
        falling = ", ".join(f"{point['valid_perplexity']:.1f}" for point in result["curve"])
        published = result["published"]["test"]["value"]
        test = result["ours"]["perplexity"]["test"]
        found.append(f"`{name}` reached a test perplexity of {test:.1f} ({published} published), with a validation "
                     f"perplexity of {falling} after epochs 1 to {len(result['curve'])}")  # fmt: skip
    return paragraph(f"{'; '.join(found)}.")


def norms() -> str:
    """Return the curves of the cells with column normalization, beside that of the same network without it."""
    found = []
    for file in sorted((PAPERS / "hornn_norms").glob("*-adam-*.json")):
        network, bound = file.stem.split("-adam-")
        plain = load(f"papers/hornn_ptb/{'rnn' if network == 'rnn' else f'hornn-{network}'}.json")["curve"]
        bounded = load(f"papers/hornn_norms/{file.name}")["curve"]
        with_norm, without = (
            ", ".join(f"{point['valid_perplexity']:.1f}" for point in curve[: len(bounded)])
            for curve in (bounded, plain)
        )
        found.append(
            f"with columns no longer than {bound}, `{network}` stood at {with_norm} in validation after epochs 1 to "
            f"{len(bounded)}, without a bound at {without}"
        )
    return paragraph(f"With Adam: {'; '.join(found)}.")


def ablation() -> str:
    """Return the validation of every change of the recipe that was run, beside that of the base."""
    made = rows(hornn_ablation.TABLE, PAPERS)
    base, lines = made[0].mean("valid"), []
    for each in made:
        ours = each.mean("valid")
        difference = "" if ours is None or base is None else format(ours - base, "+.1f")
        lines.append([f"`{each.name}`", _number(ours, ".1f"), difference, f"`{each.command}`"])
    return table(["cell", "validation perplexity", "difference", "command"], lines)


def scrn() -> str:
    """Return what scrn-100-40 reached."""
    found = load("papers/scrn_ptb/scrn-100-40.json")
    published, test = found["published"]["test"]["value"], found["ours"]["perplexity"]["test"]
    last = ", ".join(f"{point['valid_perplexity']:.2f}" for point in found["curve"][-3:])
    return paragraph(
        f"`scrn-100-40` reached a test perplexity of {test:.1f} after {found['ours']['epochs']:.0f} epochs with [M]'s "
        f"SGD ({published} published). The validation perplexity after the last three epochs was {last}."
    )
