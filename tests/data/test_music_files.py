"""Piano rolls of one's own, in the two forms of the known music corpora."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.array_files import PACKED, PIECES, ROLL, good, mat, npy, npz
from support.command_line import call

import hfrnn
from hfrnn.data.music import load_rolls


@pytest.mark.parametrize("name", ["r.mat", "r.npz"])
def test_the_pieces_of_every_part_are_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(mat(PIECES) if name == "r.mat" else npz(PACKED))
    music = load_rolls(tmp_path / name)
    assert music is not None
    for part in (music.train, music.valid, music.test):
        expected = [ROLL, ROLL[:2]] if name == "r.mat" else [ROLL[:1], ROLL[1:]]
        assert len(part) == 2
        for piece, roll in zip(part, expected, strict=True):
            np.testing.assert_array_equal(piece, roll)


def test_other_arrays_are_no_piano_rolls(tmp_path: Path) -> None:
    lengths = {"valid_lengths": np.ones(6), "test_lengths": np.ones(6)}  # names that both kinds of files have
    arrays = good(**lengths)
    for name, content in (("a.mat", mat(arrays)), ("a.npz", npz(arrays)), ("a.npy", npy(ROLL))):
        (tmp_path / name).write_bytes(content)
        assert load_rolls(tmp_path / name) is None


def test_a_network_learns_the_next_chord_and_resumes(tmp_path: Path) -> None:
    (tmp_path / "r.mat").write_bytes(mat(PIECES))
    flags = ["--arch", "rnn", "--hidden", "4", "--backend", "numpy", "--out", tmp_path / "run"]
    found = call("train", "--data", tmp_path / "r.mat", *flags, "--updates", "2").stdout
    assert "music     r.mat: 2 pieces to train on, 2 to validate" in found
    call("train", "--resume", tmp_path / "run", "--updates", "4")
    net, theta, _ = hfrnn.load(tmp_path / "run")
    assert (net.n_in, net.n_out, net.loss_name) == (88, 88, "logistic")
    batch = hfrnn.Batch(np.vstack([np.zeros((1, 88)), ROLL[:-1]])[:, None], ROLL[:, None].astype(float))
    loss = net.loss(theta, batch)
    assert loss < 88 * np.log(2)
    assert "nats per time step" in call("evaluate", tmp_path / "run", "--part", "test").stdout
    call("spectrum", tmp_path / "run", "--symbols", "4", "--steps", "2")
    (tmp_path / "r.mat").write_bytes(mat({**PIECES, "testdata": PIECES["traindata"][:, :1]}))
    assert "has changed" in call("train", "--resume", tmp_path / "run", "--updates", "5", code=2).stderr
