"""The tables and figures of the three papers, row by row: what was published, what was reached, and by which command.

A row has one of three states, by the rule of its table (`RULES`). docs/papers.md is written from these rows.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import hf_ptb
import hf_ptb_full
import hf_wikipedia
import hornn_forgetting
import hornn_norms
import hornn_ptb
import hornn_text8
import hornn_times
import scrn_learned
import scrn_ptb
import scrn_text8
from cells import Cell, Table

MATCHED, NOT_MATCHED, NOT_RUN = "matched", "not matched", "not run"
VALUE = {"perplexity": 0.03, "bits": 0.02}
"""How far a figure may be above the published one, as a share of it."""
SLACK, HALF = 0.02, 0.5
"""How far a difference in bits may be off: so many bits, or this share of the published difference."""
SHARES = {"ratio": 0.25, "count": 0.01}
"""How far a ratio of times, and a number of words, may be off, as a share."""
ROUNDING = 1e-9
BEST_ALPHA = ("alpha-0.5", "alpha-0.6", "alpha-0.7")
"""Where [S] 4.1.2 finds hornn-fofe at its best."""
KNESER_NEY = "KN 5-gram"
RULES = {
    "value": "our figure is at most 3% above a published perplexity, or 2% above published bits; lower is matched too",
    "difference": "the difference from the first row is off by at most 0.02 bits, or by half of the published "
    "difference; the first row is judged by its value",
    "optimum": "alpha from 0.5 to 0.7: a lower perplexity than with every other alpha that was run; other alphas: a "
    "higher one than with all from 0.5 to 0.7",
    "ratio": "the ratio of times is off by at most 25%",
    "count": "the number is off by at most 1%",
}

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """A row of a table: a cell, or a model of another script.

    Parameters
    ----------
    name : str
    published : mapping
        Figures by part: "train", "valid", "test".
    part : str
        The part whose figures decide the state.
    command : str
        What starts it.
    ours : sequence of mappings
        Figures by part, of each seed that was run.
    weights : int, optional
        Trained weights, also before a run.
    epochs, hours : str
        Length of the first run.
    curves : sequence
        Validations of each seed.
    """

    name: str
    published: Mapping[str, float]
    part: str
    command: str
    ours: Sequence[Mapping[str, float]] = ()
    weights: int | None = None
    epochs: str = ""
    hours: str = ""
    curves: Sequence[Sequence[Result]] = ()
    state: str = NOT_RUN

    def mean(self, part: str | None = None) -> float | None:
        """Our figure of a part, the mean over the seeds; None where there is none."""
        found = [each[part or self.part] for each in self.ours if (part or self.part) in each]
        return statistics.fmean(found) if found else None


@dataclass(frozen=True)
class PaperTable:
    """Rows of one table or figure of a paper, with their states."""

    title: str
    rows: tuple[Row, ...]
    metric: str = "perplexity"
    rule: str = "value"
    quoted: Mapping[str, float] = field(default_factory=dict)
    folder: str = ""

    def judged(self) -> PaperTable:
        """The same with the state of each row."""
        first = self.rows[0]
        return replace(self, rows=tuple(replace(row, state=self._state(row, first)) for row in self.rows))

    def _state(self, row: Row, first: Row) -> str:
        ours, published = row.mean(), row.published.get(row.part)
        if ours is None:
            return NOT_RUN
        if self.rule == "optimum":
            inside = row.name in BEST_ALPHA
            others = [each for other in self.rows if (other.name in BEST_ALPHA) != inside
                      if (each := other.mean()) is not None]  # fmt: skip
            good = ours < min(others) if inside and others else bool(others) and ours > max(others)
            return (MATCHED if good else NOT_MATCHED) if others else NOT_RUN
        base, base_published = first.mean(row.part), first.published.get(row.part)
        if published is None:
            return ""  # nothing to compare with
        if self.rule == "difference" and None in (base, base_published):
            return NOT_RUN
        return MATCHED if self._fits(ours, published, base, base_published, row is first) else NOT_MATCHED

    def _fits(self, ours: float, published: float, base: Any, base_published: Any, is_first: bool) -> bool:
        """Whether a figure keeps the table's rule."""
        if self.rule in SHARES:
            return abs(ours / published - 1) <= SHARES[self.rule] + ROUNDING
        if self.rule == "difference" and not is_first:
            expected = published - base_published
            return bool(abs(ours - base - expected) <= max(SLACK, HALF * abs(expected)) + ROUNDING)
        return ours <= (1 + VALUE[self.metric]) * published


