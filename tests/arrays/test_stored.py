"""Arrays in files: C-contiguous and little-endian, made so in one place."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import hfrnn
from hfrnn.arrays.stored import npz_bytes

PACKAGE = Path(hfrnn.__file__).parent
WRITERS = r"np\.save\w*\(|np\.lib\.format|safetensors_bytes\(|save_file\(|to_csv\(|\.tofile\("


def test_a_file_of_arrays_holds_c_order_whatever_lies_in_memory() -> None:
    base = np.arange(24.0).reshape(2, 3, 4)
    arrays = {
        "turned": base.T, "steps": base[:, ::-2, ::3], "fortran": np.asfortranarray(base), "big": base.astype(">f4"),
        "row": np.broadcast_to(base[0, 0], (3, 4)), "number": np.float32(3), "names": np.array(["a", "bc"]),
    }  # fmt: skip
    content = npz_bytes(arrays)
    with zipfile.ZipFile(io.BytesIO(content)) as stored:
        headers = [stored.read(name)[:128] for name in stored.namelist()]
    assert not any(b"'fortran_order': True" in header or b"'>" in header for header in headers)
    with np.load(io.BytesIO(content)) as found:
        assert [*found] == [*arrays]
        assert all(np.array_equal(found[name], array) for name, array in arrays.items())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_strided_weights_are_saved_as_they_are_meant(tmp_path: Path, dtype: str) -> None:
    net = hfrnn.Network("lstm", n_in=3, hidden=(5, 4), n_out=2, dtype=dtype)
    theta = net.init(seed=0)
    columns = np.stack([theta, -theta], axis=1)
    for given in (columns[:, 0], theta[::-1].copy()[::-1], theta.astype(theta.dtype.newbyteorder())):
        hfrnn.save(net, given, tmp_path / "net.safetensors")
        blocks = load_file(tmp_path / "net.safetensors")
        assert all(np.array_equal(blocks[name], view) for name, view in net.views(theta).items())


def test_arrays_are_written_in_two_files_and_by_exported_programs() -> None:
    writing = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py")
               if re.search(WRITERS, re.sub(r'""".*?"""', "", file.read_text("utf-8"), flags=re.S))}  # fmt: skip
    assert writing == {"arrays/stored.py", "runs/checkpoint.py", "exports/numpy_program.py"}
