"""Draw the pictures of docs/papers.md from the JSON files: learning curves, [K] figure 4.1 and [S] figure 6.

python benchmarks/papers/redraw.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from reproduction import PaperTable, all_tables

# isort: split
from common import RESULTS, Command
from pictures import drawn, save_picture

AXES = {
    "perplexity": ("epoch", 1.0, "epochs"),
    "bits": ("seconds_processor", 60.0, "processor minutes of training"),
}
"""The figure of a point on the time axis, its divisor and its name, by metric."""
FIGURE_4_1 = ("rnn-structural", "rnn-line-search", "mrnn-structural", "mrnn-line-search")
"""The rows of [K] figure 4.1."""


def draw(each: PaperTable) -> str:
    """Return the picture of a table: a line for each seed of a row, dashed lines at published validation figures."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    key, unit, label = AXES[each.metric]
    with matplotlib.rc_context({"svg.hashsalt": "hfrnn"}):
        figure, axis = plt.subplots(figsize=(8, 4.5), layout="constrained")
        shown = [row for row in each.rows if any(row.curves)]
        for number, row in enumerate(shown):
            for seed, curve in enumerate(row.curves):
                at = [point[key] / unit for point in curve]
                values = [point[f"valid_{each.metric}"] for point in curve]
                axis.plot(at, values, f"C{number}-", marker=".", markersize=3, linewidth=1.2,
                          label=row.name if seed == 0 else None)  # fmt: skip
            if "valid" in row.published and not each.folder.endswith("-small"):
                axis.axhline(row.published["valid"], color=f"C{number}", linestyle="--", linewidth=0.8)
        axis.set_ylim(*limits(shown, each.metric))
        axis.set(xlabel=label, ylabel=f"{each.metric} in validation", title=each.title)
        axis.title.set_fontsize("medium")
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
        return drawn(figure)


def limits(rows: Any, metric: str) -> tuple[float, float]:
    """Return the range to show: from the best, or the best published, to the worst after a quarter of a curve."""
    curves = [[point[f"valid_{metric}"] for point in curve] for row in rows for curve in row.curves if curve]
    best, late = min(map(min, curves)), max(curve[len(curve) // 4] for curve in curves)
    published = [row.published["valid"] for row in rows if "valid" in row.published]
    low = min([best, *published]) if metric == "perplexity" else best
    margin = 0.05 * (late - low) or 0.05 * low
    return low - margin, late + margin


def description(each: PaperTable) -> str:
    """Return what a picture shows, in a sentence."""
    best = ", ".join(f"{row.name} {min(point[f'valid_{each.metric}'] for point in curve):.2f}"
                     for row in each.rows for curve in row.curves if curve)  # fmt: skip
    return f"Validation during training over {AXES[each.metric][2]}. Lowest {each.metric}: {best}."


def draw_alpha(each: PaperTable) -> str:
    """Return [S] figure 6: the perplexity over alpha."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    with matplotlib.rc_context({"svg.hashsalt": "hfrnn"}):
        figure, axis = plt.subplots(figsize=(8, 4.5), layout="constrained")
        for part in ("valid", "test"):
            found = [(float(row.name.removeprefix("alpha-")), row.mean(part)) for row in each.rows if row.ours]
            axis.plot([at for at, _ in found], [value for _, value in found], marker="o", label=part)
        axis.set(xlabel="alpha", ylabel="perplexity", title=each.title)
        axis.title.set_fontsize("medium")
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
        return drawn(figure)


def pictures_of(each: PaperTable) -> Iterator[tuple[str, str, str, str]]:
    """Yield the name, content, title and description of every picture of a table."""
    if not each.folder or not any(curve for row in each.rows for curve in row.curves):
        return
    yield "curves.svg", draw(each), each.title, description(each)
    if each.rule == "optimum":
        reached = ", ".join(f"{row.name} {row.mean():.1f}" for row in each.rows if row.ours)
        yield "figure-6.svg", draw_alpha(each), each.title, f"Test perplexity: {reached}."
    chosen = replace(each, rows=tuple(row for row in each.rows if row.name in FIGURE_4_1))
    if any(row.curves for row in chosen.rows):
        chosen = replace(chosen, title=f"[K] figure 4.1, {each.folder}")
        yield "figure-4-1.svg", draw(chosen), chosen.title, description(chosen)


@click.command(cls=Command)
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS / "papers", help="The folder of the JSON.")
def main(out: Path) -> None:
    """Draw the pictures of all tables that have results."""
    for tables in all_tables(out).values():
        for each in tables:
            for name, content, title, about in pictures_of(each):
                save_picture(out / each.folder / name, content, title, about)


if __name__ == "__main__":
    main()
