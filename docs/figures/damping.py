"""What damping does to a quadratic model of a loss.

python docs/figures/damping.py      writes docs/images/damping.svg
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from diagram import BLUE, GREEN, LINE, ORANGE, save

STRENGTHS = (0.0, 0.15, 1.0)
COLORS = (ORANGE, GREEN, BLUE)


def loss(x: float) -> float:
    """A loss whose curvature at 0 says little about the place where the quadratic has its minimum."""
    return float(1.2 - x + 0.1 * x**2 + 0.45 * np.maximum(x - 1.0, 0.0) ** 2)


def main() -> None:
    """Draw one dimension on the left and two on the right."""
    plt.rcParams.update(
        {
            "text.color": LINE,
            "axes.labelcolor": LINE,
            "xtick.color": LINE,
            "ytick.color": LINE,
        }
    )
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    one_dimension(left)
    two_dimensions(right)
    for axes in (left, right):
        axes.patch.set_alpha(0.0)
        for side in axes.spines.values():
            side.set_color(LINE)
    figure.tight_layout()
    save(figure, "damping")


def one_dimension(axes: plt.Axes) -> None:
    """Draw a loss, its quadratic models and their minima."""
    x = np.linspace(-0.4, 6.2, 300)
    axes.plot(x, [loss(each) for each in x], color=LINE, lw=2.5, label="loss")
    for strength, color in zip(STRENGTHS, COLORS, strict=True):
        curvature = 0.2 + strength
        axes.plot(
            x,
            loss(0.0) - x + 0.5 * curvature * x**2,
            color=color,
            lw=1.4,
            label=f"$\\lambda$ = {strength:g}",
        )
        axes.plot([1 / curvature], [loss(1 / curvature)], "o", color=color)
    axes.set(
        ylim=(-2.0, 6.6),
        xlabel="step",
        title="models with damping $\\lambda x^2/2$, and the loss at their minima",
    )
    axes.title.set(color=LINE, fontsize=11)
    legend = axes.legend(frameon=False, fontsize=9)
    for text in legend.get_texts():
        text.set_color(LINE)


def two_dimensions(axes: plt.Axes) -> None:
    """Draw the level lines of a long valley and the path of the solutions as the damping changes."""
    A, g = np.array([[2.0, 0.9], [0.9, 0.5]]), np.array([-1.0, -0.1])
    X, Y = np.meshgrid(np.linspace(-1.5, 3.2, 120), np.linspace(-4.6, 1.0, 120))
    q = (
        g[0] * X
        + g[1] * Y
        + 0.5 * (A[0, 0] * X**2 + 2 * A[0, 1] * X * Y + A[1, 1] * Y**2)
    )
    axes.contour(X, Y, q, 14, colors=LINE, linewidths=0.7, alpha=0.7)
    path = np.array(
        [
            np.linalg.solve(A + each * np.eye(2), -g)
            for each in np.geomspace(1e-3, 1e3, 200)
        ]
    )
    axes.plot(*path.T, color=LINE, lw=1.8)
    axes.plot(0, 0, "s", color=LINE)
    axes.annotate("start", (0, 0), (-0.5, 0.35), color=LINE)
    for strength, color in zip((0.0, 0.05, 1.0), COLORS, strict=True):
        x = np.linalg.solve(A + strength * np.eye(2), -g)
        axes.plot(*x, "o", color=color)
        axes.annotate(
            f"$\\lambda$ = {strength:g}", x, (x[0] + 0.15, x[1] + 0.12), color=color
        )
    axes.set(
        title="solutions in a long valley: damping shortens the step\nmost where the curvature is small"
    )
    axes.title.set(color=LINE, fontsize=11)
    axes.set(xticks=[], yticks=[])


if __name__ == "__main__":
    main()
