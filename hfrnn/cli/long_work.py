"""How far a long computation is, and the time left: a live bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def working() -> Iterator[Callable[[str, int, int], None]]:
    """Shows on stderr what is told to it: what is computed now, how much of it is done, and how much it is.

    Off a terminal a line is written every ten seconds, and none by what takes less. Time left is that of the present
    computation at its pace so far; of one that may end earlier, the most that it can take.
    """
    from hfrnn.cli.progress import PLAIN_SECONDS, live_bar, make_console
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
            text = f"{what}: {done:,} of {most:,}, left {clock(left)}"
            show(text, done, most)
            if plain and now - spoken >= PLAIN_SECONDS:
                spoken = now
                click.echo(text, err=True)

        yield tell
