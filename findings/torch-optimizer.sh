#!/usr/bin/env bash
# Weight decay, Shampoo, Lookahead and LARS in torch-optimizer.
#
# Guesses: the weight decay of SGDW shrinks each weight by lr * weight_decay, as in its paper. Shampoo multiplies the
# gradient of a matrix by L^(-1/4) and R^(-1/4) of this gradient. Lookahead averages after k steps. LARS adapts the
# rate to the norms of weights and gradients also without weight decay.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check torch==2.13.0 torch-optimizer==0.3.0 pytorch-ranger==0.1.1 numpy==2.4.6

"$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

import torch

warnings.simplefilter("ignore")
import torch_optimizer

print(f"torch-optimizer {version('torch-optimizer')}, torch {torch.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


def after(optimizer, x, gradients):
    """Values after each step."""
    x, values = x.clone().requires_grad_(), []
    optimizer = optimizer([x])
    for gradient in gradients:
        x.grad = gradient.clone()
        optimizer.step()
        values.append(x.detach().clone())
    return values


w = torch.tensor([2.0, 0.5, -0.5, -2.0])
found = after(lambda p: torch_optimizer.SGDW(p, lr=0.1, weight_decay=0.5), w, [torch.zeros(4)])[-1]
expected = after(lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.5), w, [torch.zeros(4)])[-1]
fact(f"Weights {w.tolist()} after a step of `SGDW` with lr 0.1, weight_decay 0.5 and a gradient of 0", f"{expected.tolist()}, as AdamW", f"{found.tolist()}: 0.05 is subtracted from each, so negative weights grow", torch.allclose(expected, 0.95 * w) and torch.allclose(found, w - 0.05))


G = torch.randn(3, 4)
path = after(lambda p: torch_optimizer.Shampoo(p, lr=1.0, epsilon=1e-8), torch.zeros(3, 4), [G] * 4)
steps = torch.stack([path[0], *(b - a for a, b in zip(path, path[1:]))]).flatten(1).norm(dim=1)
steps /= steps[0].clone()
count = torch.arange(1.0, 5.0)
sums = (1 / count).cumsum(0)  # L is the sum of equal terms, and R that of terms divided by 1, 2, 3, 4
fact("Lengths of 4 steps of `Shampoo` with one and the same gradient of a matrix", "1, 0.71, 0.58, 0.5: exponents -1/4", f"{', '.join(f'{v:.2f}' for v in steps)}: exponents -1/2, and R is of gradients that L has already scaled", torch.allclose(steps, (count * sums) ** -0.5, rtol=1e-4))

x, ones = torch.zeros(1), [torch.ones(1)] * 12
path = after(lambda p: torch_optimizer.Lookahead(torch.optim.SGD(p, lr=1.0), k=5, alpha=0.5), x, ones)
found = [-float(v) for v in path]
jumps = [i + 1 for i, (a, b) in enumerate(zip([0.0, *found[:-1]], found)) if b < a + 1]
fact("Steps at which `Lookahead` with k = 5 goes back", "[5, 10], to a point between the values after 0 and 5 steps", f"{jumps}: the slow weights begin after the first step", jumps == [6, 11] and found[5] == (1 + 6) / 2)

g = torch.randn(4)
moves = {}
for decay in (0.0, 1e-12):
    moves[decay] = [(after(lambda p: torch_optimizer.LARS(p, lr=1.0, weight_decay=decay), w, [s * g])[-1] - w).norm() for s in (1, 100)]
fact("Step of `LARS` for a gradient 100 times as large", "the same length", f"{moves[0.0][1] / moves[0.0][0]:.0f} times as long without weight decay, as SGD; with a decay of 1e-12 it is {moves[1e-12][1] / moves[1e-12][0]:.0f} times as long", torch.isclose(moves[0.0][1], 100 * moves[0.0][0]) and torch.isclose(moves[1e-12][1], moves[1e-12][0]))
raise SystemExit(wrong)
END
