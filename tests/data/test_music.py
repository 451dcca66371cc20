"""Piano rolls: reading them safely, and batches whose loss is the published nats a time step."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.array_files import PACKED, PIECES, ROLL, Trap, cells, good, mat, npy, npz
from support.command_line import call
from support.corpora import corpus_file
from support.music_files import PARTS, pieces_of, stored

import hfrnn
from hfrnn.data.music import KEYS, Music, load_music, load_rolls, music_batch
from hfrnn.errors import InputError


def loaded(folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> Music:
    path = folder / "jsb" / "jsb.npz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    monkeypatch.setenv("HFRNN_DATA", str(folder))
    return load_music()


def test_pieces_come_back_bit_by_bit_with_source_and_sha256(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    music = loaded(tmp_path, monkeypatch, stored())
    for seed, part in enumerate(PARTS):
        expected, got = pieces_of(3, 5 + seed, seed=seed), getattr(music, part)
        assert [piece.shape for piece in got] == [(3, KEYS), (5 + seed, KEYS)]
        assert all((a == b).all() and a.dtype == np.float32 for a, b in zip(got, expected, strict=True))
    assert music.name == "jsb"
    assert music.source == str(tmp_path / "jsb" / "jsb.npz")
    assert music.sha256 == hashlib.sha256(stored()).hexdigest()


def test_the_file_that_is_downloaded_has_the_pieces_of_the_packed_one(tmp_path: Path, monkeypatch) -> None:
    packed = loaded(tmp_path, monkeypatch, stored())
    pieces = {f"{part}data": cells(*(p.astype(np.uint8) for p in getattr(packed, part))) for part in PARTS}
    (tmp_path / "jsb" / "JSB_Chorales.mat").write_bytes(mat(pieces))
    music = load_music()
    assert (music.name, music.source) == ("jsb", str(tmp_path / "jsb" / "JSB_Chorales.mat"))
    for part in PARTS:
        pairs = zip(getattr(music, part), getattr(packed, part), strict=True)
        assert all((a == b).all() and a.dtype == b.dtype for a, b in pairs)


def test_music_that_is_not_there_says_where_it_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HFRNN_DATA", raising=False)
    with pytest.raises(InputError, match=r"HFRNN_DATA.*jsb/jsb\.npz"):
        load_music()
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"jsb is not there: get it with hfrnn data fetch jsb, or .*jsb\.npz"):
        load_music()
    with pytest.raises(InputError, match="no music named 'muse'; use one of jsb"):
        load_music("muse")


ROW = np.array([3, 5])
NOT_READ = r"cannot be read as a \.npz file of plain arrays"
NOT_WHOLE = "expected a row of whole numbers of at least 1"
DAMAGE: list[tuple[bytes, str]] = [
    (b"plainly not", NOT_READ), (stored()[:-200], NOT_READ), (npy(ROW), NOT_READ), (b"", "is empty"),
    (stored(test_lengths=None, valid_packed=None), "has no valid_packed, test_lengths"),
    (stored(train_packed=np.zeros((8, 12), dtype=np.uint8)), r"uint8 \(8, 12\); expected uint8 \(steps, 11\)"),
    (stored(train_packed=np.uint8(0)), r"train_packed is an array of uint8 \(\)"),
    *((stored(train_lengths=row), NOT_WHOLE) for row in (ROW * 1.0, ROW[None], ROW[:0], np.array([8, 0]))),
    (stored(train_lengths=np.array([3, 6])), "train_lengths sum to 9, but there are 8 steps"),
    (stored(train_lengths=np.array([2**63, 2**63 + 8], dtype=np.uint64)), "lengths sum to 18446744073709551624"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "said"), DAMAGE)
def test_a_damaged_file_is_refused_in_one_sentence(content: bytes, said: str, tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(InputError, match=said) as caught:
        loaded(tmp_path, monkeypatch, content)
    assert "\n" not in str(caught.value)


def test_nothing_is_ever_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    objects = np.array([Trap()], dtype=object)
    with pytest.raises(InputError, match="Python objects, which are never loaded"):
        loaded(tmp_path, monkeypatch, stored(train_lengths=objects))
    assert len(loaded(tmp_path, monkeypatch, stored(more=objects)).train) == 2  # a name that is not looked at
    assert not (tmp_path / "trapped").exists()


@given(st.integers(0, len(stored()) - 1), st.integers(1, 255))
def test_any_flipped_byte_is_refused_or_harmless(tmp_path_factory: Any, position: int, flip: int) -> None:
    content = bytearray(stored())
    content[position] ^= flip
    with pytest.MonkeyPatch.context() as monkeypatch:
        try:
            music = loaded(tmp_path_factory.mktemp("music"), monkeypatch, bytes(content))
        except InputError:
            return
    assert [[piece.shape for piece in getattr(music, part)] for part in PARTS] == [
        [(3, KEYS), (5 + seed, KEYS)] for seed in range(3)
    ]


def test_the_chord_at_t_is_predicted_from_those_before_and_the_first_from_an_empty_one() -> None:
    pieces = pieces_of(4, 1, 7)
    inputs, targets, weights, lengths = music_batch(pieces)
    assert inputs.shape == targets.shape == (7, 3, KEYS)
    assert {a.dtype.name for a in (inputs, targets, weights)} == {"float32"}
    assert lengths.tolist() == [4, 1, 7]
    assert not inputs[0].any()
    for k, (piece, T) in enumerate(zip(pieces, lengths, strict=True)):
        assert (targets[:T, k] == piece).all()
        assert (inputs[1:T, k] == piece[:-1]).all()
        assert (weights[:T, k] == 1).all()
        assert not any(array[T:, k].any() for array in (inputs, targets, weights))


def test_the_objective_weighs_every_time_step_the_same() -> None:
    pieces = pieces_of(2, 40)
    pieces[0][:] = 1  # a short piece that differs: a mean over pieces would show
    net = hfrnn.Network("rnn", KEYS, 1, KEYS, loss="logistic", output_bias=True, dtype="float64")
    theta, p, chords = np.zeros(net.n_parameters), np.linspace(0.05, 0.95, KEYS), np.concatenate(pieces)
    net.views(theta)["output.b_y"][...] = np.log(p / (1 - p))  # keys sound with probability p, whatever came before
    nats = -np.log(np.where(chords == 1, p, 1 - p)).sum(axis=1).mean()
    assert net.loss(theta, hfrnn.Batch(*music_batch(pieces))) == pytest.approx(nats, rel=1e-12)


@pytest.mark.corpus
def test_the_chorales_are_229_76_and_77_pieces_of_at_most_four_voices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HFRNN_DATA", str(corpus_file("jsb", "jsb.npz").parents[1]))
    music = load_music("jsb")
    assert [len(getattr(music, part)) for part in PARTS] == [229, 76, 77]
    assert [sum(map(len, getattr(music, part))) for part in PARTS] == [13807, 4602, 4725]
    voices = np.concatenate(music.train).sum(axis=1)
    assert voices.max() == 4
    assert 3.8 < voices.mean() < 4
    sounding = np.flatnonzero(np.concatenate(music.train).any(axis=0)) + 21
    assert (sounding[0], sounding[-1]) == (43, 96)  # MIDI notes: G of the bass, C of the soprano


@pytest.mark.parametrize("name", ["r.mat", "r.npz"])
def test_the_pieces_of_every_part_of_a_file_are_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(mat(PIECES) if name == "r.mat" else npz(PACKED))
    music = load_rolls(tmp_path / name)
    assert music is not None
    for part in (music.train, music.valid, music.test):
        expected = [ROLL, ROLL[:2]] if name == "r.mat" else [ROLL[:1], ROLL[1:]]
        for piece, roll in zip(part, expected, strict=True):
            np.testing.assert_array_equal(piece, roll)


@pytest.mark.parametrize("name", ["r.mat", "r.npz"])
def test_show_prints_the_command_that_trains_on_piano_rolls(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(mat(PIECES) if name == "r.mat" else npz(PACKED))
    shown = json.loads(call("data", "show", tmp_path / name, "--json").stdout)
    assert shown["options"] == {"data": str(tmp_path / name)}


def test_other_arrays_are_no_piano_rolls(tmp_path: Path) -> None:
    arrays = good(valid_lengths=np.ones(6), test_lengths=np.ones(6))  # names that both kinds of files have
    for name, content in (("a.mat", mat(arrays)), ("a.npz", npz(arrays)), ("a.npy", npy(ROLL))):
        (tmp_path / name).write_bytes(content)
        assert load_rolls(tmp_path / name) is None


def test_a_network_learns_the_next_chord_of_a_file_and_resumes(tmp_path: Path) -> None:
    (tmp_path / "r.mat").write_bytes(mat(PIECES))
    flags = ["--arch", "rnn", "--hidden", "4", "--backend", "numpy", "--out", tmp_path / "run"]
    found = call("train", "--data", tmp_path / "r.mat", *flags, "--updates", "2").stdout
    assert "music     r.mat: 2 pieces to train on, 2 to validate" in found
    call("train", "--resume", tmp_path / "run", "--updates", "4")
    net, theta, _ = hfrnn.load(tmp_path / "run")
    assert (net.n_in, net.n_out, net.loss_name) == (KEYS, KEYS, "logistic")
    batch = hfrnn.Batch(np.vstack([np.zeros((1, KEYS)), ROLL[:-1]])[:, None], ROLL[:, None].astype(float))
    assert net.loss(theta, batch) < KEYS * np.log(2)
    assert "nats per time step" in call("evaluate", tmp_path / "run", "--part", "test").stdout
    call("spectrum", tmp_path / "run", "--symbols", "4", "--steps", "2")
    (tmp_path / "r.mat").write_bytes(mat({**PIECES, "testdata": PIECES["traindata"][:, :1]}))
    assert "has changed" in call("train", "--resume", tmp_path / "run", "--updates", "5", code=2).stderr
