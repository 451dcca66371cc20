#!/usr/bin/env bash
# Second derivatives through the two solvers of torchdiffeq.
#
# Guess: `odeint_adjoint` has the same Hessian and the same products with it as `odeint`, up to the tolerances, or it
# raises an error.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check torch==2.13.0 torchdiffeq==0.2.5 numpy==2.4.6 scipy==1.17.1

"$folder/bin/python" -W ignore - << 'END'
from importlib.metadata import version

import torch
from torch.autograd.functional import hessian, hvp, jvp
from torchdiffeq import odeint, odeint_adjoint

print(f"torchdiffeq {version('torchdiffeq')}, torch {torch.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


def text(values):
    return ", ".join(f"{v:.3f}" for v in values.flatten().tolist())


# A network in continuous time, x' = tanh(W x) - x, with the readout R of its last state.
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
W, R, start, targets = 0.7 * torch.randn(2, 2), torch.randn(2), torch.randn(3, 2), torch.randn(3)
times, v = torch.linspace(0.0, 1.0, 5), torch.ones(2, 2)


def last_state(solver, W):
    options = {"adjoint_params": (W,)} if solver is odeint_adjoint else {}
    return solver(lambda t, x: torch.tanh(x @ W.T) - x, start, times, rtol=1e-9, atol=1e-9, **options)[-1]


def loss(solver, W, R):
    return ((last_state(solver, W) @ R - targets) ** 2).mean()


def matrix(solver):
    (WW, WR), (RW, RR) = hessian(lambda W, R: loss(solver, W, R), (W, R))
    return WW.reshape(4, 4), WR.reshape(4, 2), RW.reshape(2, 4), RR


def gradient(solver):
    at = W.clone().requires_grad_()
    return torch.autograd.grad(loss(solver, at, R), at)[0]


assert torch.allclose(gradient(odeint), gradient(odeint_adjoint), rtol=1e-5)
exact, found = matrix(odeint), matrix(odeint_adjoint)
assert torch.allclose(exact[1], exact[2].T) and exact[0].norm() > 0.1 and exact[1].norm() > 0.1
zero = not found[0].any() and not found[1].any()
others = torch.allclose(found[2], exact[2], rtol=1e-4) and torch.allclose(found[3], exact[3], rtol=1e-4)
fact("`hessian` of PyTorch, of a loss with `odeint_adjoint`; its gradient is right", f"norms of the blocks WW, WR, RW and RR {', '.join(f'{b.norm():.3f}' for b in exact)}, as with `odeint`, or an error", f"{', '.join(f'{b.norm():.3f}' for b in found)}: the rows of W are 0, the matrix is not symmetric, and there is no error", zero and others)

for name, product in (("hvp", lambda solver: hvp(lambda W: loss(solver, W, R), W, v)[1]), ("jvp", lambda solver: jvp(lambda W: last_state(solver, W), W, v)[1])):
    what = "the Hessian in W with a vector" if name == "hvp" else "the Jacobian of the last state with a vector, first of three"
    exact, found = product(odeint), product(odeint_adjoint)
    fact(f"`{name}`: {what}", text(exact[:1] if name == "jvp" else exact), f"{text(found[:1] if name == 'jvp' else found)}, without an error", exact.norm() > 0.1 and not found.any())

errors = 0
for strict in (lambda: hvp(lambda W: loss(odeint_adjoint, W, R), W, v, strict=True), lambda: jvp(lambda W: last_state(odeint_adjoint, W), W, v, strict=True)):
    try:
        strict()
    except RuntimeError:
        errors += 1
wrong += errors != 2
print(f"With strict=True, {errors} of the 2 products raise an error.")
raise SystemExit(wrong)
END
