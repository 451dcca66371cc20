#!/usr/bin/env bash
# Curvature of a data set with ignored targets in curvlinops.
#
# Guess: CrossEntropyLoss(ignore_index) over several batches is the mean over all scored targets of the data set.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check torch==2.13.0 curvlinops-for-pytorch==3.0.1 numpy

"$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

import torch
from curvlinops import HessianLinearOperator

print(f"curvlinops {version('curvlinops-for-pytorch')}, torch {torch.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


warnings.simplefilter("ignore")
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 3)

    def forward(self, x):
        return self.linear(x).transpose(1, 2)  # (sequences, classes, steps)


model, loss = Model(), torch.nn.CrossEntropyLoss(ignore_index=-100)
inputs = [torch.randn(2, 5, 2), torch.randn(2, 5, 2)]
targets = [torch.randint(0, 3, (2, 5)), torch.randint(0, 3, (2, 5))]
targets[0][:, 1:] = -100  # 2 targets are scored in the first batch, 10 in the second
parameters = list(model.parameters())
operator = HessianLinearOperator(model, loss, parameters, list(zip(inputs, targets)), check_deterministic=False)
found = operator @ torch.eye(operator.shape[1])


def hessian(x, y):
    def f(theta):
        return loss((x @ theta[:6].reshape(3, 2).T + theta[6:]).transpose(1, 2), y)

    return torch.autograd.functional.hessian(f, torch.cat([p.detach().reshape(-1) for p in parameters]))


whole = hessian(torch.cat(inputs), torch.cat(targets))
batches = (hessian(inputs[0], targets[0]) + hessian(inputs[1], targets[1])) / 2
fact("Hessian over two batches with 2 and 10 scored targets", "of the mean over 12 targets", "of the mean of the batches' means, weighted by their sequences: a target of the first batch counts 5 times", torch.allclose(found, batches) and not torch.allclose(found, whole, rtol=0.01, atol=1e-3))
raise SystemExit(wrong)
END
