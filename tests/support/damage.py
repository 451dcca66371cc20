"""Ways in which a file can be damaged."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from safetensors.numpy import save as safetensors_bytes

TESTS = 8
"""Tests of random damage, among which HFRNN_DAMAGE cases are divided."""

cases = settings(max_examples=max(25, -(-int(os.environ.get("HFRNN_DAMAGE", "0")) // TESTS)))
"""Sets the number of cases of a test of random damage."""


def a_handful(table: Iterable[Any]) -> list[Any]:
    """Mark the cases of a table as nightly, all but every fifth."""
    rows = [case if isinstance(case, tuple) else (case,) for case in table]
    return [pytest.param(*row, marks=pytest.mark.nightly if n % 5 else ()) for n, row in enumerate(rows)]


def a_folder(path: Path) -> None:
    path.mkdir()


def a_loop(path: Path) -> None:
    os.symlink(path.name, path)


def nothing_else(path: Path) -> None:
    os.symlink("nowhere", path)


def a_sparse_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10**12)


DAMAGE: dict[str, Callable[[bytes], bytes | Callable[[Path], object] | None]] = {
    "missing": lambda content: None,
    "empty": lambda content: b"",
    "half of it": lambda content: content[: len(content) // 2],
    "zeros": lambda content: bytes(len(content)),
    "rubbish": lambda content: bytes(255 - byte for byte in content),
    "not UTF-8": lambda content: b"\xff\xfe" + content,
    "a list": lambda content: b"[]\n",
    "an object": lambda content: b"{}\n",
    "nested too deeply": lambda content: b"[" * 100_000 + b"\n",
    "a folder": lambda content: a_folder,
    "a loop": lambda content: a_loop,
    "a link to nowhere": lambda content: nothing_else,
}


def sealed_checkpoint(version: str, meta: str, arrays: dict[str, Any], form: str = "hfrnn-checkpoint") -> bytes:
    """Return a checkpoint with a right checksum, whatever else it holds."""
    digest = hashlib.sha256(json.dumps(["hfrnn-checkpoint", version, meta]).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.name, array.shape]).encode())
        digest.update(array.reshape(-1).data)
    metadata = {"format": form, "version": version, "meta": meta, "sha256": digest.hexdigest()}
    return bytes(safetensors_bytes(arrays, metadata=metadata))


json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.text(max_size=5),
        st.sampled_from([-1, 0, 1, 2**31, 2**63, 10**30, -0.5, 1e308, float("inf"), float("nan")]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=4,
)  # fmt: skip


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(min(len(value), 3)):
            yield from places(value[key], (*at, key))


def put(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[at[0]] = put(value[at[0]], at[1:], new)
    return changed
