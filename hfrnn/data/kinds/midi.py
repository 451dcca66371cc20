"""MIDI files, in a folder or one: music as piano rolls."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from hfrnn.choices import MIDI_FILES, STEPS_PER_BEAT
from hfrnn.data.kinds.music import Music
from hfrnn.data.kinds.number_sequences import FRACTIONS, OTHER_PARTS, TEST, VALID
from hfrnn.errors import InputError, Message
from hfrnn.option import SLASHES, Option, argument, listed

BEAT = Option(
    "steps_per_beat", int, STEPS_PER_BEAT, "Steps per beat, a quarter note, of piano rolls from MIDI files.", least=1,
    group="Data",
)  # fmt: skip


SKIP_BAD = Option(
    "skip_bad", bool, False, "Leave out MIDI files that cannot be read, instead of stopping at them.", group="Data"
)


class MidiFiles(Music):
    """The pieces in MIDI files."""

    about = "MIDI music"
    named = ""
    suffixes = MIDI_FILES
    options = (FRACTIONS, VALID, TEST, BEAT, SKIP_BAD)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return ()

    @classmethod
    def recognises(cls, data: str) -> bool:
        """Return whether a value is a MIDI file by its suffix, or a folder: one that is gone ends in a slash."""
        return super().recognises(data) or data.endswith(SLASHES) or os.path.isdir(data)

    @classmethod
    def check(cls, data: str) -> None:
        """Raise InputError if a folder holds no MIDI files."""
        if os.path.isdir(data):
            from hfrnn.data.midi import midi_files

            midi_files(data)

    @classmethod
    def resolved(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        name, path = str(options["data"]), os.path.abspath(options["data"])
        folder = os.path.isdir(path) or name.endswith(SLASHES)
        return {"data": os.path.join(path, "") if folder else path}

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[str | os.PathLike[str]]:
        """Return the MIDI files, or the folder if it is gone or holds none."""
        from hfrnn.data.midi import midi_files

        found: list[str | os.PathLike[str]] = []
        for each in (options["data"], *_others(options).values()):
            with contextlib.suppress(InputError):
                found += midi_files(each)
                continue
            found.append(each)
        return found

    @classmethod
    def open(cls, options: Mapping[str, Any], given: Any = None) -> MidiFiles:
        from hfrnn.data.midi import load_midi

        return cls(load_midi(
            options["data"], options["steps_per_beat"], options["fractions"], options["skip_bad"], _others(options)
        ))  # fmt: skip


def _others(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the files or folders of the parts that have their own."""
    found = {part: listed(options[part]) for part in OTHER_PARTS if options[part] is not None}
    for part, paths in found.items():
        if len(paths) > 1:
            raise InputError(Message(
                f"{argument(part)} names {{0}} and {{1}}: give one folder of MIDI files", *paths[:2]
            ))  # fmt: skip
    return {part: paths[0] for part, paths in found.items()}
