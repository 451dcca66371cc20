#!/usr/bin/env bash
# Noisy states between the steps of torchsde.
#
# Guess: the states at the times `ts` have the distribution of the process, up to the error of the method: steps end at
# these times, or noise is added between.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check torch==2.13.0 torchsde==0.2.6 numpy

"$folder/bin/python" - << 'END'
from importlib.metadata import version

import torch
from torchsde import sdeint

print(f"torchsde {version('torchsde')}, torch {torch.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
paths = 20000


class Noise(torch.nn.Module):
    """dx = -leak * x * dt + sigma dW"""

    noise_type, sde_type = "additive", "ito"

    def __init__(self, leak, sigma):
        super().__init__()
        self.leak, self.sigma = leak, sigma

    def f(self, t, x):
        return -self.leak * x

    def g(self, t, x):
        return torch.full((len(x), 1, 1), self.sigma)


def run(model, x, ts, **options):
    return sdeint(model, x, torch.tensor(ts), **options)[..., 0]


walk, zero = Noise(0.0, 1.0), torch.zeros(paths, 1)
x = run(walk, zero, [0, 0.25, 0.5, 0.75, 1], dt=0.5, method="euler")
line = torch.allclose(x[1], (x[0] + x[2]) / 2) and torch.allclose(x[3], (x[2] + x[4]) / 2)
found = float((x[1] - x[0]).var())
fact("Brownian motion every 0.25 with steps of 0.5: variance of a change", "0.25", f"{found:.3f}: each state between two steps is exactly their mean, so noise in between is missing", line and abs(found - 0.125) < 0.01)

x = run(walk, zero, [0, 0.25, 0.5, 0.75, 1], dt=0.3, method="euler")
found = [float(v) for v in x.var(dim=1)[1:]]
fact("Brownian motion every 0.25 with steps of 0.3: variances at 0.25, 0.5, 0.75 and 1", "0.25, 0.5, 0.75, 1", f"{', '.join(f'{v:.2f}' for v in found)}: only the last is at a step, which is cut short to end there", all(abs(v - w) < 0.05 for v, w in zip(found, (0.208, 0.433, 0.675, 1))))

# A leaky unit with a time constant of 1 and a variance of 1. The variance of a change over 0.1 is 2 (1 - exp(-0.1)).
unit, start = Noise(1.0, 2**0.5), torch.randn(paths, 1)
ts = [k / 10 for k in range(31)]
fine = run(unit, start, ts, dt=0.01, method="euler")
found = run(unit, start, ts, dt=0.1, adaptive=True, rtol=1e-3, atol=1e-3)
one, two = (float((v[1:] - v[:-1]).square().mean()) for v in (fine, found))
fact("A leaky unit every 0.1, adaptive steps with tolerances of 0.001: variance of a change", "0.190", f"{two:.3f}, and {one:.3f} with steps of 0.01: the steps are longer than 0.1", abs(one - 0.19) < 0.01 and two < 0.15)
raise SystemExit(wrong)
END
