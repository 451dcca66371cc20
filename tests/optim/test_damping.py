"""The Levenberg-Marquardt rule branch by branch, and the strengths that it changes."""

import math

import pytest

from hfrnn.errors import InputError
from hfrnn.optim.damping import GREATEST_STRENGTH, LEAST_STRENGTH, Damping, LevenbergMarquardt, rho


@pytest.mark.parametrize(("ratio", "factor"), [
    (-math.inf, 1.5), (math.nan, 1.5), (0.2499, 1.5), (0.25, 1.0), (0.5, 1.0), (0.75, 1.0), (0.7501, 2 / 3),
])  # fmt: skip
def test_the_rule_grows_below_a_quarter_and_shrinks_above_three_quarters(ratio, factor):
    assert LevenbergMarquardt().factor(ratio) == pytest.approx(factor, rel=1e-15)


@pytest.mark.parametrize("f_new", [math.nan, math.inf, -math.inf, 2.0000001])
def test_rho_of_a_raised_or_non_finite_loss_is_minus_infinity(f_new):
    assert rho(f_new, 2.0, -1.0) == -math.inf


@pytest.mark.parametrize("q", [0.0, 1.0, math.nan])
def test_rho_of_a_quadratic_that_promises_nothing_is_minus_infinity(q):
    assert rho(1.0, 2.0, q) == -math.inf


def test_each_strength_stays_within_its_bounds():
    assert (LEAST_STRENGTH, GREATEST_STRENGTH) == (1e-8, 1e8)
    damping = Damping("structural+tikhonov", 8e7, 2e7)
    damping.scale(1.5)
    assert (damping.mu, damping.lambda_) == (1e8, 3e7)
    damping.scale(1.5, 10.0)
    assert (damping.mu, damping.lambda_) == (1e8, 1e8)
    damping = Damping("structural+tikhonov", 2e-8, 1.2e-8)
    damping.scale(0.5, 0.75)
    assert (damping.mu, damping.lambda_) == (1e-8, 1e-8)
    damping.scale(0.1)
    assert (damping.mu, damping.lambda_) == (1e-8, 1e-8)


def test_strengths_stay_above_a_share_of_the_first_ones():
    damping = Damping("structural+tikhonov", 2.0, 4.0, least=0.25)
    for factor, strengths in ((0.3, (0.6, 1.2)), (0.3, (0.5, 1.0)), (2.0, (1.0, 2.0))):
        damping.scale(factor)
        assert (damping.mu, damping.lambda_) == strengths
    other = Damping("structural+tikhonov", 2.0, 4.0, least=0.25)
    other.load_state_dict(damping.state_dict())
    other.scale(0.01)
    assert (other.mu, other.lambda_) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("adapt", "strengths"), [("both", (3.0, 6.0)), ("mu", (3.0, 4.0)), ("lambda", (2.0, 6.0)), ("none", (2.0, 4.0))]
)
def test_only_what_is_to_be_adapted_is_scaled(adapt, strengths):
    damping = Damping("structural+tikhonov", 2.0, 4.0, adapt=adapt)
    damping.scale(1.5)
    assert (damping.mu, damping.lambda_) == strengths
    assert damping.adapts is (adapt != "none")
    assert (damping.adapts_mu, damping.adapts_lambda) == (adapt in ("both", "mu"), adapt in ("both", "lambda"))


@pytest.mark.parametrize(("damping", "scaled"), [
    (Damping("structural", mu=2.0, lambda_=0.0), (3.0, 0.0)), (Damping("tikhonov", lambda_=2.0), (0.0, 3.0)),
    (Damping("none"), (0.0, 0.0)), (Damping("line-search"), (0.0, 0.0)),
], ids=lambda value: getattr(value, "kind", ""))  # fmt: skip
def test_a_strength_that_a_kind_does_not_have_stays_zero(damping, scaled):
    damping.scale(1.5)
    assert (damping.mu, damping.lambda_) == scaled
    assert damping.adapts is any(scaled)


@pytest.mark.parametrize(("words", "arguments"), [
    ("damping kind is 'levenberg'", {"kind": "levenberg"}), ("damping metric is 'loud'", {"metric": "loud"}),
    ("mu is 0:", {"mu": 0.0}),
    ("mu is 1, but damping of kind 'tikhonov' has none", {"kind": "tikhonov", "mu": 1.0}),
    ("lambda_ is 0:", {"kind": "tikhonov", "lambda_": 0.0}),
    ("lambda_ is 1, but damping of kind 'line-search'", {"kind": "line-search", "lambda_": 1.0}),
    ("mu is 200000000: give a number from 1e-08 to 1e.08", {"mu": 2e8}),
    ("mu is 1e-09: give a number from 1e-08 to 1e.08", {"mu": 1e-9}),
    ("adapt is 'rho'", {"adapt": "rho"}),
    ("adapt is 'mu', but damping of kind 'tikhonov' has no mu", {"kind": "tikhonov", "adapt": "mu"}),
    ("adapt is 'lambda', but", {"lambda_": 0.0, "adapt": "lambda"}),
])  # fmt: skip
def test_wrong_damping_is_refused_by_name(words, arguments):
    with pytest.raises(InputError, match=words):
        Damping(**arguments)


def test_the_state_carries_the_strengths_over():
    first, second = Damping(mu=0.2), Damping(mu=0.7)
    first.scale(1.5)
    second.load_state_dict(first.state_dict())
    assert second == first


def test_a_state_that_does_not_fit_changes_nothing():
    damping = Damping(mu=0.2)
    for words, state in (
        ("kind", Damping("tikhonov").state_dict()),
        ("lacks lambda_", {"kind": "structural", "mu": 1.0}),
        ("mu is nan", {"kind": "structural", "mu": math.nan, "lambda_": 1.0}),
    ):
        with pytest.raises(InputError, match=words):
            damping.load_state_dict(state)
    assert damping == Damping(mu=0.2)
