"""Progress on stderr: one line that changes on a terminal, or a line every few seconds elsewhere.

The live line keeps no history: rich's live display keeps every line that it has shown in a cache, and its memory grows
by a kilobyte for each update of a run.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from hfrnn.wording import clock, one_line

PLAIN_SECONDS = 10.0
"""Seconds between lines that report progress where there is no terminal."""
HIDE, SHOW, ERASE = "\x1b[?25l", "\x1b[?25h", "\r\x1b[2K"
"""Codes of a terminal: hide and show the cursor, and erase the line."""
SECONDS = 0.1
"""The line is drawn again after this time."""
BAR_CELLS = 16
"""Length of a bar."""
FALLBACK_WIDTH = 80

Told = Callable[[str, int, int], object]
"""Called with an activity, the work done for it, and the work in all."""


class Stream(Protocol):
    """What a line is written to."""

    def write(self, text: str, /) -> Any: ...

    def flush(self) -> Any: ...


class Stderr:
    """The stderr of the process. Its errors are ignored: what shows progress must not end a computation."""

    def write(self, text: str) -> None:
        """Write a text, or nothing if stderr is closed."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(text)

    def flush(self) -> None:
        """Flush what was written."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()

    def say(self, text: str) -> None:
        """Write a line without control characters."""
        self.write(one_line(text) + "\n")
        self.flush()

    def width(self) -> int:
        """Return the number of columns of the terminal."""
        with contextlib.suppress(OSError, ValueError, AttributeError):
            return os.get_terminal_size(sys.stderr.fileno()).columns or FALLBACK_WIDTH
        return FALLBACK_WIDTH

    def is_terminal(self) -> bool:
        """Return whether stderr is a terminal that can erase a line."""
        try:
            return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown") and os.name == "posix"
        except (ValueError, AttributeError):  # closed, or replaced by an object without such a method
            return False


class LiveLine:
    """One line that changes, below lines that stay, on the terminal `file`; `width` returns the terminal's width."""

    def __init__(self, file: Stream, width: Callable[[], int]) -> None:
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

    def erase(self) -> None:
        """Leave the line empty until the next `show`."""
        self._write(ERASE)
        self._drawn = 0.0

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


def bar(share: float, cells: int = BAR_CELLS) -> str:
    """Return a bar of which a share between 0 and 1 is full."""
    full = round(min(max(share, 0.0), 1.0) * cells)
    return "━" * full + "─" * (cells - full)


@contextlib.contextmanager
def working(left_words: str = "left", progress: Told | bool = True) -> Iterator[Told]:
    """Show progress on stderr; yields a function of what is computed, the work done and the total work.

    Without a terminal a line is written every ten seconds. The time left is an estimate for the present computation
    from its speed so far. `left_words` introduce it: "left at most" for a computation that may stop early. If
    `progress` is a function, it is yielded instead; if it is False, nothing is shown.
    """
    if not isinstance(progress, bool):
        yield progress
        return
    if not progress:
        yield lambda what, done, most: None
        return
    stderr, current = Stderr(), ""
    live = LiveLine(stderr, stderr.width) if stderr.is_terminal() else None
    begun = spoken = time.monotonic()

    def tell(what: str, done: int, most: int) -> None:
        nonlocal current, begun, spoken
        now = time.monotonic()
        if what != current:
            current, begun = what, now
        left = (now - begun) / done * (most - done) if done and now > begun else None
        text = one_line(f"{what}: {done:,} of {most:,}, {left_words} {clock(left)}")
        if live is not None:
            live.show(f"{bar(done / most if most else 0.0)}  {text}")
        elif now - spoken >= PLAIN_SECONDS:
            spoken = now
            stderr.say(text)

    try:
        yield tell
    finally:
        if live is not None:
            live.close()
