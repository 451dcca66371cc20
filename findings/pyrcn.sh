#!/usr/bin/env bash
# Inputs and biases of echo state networks in PyRCN.
#
# Guesses: the only tanh is that of the reservoir, of inputs and recurrence together. The readout does not penalise its
# bias.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check PyRCN==0.1.0 torch==2.13.0 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1

"$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

warnings.simplefilter("ignore")
import numpy as np
from pyrcn.echo_state_network import ESNRegressor
from pyrcn.linear_model import IncrementalRegression

print(f"PyRCN {version('pyrcn')}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


rng, steps, units = np.random.default_rng(0), 200, 20
x = rng.normal(size=(steps, 1))
y = 0.1 * np.cumsum(x, axis=0)
esn = ESNRegressor(hidden_layer_size=units, input_scaling=2.0, bias_scaling=0.5, spectral_radius=0.9, leakage=0.3, random_state=0).fit(x, y)
R = 0.9 * np.asarray(esn.node_to_node.recurrent_weights)
inputs = x @ (2.0 * np.asarray(esn.input_to_node.input_weights)) + 0.5 * np.ravel(esn.input_to_node.bias_weights)


def misfit(inputs):
    """Largest difference of the predictions from a linear function of the states."""
    h, states = np.zeros(units), []
    for v in inputs:
        h = 0.7 * h + 0.3 * np.tanh(v + h @ R)
        states.append(h)
    states = np.c_[np.array(states), np.ones(steps)]
    output = np.ravel(esn.predict(x))
    return float(abs(states @ np.linalg.lstsq(states, output)[0] - output).max())


once, twice = misfit(inputs), misfit(np.tanh(inputs))
fact("States of `ESNRegressor`", "(1 - a) h + a tanh(W x + b + R h)", f"(1 - a) h + a tanh(tanh(W x + b) + R h), unless `input_activation` is 'identity': misfits of {once:.0e} and {twice:.0e}", once > 1e-3 and twice < 1e-6)

x = rng.normal(size=(30, 2))
y = x @ np.array([[1.0], [2.0]]) + 100
alpha = 30.0
ones = np.c_[x, np.ones(30)]
exact = np.linalg.solve(ones.T @ ones + alpha * np.diag([1, 1, 0]), ones.T @ y)
all_three = np.linalg.solve(ones.T @ ones + alpha * np.eye(3), ones.T @ y)
found = IncrementalRegression(alpha=alpha).fit(x, y).predict(x)
fact("Mean prediction of the readout `IncrementalRegression`, alpha = 30, for 30 targets with a mean of 100", f"{(ones @ exact).mean():.1f}", f"{found.mean():.1f}: the bias is penalised", np.allclose(np.ravel(found), np.ravel(ones @ all_three), rtol=1e-3) and found.mean() < 60)
raise SystemExit(wrong)
END
