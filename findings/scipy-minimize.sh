#!/usr/bin/env bash
# What hess_inv of SciPy's L-BFGS-B is, and when its Newton-CG says success.
#
# Guess: hess_inv has the last steps and the scale that the method uses, and turns the last change of the gradient into
#   the last step; xtol of Newton-CG is relative, as its documentation says, so units of parameters and loss do not
#   matter.
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
from scipy.optimize import minimize

print(f"scipy {scipy.__version__}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


rng = np.random.default_rng(0)
Q, _ = np.linalg.qr(rng.normal(size=(30, 30)))
A = Q @ np.diag(np.logspace(-4, -2, 30)) @ Q.T
b = A @ rng.normal(size=30)


def train(maxiter):
    states = [np.zeros(30)]
    options = {"maxcor": 5, "maxiter": maxiter, "ftol": 0, "gtol": 1e-6}
    result = minimize(lambda x: x @ A @ x / 2 - b @ x, states[0], jac=lambda x: A @ x - b, method="L-BFGS-B", callback=lambda x: states.append(x.copy()), options=options)
    steps = np.diff(states, axis=0)
    stored = [int(np.abs(steps - s).max(axis=1).argmin()) + 1 for s in result.hess_inv.sk]
    known = np.allclose(steps[np.array(stored) - 1], result.hess_inv.sk, rtol=1e-6, atol=1e-9)
    n = len(steps)
    return result, steps, stored, known and stored == sorted(range(n - 5, n), key=lambda k: (k - 1) % 5)


result, steps, stored, ring = train(8)
converged, _, _, always = train(1000)
H = result.hess_inv.todense()


def misses(k):  # relative error of H y = s for step k, y = A s
    s = steps[k - 1]
    return np.linalg.norm(H @ A @ s - s) / np.linalg.norm(s)


fact("Pairs in hess_inv of L-BFGS-B after 8 steps, maxcor=5", "those of steps 4 to 8", f"those of steps {', '.join(map(str, stored))}: the last step is missing, also after convergence, and the order is that of the memory", ring and always and converged.success and stored == [6, 7, 3, 4, 5])
fact("hess_inv times the change of the gradient in a step", "the step, for the last one", f"wrong by {misses(8):.0%} for step 8 and by {misses(7):.0%} for step 7, right for step 5, which has the last place", misses(8) > 0.1 and misses(7) > 0.02 and misses(5) < 1e-6)
out = np.linalg.qr(np.concatenate([result.hess_inv.sk, result.hess_inv.yk]).T, mode="complete")[0][:, -1]
scale = np.linalg.norm(steps[-1]) / np.linalg.norm(A @ steps[-1])
fact("hess_inv in a direction orthogonal to all pairs, curvatures 1e-4 to 1e-2", f"the scale of the last step, {scale:.0f}", "1, whatever the unit of the loss", np.allclose(H @ out, out) and scale > 50)

X = rng.normal(size=(50, 5))
y = X @ rng.normal(size=5) + 0.1 * rng.normal(size=50)
best = np.linalg.lstsq(X, y)[0]


def fit(unit=1.0, weight=1.0, xtol=1e-5):  # w = unit * the usual parameters; loss = weight * the usual loss
    def loss(w):
        return weight * np.mean((X @ w / unit - y) ** 2) / 2

    def gradient(w):
        return weight * X.T @ (X @ w / unit - y) / 50 / unit

    def product(w, p):
        return weight * X.T @ (X @ p) / 50 / unit**2

    found = minimize(loss, np.zeros(5), jac=gradient, hessp=product, method="Newton-CG", options={"xtol": xtol})
    return found.success, found.nit, np.linalg.norm(found.x / unit - best) / np.linalg.norm(best)


usual, small, same, light = fit(), fit(unit=1e-5), fit(unit=1e-5, xtol=1e-10), fit(weight=1e-8, xtol=1e-12)
fact("Newton-CG, parameters in other units, so that all are 1e-5 times smaller", f"the same: success, relative error {usual[2]:.0e}", f"success after {small[1]} iteration, relative error {small[2]:.2f}; with xtol=1e-10, error {same[2]:.0e}: xtol is absolute", usual[0] and usual[2] < 1e-6 and small[0] and small[2] > 0.1 and same[2] < 1e-3)
fact("Newton-CG, loss times 1e-8, xtol=1e-12", "the same", f"success after {light[1]} iteration at the start, relative error {light[2]:.2f}: a curvature p'Hp below 7e-16 is taken as none", light[0] and light[2] == 1)
raise SystemExit(wrong)
END
