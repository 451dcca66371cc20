"""Files of the pictures that commands draw. They need matplotlib (extra `plot`)."""

from __future__ import annotations

import io

from matplotlib import rc_context
from matplotlib.figure import Figure


def rendered(figure: Figure, kind: str) -> bytes:
    """Return a figure as svg, png or pdf. The same figure gives the same bytes of svg: no date, no random names."""
    drawn = io.BytesIO()
    with rc_context({"svg.hashsalt": "hfrnn"}):
        figure.savefig(drawn, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return drawn.getvalue()
