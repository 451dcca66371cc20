#!/usr/bin/env bash
# Sampling intervals in nitime.
#
# Guess: sample 10^8 of a recording at 30 kHz has its time right to a nanosecond.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check nitime==0.12.1 numpy==2.4.6

"$folder/bin/python" - << 'END'
import nitime
import numpy as np
from nitime.timeseries import UniformTime

print(f"nitime {nitime.__version__}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


interval = int(UniformTime(length=10, sampling_rate=30_000.0).sampling_interval)
error = 1e8 * (interval * 1e-12 - 1 / 30_000)
fact("time of sample 10^8 at 30 kHz, after 56 minutes", "right to 1e-9 s", f"{abs(error) * 1e6:.0f} microseconds early, which is one sample: the interval is {interval} ps", interval == 33_333_333 and abs(error) > 3e-5)
raise SystemExit(wrong)
END
