"""A live line below the output of a terminal.

It keeps no history: rich's live display keeps every line that it has shown in a cache, and its memory grows by a
kilobyte for each update of a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import IO

HIDE, SHOW, ERASE = "\x1b[?25l", "\x1b[?25h", "\r\x1b[2K"
"""Codes of a terminal: hide and show the cursor, and erase the line."""
SECONDS = 0.1
"""The line is drawn again after this time."""


class LiveLine:
    """One line that changes, below lines that stay.

    Parameters
    ----------
    file : text stream
        A terminal.
    width : callable
        Returns the width of the terminal.
    """

    def __init__(self, file: IO[str], width: Callable[[], int]) -> None:
        self._file, self._width = file, width
        self._text, self._drawn = "", 0.0
        self._write(HIDE)

    def show(self, text: str, at_once: bool = False) -> None:
        """Change the line; it is drawn if that is due, or `at_once`."""
        self._text = text
        if at_once or time.monotonic() - self._drawn >= SECONDS:
            self._draw()

    def print(self, text: str) -> None:
        """Write a line that stays, above the live line."""
        self._write(f"{ERASE}{text}\n")
        self._draw()

    def close(self) -> None:
        """Remove the line."""
        self._write(ERASE + SHOW)

    def _draw(self) -> None:
        most = max(self._width() - 1, 1)
        self._write(ERASE + (self._text if len(self._text) <= most else f"{self._text[: most - 1]}…"))
        self._drawn = time.monotonic()

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()


def bar(share: float, cells: int) -> str:
    """Return a bar of which a share between 0 and 1 is full."""
    full = round(min(max(share, 0.0), 1.0) * cells)
    return "━" * full + "─" * (cells - full)
