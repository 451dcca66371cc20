#!/usr/bin/env bash
# Seeds and noise of tasks in NeuroGym.
#
# Guesses: reset(seed=0) makes the trials that follow repeat; so do two datasets with the same seed; sigma is the
# standard deviation of the noise at each step.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check neurogym==2.3.1 gymnasium==0.29.1 numpy==2.2.6 torch==2.13.0

"$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

warnings.simplefilter("ignore")
import neurogym
import numpy as np
from neurogym.utils.data import Dataset

print(f"NeuroGym {version('neurogym')}, Gymnasium {version('gymnasium')}, NumPy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


task = "PerceptualDecisionMaking-v0"


def trials(env, number=20):
    made = [env.unwrapped.new_trial() for _ in range(number)]
    return [(int(trial["ground_truth"]), float(trial["coh"])) for trial in made]


env = neurogym.make(task, dt=100)
by_reset, by_seed = [], []
for _ in range(2):
    env.reset(seed=0)
    by_reset.append(trials(env))
for _ in range(2):
    env.unwrapped.seed(0)
    by_seed.append(trials(env))
fact("20 trials after reset(seed=0), twice", "the same trials", "other trials; they repeat after seed(0)", by_reset[0] != by_reset[1] and by_seed[0] == by_seed[1])


def dataset():
    return Dataset(task, env_kwargs={"dt": 100}, batch_size=2, seq_len=22, cache_len=44)


pair = [dataset(), dataset()]
batches = []
for data in pair:
    data.seed(0)
    batches.append([data()[0].copy() for _ in range(6)])
same = [np.array_equal(a, b) for a, b in zip(*batches)]
fact("Batches of two datasets after seed(0)", "the same from the first one", f"other ones until the stored sequences are used up; equal: {same}", not same[0] and same[-1])


def noise(dt):
    env = neurogym.make(task, dt=dt, sigma=1.0).unwrapped
    env.seed(0)
    stimuli = []
    for _ in range(dt):
        env.new_trial(ground_truth=0, coh=0)
        stimuli.append(env.view_ob("stimulus")[:, 1:])
    return float(np.concatenate(stimuli).std())


found = {dt: noise(dt) for dt in (100, 20)}
fact("Standard deviation of the noise with sigma=1, for steps of 100 and 20 ms", "1 and 1", " and ".join(f"{value:.2f}" for value in found.values()) + ": sigma divided by the square root of the milliseconds of a step", all(abs(value * dt**0.5 - 1) < 0.1 for dt, value in found.items()))
raise SystemExit(wrong)
END
