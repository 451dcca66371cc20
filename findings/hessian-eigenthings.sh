#!/usr/bin/env bash
# Operators, eigenvalues and traces of hessian-eigenthings.
#
# Guess: an operator over batches of different sizes is that of the mean over all samples.
#
# Its docstrings led to two more expectations, after that guess: power iteration with momentum returns the dominant
# eigenpair, and estimates of a trace without a seed are random.
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


def fact(about, guess, found, holds, word="guess"):
    global wrong
    wrong += not holds
    print(f"{about}\n  {word}: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


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

operator = operators["HessianOperator"]([(x, y)])
H = dense(operator)
largest = float(torch.linalg.eigvalsh(H).abs().max())
result = he.deflated_power_iteration(operator, k=1, max_iter=5000, tol=1e-9, momentum=0.5, seed=0)
plain = he.deflated_power_iteration(operator, k=1, max_iter=5000, tol=1e-9, seed=0)
assert abs(float(plain.eigenvalues) - largest) < 1e-6
fact("Largest eigenvalue of `deflated_power_iteration` with momentum 0.5, converged", f"{largest:.4f}, as without momentum", f"{float(result.eigenvalues):.4f}, less by 0.5; `converged` is {bool(result.converged)}", bool(result.converged) and abs(float(result.eigenvalues) - largest + 0.5) < 1e-6, "expected")

exact, values = float(H.trace()), {}
for method in ("hutchinson", "hutch++"):
    values[method] = []
    for seed in range(3):
        torch.manual_seed(seed)
        values[method].append(he.trace(operator, num_matvecs=9, method=method).estimate)
same = all(len(set(each)) == 1 and abs(each[0] - exact) > 0.01 for each in values.values())
other = he.trace(operator, num_matvecs=9, method="hutchinson", seed=1).estimate
fact(f"Three estimates of the trace {exact:.3f} without `seed`, each after another `torch.manual_seed`", "three values around it", "; ".join(f"{', '.join(f'{v:.3f}' for v in each)} with {method}" for method, each in values.items()) + ": the same vectors each time", same and other != values["hutchinson"][0], "expected")
raise SystemExit(wrong)
END
