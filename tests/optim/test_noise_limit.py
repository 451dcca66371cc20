"""CG stops after its first iteration if most of the decrease along it is noise of the gradient (H14, K8)."""

import numpy as np
import pytest
from support.least_squares import linear, with_squares

import hfrnn
from hfrnn.optim.cg import CGStop
from hfrnn.optim.preconditioner import make_preconditioner

SHIFT, EXPONENT, WEIGHT = 0.2, 0.75, 37.0
NEAR = np.linalg.lstsq(linear()[1], linear()[2], rcond=None)[0]
THETA, DAMPING = NEAR + 0.01, hfrnn.Damping("tikhonov", lambda_=0.3)


def objective(weight=WEIGHT):
    found = with_squares(linear()[0])
    if weight is not None:
        found.total_weight = weight
    return found


def options(limit, **changes):
    own = {"preconditioner_shift": SHIFT, "preconditioner_exponent": EXPONENT, "mu_growth": None}
    return hfrnn.HessianFreeOptions(**{"preconditioner": "diagonal", "noise_limit": limit, **own, **changes})


def share():
    """The share of g.M^-1 g that is noise, by its definition."""
    D, g = objective().squared_gradients(THETA), objective().loss_and_gradient(THETA)[1]
    inverse = (D + SHIFT) ** -EXPONENT
    return float((D * inverse).sum() / WEIGHT / (g @ (inverse * g)))


def updated(optimizer, weight=WEIGHT):
    return optimizer.update(THETA, objective(weight))


@pytest.mark.parametrize("rho_every", [1, 5])
@pytest.mark.parametrize(("factor", "stops"), [(0.999, True), (1.001, False)])
def test_one_iteration_if_a_larger_share_is_noise(factor, stops, rho_every):
    optimizer = hfrnn.HessianFree(DAMPING, options(factor * share(), rho_every=rho_every))
    optimizer.load_state_dict({**optimizer.state_dict(), "updates": 21, "steady": 9})  # not measured if rho_every is 5
    update = updated(optimizer)
    assert (update.cg_iterations == 1) == stops
    assert (update.cg_stop is CGStop.NOISE) == stops
    assert update.success
    assert np.isnan(update.rho) == (rho_every == 5)


def test_line_search_damping_has_the_rule_too():
    optimizer = hfrnn.HessianFree(hfrnn.Damping("line-search"), options(0.999 * share()))
    assert updated(optimizer).cg_stop is CGStop.NOISE


def test_the_first_step_is_that_of_one_iteration():
    noisy, one = (updated(hfrnn.HessianFree(DAMPING, each)) for each in (options(1e-9), options(None, cg_iterations=1)))
    np.testing.assert_array_equal(noisy.theta, one.theta)


def test_a_warm_start_is_judged_by_the_residual_there():
    """The share grows: the residual at the last solution is smaller than g, and its noise is not."""
    optimizer = hfrnn.HessianFree(DAMPING, options(1.5 * share(), warm_start=1.0))
    assert updated(optimizer).cg_stop is not CGStop.NOISE
    assert updated(optimizer).cg_stop is CGStop.NOISE


@pytest.mark.parametrize(("limit", "weight", "preconditioner"), [
    (None, WEIGHT, "diagonal"), (1e-9, None, "diagonal"), (1e-9, WEIGHT, "none"),
])  # fmt: skip
def test_no_limit_without_a_number_of_symbols_or_a_preconditioner(limit, weight, preconditioner):
    optimizer = hfrnn.HessianFree(DAMPING, options(limit, preconditioner=preconditioner))
    assert updated(optimizer, weight).cg_iterations > 1


@pytest.mark.parametrize("kind", ["diagonal", "kronecker"])
@pytest.mark.parametrize("exponent", [0.75, 1.0])
def test_the_noise_is_the_mean_for_gradients_of_random_sign(kind, exponent):
    """If g = sum_b s_b g_b / W with independent signs s_b, the mean of g.M^-1 g is sum_b g_b.M^-1 g_b / W^2."""
    rng = np.random.default_rng(0)
    net = hfrnn.Network("lstm", n_in=5, hidden=4, n_out=5, dtype="float64")
    batch = hfrnn.Batch(rng.integers(5, size=(6, 7)), rng.integers(5, size=(6, 7)))
    found, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    own = options(0.5, preconditioner=kind, preconditioner_parts=7, preconditioner_exponent=exponent)
    made = make_preconditioner(theta, found, DAMPING, own, None)
    mean, out = 0.0, np.empty_like(theta)
    for g in found.per_sequence_gradients(theta):
        made.apply(g, out)
        mean += g @ out / found.total_weight**2
    assert made.noise / found.total_weight == pytest.approx(mean, rel=1e-10)
    assert make_preconditioner(theta, found, DAMPING, options(None), None).noise == 0.0
