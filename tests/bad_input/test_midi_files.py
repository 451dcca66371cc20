"""Damaged and odd MIDI files, and folders without any: one sentence, exit code 2, and nothing written."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.array_files import FLAGS, refuse
from support.damage import a_handful
from support.midi_files import END, midi, off, on, track, tune, write_tunes
from support.refusals import refused

from hfrnn.data.midi import LARGEST, load_midi
from hfrnn.errors import InputError

pytest.importorskip("mido")

TUNE = tune(60, 62, 64)
DAMAGED = "a.mid is damaged or no MIDI file"
FILES: dict[str, tuple[bytes, str]] = {
    "a text": (b"la la la " * 20, DAMAGED),
    "cut": (TUNE[:-5], DAMAGED),
    "another chunk": (TUNE.replace(b"MTrk", b"XFIH"), DAMAGED),
    "a track too long": (TUNE[:18] + b"\0\0\xff\xff" + TUNE[22:], DAMAGED),
    "an endless number": (midi(track((0, b"\x90\x40\x40"), (0, b"")) + b"\xff" * 10**6), DAMAGED),
    "format 7": (midi(track(on(0, 60), (99, b"\x80\x3c")), form=7), DAMAGED),
    "format 2": (midi(track(on(0, 60), off(99, 60), END), form=2), "independent sequences (format 2)"),
    "frames": (midi(track(on(0, 60), off(99, 60), END), beat=-0x1828), "counts time in frames instead of beats"),
    "no tracks": (midi(), "has no notes that a piano can play"),
    "percussion": (midi(track(on(0, 40, 9), off(99, 40, 9), END)), "has no notes that a piano can play"),
    "a very long note": (midi(track(on(0, 60), off(2**62, 60), END)), "bytes with the arrays before it"),
    "too large": (TUNE + bytes(LARGEST), "at most 4,194,304 are read"),
}


@pytest.mark.parametrize("case", a_handful(FILES))
def test_damaged_midi_files_are_refused(case: str) -> None:
    content, words = FILES[case]
    assert words in refuse("a.mid", content).replace(f"{os.getcwd()}/", "")


@pytest.mark.parametrize(("most", "words"), [(2000, "piano roll of tunes/01.mid"), (3000, "train part of tunes")])
def test_the_pieces_and_their_padded_parts_have_a_bound(most, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tunes").mkdir()
    for k in range(2):
        (Path("tunes") / f"{k:02}.mid").write_bytes(tune(60))  # a roll of 4 * 88 * 4 bytes
    monkeypatch.setattr("hfrnn.data.array_files.memory_share", lambda divisor: most)
    with pytest.raises(InputError, match=words):
        load_midi("tunes", fractions=(1, 0, 0))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, seed: int) -> None:
    rng, content = np.random.default_rng(seed), bytearray(TUNE)
    for position in rng.integers(len(content), size=3):
        content[position] = rng.integers(256)
    (tmp_path / "a.mid").write_bytes(content)
    with contextlib.suppress(InputError):
        assert load_midi(tmp_path / "a.mid").train[0].any()


@pytest.mark.parametrize(("flags", "words"), [
    (["--data", "silent"], "silent is a folder, which is read as MIDI music, and has no files that end in .mid or"),
    (["--data", "text.txt/"], "is no folder"),
    (["--data", "tunes/00.mid", "--fractions", "0.5,0.5,0"], "has 1 piece, too few for these --fractions"),
    (["--data", "tunes", "--window", "4"], "tunes/ is MIDI music"),
    (["--data", "jsb", "--steps-per-beat", "2"], "it is for MIDI music"),
    (["tunes/00.mid"], "is MIDI music, not a text: give it as --data"),
])  # fmt: skip
def test_folders_and_options_that_do_not_fit_are_refused(flags: list[str], words: str) -> None:
    Path("silent").mkdir()
    write_tunes(Path("tunes"), 2)
    try:
        assert words in refused("train", *flags, *FLAGS)
    finally:
        shutil.rmtree("silent")
        shutil.rmtree("tunes")
