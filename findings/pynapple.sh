#!/usr/bin/env bash
# Last bins and touching intervals in pynapple.
#
# Guess: count(1.0) on [0, 10.5] gives 10 bins and drops the incomplete one; intervals that touch stay as they are,
#   or are joined.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check pynapple==0.11.4 numpy==2.4.6 numba==0.68.1

"$folder/bin/python" - << 'END'
import warnings

import numpy as np
import pynapple as nap

print(f"pynapple {nap.__version__}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


warnings.simplefilter("ignore")
spikes = nap.Ts(np.array([0.0, 0.5, 1.0, 2.0, 10.0, 10.2, 10.5]), time_support=nap.IntervalSet(0, 10.5))
counted = spikes.count(1.0)
fact("count(1.0) on [0, 10.5]", "10 bins", f"{len(counted)} bins; the last has its centre at {counted.t[-1]}, and half of it lies outside", len(counted) == 11 and counted.t[-1] == 10.5)
shorter = spikes.count(1.0, ep=nap.IntervalSet(0, 10.4))
fact("count(1.0) on [0, 10.4]", "the same number of bins", f"{len(shorter)}: an incomplete bin stays if its centre lies inside", len(shorter) == 10)
trials = nap.IntervalSet([0, 1], [1, 2])
fact("IntervalSet([0, 1], [1, 2])", "[0, 1] and [1, 2], or [0, 2]", f"[{trials.start[0]}, {trials.end[0]}] and [{trials.start[1]}, {trials.end[1]}]: a microsecond is cut off", len(trials) == 2 and trials.end[0] == 0.999999 and trials.start[1] == 1)
raise SystemExit(wrong)
END
