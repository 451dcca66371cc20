"""SIGINT and SIGTERM as a question that a long computation asks now and then."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interruption(noted: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Note the first SIGINT or SIGTERM instead of dying of it; the second one interrupts at once."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    seen = threading.Event()

    def note(number: int, frame: Any) -> None:
        if seen.is_set():
            raise KeyboardInterrupt
        seen.set()
        noted()

    old = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen.is_set
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
