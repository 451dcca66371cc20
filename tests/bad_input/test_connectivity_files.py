"""Files of `--connectivity` that are damaged, hostile or odd: one sentence, and nothing is unpickled or allocated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.array_files import Trap, archive, described, header, npz

import hfrnn
from hfrnn.engine.constraints import Constraints
from hfrnn.errors import InputError
from hfrnn.runs.run_constraints import read_connectivity

MASK = np.eye(4)


def network() -> hfrnn.Network:
    return hfrnn.Network("rnn", 3, 4, 2)


def declared(shape: str) -> bytes:
    """An archive with an array of no bytes whose header declares a shape."""
    return archive({"layer0.W_h.npy": header(described(shape))})


FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "File is not a zip file"),
    "cut short": (lambda: npz({"layer0.W_h": MASK})[:-40], "cannot be read"),
    "a pickle": (lambda: npz({"layer0.W_h": np.array([Trap()], dtype=object)}), "holds object, no plain numbers"),
    "strings": (lambda: npz({"layer0.W_h": np.full((4, 4), "1")}), "holds <U1, no plain numbers"),
    "huge": (lambda: declared("(1000000, 1000000)"), r"has shape \(1000000, 1000000\), and the network has 40 weig"),
    "too few bytes": (lambda: declared("(4, 4)"), "layer0.W_h is cut short"),
    "no arrays": (lambda: npz({}), "holds no arrays"),
    "negative": (lambda: declared("(-4, 4)"), "shape .-4, 4., and"),
    "no header": (lambda: archive({"layer0.W_h.npy": b"1,2,3"}), "cannot be read"),
    "another version": (lambda: archive({"layer0.W_h.npy": b"\x93NUMPY\x09\x00" + b" " * 40}), "format version"),
    "many arrays": (lambda: npz({f"a{n}": MASK for n in range(40)}), "it holds 40 arrays, more than the network"),
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
    assert not Path("trapped").exists()


def test_every_cut_of_a_file_is_refused_or_read_as_it_was(tmp_path: Path) -> None:
    whole, path = npz({"layer0.W_h": MASK, "layer0.W_h.sign": np.ones(4)}), tmp_path / "c.npz"
    for size in range(0, len(whole), 23):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError):
            read_connectivity(path, network())


@pytest.mark.parametrize("kind", ["?", "u8", ">f8"])
def test_numbers_of_other_types_and_orders_are_read(tmp_path: Path, kind: str) -> None:
    mask, path = np.triu(np.ones((4, 4))), tmp_path / "c.npz"
    np.savez_compressed(path, **{"layer0.W_h": mask.astype(kind, order="F"), "layer0.W_h.sign": [1, 1, 0, 0]})
    masks, signs = read_connectivity(path, network())
    constraints = Constraints(network(), masks, signs)
    absent = constraints.net.views(constraints.absent.astype(int))["layer0.W_h"]
    np.testing.assert_array_equal(absent, 1 - mask)
    assert constraints.signs.sum() == 7
