"""The one place where commands write to the terminal, to a file or to a pipe.

Names, texts and messages may come from files of other people, so everything but the escape codes of our own live lines
passes through `visible` of `hfrnn/wording.py`.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import math
import os
import select
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

import click

from hfrnn.choices import AUTO
from hfrnn.errors import MissingExtraError
from hfrnn.training.signals import is_broken_pipe
from hfrnn.wording import escaped, one_line, visible

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str = "", err: bool = False, end: str = "\n") -> None:
    """Write a text to stdout, or to stderr with `err`, where errors are ignored. Control characters become visible."""
    try:
        click.echo(visible(text) + end, nl=False, err=err)
    except OSError:
        if not err:
            raise


def say_json(value: Any) -> None:
    """Write a value to stdout as a line of JSON, which has null for NaN and infinity."""
    say_document(json.dumps(_finite(value), allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    """Return the value with None for its numbers that are not finite."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def say_document(document: str) -> None:
    """Write JSON or TOML to stdout so that it can be read back.

    In its strings, control characters become escapes, and so does all that is not ASCII unless stdout is UTF-8: a pipe
    of Windows is not, and PowerShell decodes what it gets by yet another table.
    """
    click.echo(escaped(document, sys.stdout.encoding or "utf-8"), nl=False)


def say_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout; also a newline within a line becomes visible."""
    for line in lines:
        say(one_line(line))


def say_data(text: str) -> None:
    """Write a generated text to stdout: to a pipe or file unchanged, in UTF-8; a terminal gets it as from `say`."""
    if sys.stdout.isatty():
        say(text)
    else:
        click.echo(f"{text}\n".encode("utf-8", "backslashreplace"), nl=False)


def say_path(path: str | os.PathLike[str]) -> None:
    """Write a path to stdout, in the encoding that scripts expect: unchanged, but to a terminal as from `say`."""
    text = os.fspath(path)
    click.echo(visible(text) if sys.stdout.isatty() else text, color=True)  # without `color`, click drops escape codes


def compiling() -> str:
    """Return the line that tells that numba compiles."""
    from hfrnn.kernels.numba.cache import why_uncached

    later = "" if why_uncached() else "; later runs load them from its cache"
    return f"numba compiles loops for this machine, which takes some seconds{later}"


@contextlib.contextmanager
def telling_of_compilation(
    backend: str, quiet: bool = False, tell: Callable[[str], object] | None = None
) -> Iterator[None]:
    """Tell within the context, once, when numba compiles: by `tell`, which prints a line, or on stderr."""
    from hfrnn.arrays.backend import get_backend

    speak = tell or (lambda text: say(text, err=True))
    try:
        found = get_backend("numpy" if quiet or backend not in (AUTO, "numba") else "numba")
    except MissingExtraError:  # the command tells it if it matters
        found = get_backend("numpy")
    with found.compiling(lambda: speak(compiling())):
        yield


class LiveFile:
    """A stream for a live display, which must never end a run: of its errors only a broken pipe is raised."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            raise_broken_pipe(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise_broken_pipe(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def raise_broken_pipe(error: OSError) -> None:
    """Raise an error of the output again if the reader of a pipe has gone."""
    if is_broken_pipe(error):
        raise error


def make_console(stderr: bool = False) -> Console:
    """Return a console on stdout or stderr. Only a terminal gets a live line, even if FORCE_COLOR is set."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=LiveFile(stream), force_terminal=None if stream.isatty() else False)  # type: ignore[arg-type]


def show_warning(message: Warning | str, *_: Any) -> None:
    """Write a warning of the library to stderr, for `warnings.showwarning`."""
    say(f"Warning: {one_line(str(message))}", err=True)


def prepare_streams() -> None:
    """Replace closed standard streams by the null device, and let streams write what their encoding lacks as numbers.

    Without this, the next opened file would get the number of the closed stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a character gets its number
            stream.reconfigure(errors="backslashreplace")


def is_lost_output(error: OSError) -> bool:
    """Return whether an error is one of writing to a standard stream: only click, rich and this module write there."""
    if error.filename is not None or not (is_broken_pipe(error) or error.errno in (errno.ENOSPC, errno.EBADF)):
        return False
    writers = {"click", "rich", __name__}
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    name = frame.f_globals["__name__"]
    return name in writers or name.partition(".")[0] in writers


def finish_streams(status: int, wait: bool = True) -> int:
    """Flush the standard streams and return the exit status: 1 instead of 0 if stdout cannot be written to.

    Without `wait`, what a pipe cannot take at once is dropped: its reader may have stopped reading.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if not wait and os.name == "posix" and not select.select([], [stream], [], 0)[1]:
                raise BlockingIOError
            stream.flush()
        except (OSError, ValueError):
            if stream is sys.stdout:
                status = status or 1
            with contextlib.suppress(OSError, ValueError):  # else Python reports the unwritten rest at its end
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return status


class _Text(io.StringIO):
    """A text from which click does not drop escape codes, so that they can be shown."""

    def isatty(self) -> bool:
        return True


def show_failure(error: click.ClickException) -> int:
    """Write an error to stderr, and return its exit status."""
    with _Text() as text:
        error.show(text)
        say(text.getvalue(), err=True, end="")
    return error.exit_code


def show_lost_output(error: OSError) -> int:
    """Tell that stdout cannot be written to, and return the exit status. A closed pipe is no error of ours."""
    if not is_broken_pipe(error):
        say(f"Error: cannot write to stdout ({error.strerror})", err=True)
    return 1
