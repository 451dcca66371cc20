#!/usr/bin/env bash
# JAX on a CPU: tanh in float32, softplus twice, and the codes of its solvers.
#
# Guess: tanh is monotone and its slope right to 1e-3 up to |x| = 7; the second derivative of softplus at 40 is
#   exp(-40); cg on a singular system without a solution runs to maxiter; gmres returns a code above 0 when it does
#   not converge, as SciPy's.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 scipy==1.17.1

"$folder/bin/python" - << 'END'
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.sparse.linalg import cg, gmres

print(f"jax {jax.__version__} on {jax.default_backend()}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


x = np.linspace(-12, 12, 2_000_001).astype("float32")
falls = int((np.diff(np.asarray(jnp.tanh(x))) < 0).sum())
numpy_falls = int((np.diff(np.tanh(x)) < 0).sum())
fact("tanh in float32 on rising inputs", "never falls", f"falls at more than 10,000 of 2,000,000 steps (NumPy's: {numpy_falls})", falls > 10_000 and numpy_falls == 0)
slope, true = np.asarray(jax.vmap(jax.grad(jnp.tanh))(x)), 1 / np.cosh(x.astype("float64")) ** 2
inside = (np.abs(x) > 6) & (np.abs(x) < 7)
error = (np.abs(slope - true) / true)[inside].max()
fact("slope of tanh in float32, 6 < |x| < 7", "right to 1e-3", f"wrong by more than 10%: {error:.2f}", error > 0.1)
jax.config.update("jax_enable_x64", True)
second = float(jax.grad(jax.grad(jax.nn.softplus))(40.0))
fact("second derivative of softplus at 40, float64", f"{np.exp(-40):.3g}", f"{second:.3g}", second == 0)
x, code = cg(jnp.diag(jnp.array([1.0, 2.0, 0.0])), jnp.ones(3))
fact("cg, singular matrix, no solution", "a finite vector after maxiter steps", f"NaN, and None as code: {x}, {code}", bool(jnp.isnan(x).all()) and code is None)
rng = np.random.default_rng(0)
Q, _ = np.linalg.qr(rng.normal(size=(50, 50)))
A, b = jnp.array(Q @ np.diag(np.logspace(0, 3, 50)) @ Q.T), jnp.array(rng.normal(size=50))
x, code = gmres(A, b, tol=1e-6, restart=5, maxiter=2)
residual = float(jnp.linalg.norm(A @ x - b) / jnp.linalg.norm(b))
fact("gmres stopped by maxiter", "a code above 0", f"code {code} at a relative residual above 0.1: {residual:.2f}", code == 0 and residual > 0.1)
raise SystemExit(wrong)
END
