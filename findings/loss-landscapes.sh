#!/usr/bin/env bash
# Where loss-landscapes evaluates a loss.
#
# Guess: distance=2 reaches twice as far as distance=1; neighbours in the matrix of a plane are neighbours in the plane;
#   random directions of two seeds are nearly orthogonal.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check loss-landscapes==3.0.6 torch==2.13.0 numpy

"$folder/bin/python" - << 'END'
import copy
from importlib.metadata import version

import loss_landscapes
import numpy as np
import torch
from loss_landscapes.metrics import Metric

print(f"loss-landscapes {version('loss-landscapes')}, torch {torch.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
start = torch.nn.Linear(20, 30)


def vector(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


theta = vector(start)


class Positions(Metric):  # keeps each point and returns its number
    def __init__(self, model):
        super().__init__()
        self.model, self.points = model, []

    def __call__(self, _):
        self.points.append(vector(self.model) - theta)
        return len(self.points) - 1


def visit(function, seed=0, **options):
    torch.manual_seed(seed)
    model = copy.deepcopy(start)
    metric = Positions(model)
    numbers = function(model, metric, **options).astype(int)
    return torch.stack(metric.points)[numbers]


ends = [visit(loss_landscapes.random_line, distance=d, steps=10)[-1].norm() / theta.norm() for d in (1, 2, 4)]
fact("random_line, last point for distance=1, 2, 4", "at 1, 2 and 4, or 1, 2 and 4 times the size of the parameters", "at " + ", ".join(f"{end:.2f}" for end in ends) + " times the size of the parameters: it is divided by distance", np.allclose(ends, [1, 0.5, 0.25]))

plane = visit(loss_landscapes.random_plane, steps=6, normalization="model")
basis = torch.stack([(plane[2, 0] - plane[0, 0]) / 2, plane[0, 1] - plane[0, 0]])  # one step in each direction
rows, columns = (plane @ torch.linalg.pinv(basis)).numpy().transpose(2, 0, 1)
ok = np.allclose(rows, np.arange(-3, 3)[:, None]) and np.allclose(columns[::2], np.arange(-2, 4)) and np.allclose(columns[1::2], np.arange(-3, 3))
even, odd = np.rint(columns[:2]).astype(int).tolist()
fact("random_plane, 6 x 6 points, second coordinates of its rows", "the same in each row", f"{even} and {odd} in turn: every other row is shifted by one step", ok)

cosines = {}
for normalization in (None, "filter"):
    lines = [visit(loss_landscapes.random_line, seed=s, steps=1, normalization=normalization)[0] for s in (1, 2)]
    cosines[normalization] = float(lines[0] @ lines[1] / lines[0].norm() / lines[1].norm())
    positive = all((line >= 0).all() for line in lines)
    fact(f"Random directions of two seeds, {theta.numel()} parameters, normalization={normalization}", "a cosine near 0", f"a cosine of {cosines[normalization]:.2f}: all numbers are positive", positive and cosines[normalization] > 0.6)
raise SystemExit(wrong)
END
