"""The pictures of fixed points and of Lyapunov exponents. They need matplotlib (extra `plot`)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hfrnn.dynamics import Components, FixedPoints, Lyapunov, Trajectories

MOST_PATHS = 50
"""Most sequences whose states are drawn."""


def points_picture(found: FixedPoints, paths: Trajectories, kind: str, about: str) -> bytes:
    """Return a picture of visited states and fixed points in principal components, and of the eigenvalues."""
    from hfrnn.cli.plots import rendered

    figure = Figure(figsize=(11, 5), layout="constrained")
    figure.suptitle(about, fontsize="medium")
    states, spectrum = figure.subplots(1, 2)
    components = _draw_states(states, paths)
    angle = np.linspace(0, 2 * np.pi, 200)
    spectrum.plot(np.cos(angle), np.sin(angle), color="k", linewidth=0.8)
    for number in sorted(set(found.unstable.tolist())):
        of, colour = found.unstable == number, f"C{number % 10}"
        label = "stable" if number == 0 else f"{number} unstable"
        at = components.project(found.states[of])
        states.plot(at[:, 0], at[:, 1] if at.shape[1] > 1 else 0 * at[:, 0], "o", color=colour, label=label)
        values = found.eigenvalues[of].reshape(-1)
        spectrum.plot(values.real, values.imag, ".", color=colour, markersize=4)
    if len(found):
        states.legend(frameon=False)
    spectrum.set(xlabel="real part", ylabel="imaginary part", title="Eigenvalues", aspect="equal")
    spectrum.grid(alpha=0.3)
    return rendered(figure, kind)


def exponents_picture(found: Lyapunov, paths: Trajectories, step: float | None, kind: str, about: str) -> bytes:
    """Return a picture of the exponents with their errors, and of visited states in principal components."""
    from hfrnn.cli.plots import rendered

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    figure.suptitle(about, fontsize="medium")
    exponents, states = figure.subplots(1, 2)
    number, known = np.arange(1, len(found.exponents) + 1), np.isfinite(found.exponents)
    scale = 1.0 if step is None else 1 / step
    errors = np.nan_to_num(found.errors[known])
    exponents.errorbar(number[known], scale * found.exponents[known], scale * errors, fmt="o", markersize=4)
    exponents.axhline(0, color="k", linewidth=0.8)
    unit = "step" if step is None else "time"
    exponents.set(xlabel="number", ylabel=f"exponent per {unit}", title="Lyapunov exponents")
    exponents.grid(alpha=0.3)
    _draw_states(states, paths)
    return rendered(figure, kind)


def _draw_states(axes: Axes, paths: Trajectories) -> Components:
    """Draw the states along the sequences in their first two principal components, which are returned."""
    components = paths.components(min(2, paths.states.shape[2]))
    at = components.project(paths.states[:, :MOST_PATHS])
    second = at[..., 1] if at.shape[2] > 1 else np.zeros(at.shape[:2])
    axes.plot(at[..., 0], second, color="0.7", linewidth=0.5, zorder=0)
    names = [f"component {k + 1} ({100 * share:.0f}% of the variance)" for k, share in enumerate(components.shares)]
    axes.set(xlabel=names[0], ylabel=names[1] if len(names) > 1 else "", title="States")
    axes.grid(alpha=0.3)
    return components
