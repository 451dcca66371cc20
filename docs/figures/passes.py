"""The three passes over the segments of a sequence.

python docs/figures/passes.py       writes docs/images/passes.svg
"""

from __future__ import annotations

from diagram import BLUE, GREEN, LINE, ORANGE, Diagram

SEGMENTS = 3
PASSES = (
    (
        "forward",
        LINE,
        "product",
        ("$U$", "$h$"),
        "states and the linearization are kept on the tape",
    ),
    ("R-forward", BLUE, "state", ("$RU$ from $v$", "$Rh$"), "tangents: $J v$"),
    ("backward", ORANGE, "gate", ("$dU$", "$dh$"), "adjoints: $J^T (H_L J v)$"),
)
"""Name, colour, kind of box, what enters below and leaves above, and a comment for each pass."""


def main() -> None:
    """Draw the figure."""
    d = Diagram(15.6, 8.4)
    d.text(7.2, 8.05, "time →", LINE, fontsize=11)
    for row, (name, color, kind, (below, above), about) in enumerate(PASSES):
        y = 6.7 - 2.6 * row
        d.text(0.2, y, name, color, ha="left", fontsize=12, fontweight="bold")
        for n in range(SEGMENTS):
            d.box(f"{name}{n}", 4.2 + 3.2 * n, y, f"segment {n + 1}", kind, 1.9)
            x, up = 4.2 + 3.2 * n, name != "backward"
            d.arrow(
                (x, y - 0.95) if up else (x, y + 0.95),
                f"{name}{n}",
                color=GREEN if up else color,
            )
            d.arrow(
                f"{name}{n}",
                (x, y + 0.95) if up else (x, y - 0.95),
                color=color if up else GREEN,
            )
        if name == "backward":
            d.text(3.8, y - 0.75, below, GREEN)
            d.text(3.8, y + 0.75, above, color)
        else:
            d.text(3.55 if name == "forward" else 3.25, y - 0.75, below, GREEN)
            d.text(3.8, y + 0.75, above, color)
        d.text(12.5, y, about, LINE, ha="left", fontsize=9, wrap=True)
        for n in range(SEGMENTS - 1):
            ends = (f"{name}{n}", f"{name}{n + 1}")
            label = {"forward": "state", "R-forward": "tangent", "backward": "adjoint"}[
                name
            ]
            d.arrow(*(ends if name != "backward" else ends[::-1]), label, color=color)
    d.text(12.5, 2.85, "$dz = H_L \\, Rz$ at the output", LINE, ha="left", fontsize=9)
    d.save("passes")


if __name__ == "__main__":
    main()
