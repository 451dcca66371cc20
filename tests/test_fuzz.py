"""The search of `tests/fuzz.py`: the files that it starts from hold the promise, and it notices what breaks it."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzz import broken, keep, place_to_read
from fuzz_readers import READERS, Reader

from hfrnn.errors import InputError, StorageError


@pytest.mark.parametrize("name", READERS)
def test_first_files_and_changed_ones_hold_the_promise(name: str) -> None:
    reader, rng = READERS[name], random.Random(0)
    contents = reader.valid()
    if reader.change is not None:
        contents += [reader.change(contents[0], lambda part: part[::-1], rng) for _ in range(3)]
    with place_to_read(reader) as folder:
        assert {broken(reader, content, folder) for content in contents} == {""}


def fail(error: Exception) -> Callable[[Path, int], Any]:
    def read(path: Path, choice: int) -> None:
        raise error

    return read


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (fail(ValueError("x")), "ValueError: x"), (fail(StorageError("x")), "exit code 1"),
        (fail(InputError("one\ntwo")), "exit code 2: one"), (fail(InputError("KeyError('x')")), "exit code 2: Key"),
        (lambda path, choice: warnings.warn("x", RuntimeWarning, stacklevel=1), "warned: RuntimeWarning x"),
        (lambda path, choice: path.with_name("new").touch(), "changed its folder"),
        (lambda path, choice: bytearray(2**26), "MiB"), (fail(InputError("x is 1: give 2")), ""),
    ],
)  # fmt: skip
def test_broken_promises_are_noticed_and_kept_once(
    read: Callable[[Path, int], object], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.MEMORY", 2**24)
    reader = Reader("a.npz", lambda: [b""], read)
    with place_to_read(reader) as folder:
        why = broken(reader, b"content", folder)
    assert expected in why
    if expected:
        kept = [keep(tmp_path, "npz", content, why) for content in (b"content", b"contents", b"short")]
        assert kept == [True, False, True]
        assert [each.read_bytes() for each in tmp_path.iterdir() if each.suffix != ".txt"] == [b"short"]
