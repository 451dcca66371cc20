#!/usr/bin/env bash
# Tolerances of CG in Lineax.
#
# Guess: CG of Lineax stops when the norm of the residual is at most atol + rtol times that of b, so a rotation of the
# system changes nothing. GMRES and BiCGStab do the same.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check lineax==0.1.1 jax==0.10.2 numpy==2.4.6

"$folder/bin/python" -W ignore - << 'END'
from importlib.metadata import version

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

print(f"lineax {version('lineax')}, jax {jax.__version__}")
jax.config.update("jax_enable_x64", True)
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


rng, n = np.random.default_rng(0), 50


def orthogonal():
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


Q, turn = orthogonal(), orthogonal()
A, b = Q @ np.diag(np.logspace(0, 3, n)) @ Q.T, np.eye(n)[0]


def solve(A, b, solver):
    operator = lx.MatrixLinearOperator(jnp.array((A + A.T) / 2), lx.positive_semidefinite_tag)
    solution = lx.linear_solve(operator, jnp.array(b), solver, throw=False)
    residual = b - A @ np.array(solution.value)
    return np.linalg.norm(residual) / np.linalg.norm(b), int(solution.stats["num_steps"]), bool(solution.result == lx.RESULTS.successful), residual


unit, turned = solve(A, b, lx.CG(rtol=1e-3, atol=0.0)), solve(turn @ A @ turn.T, turn @ b, lx.CG(rtol=1e-3, atol=0.0))
each = bool((abs(turned[3]) <= 1.001e-3 * abs(turn @ b)).all())
fact("Relative residual of `CG(rtol=1e-3, atol=0)` for a unit vector b, and after a rotation of the system", "a little below 1e-3 for both, after the same steps", f"{unit[0]:.1e} after {unit[1]} steps, and {turned[0]:.1e} after {turned[1]}: each entry of the residual is at most 1e-3 times that of b, so it is 0 where b is 0", each and unit[0] < 1e-12 and 1e-7 < turned[0] < 1e-4 and unit[2] and turned[2])

stabilised = solve(A, b, lx.BiCGStab(rtol=1e-3, atol=0.0))
fact("`BiCGStab` with these tolerances, for the unit vector", "success", f"no success after {stabilised[1]} steps, with a residual of {stabilised[0]:.1e}", not stabilised[2] and stabilised[0] < 1e-9)
raise SystemExit(wrong)
END
