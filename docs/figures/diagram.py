"""Draw boxes, circles and arrows with matplotlib, readable on light and dark pages.

Boxes have a light fill and dark text of their own. Arrows and text outside boxes have a grey that is readable on white
and on black. The background is transparent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Patch

IMAGES = Path(__file__).resolve().parent.parent / "images"
LINE = "#7d8794"
INK = "#16202b"
FILLS = {
    "input": "#cfe8d5",
    "state": "#cfe0f5",
    "gate": "#fbdcc0",
    "product": "#ece6f7",
    "plain": "#e6e9ed",
}
"""Fills of the kinds of boxes: inputs, states, gates and nonlinear functions, products with matrices, others."""
BLUE, ORANGE, GREEN = "#3b82d6", "#d9772b", "#2e9d62"
"""Colours of lines that are readable on both backgrounds."""

plt.rcParams.update(
    {"svg.hashsalt": "hfrnn", "font.size": 11, "mathtext.fontset": "dejavusans"}
)


class Diagram:
    """A drawing in units of about a centimetre.

    Parameters
    ----------
    width, height : float
        The size of the drawing.
    """

    def __init__(self, width: float, height: float) -> None:
        self.figure = plt.figure(figsize=(width / 2, height / 2))
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, width), ylim=(0, height), aspect="equal")
        self.axes.axis("off")
        self.shapes: dict[str, Patch] = {}
        self.places: dict[str, tuple[float, float]] = {}

    def box(
        self,
        name: str,
        x: float,
        y: float,
        text: str,
        kind: str = "plain",
        width: float = 1.1,
    ) -> None:
        """Draw a box around (x, y)."""
        shape = FancyBboxPatch(
            (x - width / 2, y - 0.32), width, 0.64, boxstyle="round,pad=0,rounding_size=0.16", fc=FILLS[kind], ec=LINE,
            lw=1,
        )  # fmt: skip
        self._add(name, shape, x, y, text)

    def dot(
        self,
        name: str,
        x: float,
        y: float,
        text: str,
        kind: str = "plain",
        radius: float = 0.27,
    ) -> None:
        """Draw a circle around (x, y): an operation on single entries."""
        self._add(
            name, Circle((x, y), radius, fc=FILLS[kind], ec=LINE, lw=1), x, y, text
        )

    def arrow(
        self, start: str | tuple[float, float], end: str | tuple[float, float], label: str = "", bend: float = 0.0,
        color: str = LINE, at: tuple[float, float] = (0.0, 0.24), dashed: bool = False, corner: str = "",
    ) -> None:  # fmt: skip
        """Draw an arrow between two shapes or points, straight, with a bend, or with one corner ("-|" or "|-")."""
        first, last = (
            self.places[each] if isinstance(each, str) else each
            for each in (start, end)
        )
        angles = {
            "-|": "angle,angleA=0,angleB=90,rad=6",
            "|-": "angle,angleA=90,angleB=0,rad=6",
        }
        style = angles.get(corner, f"arc3,rad={bend}")
        self.axes.add_patch(
            FancyArrowPatch(
                first, last, connectionstyle=style, arrowstyle="-|>", mutation_scale=11, color=color, lw=1.4,
                patchA=self.shapes.get(start) if isinstance(start, str) else None,
                patchB=self.shapes.get(end) if isinstance(end, str) else None,
                shrinkA=1, shrinkB=1, ls="--" if dashed else "-", zorder=1,
            )
        )  # fmt: skip
        if label:
            x, y = (first[0] + last[0]) / 2 + at[0], (first[1] + last[1]) / 2 + at[1]
            self.text(x, y, label, color)

    def text(
        self, x: float, y: float, text: str, color: str = LINE, **more: Any
    ) -> None:
        """Write a text beside the shapes."""
        self.axes.text(
            x,
            y,
            text,
            color=color,
            **{"ha": "center", "va": "center", "fontsize": 10, **more},
        )

    def save(self, name: str) -> None:
        """Write the drawing to docs/images/NAME.svg."""
        save(self.figure, name)

    def _add(self, name: str, shape: Patch, x: float, y: float, text: str) -> None:
        shape.set_zorder(2)
        self.axes.add_patch(shape)
        self.axes.text(
            x, y, text, ha="center", va="center", color=INK, zorder=3, fontsize=11
        )
        self.shapes[name], self.places[name] = shape, (x, y)


def save(figure: Any, name: str) -> None:
    """Write a figure to docs/images/NAME.svg."""
    figure.savefig(IMAGES / f"{name}.svg", transparent=True, metadata={"Date": None})
    plt.close(figure)
