"""SIGINT, SIGTERM and SIGHUP as a question that a long computation asks now and then."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
"""What ends a run; SIGHUP, where there is one, is that of a closed terminal."""


class Interruption:
    """Whether a signal has come: the first is noted, or raises KeyboardInterrupt where that is wanted; the second does.

    seen : whether one has come
    noted : called when the first one comes, unless it raises
    at_once : whether the first one raises KeyboardInterrupt, because there is nothing to finish
    closed : whether signals are passed over, because the run is ending already
    """

    def __init__(self) -> None:
        self.seen = self.closed = False
        self.at_once = True
        self.noted: Callable[[], None] = lambda: None

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.seen

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Within, a signal raises KeyboardInterrupt, also one that was seen before."""
        self.at_once = True
        try:
            if self.seen:
                raise KeyboardInterrupt
            yield
        finally:
            self.at_once = False

    def on_signal(self, number: int, frame: Any) -> None:
        """The handler."""
        if self.closed:
            return
        first, self.seen = not self.seen, True
        if first:
            with contextlib.suppress(OSError):  # the terminal may be gone
                self.noted()
        if self.at_once or not first:
            raise KeyboardInterrupt


@contextmanager
def interruption() -> Iterator[Interruption]:
    """Handle the signals; outside the main thread, where that cannot be done, none is ever seen."""
    found = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield found
        return
    old: dict[int, Any] = {}
    try:
        for number in (getattr(signal, name) for name in SIGNALS if hasattr(signal, name)):
            before = signal.getsignal(number)
            if number == getattr(signal, "SIGHUP", None) and before == signal.SIG_IGN:
                continue  # nohup: the run is to survive its terminal
            old[number] = before
            signal.signal(number, found.on_signal)
        yield found
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
