#!/usr/bin/env bash
# The variance of gradients in BackPACK.
#
# Guess: Variance is the variance of the samples' own gradients, whatever the loss divides by.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check torch==2.13.0 backpack-for-pytorch==1.7.1 numpy

"$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

import torch
from backpack import backpack, extend, extensions

print(f"backpack {version('backpack-for-pytorch')}, torch {torch.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


warnings.simplefilter("ignore")
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
samples = 6
net, x, y = torch.nn.Linear(2, 3), torch.randn(samples, 2), torch.randn(samples, 3)
each = torch.stack([torch.autograd.grad(torch.nn.functional.mse_loss(net(a), b), net.weight)[0] for a, b in zip(x, y)])
true = each.var(dim=0, unbiased=False)
extended, loss = extend(net), extend(torch.nn.MSELoss())
with backpack(extensions.Variance()):
    loss(extended(x), y).backward()
ratio = (net.weight.variance / true).mean().item()
fact("Variance with a mean loss over 6 samples, divided by the true variance", "1", f"{ratio:.4f} = 1/36: of the gradients divided by 6", torch.allclose(net.weight.variance, true / samples**2))
raise SystemExit(wrong)
END
