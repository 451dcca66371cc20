"""How a command refuses bad input: one sentence on stderr, its exit code, and nothing written.

The tests in `tests/bad_input/` run in a folder that holds texts, a run on a text (`run`) and a run on a task (`task`).
"""

from __future__ import annotations

import contextlib
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hfrnn.cli import main
from hfrnn.runs.config import all_options

from .tiny_runs import TEXT, snapshot

FIELDS = all_options()
"""Every option of `train` by name."""

STEPS = ["--hidden", "4", "--sequence-length", "10", "--updates", "1"]
"""Flags of a `train` command that is about something else."""

RESUME = ["train", "--resume", "run", "--updates", "3", "--sample-length", "0"]
COMMANDS: dict[str, list[str]] = {
    "resume": RESUME,
    "dry run": [*RESUME[:-2], "--dry-run"],
    "evaluate": ["evaluate", "run"],
    "evaluate last": ["evaluate", "run", "--which", "last"],
    "sample": ["sample", "run", "--length", "3"],
    "sample last": ["sample", "run", "--length", "3", "--which", "last"],
    "probe": ["probe", "run", "--open", "T", "--close", ".", "--control", "h", "--steps", "3"],
}
READ: dict[str, tuple[str, ...]] = {
    "config.toml": tuple(COMMANDS),
    "vocabulary.json": tuple(COMMANDS),
    "metrics.jsonl": ("resume", "dry run"),
    "last.safetensors": ("resume", "dry run", "evaluate last", "sample last"),
    "best.safetensors": ("resume", "dry run", "evaluate", "sample", "probe"),
    "summary.json": (),
}
"""The commands that need each file of a run."""

TEXTS: dict[str, bytes] = {
    "text.txt": TEXT.encode(), "empty.txt": b"", "one.txt": b"T", "short.txt": b"0123456789", "same.txt": b"a" * 500,
    "newlines.txt": b"\n" * 500, "latin1.txt": b"caf\xe9 bar", "foreign.txt": "The é and ö é.".encode(),
    "nul.txt": TEXT.replace("fox", "f\0x").encode(), "bom.txt": TEXT.encode("utf-8-sig"),
    "other.txt": TEXT.replace("brown", "green").encode(),
}  # fmt: skip
"""The text files in the folder of the tests."""


def call(*arguments: str) -> Result:
    """Run a command in this process; it raises no exception and shows no warning."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        result = CliRunner().invoke(main, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        pytest.fail(f"{arguments}:\n" + "".join(traceback.format_exception(result.exception)))
    assert not heard, (arguments, [str(warning.message) for warning in heard])
    return result


def sentence_of(stderr: str) -> str:
    """Return the one sentence of an error; click's lines on the usage may stand before it."""
    *usage, last = stderr.splitlines()
    assert all(line == "" or line.startswith(("Usage: ", "Try '", "  ")) for line in usage), stderr
    assert last.startswith("Error: "), stderr
    assert not re.search(r"\b1 \w*(symbols|streams|steps|times|parameters|sequences)\b", last), last
    assert not re.search(r"\w+Error\(|<class|object at 0x", last), last
    return last.removeprefix("Error: ")


def refused(*arguments: str, code: int = 2) -> str:
    """Run a command that must fail with this exit code and change nothing; return its sentence."""
    before = snapshot(Path())
    result = call(*arguments)
    assert result.exit_code == code, (arguments, result.exit_code, result.output)
    told = [line for line in result.stdout.splitlines() if not line.startswith("numba compiles")]
    assert told == []  # numba may compile before the error is found
    assert snapshot(Path()) == before, "something was written"
    return sentence_of(result.stderr)


@contextlib.contextmanager
def replaced(path: str | Path, content: bytes | Callable[[Path], object] | None) -> Iterator[None]:
    """Replace a file by other content, by what a callable makes, or by nothing (None), within a `with` block.

    At the end every file of `run` holds what it held before, byte for byte.
    """
    path, before = Path(path), snapshot(Path("run"))
    old = path.read_bytes() if path.exists() else None
    path.unlink(missing_ok=True)
    if callable(content):
        content(path)
    elif content is not None:
        path.write_bytes(content)
    try:
        yield
    finally:
        if path.is_dir():
            path.rmdir()
        path.unlink(missing_ok=True)
        if old is not None:
            path.write_bytes(old)
        assert snapshot(Path("run")) == before
