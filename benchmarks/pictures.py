"""The pictures of hf_vs_sgd.py: validation bits over processor seconds, as SVG with a title and a description."""

from __future__ import annotations

import html
import io
import re
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
from comparison import MARKS, METHODS, Seeds, best_within, final_bits, median_curve

from hfrnn.files import write_atomic

LINE, SEED_LINE = 2.4, 0.7
"""Widths of the median and of a seed."""
FIRST_SECONDS = 3.0
"""Start of the time axis."""


def described(svg: str, title: str, description: str) -> str:
    """Return an SVG picture with a title and a description for screen readers."""
    inside = f"<title id='title'>{html.escape(title)}</title>\n <desc id='desc'>{html.escape(description)}</desc>"
    opened = re.sub(r"<svg ", "<svg role='img' aria-labelledby='title desc' ", svg, count=1)
    return re.sub(r"(<svg [^>]*>)", lambda found: f"{found[1]}\n {inside}", opened, count=1)


def drawn(figure: Any) -> str:
    """Return a figure of Matplotlib as SVG, and close it."""
    from matplotlib import pyplot as plt

    content = io.StringIO()
    figure.savefig(content, format="svg", metadata={"Date": None})
    plt.close(figure)
    return content.getvalue()


def save_picture(path: Path, svg: str, title: str, description: str) -> None:
    """Write an SVG picture with a title and a description."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, described(svg, title, description))
    click.echo(f"wrote {path}")


def description_of(methods: Mapping[str, Seeds], budget: float) -> str:
    """Return what the picture of a problem shows, in a sentence or two."""
    bits = {name: statistics.median(map(final_bits, seeds.values())) for name, seeds in methods.items()}
    listed = ", ".join(f"{name} {value:.3f}" for name, value in sorted(bits.items(), key=lambda pair: pair[1]))
    return (
        "Validation bits over processor seconds of training, on a logarithmic time axis: a thin line for each seed and "
        f"a thick line for the median of each method. Median of the best bits within {budget:g} seconds: {listed}."
    )


def draw_problem(path: Path, problem: str, methods: Mapping[str, Seeds], budget: float) -> None:
    """Write the picture of a problem: one colour for each method, thin lines for seeds, thick lines for medians."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullLocator

    times = np.geomspace(FIRST_SECONDS, 1.01 * budget, 100).tolist()
    with matplotlib.rc_context({"svg.hashsalt": "hfrnn"}):
        figure, axis = plt.subplots(figsize=(8, 4.5), layout="constrained")
        for method, seeds in methods.items():
            colour, curves = f"C{METHODS.index(method)}", [result["curve"] for result in seeds.values()]
            for curve in curves:
                at, bits = ([point[key] for point in curve] for key in ("seconds_processor", "valid_bits"))
                axis.plot(at, bits, color=colour, linewidth=SEED_LINE, alpha=0.6)
            middle = median_curve(curves, times)
            seconds, bits = [t for t, _ in middle], [value for _, value in middle]
            axis.plot(seconds, bits, color=colour, linewidth=LINE, label=f"{method}, {len(curves)} seeds")
        axis.set_xscale("log")
        axis.set_xlim(FIRST_SECONDS, 1.01 * budget)
        axis.set_xticks([t for t in (FIRST_SECONDS, 7, *MARKS) if t <= budget])
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_ylim(*_limits(methods, budget))
        axis.set_xlabel("processor seconds of training")
        axis.set_ylabel("validation bits per symbol")
        axis.set_title(problem)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
        content = drawn(figure)
    save_picture(path, content, f"{problem}: validation bits over processor seconds", description_of(methods, budget))


def _limits(methods: Mapping[str, Seeds], budget: float) -> tuple[float | None, float | None]:
    """Return the range of bits to show: from the best of all to the highest after a thirtieth of the budget."""
    curves = [result["curve"] for seeds in methods.values() for result in seeds.values()]
    early = [bits for curve in curves if np.isfinite(bits := best_within(curve, budget / 30))]
    final = [bits for curve in curves if np.isfinite(bits := best_within(curve, budget))]
    if not early or max(early) <= min(final):
        return None, None
    margin = 0.03 * (max(early) - min(final))
    return min(final) - margin, max(early) + margin
