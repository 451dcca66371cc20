#!/usr/bin/env bash
# Times in several units with NumPy functions and `quantities`.
#
# Guess: units are converted, or an error is raised.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check quantities==0.16.4 numpy==2.4.6

"$folder/bin/python" - << 'END'
import numpy as np
import quantities as pq

print(f"quantities {pq.__version__}, NumPy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


edges, spikes = np.array([0.0, 1.0, 2.0]) * pq.s, np.array([500.0, 1500.0]) * pq.ms
bin_of = np.searchsorted(edges, spikes)
counts = np.histogram(spikes, bins=edges)[0]
fact("searchsorted and histogram of spikes at 500 and 1500 ms, in bins of 1 s", "bins 1 and 2, and one spike in each, or an error", f"{np.asarray(bin_of)} and counts {counts}: the numbers are compared without their units", list(np.asarray(bin_of)) == [3, 3] and list(counts) == [0, 0])

joined = np.concatenate([edges, spikes])
fact("concatenate of times in s and in ms", "times in s, or an error", f"{joined}: neither converted nor an error", list(joined.magnitude) == [0, 1, 2, 500, 1500] and joined.dimensionality.string == "dimensionless")

raise SystemExit(wrong)
END
