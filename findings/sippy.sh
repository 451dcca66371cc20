#!/usr/bin/env bash
# The delay of an ARX model in SIPPY.
#
# Guess: ARX_orders = [1, 1, 0] means y[t] = a y[t-1] + b u[t]: delay 0 is none, as nk in MATLAB.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check sippy-unipi==1.0.1 numpy==2.4.6

"$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

import numpy as np
import sippy_unipi

print(f"sippy-unipi {version('sippy-unipi')}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


warnings.simplefilter("ignore")
u = np.random.default_rng(0).normal(size=300)


def gain(delay):
    """Return b of the model that SIPPY fits to y[t] = 0.8 y[t-1] + u[t-delay]."""
    y = np.zeros(300)
    for t in range(1, 300):
        y[t] = 0.8 * y[t - 1] + u[t - delay]
    model = sippy_unipi.system_identification(y[None], u[None], "ARX", ARX_orders=[1, 1, 0])
    return float(np.max(np.abs(model.G.num[0][0])))


direct, late = gain(0), gain(1)
fact("ARX_orders [1, 1, 0] on y[t] = 0.8 y[t-1] + u[t]", "b = 1", f"b = {direct:.2f}: it has u[t-1]", direct < 0.2)
fact("the same on y[t] = 0.8 y[t-1] + u[t-1]", "another b than 1", f"b = {late:.2f}", np.isclose(late, 1, atol=1e-3))
raise SystemExit(wrong)
END
