"""Signals that end a command: SIGINT (Ctrl-C), SIGTERM, SIGHUP of a closed terminal, SIGUSR1, and SIGBREAK of Windows.

`mpiexec` forwards SIGUSR1 to the ranks and waits for them, and a batch system may send it before its time limit.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import FrameType
from typing import Any

from hfrnn.errors import INTERRUPTED, HfrnnError, Message

SIGNALS = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP", "SIGBREAK")
"""Names of the signals that end a run. Windows has no SIGUSR1 and no SIGHUP, and alone has SIGBREAK (Ctrl-Break)."""
CLEANUP_SECONDS = 2.0
"""Seconds after a signal has taken effect in which further signals are ignored, so that cleanup is not interrupted."""
RETRY_SECONDS = 0.02
"""Seconds until a signal that came during an import is delivered again."""


def is_broken_pipe(error: OSError) -> bool:
    """Return whether an error is one of writing to a pipe without a reader, for which Windows says EINVAL."""
    return error.errno == errno.EPIPE or (
        sys.platform == "win32" and error.errno == errno.EINVAL and error.filename is None
    )


def is_closed_output(error: OSError) -> bool:
    """Return whether an error is one of writing to a pipe without a reader or to a closed terminal."""
    return is_broken_pipe(error) or error.errno == errno.EIO


class Interrupted(HfrnnError):
    """Training was interrupted; the last finished update is on disk."""

    exit_code = INTERRUPTED


class Response(Enum):
    """What a signal does."""

    AT_ONCE = "every signal raises KeyboardInterrupt"
    SECOND = "the first signal is noted, and the second raises KeyboardInterrupt"
    NOTED = "signals are only noted"


class Interruption:
    """Remember whether a signal asked a run to stop.

    A long computation calls this object now and then and stops when the result is True.

    Attributes
    ----------
    seen : bool
        Whether a signal has come.
    saved : str, Message or None
        What to tell the user about the checkpoint that is on disk; None before there is one.
    on_first : callable
        Called without arguments at the first signal.
    """

    def __init__(self) -> None:
        self.seen = False
        self.response = Response.AT_ONCE
        self.saved: str | Message | None = None
        self.on_first: Callable[[], None] = lambda: None
        self._ending = -CLEANUP_SECONDS

    def __call__(self) -> bool:
        """Return whether to stop. The caller then stops at once, and further signals do not disturb it."""
        if self.seen:
            self._ending = time.monotonic()
        return self.seen

    @contextmanager
    def responding(self, response: Response) -> Iterator[None]:
        """Respond differently within the context. With `AT_ONCE`, an earlier signal raises KeyboardInterrupt too."""
        before, self.response = self.response, response
        try:
            if response is Response.AT_ONCE and self():
                raise KeyboardInterrupt
            yield
        finally:
            self.response = before

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if time.monotonic() - self._ending < CLEANUP_SECONDS:
            return
        first, self.seen = not self.seen, True
        raises = self.response is Response.AT_ONCE or (self.response is Response.SECOND and not first)
        if first:
            with contextlib.suppress(OSError, RuntimeError, ValueError):  # output may be closed, or be in use here
                self.on_first()
        if raises and _is_importing(frame):
            _thread.start_new_thread(_send_again, (signal.Signals(number),))
        elif raises:
            self._ending = time.monotonic()
            raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a frame is part of an import that our code makes.

    KeyboardInterrupt is not raised there, because extension modules turn an exception during an import into another.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        name = str(frame.f_globals.get("__name__"))  # our own module if a signal comes while another is handled
        if name.startswith("hfrnn.") and name != __name__ and frame.f_code.co_name != "<module>":
            return False  # a module of the user that is being imported may train
        frame = frame.f_back
    return False


def _send_again(number: signal.Signals) -> None:
    time.sleep(RETRY_SECONDS)
    _thread.interrupt_main(number)


def ending_signals() -> list[signal.Signals]:
    """Return the signals that end a run, as far as this system has them."""
    return [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]


def install(interruption: Interruption) -> dict[int, Any]:
    """Let an object handle the signals; return the old handlers by the number of the signal.

    SIGHUP is left alone if it was ignored: a command that was started with nohup survives its terminal. So is SIGUSR1
    if the program uses it itself.
    """
    old: dict[int, Any] = {}
    for number in ending_signals():
        before = signal.getsignal(number)
        if number == getattr(signal, "SIGHUP", None) and before == signal.SIG_IGN:
            continue
        if number == getattr(signal, "SIGUSR1", None) and before != signal.SIG_DFL:
            continue
        old[number] = before
        signal.signal(number, interruption.on_signal)
    return old


@contextmanager
def handle_signals() -> Iterator[Interruption]:
    """Handle the signals within the context; restore the old handlers at its end.

    Within a command, whose signals are handled already, nothing is installed or restored, and its object is yielded.
    Outside the main thread, where Python cannot handle signals, the new object never sees one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield Interruption()
        return
    active = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    if isinstance(active, Interruption) and active.response is Response.AT_ONCE:  # else it is that of an outer run
        yield active
        return
    interruption = Interruption()
    old: dict[int, Any] = {}
    try:
        old = install(interruption)
        yield interruption
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


@contextmanager
def saying_what_is_saved(interruption: Interruption) -> Iterator[None]:
    """Turn a KeyboardInterrupt into an error that says which update is on disk, if one is."""
    try:
        yield
    except KeyboardInterrupt:
        interruption.response = Response.NOTED
        if interruption.saved is None:
            raise
        raise Interrupted(interruption.saved) from None
