#!/usr/bin/env bash
# Times to samples, and times of annotations, in MNE.
#
# Guess: a time that is a multiple of the sampling interval is that sample; get_data(tmin, tmax) of one interval has
#   one sample everywhere; after crop the annotations are counted from the new start.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check mne==1.13.2 numpy==2.4.6 scipy==1.17.1

"$folder/bin/python" - << 'END'
import mne
import numpy as np

print(f"mne {mne.__version__}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


mne.set_log_level("ERROR")
raw = mne.io.RawArray(np.arange(1000.0)[None], mne.create_info(["a"], 100.0, "misc"))
wrong_index = [k for k in range(1000) if raw.time_as_index(k / 100)[0] != k]
fact("time_as_index(k / 100) at 100 Hz, k < 1000", "k", f"k - 1 for {len(wrong_index)} of them, first {wrong_index[:3]}: it rounds down 100 * 0.29", wrong_index[:3] == [29, 57, 58])
lengths = [raw.get_data(tmin=k / 100, tmax=(k + 1) / 100).shape[1] for k in range(990)]
found = {n: lengths.count(n) for n in sorted(set(lengths))}
fact("samples of get_data(tmin=k / 100, tmax=(k + 1) / 100)", "1 for all k", f"{', '.join(f'{n} for {m}' for n, m in found.items())}", set(found) == {0, 1, 2})
raw.set_annotations(mne.Annotations([2.0, 5.0], [1.0, 1.0], ["x", "y"]))
late = raw.copy().crop(1, None)
events = mne.events_from_annotations(late)[0][:, 0]
fact("annotations at 2 and 5 s after crop(1)", "onsets 1 and 4", f"onsets {late.annotations.onset.tolist()}, although times begin at {late.times[0]:g}; events are {events.tolist()}, with first_samp {late.first_samp}", late.annotations.onset.tolist() == [2, 5] and late.times[0] == 0 and events.tolist() == [200, 500])
raise SystemExit(wrong)
END
