#!/usr/bin/env bash
# What GPFA of Elephant fits when trials are not 20 bins long.
#
# Guess: each trial is cut into segments of 20 bins, and every bin is in one segment.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check elephant==1.2.1 neo==0.14.6 quantities==0.16.4 numpy==2.4.6 scikit-learn==1.9.1

"$folder/bin/python" - << 'END'
import contextlib
import io
import warnings
from importlib.metadata import version

import neo
import numpy as np
import quantities as pq
from elephant.gpfa import GPFA

print(f"Elephant {version('elephant')}, Neo {neo.__version__}, quantities {pq.__version__}, NumPy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
ms = 20  # length of a bin


def counts(trials, bins, units=6):
    drive = np.sin(2 * np.pi * (np.arange(bins) / 30 + rng.uniform(size=(trials, 1))))
    rates = np.exp(0.5 + 0.8 * drive[:, None] * rng.normal(size=(units, 1)))
    return rng.poisson(rates)  # (trials, units, bins)


def trains(y):
    """Spikes inside their bins, away from the edges."""
    def train(row):
        times = np.concatenate([ms * (k + np.linspace(0.3, 0.7, n)) for k, n in enumerate(row)])
        return neo.SpikeTrain(times * pq.ms, t_stop=ms * len(row) * pq.ms)

    return [[train(row) for row in trial] for trial in y]


odd = counts(8, 21)
model = GPFA(bin_size=ms * pq.ms, x_dim=2, em_max_iters=20, freq_ll=1)
with contextlib.redirect_stdout(io.StringIO()):
    model.fit(trains(odd))
ratio = model.fit_info["log_likelihoods"][-1] / model.score(trains(odd))
fact("Last log-likelihood of a fit to trials of 21 bins, divided by `score` of the same trials", "about 1, as every bin is in one segment of at most 20 bins", f"{ratio:.2f}: it is that of 40 bins, as each trial becomes two segments of 20 that share 19 bins", 1.8 < ratio < 2)
raise SystemExit(wrong)
END
