#!/usr/bin/env bash
# What SciPy's solvers give to callbacks and operators, and what their code 0 and a first guess mean.
#
# Guess: a callback gets a new vector each time; an operator without dtype is probed with a random float64 vector;
#   lsmr and lsqr with damp penalise x, whatever x0 is; code 0 of cg means a true residual within rtol.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check scipy==1.17.1 numpy==2.4.6

"$folder/bin/python" - << 'END'
import numpy as np
import scipy
from scipy.sparse import linalg

print(f"scipy {scipy.__version__}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


rng = np.random.default_rng(0)
A = np.diag(np.logspace(0, 3, 30))
b = rng.normal(size=30)
kept = {}
for name in ("cg", "cgs", "bicg", "bicgstab", "gmres", "lgmres", "minres", "qmr", "gcrotmk", "tfqmr"):
    seen = []
    options = {"callback_type": "x", "restart": 2} if name == "gmres" else {}
    getattr(linalg, name)(A, b, callback=seen.append, maxiter=10, **options)
    kept[name] = len(seen) > 1 and all(np.shares_memory(x, seen[0]) for x in seen)
live = sorted(name for name in kept if kept[name])
fact("callback=states.append", "one vector for each iteration", f"the same live array each time in {len(live)}: {', '.join(live)}", kept == {**dict.fromkeys(kept, True), "minres": False})

probes = []


def product(v):
    probes.append((str(v.dtype), v.tolist()))
    return A.astype("float32") @ v


operator = linalg.LinearOperator((30, 30), matvec=product)
fact("LinearOperator(shape, matvec) without dtype", "probed with a random float64 vector", f"probed with zeros of {probes[0][0]}; so a float32 matrix makes it {operator.dtype}", probes == [("int8", [0] * 30)] and operator.dtype == np.float32)

G, y, x0, damp = rng.normal(size=(8, 4)), rng.normal(size=8), rng.normal(size=4), 2.0
damped = G.T @ G + damp**2 * np.eye(4)
near_zero, near_x0 = np.linalg.solve(damped, G.T @ y), x0 + np.linalg.solve(damped, G.T @ (y - G @ x0))
for solver in (linalg.lsmr, linalg.lsqr):
    x = solver(G, y, damp=damp, x0=x0, atol=1e-14, btol=1e-14)[0]
    fact(f"{solver.__name__} with damp and x0", "min |Ax-b|^2 + damp^2 |x|^2", "min |Ax-b|^2 + damp^2 |x-x0|^2: a warm start changes the solution", np.allclose(x, near_x0) and not np.allclose(x, near_zero, atol=0.1))

Q, _ = np.linalg.qr(rng.normal(size=(100, 100)))
A = Q @ np.diag(np.logspace(0, 4, 100)) @ Q.T
A = (A + A.T) / 2
b = rng.normal(size=100)
x, code = linalg.cg(A, b, rtol=1e-18, maxiter=20000)
true = np.linalg.norm(A @ x - b) / np.linalg.norm(b)
fact("cg with rtol=1e-18, below float64", "a code above 0: not reached", f"code {code} with a true residual above 1e-15: it tests its recursive residual", code == 0 and true > 1e-15)
raise SystemExit(wrong)
END
