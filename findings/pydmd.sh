#!/usr/bin/env bash
# Growth rates of dynamic modes in PyDMD.
#
# Guess: growth_rate is log |eigenvalue| / dt, the real part of the exponent, as frequency is its imaginary part / 2 pi.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check pydmd==2025.8.1 numpy==2.4.6 scipy==1.17.1

"$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

import numpy as np
from pydmd import DMD

print(f"PyDMD {version('pydmd')}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


warnings.simplefilter("ignore")


def fit(rate, omega, dt):
    """Return the model of a spiral, exp(rate t) times a rotation by omega t."""
    t = np.arange(200) * dt
    model = DMD(svd_rank=2).fit(np.exp(rate * t) * np.array([np.cos(omega * t), np.sin(omega * t)]))
    for times in (model.original_time, model.dmd_time):
        times["dt"], times["tend"] = dt, t[-1]
    assert np.allclose(np.log(model.eigs).real / dt, rate)
    assert np.allclose(np.abs(model.frequency), omega / (2 * np.pi))
    return model


decay = fit(-0.1, 2.0, 0.1).growth_rate[0]
fact("`growth_rate` of a mode that falls as exp(-0.1 t), at a step of 0.1", "-0.1", f"{decay:.2f}: the real part of the eigenvalue of one step, divided by the step", np.isclose(decay, np.exp(-0.01) * np.cos(0.2) / 0.1))
fast = fit(0.1, 20.0, 0.1).growth_rate[0]
fact("`growth_rate` of a fast mode that grows as exp(0.1 t), at a step of 0.1", "0.1", f"{fast:.2f}", np.isclose(fast, np.exp(0.01) * np.cos(2.0) / 0.1) and fast < 0)
raise SystemExit(wrong)
END
