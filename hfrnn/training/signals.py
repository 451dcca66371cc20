"""Signals that end a run: SIGINT (Ctrl-C), SIGTERM, and SIGHUP of a closed terminal."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
"""Names of the signals that end a run. Some systems have no SIGHUP."""


class Interruption:
    """Remember whether a signal asked a run to stop.

    A long computation calls this object now and then and stops when the result is True. The second signal raises
    KeyboardInterrupt, as does the first one while `at_once` is set.

    Attributes
    ----------
    seen : bool
        Whether a signal has come.
    at_once : bool
        Whether the first signal raises KeyboardInterrupt, because there is nothing to finish.
    closed : bool
        Whether signals are ignored, because the run is already ending.
    on_first : callable
        Called without arguments at the first signal.
    """

    def __init__(self) -> None:
        self.seen = self.closed = False
        self.at_once = True
        self.on_first: Callable[[], None] = lambda: None

    def __call__(self) -> bool:
        """Return whether to stop."""
        return self.seen

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Make every signal raise KeyboardInterrupt within the context, also a signal that came earlier."""
        self.at_once = True
        try:
            if self.seen:
                raise KeyboardInterrupt
            yield
        finally:
            self.at_once = False

    def on_signal(self, number: int, frame: Any) -> None:
        """Handle a signal."""
        if self.closed:
            return
        first, self.seen = not self.seen, True
        if first:
            with contextlib.suppress(OSError):  # the terminal may be closed
                self.on_first()
        if self.at_once or not first:
            raise KeyboardInterrupt


@contextmanager
def handle_signals() -> Iterator[Interruption]:
    """Handle the signals within the context; restore the old handlers at its end.

    Yields
    ------
    Interruption
        It never sees a signal outside the main thread, where Python cannot handle signals.
    """
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    old: dict[int, Any] = {}
    try:
        for number in (getattr(signal, name) for name in SIGNALS if hasattr(signal, name)):
            before = signal.getsignal(number)
            if number == getattr(signal, "SIGHUP", None) and before == signal.SIG_IGN:
                continue  # started by nohup: the run must survive its terminal
            old[number] = before
            signal.signal(number, interruption.on_signal)
        yield interruption
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
