#!/usr/bin/env bash
# Forecasts and losses of linear Gaussian models in Dynamax.
#
# Guesses: predicted emissions contain the direct effect D u of the inputs, as in the definition of the model. In other
# units, all forecasts are the same numbers in these units. The loss of fit_sgd is per sequence or per time step.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check dynamax==1.0.3 jax==0.10.2 optax==0.2.8 tfp-nightly==0.26.0.dev20261027 numpy==2.4.6

JAX_ENABLE_X64=1 JAX_PLATFORMS=cpu "$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

warnings.simplefilter("ignore")
import jax
import jax.numpy as jnp
import numpy as np
import optax
from dynamax.linear_gaussian_ssm import LinearGaussianSSM

print(f"Dynamax {version('dynamax')}, JAX {jax.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


F, B, Q, D, d, R = 0.95, 0.5, 0.1, 2.0, 0.3, 0.2
eye, key = jnp.eye(1), jax.random.PRNGKey
model = LinearGaussianSSM(state_dim=1, emission_dim=1, input_dim=1)


def parameters(unit=1.0, D=D):
    """Emissions and states in this unit."""
    return model.initialize(
        key(0), initial_mean=jnp.zeros(1), initial_covariance=unit**2 * eye, dynamics_weights=F * eye,
        dynamics_input_weights=unit * B * eye, dynamics_bias=jnp.zeros(1), dynamics_covariance=unit**2 * Q * eye,
        emission_weights=eye, emission_input_weights=unit * D * eye, emission_bias=unit * d * jnp.ones(1),
        emission_covariance=unit**2 * R * eye)[0]


steps, ahead = 60, 20
u = jax.random.normal(key(1), (steps, 1))
later = jax.random.normal(key(2), (ahead, 1))
_, y = model.sample(parameters(), key(3), steps, u)
filtered = model.filter(parameters(), y, u)

expected, state = [], filtered.filtered_means[-1]
for v in later:
    state = F * state + B * v
    expected.append(state + D * v + d)
expected = np.array(expected)
_, _, found, _ = model.forecast(parameters(), y, ahead, u, later)
fact("`forecast` of emissions with inputs", "H z + D u + d", "H z + d: the direct effect of the inputs is missing, while the filter takes it into account", np.allclose(found + D * later, expected, atol=1e-5) and abs(found - expected).max() > 1)

found, _ = model.posterior_predictive(parameters(), y, u)
smoothed = model.smoother(parameters(), y, u).smoothed_means
errors = [float(jnp.mean((v - y) ** 2)) for v in (found, found + D * u)]
fact("`posterior_predictive` of emissions with inputs", "H z + D u + d", f"H z + d: the mean squared error is {errors[0]:.2f}, and {errors[1]:.2f} with D u", np.allclose(found, smoothed + d) and errors[0] > 10 * errors[1])

# No direct effect from here on.
_, y = model.sample(parameters(D=0.0), key(3), steps, u)
means, deviations = {}, {}
for unit in (1.0, 1e3, 1e4):
    p = parameters(unit, D=0.0)
    _, _, mean, cov = model.forecast(p, unit * y, ahead, u, later)
    means[unit], deviations[unit] = mean[:, 0] / unit, jnp.sqrt(cov[:, 0, 0]) / unit
    if unit > 1:
        likelihood = model.marginal_log_prob(p, unit * y, u) + steps * np.log(unit)
        assert np.isclose(likelihood, model.marginal_log_prob(parameters(D=0.0), y, u))
first, last = deviations[1.0][-1], deviations[1e4][-1]
change = abs(means[1e4] - means[1.0]).max()
fact("`forecast` with all numbers 10000 times as large, divided by 10000", "the same", f"means differ by up to {change:.2f}, and the last deviation is {last:.2f}, not {first:.2f}: the future counts as observed to be 0, with a variance of 1e8", change > 0.3 and last < 0.8 * first and abs(means[1e3] - means[1.0]).max() > 1e-3)

for n in (1, 3):
    other = LinearGaussianSSM(state_dim=1, emission_dim=n)
    p, properties = other.initialize(key(0))
    z = jax.random.normal(key(4), (4, 50, n))  # 4 sequences of 50 steps
    _, losses = other.fit_sgd(p, properties, z, optimizer=optax.sgd(0.0), batch_size=4, num_epochs=1)
    per_step = -sum(other.marginal_log_prob(p, v) for v in z) / 200
    if n == 3:
        fact("Loss of `fit_sgd` with 3 outputs", "negative log-likelihood per sequence or step", "per number: that per step, divided by 3", alone and np.isclose(losses[0], per_step / 3))
    alone = np.isclose(losses[0], per_step)
raise SystemExit(wrong)
END
