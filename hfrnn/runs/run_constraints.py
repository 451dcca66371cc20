"""The constraints of a run: read from a file of the user, and from its checkpoints."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from numpy.lib import format as npy

from hfrnn.arrays.backend import HostArray
from hfrnn.data.array_files import HEADERS
from hfrnn.errors import CheckpointError, InputError, Message, reason_of
from hfrnn.files import open_to_read

if TYPE_CHECKING:
    from hfrnn.engine.constraints import Constraints
    from hfrnn.engine.network import Network

CONSTRAINTS = "constraints"
"""Name of the codes of `Constraints` in a checkpoint."""
SIGN = ".sign"
"""End of the name of an array that holds signs, after the name of the parameter."""

Tables = tuple[dict[str, HostArray], dict[str, HostArray]]
"""Masks and signs by name of the parameter."""


def read_connectivity(path: str | Path, net: Network) -> Tables:
    """Read the masks and signs of a file of `numpy.savez`. Nothing is unpickled.

    An array named like a parameter (`layer0.W_h`) is its mask, and one with `.sign` after that name
    (`layer0.W_h.sign`) holds its signs; shapes and values are those of `Constraints`.
    """
    tables: Tables = ({}, {})
    try:
        with open_to_read(path) as file, zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            if len(names) > 2 * len(net.parameters.blocks):
                raise ValueError(f"it holds {len(names):,} arrays, more than the network has parameters")
            for name in names:
                key = name.removesuffix(".npy")
                with archive.open(name) as member:
                    tables[key.endswith(SIGN)][key.removesuffix(SIGN)] = _read_array(member, key, net.n_parameters)
    except (OSError, ValueError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        unread = "{connectivity} is {0}, which cannot be read ({1}): give a file that numpy.savez has written"
        raise InputError(Message(unread, path, reason_of(error))) from error
    if not (tables[0] or tables[1]):
        empty = "{connectivity} is {0}, which holds no arrays: give a mask or signs for at least one parameter"
        raise InputError(Message(empty, path))
    return tables


def _read_array(member: IO[bytes], name: str, most: int) -> HostArray:
    """Return an array of at most `most` numbers; its declared shape is checked before memory is allocated."""
    version = npy.read_magic(member)
    if version not in HEADERS:
        raise ValueError(f"{name} has the format version {version}")
    shape, in_columns, dtype = HEADERS[version](member)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise ValueError(f"{name} holds {dtype}, no plain numbers")
    if min(shape, default=0) < 0 or (size := math.prod(shape)) > most:
        raise ValueError(f"{name} has shape {shape}, and the network has {most:,} weights")
    data = member.read(size * dtype.itemsize)
    if len(data) < size * dtype.itemsize:
        raise ValueError(f"{name} is cut short")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if in_columns else "C")


def stored_constraints(net: Network, arrays: Mapping[str, HostArray], path: Path) -> Constraints | None:
    """Return the constraints among the arrays of a checkpoint; None if its run has none. Messages name its `path`."""
    from hfrnn.engine.constraints import Constraints

    if CONSTRAINTS not in arrays:
        return None
    try:
        return Constraints.of_codes(net, arrays[CONSTRAINTS])
    except InputError as error:
        raise CheckpointError(f"the checkpoint in {path} holds damaged constraints: {error}") from error
