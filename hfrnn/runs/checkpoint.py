"""A training state on disk: named arrays and a description, in one safetensors file with a checksum.

The file is ordinary safetensors. Its metadata holds four strings: `format`, `version`, `meta` (JSON) and `sha256`. The
checksum covers the first three and the name, type, shape and bytes of every array. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse_safetensors
from safetensors.numpy import save as safetensors_bytes

from hfrnn.arrays.stored import in_file_order
from hfrnn.checks import shown
from hfrnn.errors import CheckpointError, InputError, reason_of
from hfrnn.files import CHECKPOINT_SHARE, DESCRIPTION, memory_share, open_to_read
from hfrnn.wording import one_line

FORMAT = "hfrnn-checkpoint"
VERSION = 1
_TYPES = {
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
}  # fmt: skip

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


def checkpoint_bytes(arrays: Mapping[str, np.ndarray[Any, np.dtype[Any]]], meta: Mapping[str, Any]) -> bytes:
    """Return the content of a checkpoint file, which `load_checkpoint` reads.

    The arrays hold booleans, integers or floats and have any shape (also 0-d and empty). Their names are printable
    ASCII. The description `meta` holds values of JSON, also infinities and NaN; tuples come back as lists.
    """
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    try:
        text = json.dumps(dict(meta))
    except (TypeError, ValueError) as error:
        raise InputError(f"the description of a checkpoint must be JSON values, but {error}") from error
    version = str(VERSION)
    metadata = {"format": FORMAT, "version": version, "meta": text, "sha256": _checksum(version, text, plain)}
    return bytes(safetensors_bytes(plain, metadata=metadata))


def load_checkpoint(
    path: str | os.PathLike[str], most: Callable[[dict[str, Any]], int] | None = None
) -> tuple[Arrays, dict[str, Any]]:
    """Read the arrays of a checkpoint file, with the same bits as when they were stored, and its description.

    `most` returns the largest number of bytes that the arrays may take, given the description. The header is read
    first, and a larger file is refused unread. No file may be larger than a quarter of the memory.
    """
    path = Path(path)
    with _opened(path) as file:
        start = _start(path, file)
        metadata = _metadata(path, _header(path, start))
        version, text = metadata["version"], metadata["meta"]
        meta, damaged = _parsed(text), f"checkpoint {path} is damaged"
        if meta is None:
            advice = "use an older checkpoint or start again"
            raise CheckpointError(f"{damaged}: its description is not a JSON object; {advice}")
        size, largest = os.fstat(file.fileno()).st_size, memory_share(CHECKPOINT_SHARE)
        if most is not None:
            largest = min(largest, len(start) + most(meta))
        if size > largest:
            sizes = f"{size:,} bytes, and one of this network at most {largest:,}"
            raise CheckpointError(f"checkpoint {path} has {sizes}: restore it from a copy")
        data = start + file.read(largest - len(start))
    try:
        parsed = parse_safetensors(data)
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError) as error:
        why = one_line(str(error))
        raise CheckpointError(f"{damaged} or cut short ({why}); use an older checkpoint or start again") from error
    if _checksum(version, text, parsed) != metadata["sha256"]:
        raise CheckpointError(f"{damaged}: its checksum does not match; use an older checkpoint or start again")
    return {name: array if array.flags.writeable else array.copy() for name, array in parsed.items()}, meta


def check_description(meta: Mapping[str, Any], path: Path, names: Collection[str] | None = None) -> None:
    """Check that the description of a checkpoint is that of a training state; by default all of its parts."""
    update = meta.get("update")
    known = {
        "update": _is_count(update),
        "seconds": isinstance(meta.get("seconds"), int | float) and math.isfinite(meta["seconds"]),
        "symbols": _is_count(meta.get("symbols")),
        "network": _is_network(meta.get("network")),
        "method": isinstance(meta.get("method"), dict),
        "plans": isinstance(meta.get("plans"), dict),
        "best": meta.get("best") is None or _is_record(meta["best"]),
        "last": _is_record(meta.get("last")) and meta["last"]["update"] == update if update else True,
    }
    for name, fits in known.items():
        if (names is None or name in names) and (name not in meta or not fits):
            what = "lacks" if name not in meta else "has a damaged"
            raise CheckpointError(f"checkpoint {path} {what} {name!r}: it is not a training state; use another one")


def _plain(name: object, array: object) -> np.ndarray[Any, np.dtype[Any]]:
    """Return an array as C-contiguous little-endian; raise InputError if it cannot be stored."""
    if not isinstance(name, str) or not (name.isascii() and name.isprintable()) or name == "__metadata__":
        raise InputError(f"an array of a checkpoint cannot be named {name!r}; use printable ASCII characters")
    if not isinstance(array, np.ndarray | np.generic) or array.dtype.name not in _TYPES:
        kind = array.dtype if isinstance(array, np.ndarray | np.generic) else type(array).__name__
        expected = "give a NumPy array of booleans, integers or floats"
        raise InputError(f"array {name!r} of a checkpoint is {kind}; {expected}")
    return in_file_order(np.asarray(array))


def _checksum(version: str, meta: str, arrays: Mapping[str, np.ndarray[Any, np.dtype[Any]]]) -> str:
    """Return the sha256 of all parts of a checkpoint. Name, type and shape of an array precede its bytes."""
    digest = hashlib.sha256(json.dumps([FORMAT, version, meta]).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.name, array.shape]).encode())
        digest.update(array.reshape(-1).data)
    return digest.hexdigest()


def array_sizes(path: str | os.PathLike[str]) -> dict[str, int]:
    """Return the number of entries of every array of a checkpoint, from its header alone."""
    path = Path(path)
    with _opened(path) as file:
        header = _header(path, _start(path, file))
    try:
        return {name: _entries(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged or not a checkpoint: its header cannot be read") from error


def _entries(shape: Any) -> int:
    """Return the number of entries of an array; raise TypeError if what a file gives is no shape."""
    if not isinstance(shape, list) or any(type(n) is not int for n in shape):  # a text times a number is a long text
        raise TypeError(f"{shape!r} is no shape")
    return math.prod(shape)


def _opened(path: Path) -> BinaryIO:
    """Return a checkpoint, open for reading."""
    try:
        return open_to_read(path, links=False)
    except FileNotFoundError as error:
        raise CheckpointError(f"there is no checkpoint {path}; give a file that a run has written") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"cannot read checkpoint {path}: {reason_of(error)}") from error


def _start(path: Path, file: BinaryIO) -> bytes:
    """Return the beginning of a checkpoint: eight bytes with the size of the header, and the header."""
    first = file.read(8)
    size = int.from_bytes(first, "little")
    if len(first) < 8 or size > min(DESCRIPTION, os.fstat(file.fileno()).st_size - 8):
        raise CheckpointError(f"checkpoint {path} is cut short or not a checkpoint; use another one")
    return first + file.read(size)


def _header(path: Path, start: bytes) -> dict[str, Any]:
    """Return the header of a checkpoint."""
    header = _parsed(start[8:])
    if header is None or not isinstance(header.get("__metadata__", {}), dict):
        raise CheckpointError(f"{path} is damaged or not a checkpoint: its header cannot be read")
    return header


def _parsed(text: str | bytes) -> dict[str, Any] | None:
    """Return an object of JSON; None for everything else."""
    try:
        found = json.loads(text.decode("utf-8") if isinstance(text, bytes) else text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _metadata(path: Path, header: dict[str, Any]) -> dict[str, str]:
    """Return the strings of the header, after the checks that need only the header."""
    metadata = header.get("__metadata__", {})
    name = metadata.get("format")
    if name != FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of hfrnn (its format is {shown(name)}, not {FORMAT!r})")
    found = {key: metadata.get(key) for key in ("version", "meta", "sha256")}
    if not all(isinstance(value, str) for value in found.values()):
        raise CheckpointError(f"checkpoint {path} is damaged: its header lacks a part")
    if found["version"] != str(VERSION):
        version = f"has format version {one_line(found['version'][:20])}, and this hfrnn reads version {VERSION}"
        raise CheckpointError(f"checkpoint {path} {version}; use the hfrnn that wrote it or a newer one")
    return found


def _is_count(value: Any) -> bool:
    """Return whether a value is a whole number, 0 or more."""
    return type(value) is int and value >= 0


def _is_record(value: Any) -> bool:
    """Return whether a value is a record of metrics.jsonl."""
    numbers = ("seconds", "train_loss", "train_bits", "valid_loss", "valid_bits", "valid_errors")
    return (
        isinstance(value, dict)
        and _is_count(value.get("update"))
        and all(isinstance(value.get(name, ""), int | float | None) for name in numbers)
    )


def _is_network(value: Any) -> bool:
    """Return whether a value holds n_in, n_out and loss, perhaps classes and recordings, and nothing else."""
    if not isinstance(value, dict) or not {"n_in", "n_out", "loss"} <= value.keys():
        return False
    given, classes = {"classes": [], "recordings": 1, **value}, value.get("classes", [])
    return (
        given.keys() == {"n_in", "n_out", "loss", "classes", "recordings"}
        and all(_is_count(given[name]) and 0 < given[name] < 2**31 for name in ("n_in", "n_out", "recordings"))
        and isinstance(value["loss"], str)
        and isinstance(classes, list)
        and all(map(_is_count, classes))
    )
