"""Piano rolls: reading them safely, and batches whose loss is the published nats a time step."""

from __future__ import annotations

import hashlib
import io
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.music_files import PARTS, pieces_of, stored

import hfrnn
from hfrnn.data.music import KEYS, Music, load_music, music_batch
from hfrnn.errors import InputError


def loaded(folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> Music:
    path = folder / "jsb" / "jsb.npz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    monkeypatch.setenv("HFRNN_DATA", str(folder))
    return load_music()


def real(monkeypatch: pytest.MonkeyPatch) -> Music:
    """The chorales themselves, or skip."""
    root = Path(os.environ.get("HFRNN_DATA") or Path(__file__).parents[3] / "shared" / "data").resolve()
    if not (root / "jsb" / "jsb.npz").exists():
        pytest.skip("no file jsb/jsb.npz under HFRNN_DATA or ../shared/data")
    monkeypatch.setenv("HFRNN_DATA", str(root))
    return load_music("jsb")


def nats(probability: NDArray[Any], chords: NDArray[Any]) -> float:
    """The cross entropy of independent keys, summed over the keys, mean over all steps."""
    return float(-np.log(np.where(chords == 1, probability, 1 - probability)).sum(axis=1).mean())


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
    import scipy.io

    packed = loaded(tmp_path, monkeypatch, stored())
    cells = {f"{part}data": np.empty((1, 2), dtype=object) for part in PARTS}
    for part in PARTS:
        cells[f"{part}data"][0, :] = [piece.astype(np.uint8) for piece in getattr(packed, part)]
    scipy.io.savemat(tmp_path / "jsb" / "JSB_Chorales.mat", cells)
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
    (b"PK\x03\x04 not a zip", NOT_READ),
    (b"plainly not", NOT_READ),
    (stored()[:-200], NOT_READ),
    (stored(test_lengths=None, valid_packed=None), "has no valid_packed, test_lengths"),
    (stored(train_packed=np.zeros((8, 11), dtype=np.int64)), r"train_packed is an array of int64 \(8, 11\)"),
    (stored(train_packed=np.zeros((8, 12), dtype=np.uint8)), r"uint8 \(8, 12\); expected uint8 \(steps, 11\)"),
    (stored(train_packed=np.zeros(88, dtype=np.uint8)), r"train_packed is an array of uint8 \(88,\)"),
    (stored(train_packed=np.uint8(0)), r"train_packed is an array of uint8 \(\)"),
    (stored(train_lengths=ROW.astype(float)), NOT_WHOLE),
    (stored(train_lengths=ROW[None]), NOT_WHOLE),
    (stored(train_lengths=ROW[:0]), NOT_WHOLE),
    (stored(train_lengths=np.array([9, -1])), NOT_WHOLE),
    (stored(train_lengths=np.array([8, 0])), NOT_WHOLE),
    (stored(train_lengths=np.array([3, 6])), "train_lengths sum to 9, but there are 8 steps"),
    (stored(train_lengths=np.array([2**63, 2**63 + 8], dtype=np.uint64)), "lengths sum to 18446744073709551624"),
]


@pytest.mark.parametrize(("content", "said"), DAMAGE)
def test_a_damaged_file_is_refused_in_one_sentence(
    content: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=said) as caught:
        loaded(tmp_path, monkeypatch, content)
    assert "\n" not in str(caught.value)


def test_an_npy_file_and_an_empty_file_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    np.save(file, ROW)
    with pytest.raises(InputError, match=NOT_READ):
        loaded(tmp_path, monkeypatch, file.getvalue())
    with pytest.raises(InputError, match="is empty"):
        loaded(tmp_path, monkeypatch, b"")


class Trap:
    sprung = False

    def __reduce__(self) -> Any:
        return setattr, (Trap, "sprung", True)


def test_nothing_is_ever_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="Python objects, which are never loaded"):
        loaded(tmp_path, monkeypatch, stored(train_lengths=np.array([Trap()], dtype=object)))
    assert not Trap.sprung


def test_an_object_array_under_another_name_is_never_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(loaded(tmp_path, monkeypatch, stored(more=np.array([Trap()], dtype=object))).train) == 2
    assert not Trap.sprung


@settings(max_examples=150)
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
    for k, piece in enumerate(pieces):
        T = len(piece)
        assert (targets[:T, k] == piece).all()
        assert (inputs[1:T, k] == piece[:-1]).all()
        assert (weights[:T, k] == 1).all()
        assert not weights[T:, k].any()
        assert not inputs[T:, k].any()
        assert not targets[T:, k].any()


def test_the_objective_weighs_every_time_step_the_same() -> None:
    pieces = pieces_of(2, 40)
    pieces[0][:] = 1  # a short piece that differs: a mean over pieces would show
    net = hfrnn.Network(
        arch="rnn", n_in=KEYS, hidden=1, n_out=KEYS, loss="logistic", output_bias=True, dtype="float64"
    )  # fmt: skip
    theta = np.zeros(net.n_parameters)
    batch = hfrnn.Batch(*music_batch(pieces))
    assert net.loss(theta, batch) == pytest.approx(KEYS * math.log(2), rel=1e-12)
    probability = np.linspace(0.05, 0.95, KEYS)
    net.views(theta)["output.b_y"][...] = np.log(probability / (1 - probability))
    assert net.loss(theta, batch) == pytest.approx(nats(probability, np.concatenate(pieces)), rel=1e-12)


@pytest.mark.corpus
def test_the_chorales_are_229_76_and_77_pieces_of_at_most_four_voices(monkeypatch: pytest.MonkeyPatch) -> None:
    music = real(monkeypatch)
    assert [len(getattr(music, part)) for part in PARTS] == [229, 76, 77]
    assert [sum(map(len, getattr(music, part))) for part in PARTS] == [13807, 4602, 4725]
    voices = np.concatenate(music.train).sum(axis=1)
    assert voices.max() == 4
    assert 3.8 < voices.mean() < 4
    sounding = np.flatnonzero(np.concatenate(music.train).any(axis=0)) + 21
    assert (sounding[0], sounding[-1]) == (43, 96)  # MIDI notes: G of the bass, C of the soprano


@pytest.mark.corpus
def test_independent_keys_score_eleven_nats_a_step_on_the_chorales(monkeypatch: pytest.MonkeyPatch) -> None:
    music = real(monkeypatch)
    chords = np.concatenate(music.train).astype(np.float64)
    probability = (chords.sum(axis=0) + 1) / (len(chords) + 2)
    by_hand = nats(probability, np.concatenate(music.test).astype(np.float64))
    assert by_hand == pytest.approx(11.0614, abs=1e-3)
    net = hfrnn.Network(
        arch="rnn", n_in=KEYS, hidden=1, n_out=KEYS, loss="logistic", output_bias=True, dtype="float64"
    )  # fmt: skip
    theta = np.zeros(net.n_parameters)
    net.views(theta)["output.b_y"][...] = np.log(probability / (1 - probability))
    assert net.loss(theta, hfrnn.Batch(*music_batch(music.test))) == pytest.approx(by_hand, rel=1e-10)
