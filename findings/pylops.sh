#!/usr/bin/env bash
# Tolerances and first guesses of PyLops.
#
# Guess: tol of cg bounds the norm of the residual; cgls and lsqr with damp agree from any x0, both penalise x.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check pylops==2.8.0 numpy==2.4.6 scipy==1.17.1

"$folder/bin/python" - << 'END'
from importlib.metadata import version

import numpy as np
import pylops
from pylops.optimization.basic import cg, cgls, lsqr

print(f"pylops {version('pylops')}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


rng = np.random.default_rng(0)
Q, _ = np.linalg.qr(rng.normal(size=(50, 50)))
A = Q @ np.diag(np.logspace(0, 3, 50)) @ Q.T
b = 100 * rng.normal(size=50)
sizes = {}
for tol in (1e-2, 1e-4, 1e-8):
    x = cg(pylops.MatrixMult(A), b, np.zeros(50), niter=10_000, tol=tol)[0]
    sizes[tol] = np.linalg.norm(A @ x - b)
fact("cg with tol", "the norm of the residual is at most tol", f"its square is: {sizes[1e-4]:.2g} at tol=1e-4, {sizes[1e-8]:.2g} at 1e-8", all(tol < size <= tol**0.5 for tol, size in sizes.items()))

G, y, x0, damp = rng.normal(size=(80, 50)), rng.normal(size=80), rng.normal(size=50), 3.0
damped = G.T @ G + damp**2 * np.eye(50)
near_zero, near_x0 = np.linalg.solve(damped, G.T @ y), x0 + np.linalg.solve(damped, G.T @ (y - G @ x0))
operator = pylops.MatrixMult(G)
one = cgls(operator, y, x0.copy(), niter=500, damp=damp, tol=1e-20)[0]
other = lsqr(operator, y, x0.copy(), niter=500, damp=damp, atol=1e-14, btol=1e-14)[0]
fact("cgls and lsqr with damp, from the same x0", "the same solution", "cgls penalises x, lsqr penalises x - x0", np.allclose(one, near_zero) and np.allclose(other, near_x0) and np.abs(one - other).max() > 0.1)
raise SystemExit(wrong)
END
