#!/usr/bin/env bash
# The loss of several experiments and the penalties in jax-sysid.
#
# Guesses: the loss of `fit` is the mean over all samples of the squared errors, summed over outputs, plus half of
# rho_th times the sum of squares of the parameters. A longer experiment has a larger weight. `learn_x0` has the same
# penalty with both of its methods.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check jax-sysid==1.1.0 jax==0.4.31 jaxlib==0.4.31 numpy==2.2.6 scipy==1.14.1

"$folder/bin/python" -W ignore - << 'END'
from importlib.metadata import version

import jax
import numpy as np
from jax_sysid.models import Model

print(f"jax-sysid {version('jax-sysid')}, jax {jax.__version__}")
jax.config.update("jax_enable_x64", True)
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


def fitted(inputs, outputs, rho):
    """The gain of y = gain * u, by L-BFGS."""
    model = Model(1, 1, 1, state_fcn=lambda x, u, params: 0 * x, output_fcn=lambda x, u, params: params[0][0] * u)
    model.init(params=[np.array([0.1])], x0=np.zeros(1))
    model.loss(rho_th=rho, rho_x0=rho, train_x0=False)
    model.optimization(adam_epochs=0, lbfgs_epochs=1000, iprint=-1)
    model.fit(outputs, inputs)
    return float(model.params[0][0])


def best(uy, uu, penalty):
    """The gain that minimises mean (gain * u - y)^2 + penalty * gain^2."""
    return uy / (uu + penalty)


rng, rho = np.random.default_rng(0), 0.5
u = [rng.normal(size=(20, 1)), rng.normal(size=(200, 1))]
y = [1.0 * u[0], 3.0 * u[1]]
uy, uu = [float((a * b).mean()) for a, b in zip(u, y)], [float((a * a).mean()) for a in u]
values = {"one": fitted(u[0], y[0], rho), "twice": fitted([u[0]] * 2, [y[0]] * 2, rho), "free": fitted(u, y, 0.0)}
print()
fact("Gain of an experiment of 20 steps with the gain 1 and rho_th = 0.5", f"{best(uy[0], uu[0], rho / 2):.4f}", f"{values['one']:.4f}: the penalty is rho_th times the sum of squares, without a half", np.isclose(values["one"], best(uy[0], uu[0], rho), atol=1e-5))
fact("The same experiment twice", "the same gain", f"{values['twice']:.4f}: the losses of experiments are added, so the penalty counts half as much", np.isclose(values["twice"], best(uy[0], uu[0], rho / 2), atol=1e-5))
joined = (20 * uy[0] + 200 * uy[1]) / 220, (20 * uu[0] + 200 * uu[1]) / 220
free, plain = values["free"], joined[0] / joined[1]
fact("This one and one of 200 steps with the gain 3, without a penalty", f"{plain:.4f}, of all 220 steps", f"{free:.4f}: each experiment has the same weight", np.isclose(free, sum(uy) / sum(uu), atol=1e-5) and abs(free - plain) > 0.3)

model = Model(1, 1, 1, state_fcn=lambda x, u, params: 0.9 * x, output_fcn=lambda x, u, params: x)
model.init(params=[np.array([0.0])], x0=np.zeros(1))
n = 10
g, none = 0.9 ** np.arange(n), np.zeros((n, 1))
measured = 2 * g[:, None] + 0.1 * rng.normal(size=(n, 1))
x0 = {half: float((g @ measured[:, 0]) / n / ((g @ g) / n + half * 0.1)) for half in (0.5, 1)}
smoothed = float(model.learn_x0(none, measured, rho_x0=0.1, RTS_epochs=1, verbosity=False, Q=np.zeros((1, 1)), R=np.eye(1))[0])
refined = float(model.learn_x0(none, measured, rho_x0=0.1, RTS_epochs=1, verbosity=False, LBFGS_refinement=True, LBFGS_rho_x0=0.1)[0])
fact("Initial state of `learn_x0` with rho_x0 = 0.1, by smoothing and by L-BFGS", f"{x0[0.5]:.4f} by both, with half of rho_x0 as its documentation says", f"{smoothed:.4f} and {refined:.4f}: smoothing is without the half", np.isclose(smoothed, x0[1], atol=1e-6) and np.isclose(refined, x0[0.5], atol=1e-5))
raise SystemExit(wrong)
END
