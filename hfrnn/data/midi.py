"""Piano rolls from MIDI files: which keys sound in each step, a fixed fraction of a beat. Needs the extra `midi`.

A beat is a quarter note. The tempo does not matter: a file counts ticks, and its header says how many make a beat.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfrnn.choices import MIDI_FILES, STEPS_PER_BEAT
from hfrnn.data.array_files import check_size
from hfrnn.data.music import KEYS, Music
from hfrnn.data.splits import part_ranges
from hfrnn.errors import InputError, Message, MissingExtraError, how_to_install, reason_of
from hfrnn.files import read_bytes
from hfrnn.wording import counted, left_out_note

LOWEST = 21
"""The MIDI note of the first key of a piano."""
DRUMS = 9
"""The channel of percussion, counted from 0; musicians call it channel 10."""
LARGEST = 2**22
"""Most bytes of a MIDI file; its messages take far more memory than the file."""
_NAMED = 20  # most files that one message names
_ENDLESS = re.compile(rb"[\x80-\xff]{4096}")  # a number of that many digits would take very long to read


class _Note(NamedTuple):
    """A key and the steps in which it sounds: the first one and the one after the last."""

    key: int
    first: int
    end: int


def load_midi(
    path: str | os.PathLike[str], steps_per_beat: int = STEPS_PER_BEAT, fractions: Sequence[float] | None = None,
    skip_bad: bool = False, others: Mapping[str, str | os.PathLike[str]] | None = None,
) -> Music:  # fmt: skip
    """Load a MIDI file, or those of a folder and its folders, as piano rolls, each a piece.

    A piece goes from the first step in which a key sounds to the last one. Notes begin and end at the nearest step and
    last at least one. Percussion (channel 10) and notes beyond the keys of a piano are left out. `fractions` are the
    shares of the pieces for training, validation and test, in the order of the names. With `skip_bad`, files that
    cannot be read are left out; all that cannot be read are named otherwise. `others` has the files or folders of
    "valid" and "test", if these parts have some of their own.
    """
    others = others or {}
    read = {part: _read(each, steps_per_beat, skip_bad) for part, each in {"train": path, **others}.items()}
    pieces = read["train"].pieces
    if "valid" in others and fractions is not None:
        raise InputError(Message("{valid} has pieces of its own for validation: leave {fractions} out"))
    if "test" in others and fractions is not None and fractions[2]:
        raise InputError(Message("{test} has pieces of its own for the test: give {fractions} that end in 0"))
    shares = (1.0, 0.0, 0.0) if "valid" in others else fractions
    ranges = part_ranges(len(pieces), shares, str(path), "piece")
    parts = {name: pieces[start:stop] for name, (start, stop) in ranges.items()}
    parts |= {part: read[part].pieces for part in others}
    for name, part in parts.items():
        check_size((sum(map(len, part)), KEYS), 8, f"the {name} part of {path}")
    steps = counted(sum(len(piece) for part in parts.values() for piece in part), "step")
    bad, empty = (sum(getattr(each, name) for each in read.values()) for name in ("bad", "empty"))
    left_out = f"; {counted(bad, 'file')} that cannot be read left out" if bad else ""
    left_out += f"; {left_out_note(empty, 'piece')}" if empty else ""
    note = f"in the order of names; {counted(steps_per_beat, 'step')} per beat, {steps} in all{left_out}"
    digest = read["train"].sha256
    if others:
        named = " ".join(f"{part} {each.sha256}" for part, each in read.items())
        digest = hashlib.sha256(named.encode()).hexdigest()
    return Music(Path(path).name, **parts, source=str(path), sha256=digest, note=note)


class _Pieces(NamedTuple):
    """The pieces of a folder, the hash of its files, and the numbers of bad files and of pieces without notes."""

    pieces: list[NDArray[np.float32]]
    sha256: str
    bad: int
    empty: int


def _read(path: str | os.PathLike[str], steps_per_beat: int, skip_bad: bool) -> _Pieces:
    """Return the pieces of a MIDI file or of a folder."""
    files = midi_files(path)
    digest, pieces, taken, bad = hashlib.sha256(), [], 0, list[str]()
    for file in files:
        try:
            content = _content(file)
            roll = _roll(_notes(content, steps_per_beat, str(file)), str(file), taken)
        except MissingExtraError:
            raise
        except InputError as error:
            bad.append(str(error))
            continue
        digest.update(f"{file.relative_to(path).as_posix()}\n".encode("utf-8", "surrogateescape"))
        digest.update(hashlib.sha256(content).digest())
        pieces.append(roll)
        taken += roll.nbytes
    if bad and not (skip_bad and pieces):
        raise _unread(bad, len(files))
    found = [piece for piece in pieces if len(piece)]
    if not found:
        raise InputError(f"{path} has no notes that a piano can play, without percussion: give other files")
    return _Pieces(found, digest.hexdigest(), len(bad), len(pieces) - len(found))


def midi_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the MIDI files of a folder and its folders in the order of their names, or the one of that path."""
    if str(path).lower().endswith(MIDI_FILES) and not os.path.isdir(path):
        return [Path(path)]
    if not os.path.isdir(path):
        raise InputError(f"{path} is no folder: give a folder of MIDI files ({' or '.join(MIDI_FILES)})")
    found = [
        Path(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
        if name.lower().endswith(MIDI_FILES) and not name.startswith(".")
    ]
    if not found:
        raise InputError(
            f"{path} is a folder, which is read as MIDI music, and has no files that end in {' or '.join(MIDI_FILES)}: "
            "give one that has, or tables with a suffix such as .csv"
        )
    return sorted(found, key=lambda file: file.relative_to(path).as_posix())


def _unread(reasons: Sequence[str], files: int) -> InputError:
    """Return the error about files that cannot be read, each with its reason."""
    if len(reasons) == 1:
        return InputError(
            reasons[0] if files == 1 else Message("{0}, or leave it out with {skip_bad:True}", reasons[0])
        )
    more = f"; and {len(reasons) - _NAMED} more" if len(reasons) > _NAMED else ""
    advice = "; leave these files out with {skip_bad:True}" if len(reasons) < files else ""
    found = f"{len(reasons)} of {files} files cannot be read: {'; '.join(reasons[:_NAMED])}{more}"
    return InputError(Message(f"{{0}}{advice}", found))


def _content(file: Path) -> bytes:
    """Return the bytes of a MIDI file."""
    try:
        return read_bytes(file, LARGEST)
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        why = f"there is no file {file}" if missing else f"{str(file)!r} cannot be read ({reason_of(error)})"
        raise InputError(f"{why}: give a MIDI file, or a folder of them") from error


def _parsed(content: bytes, source: str) -> Any:
    """Return a file as mido reads it."""
    try:
        from mido import MidiFile
    except ImportError as error:
        raise MissingExtraError(f"MIDI files need mido: {how_to_install('midi')}") from error
    try:
        if _ENDLESS.search(content):
            raise ValueError("a number has too many digits")
        return MidiFile(file=io.BytesIO(content))
    except Exception as error:  # damage surfaces in many places of mido
        raise InputError(f"{source} is damaged or no MIDI file: save it again, or remove it") from error


def _notes(content: bytes, steps_per_beat: int, source: str) -> Iterator[_Note]:
    """Yield the notes of a file that a piano can play."""
    file = _parsed(content, source)
    beat = file.ticks_per_beat
    if file.type == 2 or beat < 1:
        why = "holds independent sequences (format 2)" if file.type == 2 else "counts time in frames instead of beats"
        raise InputError(f"{source} {why}, which is not read: save it in format 0 or 1 with ticks per beat")
    for track in file.tracks:
        now = 0
        begun: dict[tuple[int, int], int] = {}  # channel and key -> the tick in which the note began
        for message in track:
            now += message.time
            if message.type not in ("note_on", "note_off") or message.channel == DRUMS:
                continue
            voice = (message.channel, message.note - LOWEST)
            if voice in begun:
                yield _note(voice[1], begun.pop(voice), now, steps_per_beat, beat)
            if message.type == "note_on" and message.velocity > 0 and 0 <= voice[1] < KEYS:
                begun[voice] = now
        for (_, key), start in begun.items():  # never released: they end with the track
            yield _note(key, start, now, steps_per_beat, beat)


def _note(key: int, start: int, stop: int, steps_per_beat: int, beat: int) -> _Note:
    """Return a note that begins and ends at the steps nearest to two ticks."""
    first, end = ((2 * tick * steps_per_beat + beat) // (2 * beat) for tick in (start, stop))
    return _Note(key, first, max(end, first + 1))


def _roll(notes: Iterator[_Note], source: str, taken: int) -> NDArray[np.float32]:
    """Return the piano roll of some notes, (steps, 88), which may be none; `taken` bytes are held by those before."""
    found = list(notes)
    if not found:
        return np.zeros((0, KEYS), dtype=np.float32)
    begin, end = min(note.first for note in found), max(note.end for note in found)
    check_size((end - begin, KEYS), 4, f"the piano roll of {source}", taken)
    roll = np.zeros((end - begin, KEYS), dtype=np.float32)
    for note in found:
        roll[note.first - begin : note.end - begin, note.key] = 1.0
    return roll
