#!/usr/bin/env bash
# Bach's chorales and overlapping notes in music21.
#
# Guess: corpus.chorales.Iterator() yields 371 chorales, none twice; overlapping notes of one pitch end in the order
#   in which they began.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check music21==10.5.1 mido==1.3.3

"$folder/bin/python" - << 'END'
import os
import tempfile
from collections import Counter

import mido
import music21
from music21 import converter, corpus

print(f"music21 {music21.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


files = list(corpus.chorales.Iterator(returnType="filename"))
twice = sum(count > 1 for count in Counter(files).values())
fact("corpus.chorales.Iterator()", "371 chorales", f"{len(files)} of {len(set(files))} files; {twice} come more than once, so a random split has some in both parts", (len(files), len(set(files))) == (371, 350))

folder = tempfile.mkdtemp()


def notes(name, *events):
    """Return (start, end) in beats. Events are (beat, kind)."""
    file, path, last = mido.MidiFile(ticks_per_beat=480), os.path.join(folder, name), 0
    track = mido.MidiTrack()
    file.tracks.append(track)
    for beat, kind in events:
        track.append(mido.Message(f"note_{kind}", note=60, velocity=64 if kind == "on" else 0, time=480 * (beat - last)))
        last = beat
    file.save(path)
    score = converter.parse(path, forceSource=True)
    starts = [(float(n.getOffsetInHierarchy(score)), float(n.quarterLength)) for n in score.recurse().notes]
    return sorted((start, start + length) for start, length in starts)


found = notes("overlap.mid", (0, "on"), (1, "on"), (2, "off"), (3, "off"))
fact("one pitch: on at 0 and 1, off at 2 and 3", "[(0, 2), (1, 3)]", str(found), found == [(0, 2), (1, 2)])
found = notes("on-before-off.mid", (0, "on"), (1, "on"), (1, "off"), (2, "off"))
fact("a repeated note whose on precedes the off in one tick", "[(0, 1), (1, 2)]", f"{found}: the second has no length", found == [(0, 1), (1, 1)])
raise SystemExit(wrong)
END
