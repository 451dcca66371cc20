"""The plot of a bracket probe. It needs matplotlib (extra `plot`)."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from hfrnn.analysis.probe import BracketProbe
from hfrnn.cli.picture import rendered


def picture(found: BracketProbe, kind: str, about: str = "") -> bytes:
    """Return a picture of both curves over the distance, as svg, png or pdf; figure 5.1 of [K] is its left half.

    Lines are means over the trials. Bands are one standard error wide on each side.
    """
    at = (found.first + found.last) / 2
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    figure.suptitle(_plain(f"{found.closing} after {found.opening}\n{about}".strip()), fontsize="medium")
    ratio, closing = figure.subplots(1, 2)
    for colour, curves, name in (("C0", found.opened, found.opening), ("C1", found.unopened, found.control)):
        means = {key: np.array(values) for key, values in curves.to_json().items()}
        low, high = (means["log_ratio"] + sign * means["log_ratio_error"] for sign in (-1, 1))
        ratio.fill_between(at, low, high, color=colour, alpha=0.25, linewidth=0)
        ratio.plot(at, means["log_ratio"], color=colour, label=_plain(f"after {name}"), linewidth=1.2)
        closing.plot(at, means["closing"], color=colour, label=_plain(f"after {name}"), linewidth=1.2)
    close, begin = _plain(found.closing_symbol), _plain(found.opening_symbol)
    ratio.set(xlabel="distance", ylabel=f"log10 P('{close}')/P('{begin}')", title="Closing rather than opening")
    closing.set(xlabel="distance", ylabel=f"P('{close}')", yscale="log", title="Probability of closing")
    for axes in (ratio, closing):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    return rendered(figure, kind)


def _plain(text: str) -> str:
    """Return a text that Matplotlib does not read as a formula."""
    return text.replace("$", r"\$")
