#!/usr/bin/env bash
# Predictions k steps ahead and errors of fit in SysIdentPy.
#
# Guesses: `steps_ahead=k` predicts each y[t] from the outputs up to y[t-k]. The normalized RMSE is divided by the
# standard deviation of y. The explained variance of two outputs is the mean of theirs, as in scikit-learn.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check sysidentpy==0.9.0 numpy==2.3.5 scipy==1.17.1

"$folder/bin/python" -W ignore - << 'END'
from importlib.metadata import version

import numpy as np
from sysidentpy.basis_function import Polynomial
from sysidentpy.metrics import explained_variance_score, normalized_root_mean_squared_error, root_relative_squared_error
from sysidentpy.model_structure_selection import FROLS
from sysidentpy.parameter_estimation import LeastSquares

print(f"sysidentpy {version('sysidentpy')}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


rng, N = np.random.default_rng(0), 2000
u, noise, y = rng.normal(size=N), rng.normal(size=N), np.zeros(N)
for t in range(2, N):
    y[t] = 1.5 * y[t - 1] - 0.7 * y[t - 2] + u[t - 1] + noise[t]
model = FROLS(order_selection=False, n_terms=4, ylag=2, xlag=2, estimator=LeastSquares(), basis_function=Polynomial(degree=1))
model.fit(X=u[:, None], y=y[:, None])
names = {1001: "y1", 1002: "y2", 2001: "u1", 2002: "u2"}
c = {names[int(term[0])]: float(value) for term, value in zip(model.final_model, model.theta.ravel())}


def ahead(t, k):
    """y[t] from the outputs up to y[t-k]."""
    past = [y[t - k - 1], y[t - k]]
    for s in range(t - k + 1, t + 1):
        past.append(c["y1"] * past[-1] + c["y2"] * past[-2] + c["u1"] * u[s - 1] + c["u2"] * u[s - 2])
    return past[-1]


def rms(error):
    return np.sqrt(np.mean(np.square(error)))


k, times = 5, np.arange(20, N)
exact = {j: np.array([ahead(t, j) for t in times]) for j in range(1, k + 1)}
found = model.predict(X=u[:, None], y=y[:, None], steps_ahead=k).ravel()[times]
one = model.predict(X=u[:, None], y=y[:, None], steps_ahead=1).ravel()[times]
assert np.allclose(one, exact[1])
step = (times - 2) % k + 1  # blocks of k steps, from the first step that is predicted
block = np.choose(step - 1, [exact[j] for j in range(1, k + 1)])
fact(f"RMSE of `predict(steps_ahead={k})`", f"{rms(exact[k] - y[times]):.3f}, that of predictions {k} steps ahead; {rms(one - y[times]):.3f} is that of one step", f"{rms(found - y[times]):.3f}: in blocks of {k} steps, the steps are 1 to {k} steps ahead of the last measured output", np.allclose(found, block) and rms(found - y[times]) < 0.9 * rms(exact[k] - y[times]))

e = found - y[times]
guess, found_nrmse = rms(e) / y[times].std(), float(normalized_root_mean_squared_error(y[times], y[times] + e))
assert np.isclose(root_relative_squared_error(y[times], y[times] + e), guess)
fact("`normalized_root_mean_squared_error`", f"{guess:.3f}: divided by the standard deviation", f"{found_nrmse:.3f}: divided by the range; `root_relative_squared_error` is the number guessed", np.isclose(found_nrmse, rms(e) / np.ptp(y[times])))

both = np.stack([rng.normal(size=500), 100 * rng.normal(size=500)], 1)
predicted = np.stack([np.zeros(500), both[:, 1]], 1)  # nothing of the first output, all of the second
found = float(explained_variance_score(both, predicted))
fact("`explained_variance_score` of two outputs, 0 and 1 alone, the second with 100 times the deviation", "0.5", f"{found:.4f}: one mean and one variance for both", np.isclose(found, 1 - np.var(both - predicted) / np.var(both)) and found > 0.99)
raise SystemExit(wrong)
END
