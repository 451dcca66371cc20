"""The plot of a spectrum. It needs matplotlib (extra `plot`)."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from hfrnn.analysis.spectrum import Spectrum
from hfrnn.cli.picture import rendered

BULK = 0.1
"""Share of all eigenvalues up to which they are counted; the rest lies near 0, where few steps do not resolve it."""


def picture(spectra: list[Spectrum], kind: str, about: str = "") -> bytes:
    """Return a picture of the densities and of the number of eigenvalues above each size, as svg, png or pdf.

    The title names the matrices; `about` is the rest of it: the network and its data.

    Each node is drawn as a bell curve whose width is 1/200 of the whole range. Values below a third of the height of a
    single eigenvalue are cut off. Ticks mark the eigenvalues that were computed one by one.
    """
    everything = np.concatenate([part for s in spectra for part in (s.nodes, s.largest, s.smallest)])
    low, high = float(everything.min()), float(everything.max())
    width = (high - low or 1.0) / 200
    at = np.linspace(low - 4 * width, high + 4 * width, 2000)
    peak = 1 / (width * math.sqrt(2 * math.pi))
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    names = " and ".join({"gauss-newton": "Gauss-Newton matrix", "hessian": "Hessian"}[each.matrix] for each in spectra)
    figure.suptitle(f"Eigenvalues of the {names}\n{about}".strip(), fontsize="medium")
    density, counts = figure.subplots(1, 2)
    for number, found in enumerate(spectra):
        colour, name = f"C{number}", found.matrix
        bells = np.exp(-(((at[:, None] - found.nodes) / width) ** 2) / 2) * peak
        density.plot(at, bells @ found.weights, color=colour, label=name, linewidth=1)
        ends = np.concatenate([found.largest, found.smallest])
        density.plot(ends, np.full(ends.size, peak / found.size), "|", color=colour, markersize=12)
        for sign, line, side in ((1, "-", "above 0"), (-1, "--", "below 0")):
            order = np.argsort(-sign * found.nodes, kind="stable")
            size, count = sign * found.nodes[order], found.size * np.cumsum(found.weights[order])
            shown = (size > 0) & (count <= BULK * found.size)
            if shown.any():
                style = {"color": colour, "label": f"{name}, {side}", "linewidth": 1, "drawstyle": "steps-post"}
                counts.plot(size[shown], count[shown], line, **style)
    n = max(found.size for found in spectra)
    density.set(yscale="log", ylim=(peak / n / 3, 2 * peak), xlabel="eigenvalue", ylabel="density", title="Density")
    counts.set(
        xscale="log",
        yscale="log",
        xlabel="size",
        ylabel="eigenvalues of at least that size, about",
        title="Number above each size",
    )
    counts.set_ylim(bottom=0.5)
    for axes in (density, counts):
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(frameon=False)
    return rendered(figure, kind)
