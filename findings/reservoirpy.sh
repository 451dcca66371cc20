#!/usr/bin/env bash
# R2 and ridge regression in ReservoirPy.
#
# Guess: rsquare of several outputs takes each output's own mean; the bias of Ridge is penalised, as a column of
#   ones.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check reservoirpy==0.4.2 numpy==2.4.6 scipy==1.17.1

"$folder/bin/python" - << 'END'
import numpy as np
import reservoirpy
from reservoirpy.nodes import Ridge
from reservoirpy.observables import rsquare

print(f"reservoirpy {reservoirpy.__version__}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


wave = np.linspace(-1, 1, 100)
y, means = np.stack([wave, 100 + wave], axis=1), np.stack([0 * wave, 100 + 0 * wave], axis=1)
found = rsquare(y, means)
fact("rsquare of two outputs, predicted by their means", "0", f"{found:.4f}: one mean over both outputs, whose offsets differ", found > 0.99)
rng = np.random.default_rng(0)
x = rng.normal(size=(50, 2))
y = x @ np.array([[1.0], [2.0]]) + 5
node = Ridge(ridge=10.0)
node.fit(x, y)
ones = np.c_[np.ones(50), x]
penalised = np.linalg.solve(ones.T @ ones + 10 * np.eye(3), ones.T @ y).ravel()
centred = x - x.mean(axis=0)
free = np.linalg.solve(centred.T @ centred + 10 * np.eye(2), centred.T @ y).ravel()
bias = np.ravel(node.bias)[0]
fact("bias of Ridge(ridge=10)", f"{penalised[0]:.3f}, penalised", f"{bias:.3f}: not penalised, the inputs are centred", np.allclose(np.ravel(node.Wout), free) and np.isclose(bias, y.mean() - x.mean(axis=0) @ free))
raise SystemExit(wrong)
END
