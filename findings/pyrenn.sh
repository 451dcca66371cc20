#!/usr/bin/env bash
# Errors of Levenberg-Marquardt training of recurrent networks in pyrenn.
#
# Guess: ErrorHistory, and E_stop, which ends the training, are mean squared errors in the units of the outputs.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check pyrenn==0.1 numpy==2.4.6 pandas==3.1.1

"$folder/bin/python" -W ignore - << 'END'
from importlib.metadata import version

import numpy as np
import pyrenn

print(f"pyrenn {version('pyrenn')}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


rng, steps = np.random.default_rng(0), 60
u, y = rng.normal(size=steps), np.zeros(steps)
for t in range(1, steps):
    y[t] = 0.5 * y[t - 1] + u[t - 1] + 3


def trained(updates, repeats=1, unit=1.0):
    np.random.seed(0)
    net = pyrenn.CreateNN([1, 3, 1], dIn=[0, 1], dIntern=[], dOut=[1])
    return pyrenn.train_LM(np.tile(u, repeats), unit * np.tile(y, repeats), net, k_max=updates, E_stop=1e-12)


first = trained(20)
errors = first["ErrorHistory"]
after = []
for updates in (len(errors) - 1, len(errors)):
    after.append(pyrenn.NNOut(u, trained(updates)) - y)
scaled = [float((e**2).sum() / y.max() ** 2) for e in after]
mean = float((after[1] ** 2).mean())
fact(f"Last value of `ErrorHistory` of {len(errors)} updates", f"{mean:.4g}, the mean squared error of the trained network", f"{errors[-1]:.4g}: the sum of squared errors of y / max |y| before the last update; after it, {scaled[1]:.4g}", np.isclose(errors[-1], scaled[0]) and errors[-1] != scaled[1])
one, two = trained(1)["ErrorHistory"][0], trained(1, unit=1000)["ErrorHistory"][0]
fact("First value for outputs in units of a thousandth", "1e6 times as large", f"{two / one:.3g} times as large", np.isclose(one, two))
raise SystemExit(wrong)
END