# ---------------------------------------------------------------------- cells


def row(table: Table, cell: Cell, out: Path) -> Row:
    """A cell with the results of all its seeds."""
    script, _, scale = table.name.partition("-")
    command = f"python benchmarks/papers/{script}.py {cell.name}" + (f" --scale {scale}" if scale else "")
    folder = out / table.name
    paths = [folder / f"{cell.name}.json", *sorted(folder.glob(f"{cell.name}-seed-*.json"))]
    results = [json.loads(path.read_text("utf-8")) for path in paths if path.is_file()]
    published = {part: each.value for part, each in cell.published.items() if part in ("train", "valid", "test")}
    part = table.part
    if "perplexity" in cell.published:  # of a part that is not named
        published = {part: cell.published["perplexity"].value}
    if part not in published:
        part = "valid" if "valid" in published else part
    found = Row(cell.name, published, part, command, weights=table.weights(cell))
    if not results:
        return found
    ours = results[0]["ours"]
    length = f"{ours['epochs']:.3g} epochs" if ours.get("epochs") else f"{ours.get('updates', 0):.0f} updates"
    return replace(
        found, ours=[each["ours"][table.metric] for each in results], weights=ours["weights"], epochs=length,
        hours=f"{ours['seconds'] / 3600:.2f}", curves=[each["curve"] for each in results],
    )  # fmt: skip


def rows(table: Table, out: Path) -> tuple[Row, ...]:
    return tuple(row(table, cell, out) for cell in table.cells)


def of_scales(tables: Mapping[str, Table], out: Path, rule: str) -> list[PaperTable]:
    """The table of the paper's scale, and those of other scales that have a result; the smallest comes last."""
    found = []
    for scale, table in reversed(tables.items()):
        each = PaperTable(table.title, rows(table, out), "bits", rule, folder=table.name)
        if scale == "paper" or any(r.ours for r in each.rows):
            found.append(each.judged())
    return found


def epoch_times(out: Path) -> tuple[Row, ...]:
    """The times of updates, measured in turn on one machine, divided by that of the first cell."""
    path, first, made = out / hornn_times.FILE, hornn_times.timed_cells()[0], []
    ours = json.loads(path.read_text("utf-8"))["seconds_update"] if path.is_file() else {}
    for cell in hornn_times.timed_cells()[1:]:
        there = cell.published[hornn_times.SECONDS].value / first.published[hornn_times.SECONDS].value
        known = [{"ratio": ours[cell.name] / ours[first.name]}] if ours else []
        made.append(Row(cell.name, {"ratio": there}, "ratio", hornn_times.COMMAND, known))
    return tuple(made)


# ---------------------------------------------------------------------- n-grams


def ngram_result(out: Path, data: str) -> tuple[str, dict[str, Any] | None]:
    """The command of ngrams.py for a corpus, and its result if there is one."""
    path = out.parent / ("ngrams.json" if data == "ptb" else f"ngrams-{data}.json")
    command = "python benchmarks/ngrams.py" + ("" if data == "ptb" else f" --data {data}")
    return command, json.loads(path.read_text("utf-8")) if path.is_file() else None


