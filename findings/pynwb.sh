#!/usr/bin/env bash
# Which samples and spikes of a trial PyNWB selects.
#
# Guesses: the samples of a trial are those with start <= t < stop, whether the times of the recording are stored as a
# rate or as timestamps; they end with the recording; spikes are selected in the same way, start <= t < stop.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check pynwb==4.2.0 hdmf==6.2.0 numpy==2.4.6

"$folder/bin/python" - << 'END'
import warnings
from datetime import datetime, timezone
from importlib.metadata import version

warnings.simplefilter("ignore")
import numpy as np
from pynwb import NWBFile, TimeSeries

print(f"PyNWB {version('pynwb')}, HDMF {version('hdmf')}, NumPy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


# One recording of 2 s at 100 Hz, with its times stored in both ways.
T, rate = 200, 100.0
by_rate = TimeSeries(name="rate", data=np.arange(T), unit="V", rate=rate, starting_time=0.0)
by_stamps = TimeSeries(name="stamps", data=np.arange(T), unit="V", timestamps=np.arange(T) / rate)
trials = [(0.29, 0.58), (0.295, 0.585), (1.5, 3.0)]
file = NWBFile("finding", "finding", datetime(2020, 1, 1, tzinfo=timezone.utc))
file.add_acquisition(by_rate)
file.add_acquisition(by_stamps)
for start, stop in trials:
    file.add_trial(start_time=start, stop_time=stop, timeseries=[by_rate, by_stamps])


def samples(trial):
    """Return the first sample and their number, by rate and by timestamps."""
    return [(int(part.idx_start), int(part.count)) for part in file.trials["timeseries"][trial]]


first, second = samples(0)
fact("Trial [0.29, 0.58] of a recording at 100 Hz", "samples 29 to 57", f"samples {first[0]} to {sum(first) - 1} with a rate, as times are rounded down, {second[0]} to {sum(second) - 1} with timestamps", (first, second) == ((28, 29), (29, 29)))
first, second = samples(1)
fact("Trial [0.295, 0.585], which begins between two samples", "sample 30 is the first, in both", f"sample {first[0]} with a rate, before the trial begins, {second[0]} with timestamps", (first, second) == ((29, 29), (30, 29)))
first, second = samples(2)
fact("Number of samples of trial [1.5, 3] of a recording of 2 s", "50, in both", f"{first[1]} with a rate, {second[1]} with timestamps", (first, second) == ((150, 150), (150, 50)))

file.add_unit(spike_times=[0.0, 0.5, 1.0, 1.5, 2.0])
parts = [file.units.get_unit_spike_times(0, in_interval=interval) for interval in ((0, 1), (1, 2))]
fact("get_unit_spike_times of [0, 1] and of [1, 2], spikes at 0, 0.5, 1, 1.5, 2", "the spike at 1 is in the second", f"it is in both: {len(parts[0])} and {len(parts[1])} of 5 spikes", [list(part) for part in parts] == [[0, 0.5, 1], [1, 1.5, 2]])
raise SystemExit(wrong)
END
