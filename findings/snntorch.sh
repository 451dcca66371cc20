#!/usr/bin/env bash
# Losses of spike counts and rates in snnTorch.
#
# Guesses: mse_count_loss is the mean over outputs and samples of the squared error of counts. ce_rate_loss is the
# cross-entropy of the mean rates.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check torch==2.13.0 snntorch==1.0.0 numpy==2.4.6

"$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

warnings.simplefilter("ignore")
import snntorch.functional as SF
import torch
from torch.nn.functional import cross_entropy

print(f"snnTorch {version('snntorch')}, torch {torch.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


T, classes = 40, 3
torch.manual_seed(0)
spikes = (torch.rand(T, 8, classes) < 0.5).float()
y = torch.randint(classes, (8,))
loss = SF.mse_count_loss(correct_rate=0.8, incorrect_rate=0.2)
values, exact = [], []
for steps in (20, 40):
    target = torch.full((8, classes), 0.2 * steps)
    target[range(8), y] = 0.8 * steps
    part = spikes[:steps]
    exact.append(float(((part.sum(0) - target) ** 2).mean()))
    values.append(float(loss(part, y)))
fact("`mse_count_loss` of 20 and 40 steps", ", ".join(f"{v:.3f}" for v in exact) + ": squares of counts", ", ".join(f"{v:.3f}" for v in values) + ": divided by the number of steps", all(abs(v - e / steps) < 1e-4 for v, e, steps in zip(values, exact, (20, 40))))

even = torch.zeros(T, 1, classes)
even[:, :, 0] = 0.5  # a rate of 1/2
half = torch.zeros(T, 1, classes)
half[::2, :, 0] = 1  # the same rate, as spikes
first = torch.tensor([0])
rate = float(cross_entropy(half.mean(0), first))
found = float(SF.ce_rate_loss()(half, first))
steps = float(torch.stack([cross_entropy(step, first) for step in half]).mean())
fact("`ce_rate_loss` of an output that spikes at every other step, the right one of 3; the others are silent", f"{rate:.4f}, the cross-entropy of its rate", f"{found:.4f}, the mean of the cross-entropies of single steps", abs(found - steps) < 1e-5 and found - rate > 0.01 and abs(float(SF.ce_rate_loss()(even, first)) - rate) < 1e-5)
raise SystemExit(wrong)
END
