"""Count the files that a reader passes who follows a command: `python tests/support/reading_path.py`.

The script runs `hfrnn train TEXT` until the first iteration of conjugate gradient, and `hfrnn evaluate RUN` until it
prints a number, and counts the calls of functions of hfrnn. Calls at import time are left out.

    files      files of hfrnn/ in which a function was called
    functions  functions that were called
    moves      calls of a function that stands in another file than the one called before
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

PACKAGE = Path(__file__).resolve().parents[2] / "hfrnn"


class Passed(NamedTuple):
    """What a command has called."""

    files: int
    functions: int
    moves: int
    calls: dict[str, int]


class _Arrived(BaseException):
    """The command has come to the place where the count ends."""


class _Recorder:
    """A profile function that notes the calls of functions of hfrnn.

    Parameters
    ----------
    last : str
        The count ends at the first call of a function of this name in cg.py; "" for the end of the command.
    """

    def __init__(self, last: str = "") -> None:
        self.codes: dict[CodeType, int] = {}
        self.moves, self._file, self._last, self._importing = 0, "", last, 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code.co_name == "<module>" and event in ("call", "return"):
            self._importing += 1 if event == "call" else -1
        if event != "call" or self._importing or not code.co_filename.startswith(str(PACKAGE)):
            return
        if code.co_name.startswith("<") and code.co_name != "<lambda>":  # a comprehension is a part of its function
            return
        self.codes[code] = self.codes.get(code, 0) + 1
        self.moves += code.co_filename != self._file
        self._file = code.co_filename
        if self._last and code.co_name == self._last and code.co_filename.endswith("cg.py"):
            sys.setprofile(None)
            raise _Arrived

    @property
    def passed(self) -> Passed:
        """The counts so far."""
        files = {code.co_filename for code in self.codes}
        calls = {f"{Path(code.co_filename).name}:{code.co_qualname}": n for code, n in self.codes.items()}
        return Passed(len(files), len(self.codes), self.moves, calls)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def _command(words: list[str], last: str = "") -> Passed:
    """Run a command, and return what it has called."""
    from hfrnn.cli import main

    recorder = _Recorder(last)
    with _silent():
        sys.setprofile(recorder)
        try:
            main.main(words, standalone_mode=False)
        except _Arrived:
            pass
        finally:
            sys.setprofile(None)
    return recorder.passed


def measure(folder: Path) -> dict[str, Passed]:
    """Return the counts of both commands; their files are written to a folder."""
    book, run = folder / "book.txt", folder / "run"
    book.write_text("It is a truth universally acknowledged. " * 400, encoding="utf-8")
    small: list[str] = []
    found = {"train": _command(["train", str(book), *small, "--out", str(folder / "first")], "conjugate_gradient")}
    _command(["train", str(book), *small, "--out", str(run), "--updates", "1", "--quiet"])
    found["evaluate"] = _command(["evaluate", str(run)])
    return found


def main() -> None:
    """Print the counts; with --calls also the functions that are called most."""
    sys.path.insert(0, str(PACKAGE.parent))
    with tempfile.TemporaryDirectory() as folder:
        for name, passed in measure(Path(folder)).items():
            print(f"{name:<10}{passed.files:>5} files{passed.functions:>7} functions{passed.moves:>8,} moves")
            if "--calls" in sys.argv:
                for call, count in sorted(passed.calls.items(), key=lambda item: -item[1])[:25]:
                    print(f"    {count:>6}  {call}")
            if "--files" in sys.argv:
                print("    " + " ".join(sorted({call.partition(":")[0] for call in passed.calls})))


if __name__ == "__main__":
    main()
