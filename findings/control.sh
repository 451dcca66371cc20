#!/usr/bin/env bash
# Impulses, noise, realizations and Kalman gains in python-control.
#
# Guesses: the impulse of a discrete system is 1 at the first sample, and markov estimates this response.
# eigensys_realization of an impulse response gives the system back. white_noise(T, Q) has the variance Q at each
# sample. dlqe returns the gain of the filter, as MATLAB's function of this name.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check control==0.10.2 numpy==2.4.6 scipy==1.17.1

"$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

warnings.simplefilter("ignore")
import control as ct
import numpy as np
from scipy.linalg import solve_discrete_are

print(f"control {version('control')}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


def text(values):
    return ", ".join(f"{v:.4g}" for v in np.ravel(values))


rng, dt = np.random.default_rng(0), 0.1
system = ct.ss([[0.5]], [[1.0]], [[1.0]], [[2.0]], dt)  # x[t+1] = 0.5 x + u, y = x + 2 u
times = dt * np.arange(400)
u = np.zeros(400)
u[0] = 1
h = ct.forced_response(system, times, u).outputs
assert np.allclose(h[:4], [2, 1, 0.5, 0.25])
impulse = ct.impulse_response(system, T=times[:40]).outputs
u = rng.normal(size=400)
y = ct.forced_response(system, times, u).outputs
markov = {step: ct.markov(y[None], u[None], 20, dt=step).ravel() for step in (True, dt)}
fact("`impulse_response` with steps of 0.1, and `markov` with dt=0.1", f"{text(h[:4])}: the input is 1 at the first sample", f"{text(impulse[:4])}: the input is 1 / dt; `markov` without dt is as guessed", np.allclose(impulse, h[:40] / dt) and np.allclose(markov[dt], h[:20] / dt, atol=1e-3) and np.allclose(markov[True], h[:20], atol=1e-4))

again, _ = ct.eigensys_realization(impulse[None, None], 1, dt=dt)
exact, _ = ct.eigensys_realization(h[None, None, :40], 1)
assert np.allclose([exact.A, exact.C @ exact.B, exact.D], [[[0.5]], [[1]], [[2]]])
fact("A, CB and D of `eigensys_realization` of this impulse response, with dt=0.1", "0.5, 1, 2", f"{text([again.A, again.C @ again.B, again.D])}: the direct effect is not divided by 1 / dt", np.allclose([again.A, again.C @ again.B], [[[0.5]], [[1]]]) and np.allclose(again.D, 2 / dt))

noise = [ct.white_noise(0.01 * np.arange(10000), 1.0, **kw).std() for kw in ({}, {"dt": 0.01})]
fact("Standard deviation of `white_noise(T, 1)` with times 0.01 apart", "1", f"{noise[0]:.2f}, the root of Q / dt, unless `dt` is given too: then {noise[1]:.2f}", abs(noise[0] - 10) < 0.3 and abs(noise[1] - 1) < 0.03)

one = np.eye(1)
P = solve_discrete_are(0.9 * one, one, one, one)  # variance of the predicted state, 1 step ahead
gain, variance, _ = ct.dlqe(0.9 * one, one, one, one, one)
fact("Gain of `dlqe` for x[t+1] = 0.9 x + w, y = x + v, variances 1", f"{text(P / (P + 1))}, for the estimate of the same step", f"{text(gain)}, 0.9 times that: for the prediction of the next step", np.allclose(gain, 0.9 * P / (P + 1)) and np.allclose(variance, P))
raise SystemExit(wrong)
END
