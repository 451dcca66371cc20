"""The progress of a long computation and the time left: a live bar on a terminal, timed lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hfrnn.cli.screen import make_console, say


@contextmanager
def working(left_words: str = "left") -> Iterator[Callable[[str, int, int], None]]:
    """Show progress on stderr; yields a function of what is computed, the work done and the total work.

    Without a terminal a line is written every ten seconds. The time left is an estimate for the present computation
    from its speed so far. `left_words` introduce it: "left at most" for a computation that may stop early.
    """
    from hfrnn.cli.progress import PLAIN_SECONDS, live_bar
    from hfrnn.runs.metrics import clock

    plain, current = not make_console(stderr=True).is_interactive, ""
    begun = spoken = time.monotonic()
    with live_bar() as show:

        def tell(what: str, done: int, most: int) -> None:
            nonlocal current, begun, spoken
            now = time.monotonic()
            if what != current:
                current, begun = what, now
            left = (now - begun) / done * (most - done) if done and now > begun else None
            text = f"{what}: {done:,} of {most:,}, {left_words} {clock(left)}"
            show(text, done, most)
            if plain and now - spoken >= PLAIN_SECONDS:
                spoken = now
                say(text, err=True)

        yield tell
