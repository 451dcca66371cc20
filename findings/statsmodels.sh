#!/usr/bin/env bash
# Errors, simulations and spectra of time-series models in statsmodels.
#
# Guesses: mse of a model with differences leaves out the first errors, as the likelihood does. A simulation from the
# end of the data starts at the predicted state, so it is the forecast if all shocks are 0. The spectral density of an
# ARMA model is |h|^2 / (2 pi). Parameters of a VAR with inputs are the constant, the lags and then the inputs.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check statsmodels==0.15.0 numpy==2.4.6 scipy==1.17.1

"$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

import numpy as np
from statsmodels.tsa.api import SARIMAX, VAR
from statsmodels.tsa.arima_process import ArmaProcess

print(f"statsmodels {version('statsmodels')}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


warnings.simplefilter("ignore")
rng, steps = np.random.default_rng(0), 200
y = np.zeros(steps)
for t in range(1, steps):
    y[t] = 0.7 * y[t - 1] + rng.normal()

model = SARIMAX(100 + y.cumsum(), order=(1, 1, 0))
result = model.filter([0.7, 1.0])
later = float((result.resid[1:] ** 2).mean())
assert result.loglikelihood_burn == 1
fact("`mse` of SARIMAX (1, 1, 0) on 200 values that begin at 100", f"{later:.2f}, of 199 errors", f"{result.mse:.2f}: the first value itself counts as an error, and the likelihood leaves it out", np.isclose(result.mse, (199 * later + 100**2) / 200, rtol=1e-3) and result.mse > 40)

result = SARIMAX(y, order=(1, 0, 0)).filter([0.7, 1.0])
shocks = {"measurement_shocks": np.zeros(3), "state_shocks": np.zeros((3, 1))}
paths = np.array([result.simulate(3, anchor="end", rng=k, **shocks) for k in range(300)])
fixed = result.simulate(3, anchor="end", initial_state=result.predicted_state[:, -1], **shocks)
found = paths[:, 0].var()
fact("`simulate` from the end of the data, all shocks 0: variance of the first value", "0: it is the forecast", f"{found:.2f}: the first state is drawn, with the variance of a shock, unless `initial_state` is given", abs(found - 1) < 0.3 and np.allclose(fixed, result.forecast(3)))

w, density = ArmaProcess([1, -0.7], [1]).periodogram(20000)
expected, area = 1 / 0.3**2 / (2 * np.pi), 2 * density.mean() * np.pi
variance = 1 / (1 - 0.7**2)
fact("`periodogram` of an AR(1) process at frequency 0", f"{expected:.2f}, so that the integral from -pi to pi is the variance, {variance:.2f}", f"{density[0]:.2f}, and the integral is {area:.2f}: divided by the root of 2 pi", np.isclose(density[0], expected * np.sqrt(2 * np.pi)) and np.isclose(area, variance * np.sqrt(2 * np.pi), rtol=1e-2))

u = rng.normal(size=steps)
z = np.zeros((steps, 2))
for t in range(1, steps):
    z[t] = 0.5 * z[t - 1] + [3 * u[t], 0] + 0.01 * rng.normal(size=2)
p = VAR(z, exog=u[:, None]).fit(1).params
fact("Rows of `params` of a VAR with one input, which acts on the first output with 3", "the input is last", f"row {int(abs(p[:, 0]).argmax())} of {len(p)}: constant, input, lags", np.isclose(p[1, 0], 3, atol=0.1) and np.isclose(p[2, 0], 0.5, atol=0.1))
raise SystemExit(wrong)
END