def ngrams(out: Path, data: str, models: Mapping[str, tuple[bool, Mapping[str, float]]]) -> tuple[Row, ...]:
    """Kneser-Ney models of order 5, the better of both smoothings in validation, with a cache or without."""
    command, found = ngram_result(out, data)
    part, made = "test" if data == "ptb" else "valid", []
    five = [model for model in (found or {"models": []})["models"] if model["order"] == 5]
    for name, (cached, published) in models.items():
        reached = [(model["cache"] if cached else model)["perplexity"] for model in five]
        best = min(reached, key=lambda figures: figures["valid"], default=None)
        made.append(Row(name, published, part, command, [] if best is None else [best]))
    return tuple(made)


def sizes(out: Path) -> tuple[Row, ...]:
    """[S] table 1: the words of each part, ends of lines counted."""
    published = {"ptb": {"train": 930_000, "valid": 74_000, "test": 82_000},
                 "text8": {"train": 16_800_000, "valid": 170_000}}  # fmt: skip
    made = []
    for data, parts in published.items():
        command, found = ngram_result(out, data)
        for part, number in parts.items():
            ours = [] if found is None else [{"words": found["corpus"]["words"][part]}]
            made.append(Row(f"{data}, {part}", {"words": number}, "words", command, ours))
    return tuple(made)


# ---------------------------------------------------------------------- the papers


def hf_thesis(out: Path) -> dict[str, list[PaperTable]]:
    """[K], by the names of the figures of docs/papers.md."""
    return {
        "papers-hf-ptb": of_scales(hf_ptb.TABLES, out, "difference"),
        "papers-hf-ptb-full": of_scales(hf_ptb_full.TABLES, out, "difference"),
        "papers-hf-wikipedia": of_scales(hf_wikipedia.TABLES, out, "value"),
    }


def hornn(out: Path) -> dict[str, list[PaperTable]]:
    """[S] and the thesis."""
    ptb, text8, forgetting = hornn_ptb.TABLE, hornn_text8.TABLE, hornn_forgetting.TABLE
    grams = ngrams(out, "ptb", {KNESER_NEY: (False, {"test": 141})})
    times = PaperTable("[S thesis] table 6.3: time of an epoch, rnn 1", epoch_times(out), "ratio", "ratio")
    return {
        "papers-hornn-sizes": [PaperTable("[S] table 1: words", sizes(out), "words", "count").judged()],
        "papers-hornn-ptb": [with_quoted(ptb, (*grams, *rows(ptb, out)))],
        "papers-hornn-norms": [with_quoted(hornn_norms.TABLE, rows(hornn_norms.TABLE, out))],
        "papers-hornn-times": [times.judged()],
        "papers-hornn-forgetting": [replace(with_quoted(forgetting, rows(forgetting, out)), rule="optimum").judged()],
        "papers-hornn-text8": [with_quoted(text8, rows(text8, out))],
    }


def scrn(out: Path) -> dict[str, list[PaperTable]]:
    """[M]."""
    ptb = ngrams(out, "ptb", {"n-gram": (False, {"test": 141}), "n-gram with cache": (True, {"test": 125})})
    text8 = ngrams(out, "text8", {"5-gram": (False, {"valid": 309}), "5-gram with cache": (True, {"valid": 229})})
    tables = {"ptb": (scrn_ptb.TABLE, ptb), "learned": (scrn_learned.TABLE, ()), "text8": (scrn_text8.TABLE, text8)}
    return {
        f"papers-scrn-{name}": [with_quoted(table, (*grams, *rows(table, out)))]
        for name, (table, grams) in tables.items()
    }


def with_quoted(table: Table, rows: tuple[Row, ...]) -> PaperTable:
    """A table of perplexities, with the figures that the paper quotes of systems that no row trains."""
    quoted = {name: figure.value for name, figure in table.quoted.items() if name not in {row.name for row in rows}}
    return PaperTable(table.title, rows, quoted=quoted, folder=table.name).judged()


def all_tables(out: Path) -> dict[str, list[PaperTable]]:
    """All tables by the names of their figures."""
    return {**hf_thesis(out), **hornn(out), **scrn(out)}
