"""Arrays as they are written to files: C-contiguous and little-endian, whatever the order in memory was."""

from __future__ import annotations

import io
import zipfile
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
    with zipfile.ZipFile(content, "w") as archive:  # savez has arguments of its own, whose names arrays could have
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, in_file_order(array), allow_pickle=False)
    return content.getvalue()
