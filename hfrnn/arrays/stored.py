"""Arrays as they are written to files: C-contiguous and little-endian, whatever the order in memory was."""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np

from hfrnn.arrays.backend import HostArray


def in_file_order(array: HostArray) -> HostArray:
    """Return an array as C-contiguous and little-endian; its values and its type stay.

    Some writers of files copy the memory of an array as it lies (safetensors.numpy 0.8 does), and some readers of .npz
    ignore that an array is stored in Fortran order.
    """
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def npz_bytes(arrays: Mapping[str, HostArray]) -> bytes:
    """Return the content of a .npz file of arrays by name; no object is pickled."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **{name: in_file_order(array) for name, array in arrays.items()})
    return content.getvalue()
