"""Linear systems with known properties, for the tests of conjugate gradient."""

import numpy as np

EXACT = {"epsilon": 0.0, "max_iterations": 400}
"""Options of `conjugate_gradient` that turn early stopping off."""


def spd(n, seed=0, condition=100.0, dtype=np.float64):
    """A symmetric positive definite matrix with this condition number, and a right-hand side."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.standard_normal((n, n)))
    a = (basis * np.geomspace(1.0, condition, n)) @ basis.T
    return ((a + a.T) / 2).astype(dtype), rng.standard_normal(n).astype(dtype)


def operator(a):
    """The product with a matrix, as `conjugate_gradient` calls it."""

    def apply(v, out):
        out[:] = a @ v

    return apply


def quadratic(a, b, x):
    """q(x) = x.Ax/2 - b.x in float64."""
    a, b, x = (each.astype(np.float64) for each in (a, b, x))
    return x @ a @ x / 2 - b @ x


def badly_scaled():
    """A system whose residual's norms with and without the preconditioner are far apart."""
    a, b = spd(60, condition=10.0)
    scale = np.geomspace(1.0, 100.0, 60)
    a = scale[:, None] * a * scale
    return a, b, np.diag(a) ** 0.75
