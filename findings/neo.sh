#!/usr/bin/env bash
# Slices, epochs and resampling in neo.
#
# Guesses: each tenth sample of a signal has a tenth of the sampling rate. time_slice of an epoch cuts those that lie
# partly inside. resample of an irregularly sampled signal interpolates at equal times.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check neo==0.14.6 quantities==0.16.4 numpy==2.4.6 scipy==1.17.1

"$folder/bin/python" - << 'END'
from importlib.metadata import version

import neo
import numpy as np
import quantities as pq

print(f"neo {version('neo')}, quantities {pq.__version__}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


signal = neo.AnalogSignal(np.arange(100.0)[:, None], units="mV", sampling_rate=100 * pq.Hz)
tenth = signal[::10]
times = [float(t) for t in tenth.times.rescale("s")[:3]]
fact("Sampling rate and times of `signal[::10]`, of 100 samples at 100 Hz", "10 Hz; 0, 0.1, 0.2 s to 1 s, or an error", f"{tenth.sampling_rate}; {times} s to {tenth.t_stop}: the 10 samples count as neighbours", list(tenth.magnitude[:, 0]) == list(range(0, 100, 10)) and float(tenth.sampling_rate) == 100 and np.allclose(times, [0, 0.01, 0.02]) and np.isclose(float(tenth.t_stop), 0.1))

epochs = neo.Epoch([0.0, 0.1, 0.2] * pq.s, durations=[0.1, 0.1, 0.1] * pq.s)
part = epochs.time_slice(0.05 * pq.s, 0.15 * pq.s)
found = [(round(float(t), 6), round(float(t + d), 6)) for t, d in zip(part.times, part.durations)]
fact("`time_slice` from 0.05 to 0.15 s of three epochs of 0.1 s: 0 to 0.1, 0.1 to 0.2, 0.2 to 0.3", "[(0.05, 0.1), (0.1, 0.15)]", f"{found}: those that begin inside, whole; the first, which also lies partly inside, is lost", found == [(0.1, 0.2)])

t, v = np.array([0.0, 0.1, 0.5]), np.array([1.0, 2.0, 3.0])
again = neo.IrregularlySampledSignal(t * pq.s, v, units="mV").resample(5)
new = np.array(again.times.rescale("s"))
k, n = np.arange(-1, 2), np.arange(5)
periodic = (np.exp(2j * np.pi * np.outer(n, k) / 5) @ [(v * np.exp(-2j * np.pi * i * np.arange(3) / 3)).mean() for i in k]).real
exact = np.interp(new, t, v)
fact("`resample(5)` of values 1, 2, 3 at 0, 0.1 and 0.5 s: values at equal times from 0 to 0.5 s", ", ".join(f"{x:.2f}" for x in exact), ", ".join(f"{x:.2f}" for x in again.magnitude[:, 0]) + ": as if the samples were equally spaced and periodic", np.allclose(new, np.linspace(0, 0.5, 5)) and np.allclose(again.magnitude[:, 0], periodic) and abs(periodic - exact).max() > 0.5)
raise SystemExit(wrong)
END
