"""Files of `--connectivity` that are damaged, hostile or odd: one sentence, and nothing is unpickled or allocated."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hfrnn
from hfrnn.engine.constraints import Constraints
from hfrnn.errors import InputError
from hfrnn.runs.run_constraints import read_connectivity

MASK = np.eye(4)


class Harmful:
    """Unpickling it would fail the test."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("a pickle was loaded",)


def network() -> hfrnn.Network:
    return hfrnn.Network("rnn", 3, 4, 2)


def saved(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **{name.replace("__", "."): value for name, value in arrays.items()})
    return file.getvalue()


def archive(name: str, content: bytes, kind: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as members:
        members.writestr(name, content)
    return file.getvalue()


def declared(header: str) -> bytes:
    """An array of no bytes whose header declares something else."""
    padded = header.encode() + b" " * (117 - len(header)) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded


HUGE = declared("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }")
FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "File is not a zip file"),
    "text": (lambda: b"layer0.W_h\n" * 50, "File is not a zip file"),
    "one array": (lambda: saved(a=MASK)[40:], "cannot be read"),
    "cut short": (lambda: saved(layer0__W_h=MASK)[:-40], "cannot be read"),
    "no arrays": (lambda: saved(), "holds no arrays"),
    "objects": (lambda: saved(layer0__W_h=np.array([{}], dtype=object)), "holds object, no plain numbers"),
    "a pickle": (lambda: saved(layer0__W_h=np.array([Harmful()], dtype=object)), "holds object, no plain numbers"),
    "strings": (lambda: saved(layer0__W_h=np.full((4, 4), "1")), "holds <U1, no plain numbers"),
    "complex": (lambda: saved(layer0__W_h=MASK * 1j), "holds complex128, no plain numbers"),
    "huge": (lambda: archive("layer0.W_h.npy", HUGE), r"has shape \(1000000, 1000000\), and the network has 40 weig"),
    "too few bytes": (
        lambda: archive("layer0.W_h.npy", declared("{'descr': '<f8', 'fortran_order': False, 'shape': (4, 4), }")),
        "layer0.W_h is cut short",
    ),
    "negative": (
        lambda: archive("layer0.W_h.npy", declared("{'descr': '<f8', 'fortran_order': False, 'shape': (-4, 4), }")),
        "shape .-4, 4., and",
    ),
    "no header": (lambda: archive("layer0.W_h.npy", b"1,2,3"), "cannot be read"),
    "another version": (lambda: archive("layer0.W_h.npy", b"\x93NUMPY\x09\x00" + b" " * 40), "format version"),
    "many arrays": (lambda: saved(**{f"a{n}": MASK for n in range(40)}), "it holds 40 arrays, more than the network"),
    "unpackable": (
        lambda: archive("layer0.W_h.npy", saved(a=MASK), zipfile.ZIP_DEFLATED).replace(b"\x08\x00", b"\x63\x00"),
        "cannot be read",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_archive_of_numbers_is_refused(tmp_path: Path, name: str) -> None:
    make, message = FILES[name]
    path = tmp_path / "c.npz"
    path.write_bytes(make())
    with pytest.raises(InputError, match=message) as caught:
        read_connectivity(path, network())
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_every_cut_of_a_file_is_refused_or_read_as_it_was(tmp_path: Path) -> None:
    whole, path = saved(layer0__W_h=MASK, layer0__W_h__sign=np.ones(4)), tmp_path / "c.npz"
    refused = 0
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError):
            read_connectivity(path, network())
        refused += 1
    assert refused > 50


@pytest.mark.parametrize("kind", ["?", "i1", "u8", "f4", ">f8", "f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_of_every_type_and_order_are_read(tmp_path: Path, kind: str, order: Any) -> None:
    mask, path = np.triu(np.ones((4, 4))), tmp_path / "c.npz"
    np.savez_compressed(path, **{"layer0.W_h": mask.astype(kind, order=order), "layer0.W_h.sign": [1, 1, 0, 0]})
    masks, signs = read_connectivity(path, network())
    constraints = Constraints(network(), masks, signs)
    absent = constraints.net.views(constraints.absent.astype(int))["layer0.W_h"]
    np.testing.assert_array_equal(absent, 1 - mask)
    assert constraints.signs.sum() == 7
