#!/usr/bin/env bash
# Smoothers and log-likelihoods of FilterPy.
#
# Guesses: FixedLagSmoother with lag N has the best estimate of a state from the measurements up to N steps later. The
# function rts_smoother and the method of that name do the same with a list of transition matrices. A missing
# measurement, None, adds nothing to the log-likelihood. InformationFilter has the log-likelihoods of KalmanFilter.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check filterpy==2.0.0 numpy==2.4.6 scipy==1.17.1

"$folder/bin/python" - << 'END'
from importlib.metadata import version

import numpy as np
from filterpy.kalman import FixedLagSmoother, InformationFilter, KalmanFilter, rts_smoother
from scipy.stats import multivariate_normal

print(f"FilterPy {version('filterpy')}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


def walk(kind=KalmanFilter, **options):
    """A random walk: variance 4 at the start, 1 for each step, 2 for each measurement."""
    model = kind(1, 1, **options)
    model.x, model.F, model.H, model.Q = np.zeros(1), np.eye(1), np.eye(1), np.eye(1)
    if kind is InformationFilter:
        model.x, model.P_inv, model.R_inv = np.zeros((1, 1)), np.eye(1) / 4, np.eye(1) / 2
    else:
        model.P, model.R = 4 * np.eye(1), 2 * np.eye(1)
    return model


def covariance(steps):
    """Covariance of the measurements of this random walk; without the 2 on its diagonal, that of the states."""
    k = np.arange(1, steps + 1)
    return 4 + np.minimum.outer(k, k) + 2 * np.eye(steps)


def error(estimates):
    return float(((np.ravel(estimates) - states)[9:-9] ** 2).mean())


rng, steps = np.random.default_rng(0), 1000
states = np.cumsum(rng.normal(size=steps))
z = states + 2**0.5 * rng.normal(size=steps)
filtered, covariances, _, _ = walk().batch_filter(list(z))
model, total = walk(), 0.0
for v in z[:100]:
    model.predict()
    model.update(v)
    total += model.log_likelihood
assert np.isclose(total, multivariate_normal.logpdf(z[:100], cov=covariance(100)))

errors, best = {}, {}
for lag in (1, 2):
    late, same = walk(FixedLagSmoother, N=lag).smooth_batch(list(z), lag)
    assert np.allclose(same, filtered)
    errors[lag] = error(late)
    # The exact estimates: the mean of a state given the first k + lag + 1 measurements.
    exact = np.array(filtered).ravel().copy()
    for k in range(steps - lag):
        part = slice(max(0, k - 1), k + lag + 1)
        exact[k] = walk().rts_smoother(filtered[part], covariances[part])[0][min(k, 1), 0]
    five = covariance(5 + lag)
    assert np.isclose(exact[4], (five - 2 * np.eye(5 + lag))[4] @ np.linalg.solve(five, z[: 5 + lag]))
    best[lag] = error(exact)
plain = error(filtered)
fact("`FixedLagSmoother` of a random walk with lags of 1 and 2: mean squared error", f"{best[1]:.2f} and {best[2]:.2f}, the smallest, while the filter without a lag has {plain:.2f}", f"{errors[1]:.2f} and {errors[2]:.2f}: larger than without a lag", min(errors.values()) > 1.03 * plain and max(best.values()) < 0.85 * plain)

Fs = [np.array([[f]]) for f in (1.0, 2.0, 0.5, 3.0)]
Qs = [np.array([[q]]) for q in (1.0, 0.1, 5.0, 0.2)]
y = [1.0, 2.0, 3.0, 1.0]
means, covs, _, _ = walk().batch_filter(y, Fs=Fs, Qs=Qs)
inverse = np.eye(4)
for t in range(1, 4):
    inverse[t, t - 1] = -Fs[t][0, 0]
spread = np.diag([4 * Fs[0][0, 0] ** 2 + Qs[0][0, 0], *(q[0, 0] for q in Qs[1:])])
P = np.linalg.solve(inverse, np.linalg.solve(inverse, spread).T)
exact = P @ np.linalg.solve(P + 2 * np.eye(4), y)
method = walk().rts_smoother(means, covs, Fs=Fs, Qs=Qs)[0].ravel()
function = rts_smoother(means, covs, Fs, Qs)[0].ravel()
shifted = rts_smoother(means, covs, Fs[1:] + Fs[:1], Qs[1:] + Qs[:1])[0].ravel()
fact("`rts_smoother` as a function, with the lists given to `batch_filter`", ", ".join(f"{v:.2f}" for v in exact) + ", as the method", ", ".join(f"{v:.2f}" for v in function) + ": its lists begin one step later", np.allclose(method, exact) and np.allclose(shifted, exact) and abs(function - exact).max() > 0.5)

model, total = walk(), 0.0
for k, v in enumerate(z[:100]):
    model.predict()
    model.update(v if k % 2 == 0 else None)
    total += model.log_likelihood
seen = np.arange(0, 100, 2)
exact = multivariate_normal.logpdf(z[seen], cov=covariance(100)[np.ix_(seen, seen)])
fact("Sum of `log_likelihood` with every other measurement missing", f"{exact:.1f}", f"{total:.1f}: a missing one counts as an error of 0, with the last variance", total < exact - 50)

information, model, found, expected = walk(InformationFilter), walk(), [], []
for v in (1.0, 5.0, 2.0):
    for kalman, values in ((information, found), (model, expected)):
        kalman.predict()
        kalman.update(v)
        values.append(float(kalman.log_likelihood))
    assert np.allclose(information.x, model.x)
fact("`log_likelihood` of `InformationFilter` at three steps", ", ".join(f"{v:.2f}" for v in expected) + ", as `KalmanFilter`", ", ".join(f"{v:.2f}" for v in found) + ", with the same estimates", abs(found[1] - expected[1]) > 5)
raise SystemExit(wrong)
END
