"""Piano rolls from MIDI files."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from support.command_line import call
from support.midi_files import END, midi, off, on, track, tune, write_tunes

import hfrnn
from hfrnn.data.kinds import kind_of
from hfrnn.data.midi import load_midi
from hfrnn.errors import InputError, MissingExtraError
from hfrnn.runs.config import TrainConfig

pytest.importorskip("mido")

FLAGS = ["--arch", "rnn", "--hidden", "4", "--backend", "numpy"]


def sounding(path: Path, content: bytes, steps_per_beat: int = 4) -> list[list[int]]:
    """Return the MIDI notes that sound in each step of the only piece of a file."""
    path.write_bytes(content)
    (piece,) = load_midi(path, steps_per_beat).train
    assert piece.dtype == np.float32
    assert piece.shape[1] == 88
    assert set(np.unique(piece)) <= {0.0, 1.0}
    return [[int(key) + 21 for key in np.flatnonzero(step)] for step in piece]


def test_a_key_sounds_from_the_step_where_it_is_pressed_to_that_where_it_is_released(tmp_path: Path) -> None:
    file, content = tmp_path / "a.mid", midi(track(on(0, 60), on(240, 64), off(120, 60), off(120, 64), END))
    assert sounding(file, content) == [[60], [60], [60, 64], [64]]
    assert sounding(file, content, 2) == [[60], [60, 64]]
    assert sounding(file, content, 8) == [[60]] * 4 + [[60, 64]] * 2 + [[64]] * 2


PRESSED, RELEASED = [on(0, note) for note in (20, 21, 108, 109)], [off(120, 20), off(0, 21), off(0, 108)]
RULES: dict[str, tuple[bytes, list[list[int]]]] = {  # a step has 120 ticks
    "ticks per beat come from the file and the tempo does not matter": (
        midi(track((0, b"\xff\x51\x03\x01\x00\x00"), on(0, 60), off(96, 60), END), beat=96), [[60]] * 4),
    "notes begin and end at the nearest step": (  # ticks 179, 180 and 299
        midi(track(on(0, 40), off(120, 40), on(59, 60), off(1, 60), on(0, 62), off(119, 62), END)), [[40], [60], [62]]),
    "the shortest note lasts a step": (
        midi(track(on(0, 60), off(0, 60), on(120, 61), off(1, 61), END)), [[60], [61]]),
    "velocity 0 releases a key": (
        midi(track(on(0, 60), on(120, 60, velocity=0), on(0, 61), off(120, 61), END)), [[60], [61]]),
    "a key that is not released sounds until its track ends": (midi(track(on(0, 60), (360, END[1]))), [[60]] * 3),
    "a key that is pressed again goes on": (midi(track(on(0, 60), on(120, 60), off(120, 60), END)), [[60], [60]]),
    "of notes that overlap on a key, the first release ends all": (
        midi(track(on(0, 60), on(120, 60), off(120, 60), on(60, 61), off(60, 61), off(0, 60), END)),
        [[60], [60], [], [61]]),
    "tracks sound together": (
        midi(track(on(0, 60), off(240, 60), END),
             track(on(0, 60), off(120, 60), on(0, 67, 3), off(120, 67, 3), END)), [[60], [60, 67]]),
    "channels sound together": (
        midi(track(on(0, 60), on(0, 60, 1), off(120, 60), off(120, 60, 1), END)), [[60], [60]]),
    "percussion is left out": (midi(track(on(0, 35, 9), on(0, 60), off(120, 60), off(480, 35, 9), END)), [[60]]),
    "notes beyond the keys of a piano are left out": (
        midi(track(*PRESSED, *RELEASED, off(480, 109), END)), [[21, 108]]),
    "silence is kept only within a piece": (
        midi(track(on(960, 60), off(120, 60), on(120, 61), off(120, 61), (960, END[1]))), [[60], [], [61]]),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_a_file_is_read_by_the_rules(tmp_path: Path, rule: str) -> None:
    content, expected = RULES[rule]
    assert sounding(tmp_path / "a.mid", content) == expected


def test_the_pieces_are_cut_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for k, name in enumerate(["a.mid", "b/1.MIDI", "b/2.mid", "c.midi"]):
        (tmp_path / name).write_bytes(tune(*[60 + k] * (k + 1)))
    for name in (".hidden.mid", "readme.txt"):
        (tmp_path / name).write_bytes(b"no music")
    music = load_midi(tmp_path, 1, (0.5, 0.25, 0.25))
    assert [[len(piece) for piece in part] for part in (music.train, music.valid, music.test)] == [[1, 2], [3], [4]]
    assert [int(piece[0].argmax()) + 21 for piece in (*music.train, *music.valid, *music.test)] == [60, 61, 62, 63]
    default = load_midi(tmp_path)
    assert [len(part) for part in (default.train, default.valid, default.test)] == [3, 1, 0]
    with pytest.raises(InputError, match="has no test part: use train or valid"):
        default.part("test")


def test_other_folders_may_validate_and_test(tmp_path: Path) -> None:
    tunes, valid, test = (write_tunes(tmp_path / name, n) for name, n in (("tunes", 4), ("valid", 2), ("test", 3)))
    told = ["--data", tunes, "--valid", valid, *FLAGS]
    found = call("train", *told, "--test", test, "--out", tmp_path / "run", "--updates", "1").stdout
    assert "music     tunes: 4 pieces to train on, 2 to validate, 3 to test" in found
    call("train", "--resume", tmp_path / "run", "--updates", "2")
    assert "pieces              3" in call("evaluate", tmp_path / "run", "--part", "test").stdout
    shares = load_midi(tunes, fractions=(0.5, 0.5, 0.0), others={"test": test})
    assert [len(part) for part in (shares.train, shares.valid, shares.test)] == [2, 2, 3]
    for flags, words in (
        (["--fractions", "0.5,0.5,0"], "--valid has pieces of its own for validation: leave --fractions out"),
        (["--valid", test], "--valid names"),
    ):
        assert words in call("train", *told, *flags, "--out", tmp_path / "none", code=2).stderr
    (valid / "zz.mid").write_bytes(tune(70))
    assert "has changed since the run was started" in call("evaluate", tmp_path / "run", code=2).stderr


def test_the_checksum_is_that_of_all_files_and_their_names(tmp_path: Path) -> None:
    found = set()
    for name, note in (("a.mid", 60), ("b.mid", 61), ("b.mid", 62)):
        (tmp_path / name).write_bytes(tune(note))
        found.add(load_midi(tmp_path).sha256)
    (tmp_path / "b.mid").rename(tmp_path / "c.mid")
    assert len({*found, load_midi(tmp_path).sha256}) == 4


def test_a_run_on_midi_files_says_what_it_read_and_resumes_to_the_same_weights(tmp_path: Path) -> None:
    tunes = write_tunes(tmp_path / "tunes", 5)
    told = ["--data", tunes, *FLAGS, "--fractions", "0.6,0.2,0.2", "--steps-per-beat", "2"]
    found = call("train", *told, "--out", tmp_path / "run", "--updates", "2").stdout
    assert "music     tunes: 3 pieces to train on, 1 to validate, 1 to test" in found
    assert "in the order of names; 2 steps per beat, 60 steps in all" in found
    call("train", "--resume", tmp_path / "run", "--updates", "4")
    call("train", *told, "--out", tmp_path / "whole", "--updates", "4")
    net, theta, _ = hfrnn.load(tmp_path / "run", "last")
    np.testing.assert_array_equal(theta, hfrnn.load(tmp_path / "whole", "last")[1])
    assert (net.n_in, net.n_out, net.loss_name) == (88, 88, "logistic")
    assert "nats per time step" in call("evaluate", tmp_path / "run", "--part", "test").stdout
    call("predict", tmp_path / "run", "-o", tmp_path / "o.npz")
    assert np.load(tmp_path / "o.npz")["y"].shape == (1, 14, 88)  # the tune of 7 notes
    call("spectrum", tmp_path / "run", "--symbols", "4", "--steps", "2")


def test_a_run_notices_that_its_midi_files_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tunes = write_tunes(tmp_path / "tunes", 3)
    call("train", "--data", tunes, *FLAGS, "--out", tmp_path / "run", "--updates", "1")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "mido", None)
        with pytest.raises(MissingExtraError, match="MIDI files need mido: install the extra midi"):
            load_midi(tunes)
        told = call("train", "--resume", tmp_path / "run", "--updates", "2", code=2).stderr
        assert "install the extra midi" in told
        assert "resumes without it" not in told  # as it would without the backend
    before = (tunes / "00.mid").read_bytes()
    assert "00.mid" in call("predict", tmp_path / "run", "-o", tunes / "00.mid", "--force", code=2).stderr
    assert (tunes / "00.mid").read_bytes() == before
    (tunes / "zz.mid").write_bytes(tune(70))
    for command in (["train", "--updates", "2", "--resume"], ["evaluate"]):
        assert "has changed since the run was started" in call(*command, tmp_path / "run", code=2).stderr
    shutil.rmtree(tunes)
    assert "is not as it was when" in call("train", "--resume", tmp_path / "run", "--updates", "2", code=2).stderr


def test_a_folder_is_resolved_to_a_path_that_stays_midi_music(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tunes = write_tunes(tmp_path / "tunes", 1)
    (tmp_path / "ptb").mkdir()
    resolved = TrainConfig(data="tunes").resolved()
    assert resolved.data == f"{tmp_path}/tunes/"
    shutil.rmtree(tunes)
    assert resolved.resolved() == resolved
    kinds = [kind_of({"data": name}).about for name in (resolved.data, "a.MID", "ptb", "x")]
    assert kinds == ["MIDI music"] * 2 + ["a text"] * 2
