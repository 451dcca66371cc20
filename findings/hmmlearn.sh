#!/usr/bin/env bash
# Units and variances of GaussianHMM in hmmlearn.
#
# Guess: fit maximizes the likelihood, so a model of one state has the variance of the data, and two states that are
# far apart are found in every unit.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check hmmlearn==0.3.3 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1

"$folder/bin/python" - << 'END'
import logging
import warnings
from importlib.metadata import version

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
import numpy as np
from hmmlearn.hmm import GaussianHMM

print(f"hmmlearn {version('hmmlearn')}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


rng = np.random.default_rng(0)
x = 3 + 0.01 * rng.normal(size=(50, 1))
found = {kind: float(np.ravel(GaussianHMM(1, kind, random_state=0).fit(x).covars_)[0]) for kind in ("diag", "full", "spherical")}
exact = GaussianHMM(1, "diag", covars_prior=0, random_state=0).fit(x).covars_.item()
assert np.isclose(exact, x.var())
fact("Variance of one state, fitted to 50 numbers with a deviation of 0.01", f"{x.var():.2e}, that of the data", f"{found['diag']:.2e}: `covars_prior`, 0.01, is added to the sum of squares; with `covars_prior=0` as guessed", np.allclose(list(found.values()), x.var() + 0.01 / 50, rtol=1e-4))

state = np.repeat([0, 1] * 10, 10)
x = 5 * state[:, None] + rng.normal(size=(200, 1))


def share(unit, **options):
    """Steps that get the right state, 0.5 at least."""
    model = GaussianHMM(2, n_iter=200, random_state=0, **options)
    right = (model.fit(unit * x).predict(unit * x) == state).mean()
    return float(max(right, 1 - right))


shares = {unit: share(unit) for unit in (1.0, 0.1, 0.01, 0.001)}
fixed = share(0.001, covars_prior=0, min_covar=0)
fact("Steps with the right one of two states, 5 deviations apart, for units of 1, 0.1, 0.01 and 0.001", "the same share", f"{', '.join(f'{v:.2f}' for v in shares.values())}; for 0.001 it is {fixed:.2f} with `covars_prior=0` and `min_covar=0`: the first variances have 0.001 added", min(shares[1.0], shares[0.1], fixed) > 0.97 and max(shares[0.01], shares[0.001]) < 0.8)
raise SystemExit(wrong)
END
