#!/usr/bin/env bash
# Log-likelihoods and missing measurements in simdkalman and pykalman.
#
# Guesses: the log-likelihood of simdkalman is that of the normal distribution. NaN is a missing measurement in
# pykalman. If one of two outputs is masked, pykalman takes the other one.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check simdkalman==1.0.4 pykalman==0.11.2 numpy==2.4.6 scipy==1.17.1

"$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

warnings.simplefilter("ignore")
import numpy as np
import simdkalman
from pykalman import KalmanFilter
from scipy.stats import multivariate_normal

print(f"simdkalman {version('simdkalman')}, pykalman {version('pykalman')}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


# A random walk: variance 4 at the first step, 1 for each later one, 2 for each measurement.
rng, steps = np.random.default_rng(0), 30
y = np.cumsum(rng.normal(size=steps)) + 2**0.5 * rng.normal(size=steps)
k = np.arange(steps)
covariance = 4 + np.minimum.outer(k, k) + 2 * np.eye(steps)


def exact(measured):
    return multivariate_normal.logpdf(y[measured], cov=covariance[np.ix_(measured, measured)])


def simd(values):
    model = simdkalman.KalmanFilter(np.eye(1), np.eye(1), np.eye(1), 2.0)
    options = dict(initial_value=np.zeros(1), initial_covariance=4 * np.eye(1), likelihoods=True, log_likelihood=True)
    return model.compute(values[None], 1, **options).log_likelihood.item()


def walk(outputs):
    one = np.ones((outputs, 1))
    return KalmanFilter([[1.0]], one, [[1.0]], 2 * np.eye(outputs), initial_state_mean=[0.0], initial_state_covariance=[[4.0]])


odd = k % 2 == 1
gaps = np.where(odd, y, np.nan)
found = [simd(y), simd(gaps)]
expected = [exact(k), exact(k[odd])]
constant = np.log(2 * np.pi) / 2
fact("`log_likelihood` of simdkalman, for 30 measurements and for 15 of them", " and ".join(f"{v:.2f}" for v in expected), " and ".join(f"{v:.2f}" for v in found) + f": without -log(2 pi) / 2, which is {-constant:.2f}, for each measurement", np.allclose(np.subtract(found, expected), [30 * constant, 15 * constant]))

model, masked = walk(1), np.ma.masked_invalid(gaps[:, None])
assert np.isclose(model.loglikelihood(y[:, None]), expected[0]) and np.isclose(model.loglikelihood(masked), expected[1])
found = float(model.loglikelihood(gaps[:, None]))
means = np.ma.getdata(model.filter(gaps[:, None])[0])
fact("`loglikelihood` of pykalman with NaN for 15 of 30 measurements", f"{expected[1]:.2f}, as for a masked array", f"{found:.2f}, -1/2 for each step, and all estimates are NaN; no error", found == -steps / 2 and np.isnan(means).all())

both = np.stack([y, y + rng.normal(size=steps)], 1)
hidden = np.zeros(both.shape, bool)
hidden[:, 1] = True
means = np.ma.getdata(walk(2).filter(np.ma.masked_array(both, hidden))[0]).ravel()
alone = np.ma.getdata(model.filter(y[:, None])[0]).ravel()
fact("Estimates of pykalman with two outputs, the second masked: first three steps", ", ".join(f"{v:.2f}" for v in alone[:3]) + ", from the first output", ", ".join(f"{v:.2f}" for v in means[:3]) + ": neither output is used", not means.any() and abs(alone).min() > 0)
raise SystemExit(wrong)
END
