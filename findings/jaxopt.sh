#!/usr/bin/env bash
# What the state of a solver of JAXopt says about its result.
#
# Guess: `state.value` of GaussNewton is half the sum of squares at the parameters that come with it, as in
# LevenbergMarquardt, and `state.error`, which `tol` bounds, is the norm of the gradient there, in all solvers.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check jaxopt==0.8.5 jax==0.10.2

"$folder/bin/python" - << 'END'
from importlib.metadata import version

import jax
import jax.numpy as jnp
import jaxopt
import numpy as np

print(f"jaxopt {version('jaxopt')}, jax {jax.__version__}")
jax.config.update("jax_enable_x64", True)
wrong = 0


def fact(about, guess, found, expected):
    global wrong
    holds = bool(np.isclose(found, expected, rtol=1e-9))
    differs = not np.isclose(found, guess, rtol=1e-3)
    wrong += not (holds and differs)
    print(f"{about}\n  guess: {guess:.6g}\n  found: {found:.6g}{'' if holds and differs else ', but this no longer holds'}")


rng = np.random.default_rng(0)
A, b, start = jnp.array(rng.normal(size=(6, 2))), jnp.array(rng.normal(size=6)), jnp.array([1.0, 2.0])


def residual(x):
    return jnp.tanh(A @ x) - b


def value(x):
    return 0.5 * residual(x) @ residual(x)


def slope(x):
    return jnp.linalg.norm(jax.grad(value)(x))


solver = jaxopt.GaussNewton(residual, maxiter=2)
x, state = solver.run(start)
before, _ = jaxopt.GaussNewton(residual, maxiter=1).run(start)
fact("GaussNewton, state.value", value(x), state.value, value(before))
print("  that of the parameters before the last step")
fact("GaussNewton, state.error", slope(x), state.error, jnp.linalg.norm(x - before))
print("  the length of the last step")
x, state = jaxopt.LevenbergMarquardt(residual, maxiter=2).run(start)
as_guessed = np.allclose([state.value, state.error], [value(x), slope(x)])
wrong += not as_guessed
print(f"LevenbergMarquardt, both: {'as guessed' if as_guessed else 'no longer as guessed'}")
x, state = jaxopt.NonlinearCG(value, maxiter=2, tol=0.0).run(start)
before, _ = jaxopt.NonlinearCG(value, maxiter=1, tol=0.0).run(start)
fact("NonlinearCG, state.error", slope(x), state.error, slope(before))
print("  the norm of the gradient before the last step, although state.value is that after it")
x, state = jaxopt.GradientDescent(value, maxiter=2, tol=0.0, acceleration=False).run(start)
before, _ = jaxopt.GradientDescent(value, maxiter=1, tol=0.0, acceleration=False).run(start)
fact("GradientDescent with its line search, state.error", slope(x), state.error, slope(before) / 2)
print("  half the norm of the gradient before the last step, because the step length has been doubled since")
raise SystemExit(wrong)
END
