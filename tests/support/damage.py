"""Ways in which a file can be damaged."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.numpy import save as safetensors_bytes


def a_folder(path: Path) -> None:
    path.mkdir()


def a_loop(path: Path) -> None:
    os.symlink(path.name, path)


def nothing_else(path: Path) -> None:
    os.symlink("nowhere", path)


DAMAGE: dict[str, Callable[[bytes], bytes | Callable[[Path], object] | None]] = {
    "missing": lambda content: None,
    "empty": lambda content: b"",
    "its first byte": lambda content: content[:1],
    "its first quarter": lambda content: content[: len(content) // 4],
    "half of it": lambda content: content[: len(content) // 2],
    "all but the end": lambda content: content[: -len(content) // 20],
    "zeros": lambda content: bytes(len(content)),
    "rubbish": lambda content: bytes(255 - byte for byte in content),
    "not UTF-8": lambda content: b"\xff\xfe" + content,
    "a picture": lambda content: b"\x89PNG\r\n\x1a\n" + content,
    "null": lambda content: b"null\n",
    "a number": lambda content: b"7\n",
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
