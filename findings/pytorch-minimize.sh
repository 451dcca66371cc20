#!/usr/bin/env bash
# Results and success of BFGS in pytorch-minimize.
#
# Guesses: `gtol` bounds the gradient of a BFGS result with success. `hess_inv` belongs to the result: it contains the
# step that led there and no later one.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check torch==2.13.0 pytorch-minimize==0.1.0 numpy==2.4.6 scipy==1.17.1

"$folder/bin/python" -W ignore - << 'END'
from importlib.metadata import version

import torch
from torchmin import minimize

print(f"pytorch-minimize {version('pytorch-minimize')}, torch {torch.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


def rosenbrock(x):
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


def gradient(x):
    return torch.autograd.functional.jacobian(rosenbrock, x)


start, points = torch.tensor([-1.2, 1.0], dtype=torch.float64), []
result = minimize(rosenbrock, start, method="bfgs", options={"gtol": 1e-5}, callback=lambda x: points.append(x.clone()))
size = float(gradient(result.x).abs().max())
fact("Largest entry of the gradient after `bfgs` with gtol=1e-5 and success", "at most 1e-5", f"{size:.1e}: a change of the loss by at most `xtol`, 1e-8, is success too", bool(result.success) and size > 5e-4)
last, before = points[-1], points[-2]
losses = [float(rosenbrock(p)) for p in (result.x, last)]
fact("Losses of its result and of the last point that the callback got", "the same", f"{losses[0]:.1e} and {losses[1]:.1e}: the result is the point before the last step", torch.equal(result.x, before) and losses[0] > 100 * losses[1])
step, change = last - before, gradient(last) - gradient(before)
contains = torch.allclose(result.hess_inv @ change, step, rtol=1e-6)
fact("`hess_inv` times the change of the gradient in that last step", "not the step, which the result lacks", "the step: the matrix is one step newer than the result", contains)

raise SystemExit(wrong)
END
