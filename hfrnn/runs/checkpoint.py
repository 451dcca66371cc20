"""A training state on disk: named arrays and a description, in one checked safetensors file.

The file is ordinary safetensors. Its metadata holds four strings: `format`, `version`, `meta` (JSON) and `sha256`, the
checksum over the first three and every array's name, type, shape and bytes. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse_safetensors
from safetensors.numpy import save as safetensors_bytes

from hfrnn.atomic import write_atomic
from hfrnn.errors import CheckpointError, InputError

FORMAT = "hfrnn-checkpoint"
VERSION = 1
_TYPES = {
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
}

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]


def save_checkpoint(
    path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray[Any, np.dtype[Any]]], meta: Mapping[str, Any]
) -> None:
    """Write `checkpoint_bytes` to a file, whole or not at all; its folder must exist.

    Raises
    ------
    InputError
        An array or a value that such a file cannot hold.
    StorageError
        The file cannot be written; the old one, if any, is as it was.
    """
    write_atomic(path, checkpoint_bytes(arrays, meta))


def checkpoint_bytes(arrays: Mapping[str, np.ndarray[Any, np.dtype[Any]]], meta: Mapping[str, Any]) -> bytes:
    """Arrays and their description as the content of a checkpoint file.

    Parameters
    ----------
    arrays : mapping of str (printable ASCII) to ndarray
        Host arrays of any shape (0-d and empty too) of booleans, integers or floats; they come back bit for bit.
    meta : mapping
        Values that JSON can hold (infinities and NaN too); tuples come back as lists.

    Returns
    -------
    bytes
        What `load_checkpoint` reads back.

    Raises
    ------
    InputError
        An array or a value that such a file cannot hold.
    """
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    try:
        text = json.dumps(dict(meta))
    except (TypeError, ValueError) as error:
        raise InputError(f"the description of a checkpoint must be JSON values, but {error}") from error
    version = str(VERSION)
    metadata = {"format": FORMAT, "version": version, "meta": text, "sha256": _checksum(version, text, plain)}
    return bytes(safetensors_bytes(plain, metadata=metadata))


def load_checkpoint(path: str | os.PathLike[str]) -> tuple[Arrays, dict[str, Any]]:
    """Read back what `save_checkpoint` wrote, or refuse the file.

    Parameters
    ----------
    path : path
        A file written by `save_checkpoint`.

    Returns
    -------
    arrays : dict of str to ndarray
        The arrays, bit for bit, writable.
    meta : dict
        The description.

    Raises
    ------
    CheckpointError
        The file is missing, unreadable, cut short, another tool's, of a newer format, or not as it was written.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise CheckpointError(f"there is no checkpoint {path}; give a file that a run has written") from error
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise CheckpointError(f"cannot read checkpoint {path}: {reason}") from error
    metadata = _metadata(path, data)
    version, text = metadata["version"], metadata["meta"]
    damaged = f"checkpoint {path} is damaged"
    try:
        parsed = parse_safetensors(data)
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise CheckpointError(f"{damaged} or cut short ({error}); use an older checkpoint or start anew") from error
    if _checksum(version, text, parsed) != metadata["sha256"]:
        raise CheckpointError(f"{damaged}: its checksum does not match; use an older checkpoint or start anew")
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError):
        meta = None
    if not isinstance(meta, dict):
        raise CheckpointError(f"{damaged}: its description is no JSON object; use an older checkpoint or start anew")
    return {name: array if array.flags.writeable else array.copy() for name, array in parsed.items()}, meta


def check_description(meta: Mapping[str, Any], path: Path, names: Collection[str] | None = None) -> None:
    """Refuse a description that cannot be that of a training state; of some `names`, those parts alone count.

    Raises
    ------
    CheckpointError
        It lacks a part, or has another in its place; `path` is named.
    """
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
    """A C-contiguous little-endian array, or a sentence on why it cannot be stored."""
    if not isinstance(name, str) or not (name.isascii() and name.isprintable()) or name == "__metadata__":
        raise InputError(f"an array of a checkpoint cannot be named {name!r}; use printable ASCII characters")
    if not isinstance(array, np.ndarray | np.generic) or array.dtype.name not in _TYPES:
        kind = array.dtype if isinstance(array, np.ndarray | np.generic) else type(array).__name__
        raise InputError(
            f"array {name!r} of a checkpoint is {kind}; give a NumPy array of booleans, integers or floats"
        )
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _checksum(version: str, meta: str, arrays: Mapping[str, np.ndarray[Any, np.dtype[Any]]]) -> str:
    """The sha256 over all that a checkpoint says, each piece preceded by what tells where it ends."""
    digest = hashlib.sha256(json.dumps([FORMAT, version, meta]).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.name, array.shape]).encode())
        digest.update(array.reshape(-1).data)
    return digest.hexdigest()


def _metadata(path: Path, data: bytes) -> dict[str, str]:
    """The four strings of the header, after the checks that need nothing else."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise CheckpointError(f"checkpoint {path} is cut short or no checkpoint at all; use another one")
    try:
        header = json.loads(data[8 : 8 + size].decode("utf-8"))
        metadata = header.get("__metadata__", {})
        name = metadata.get("format")
    except (ValueError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged or no checkpoint at all: its header cannot be read") from error
    if name != FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of hfrnn (its format is {name!r}, not {FORMAT!r})")
    found = {key: metadata.get(key) for key in ("version", "meta", "sha256")}
    if not all(isinstance(value, str) for value in found.values()):
        raise CheckpointError(f"checkpoint {path} is damaged: its header lacks a part")
    if found["version"] != str(VERSION):
        raise CheckpointError(
            f"checkpoint {path} has format version {found['version']}, and this hfrnn reads version {VERSION}; "
            "use the hfrnn that wrote it or a newer one"
        )
    return found


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_record(value: Any) -> bool:
    """Whether it is a line of the log."""
    numbers = ("seconds", "train_loss", "train_bits", "valid_loss", "valid_bits", "valid_errors")
    return (
        isinstance(value, dict)
        and _is_count(value.get("update"))
        and all(isinstance(value.get(name, ""), int | float | None) for name in numbers)
    )


def _is_network(value: Any) -> bool:
    """Whether it says n_in, n_out and loss of a network, and perhaps its classes, and nothing else."""
    if not isinstance(value, dict) or not {"n_in", "n_out", "loss"} <= value.keys():
        return False
    given, classes = {"classes": [], **value}, value.get("classes", [])
    return (
        given.keys() == {"n_in", "n_out", "loss", "classes"}
        and all(_is_count(value[name]) and 0 < value[name] < 2**31 for name in ("n_in", "n_out"))
        and isinstance(value["loss"], str)
        and isinstance(classes, list)
        and all(map(_is_count, classes))
    )
