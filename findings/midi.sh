#!/usr/bin/env bash
# One file of overlapping notes in four readers of MIDI.
#
# Guess: pretty_midi and miditoolkit, its relative, read the same: the first note-off ends both notes, and a note of
#   no length is dropped; symusic and partitura end the first note first.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check pretty_midi==0.2.11.post0 miditoolkit==1.0.1 symusic==0.6.0 partitura==1.9.0 mido==1.3.3

"$folder/bin/python" - << 'END'
import os
import tempfile
import warnings
from importlib.metadata import version

import miditoolkit
import mido
import partitura
import pretty_midi
import symusic

print(", ".join(f"{name} {version(name)}" for name in ("pretty_midi", "miditoolkit", "symusic", "partitura")))
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


warnings.simplefilter("ignore")
folder = tempfile.mkdtemp()


def notes(name, *events):
    """Return (start, end) in beats of the notes of pitch 60, by reader. Events are (beat, kind)."""
    file, path, last = mido.MidiFile(ticks_per_beat=480), os.path.join(folder, name), 0
    track = mido.MidiTrack()
    file.tracks.append(track)
    for beat, kind in events:
        track.append(mido.Message(f"note_{kind}", note=60, velocity=64 if kind == "on" else 0, time=480 * (beat - last)))
        last = beat
    file.save(path)
    return {
        "pretty_midi": sorted((float(n.start / 0.5), float(n.end / 0.5)) for i in pretty_midi.PrettyMIDI(path).instruments for n in i.notes),
        "miditoolkit": sorted((n.start / 480, n.end / 480) for i in miditoolkit.MidiFile(path).instruments for n in i.notes),
        "symusic": sorted((n.time / 480, (n.time + n.duration) / 480) for t in symusic.Score(path).tracks for n in t.notes),
        "partitura": sorted((n["note_on"] / 0.5, n["note_off"] / 0.5) for n in partitura.load_performance_midi(path)[0].notes),
    }


found = notes("overlap.mid", (0, "on"), (1, "on"), (2, "off"), (3, "off"))
fact("one pitch: on at 0 and 1, off at 2 and 3", "miditoolkit: both end at 2, as in pretty_midi", f"miditoolkit: {found['miditoolkit']}; pretty_midi: {found['pretty_midi']}", found["miditoolkit"] == [(0, 2), (1, 3)] and found["pretty_midi"] == [(0, 2), (1, 2)])
fact("the same in symusic and partitura", "[(0, 2), (1, 3)] in both", f"{found['symusic']} and {found['partitura']}", found["symusic"] == [(0, 2), (1, 3)] and found["partitura"] == [(1, 2)])
found = notes("no-length.mid", (0, "on"), (0, "off"), (1, "on"), (2, "off"))
fact("a note that ends in its own tick", "dropped by pretty_midi and miditoolkit", f"miditoolkit: {found['miditoolkit']}; pretty_midi: {found['pretty_midi']}", found["miditoolkit"] == [(0, 0), (1, 2)] and found["pretty_midi"] == [(1, 2)])
found = notes("on-before-off.mid", (0, "on"), (1, "on"), (1, "off"), (2, "off"))
fact("a repeated note whose on precedes the off in one tick", "(0, 1) and (1, 2) in all", f"partitura: {found.pop('partitura')}; the others: {found['symusic']}", all(value == [(0, 1), (1, 2)] for value in found.values()))
raise SystemExit(wrong)
END
