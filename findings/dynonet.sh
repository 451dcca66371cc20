#!/usr/bin/env bash
# Second derivatives through linear dynamical operators of dynoNet.
#
# Guess: the gradient cannot be differentiated again: PyTorch raises an error, as the filter runs outside autograd.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check torch==2.13.0 dynonet==0.1.2 numpy scipy

"$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

import torch
from dynonet.lti import MimoLinearDynamicalOperator

print(f"dynonet {version('dynonet')}, torch {torch.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


warnings.simplefilter("ignore")
torch.manual_seed(0)
filter_ = MimoLinearDynamicalOperator(1, 1, n_b=2, n_a=2).double()
u = torch.randn(1, 50, 1, dtype=torch.float64)
parameters = list(filter_.parameters())
with torch.no_grad():
    for p, values in zip(parameters, ([0.4, 0.3], [-0.9, 0.3])):
        p.copy_(torch.tensor(values, dtype=torch.float64).reshape(p.shape))


def gradient():
    grads = torch.autograd.grad((filter_(u) ** 2).sum(), parameters, create_graph=True)
    return torch.cat([g.reshape(-1) for g in grads])


def row(value):
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(value, parameters, retain_graph=True)])


twice = torch.stack([row(value) for value in gradient()])
rows, step = [], 1e-5
for p in parameters:
    for n in range(p.numel()):
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                p.view(-1)[n] += sign * step
            ends.append(gradient().detach())
            with torch.no_grad():
                p.view(-1)[n] -= sign * step
        rows.append((ends[0] - ends[1]) / (2 * step))
true = torch.stack(rows)
b, a = slice(0, 2), slice(2, 4)  # numerator and denominator
off = ((twice - true).abs() / true.abs()).detach()
fact("Hessian by differentiating the gradient again", "an error", f"a matrix without an error: right for the numerator, wrong by up to {100 * off[a, a].max():.0f}% for the denominator and {100 * off[a, b].max():.0f}% between the two", bool(off[b, b].max() < 1e-5 and off[a, a].max() > 0.1 and off[a, b].max() > 0.1 and torch.allclose(true, true.T, rtol=1e-5)))
raise SystemExit(wrong)
END
