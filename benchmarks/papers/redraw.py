"""Draw the learning curves of docs/papers.md from the JSON files: one picture for each table that has results.

    python benchmarks/papers/redraw.py

Figure 4.1 of [K] is the picture of hf_ptb, figure 6 of [S] that of hornn_forgetting.
"""

from __future__ import annotations

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
    """Return the range to show: from a little below the best to what all rows are below halfway of their curves."""
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


@click.command(cls=Command)
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS / "papers", help="The folder of the JSON.")
def main(out: Path) -> None:
    """Draw the curves of all tables that have results."""
    for tables in all_tables(out).values():
        for each in tables:
            if each.folder and any(curve for row in each.rows for curve in row.curves):
                save_picture(out / each.folder / "curves.svg", draw(each), each.title, description(each))


if __name__ == "__main__":
    main()
