"""Small MIDI files, written byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path

END = (0, b"\xff\x2f\x00")
"""The end of a track, which comes with its last message."""


def number(value: int) -> bytes:
    """Return a number in groups of seven bits, the first groups marked."""
    found = [value & 127]
    while value := value >> 7:
        found.insert(0, value & 127 | 128)
    return bytes(found)


def on(delta: int, note: int, channel: int = 0, velocity: int = 64) -> tuple[int, bytes]:
    """Return the ticks since the message before, and the message that a key is pressed."""
    return delta, bytes([0x90 | channel, note, velocity])


def off(delta: int, note: int, channel: int = 0) -> tuple[int, bytes]:
    """Return the ticks since the message before, and the message that a key is released."""
    return delta, bytes([0x80 | channel, note, 0])


def track(*messages: tuple[int, bytes]) -> bytes:
    """Return a track."""
    data = b"".join(number(delta) + message for delta, message in messages)
    return b"MTrk" + struct.pack(">I", len(data)) + data


def midi(*tracks: bytes, beat: int = 480, form: int = 1) -> bytes:
    """Return a file whose quarter note has `beat` ticks."""
    return b"MThd" + struct.pack(">Ihhh", 6, form, len(tracks), beat) + b"".join(tracks)


def tune(*notes: int) -> bytes:
    """Return a file that plays quarter notes, one after the other."""
    return midi(track(*(each for note in notes for each in (on(0, note), off(480, note))), END))


def write_tunes(folder: Path, count: int) -> Path:
    """Write some tunes of different lengths, `00.mid` and so on, and return their folder."""
    folder.mkdir()
    for k in range(count):
        (folder / f"{k:02}.mid").write_bytes(tune(*range(60, 64 + k)))
    return folder
