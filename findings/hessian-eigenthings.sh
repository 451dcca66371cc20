#!/usr/bin/env bash
# Operators over batches in hessian-eigenthings.
#
# Guess: an operator over batches of different sizes is that of the mean over all samples.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check torch==2.13.0 hessian-eigenthings==1.0.0a5 numpy==2.4.6

"$folder/bin/python" -W ignore - << 'END'
from importlib.metadata import version

import hessian_eigenthings as he
import torch
from torch import nn

print(f"hessian-eigenthings {version('hessian-eigenthings')}, torch {torch.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
x, y, mean = torch.randn(10, 3), torch.randn(10, 2), nn.MSELoss()
eight, two = (x[:8], y[:8]), (x[8:], y[8:])
operators = {
    "HessianOperator": lambda batches: he.HessianOperator(net, batches, he.supervised_loss(mean)),
    "GGNOperator": lambda batches: he.GGNOperator(net, batches, he.supervised_forward, he.supervised_loss_of_output(mean)),
    "EmpiricalFisherOperator": lambda batches: he.EmpiricalFisherOperator(net, batches, he.supervised_per_sample_loss(mean)),
}


def dense(operator):
    return torch.stack([operator.matvec(e) for e in torch.eye(operator.size)]).detach()


holds, found = True, []
for name, make in operators.items():
    whole, first, last, both = (dense(make(batches)) for batches in ([(x, y)], [eight], [two], [eight, two]))
    assert torch.allclose(0.8 * first + 0.2 * last, whole)
    holds &= torch.allclose((first + last) / 2, both) and not torch.allclose(both, whole, rtol=0.05)
    found.append(f"{float((both - whole).norm() / whole.norm()):.2f} of its norm for {name}")
fact("Distance of the matrix over batches of 8 and of 2 samples from that of all 10", "0", "; ".join(found) + ": each batch has the same weight", holds)

raise SystemExit(wrong)
END
