#!/usr/bin/env bash
# Momentum, schedules and Rprop of Optax, and the same in PyTorch.
#
# Guesses: after the rate of a schedule has fallen, each step of RMSProp with momentum has the new rate, as in PyTorch.
# The first step of Rprop has the length of the learning rate. reduce_on_plateau lowers the rate after more than
# `patience` values without improvement, as ReduceLROnPlateau. The one-cycle schedule of n steps has the n rates of
# OneCycleLR.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check optax==0.2.8 jax==0.10.2 torch==2.13.0 numpy==2.4.6

JAX_ENABLE_X64=1 JAX_PLATFORMS=cpu "$folder/bin/python" - << 'END'
import warnings

warnings.simplefilter("ignore")
import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch

print(f"Optax {optax.__version__}, JAX {jax.__version__}, torch {torch.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


def with_optax(optimizer, steps):
    """Values of x on the loss x**2 / 2, from 1."""
    x, values = jnp.ones(1), []
    state = optimizer.init(x)
    for _ in range(steps):
        update, state = optimizer.update(x, state, x)
        x = x + update
        values.append(float(x[0]))
    return np.array(values)


def with_torch(optimizer, rates, **options):
    x, values = torch.ones(1, dtype=torch.float64, requires_grad=True), []
    optimizer = optimizer([x], lr=rates[0], **options)
    for rate in rates:
        optimizer.param_groups[0]["lr"] = rate
        x.grad = x.detach().clone()
        optimizer.step()
        values.append(x.item())
    return np.array(values)


def falling(count):
    return jnp.where(count < 3, 1e-2, 1e-4)


rates = [float(falling(i)) for i in range(8)]
steps = {"sgd": with_optax(optax.sgd(falling, momentum=0.9), 8), "rmsprop": with_optax(optax.rmsprop(falling, decay=0.99, momentum=0.9, eps_in_sqrt=False), 8)}
others = {"sgd": with_torch(torch.optim.SGD, rates, momentum=0.9), "rmsprop": with_torch(torch.optim.RMSprop, rates, alpha=0.99, momentum=0.9)}
moved = {name: values[2] - values[-1] for name, values in steps.items()}
expected = {name: values[2] - values[-1] for name, values in others.items()}
same = np.allclose(steps["sgd"], others["sgd"]) and np.allclose(steps["rmsprop"][:3], others["rmsprop"][:3])
fact("`rmsprop` with momentum, 5 steps after the rate fell from 0.01 to 0.0001", f"moves by {expected['rmsprop']:.4f}, as PyTorch", f"moves by {moved['rmsprop']:.4f}: the momentum contains the old rate, while that of `sgd` takes the new one", same and moved["rmsprop"] > 50 * expected["rmsprop"])

found = 1 - with_optax(optax.rprop(0.01), 4)
expected = 1 - with_torch(torch.optim.Rprop, [0.01] * 4)
fact("Distances after the first 4 steps of `rprop` with 0.01", f"{np.round(expected, 4).tolist()}, as PyTorch", f"{np.round(found, 4).tolist()}: each step is that of the gradient before, so the first is 0", np.allclose(found[1:], expected[:-1]) and found[0] == 0)


def drops(patience, count=12):
    """Numbers of equal values before each drop of the rate."""
    plateau = optax.contrib.reduce_on_plateau(factor=0.5, patience=patience)
    state, scales = plateau.init(jnp.ones(1)), []
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    other, rates = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=patience), []
    for _ in range(count):
        _, state = plateau.update(jnp.ones(1), state, value=jnp.asarray(1.0))
        scales.append(float(state.scale))
        other.step(1.0)
        rates.append(optimizer.param_groups[0]["lr"])
    return [(np.flatnonzero(np.diff(v)) + 1).tolist() for v in (scales, rates)]


found, expected = drops(2)
fact("Values without improvement at the drops of `reduce_on_plateau`, patience 2", f"{expected}, as PyTorch", f"{found}: the patience of PyTorch is one smaller for the same drops", found == [2, 4, 6, 8, 10] and expected == [3, 6, 9] and drops(3)[0] == expected)

n = 20
optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
schedule, expected = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=n), []
for i in range(n):
    expected.append(optimizer.param_groups[0]["lr"])
    optimizer.step()
    if i < n - 1:
        schedule.step()
cycle = optax.cosine_onecycle_schedule(n, 1.0)
found = np.array([float(cycle(i)) for i in range(n + 1)])
fact("Rate of the last of 20 steps, `cosine_onecycle_schedule(20, 1.0)`", f"{expected[-1]:.1e}, as OneCycleLR", f"{found[n - 1]:.1e}: the lowest rate is that of step 21, and the peak comes a step later ({found.argmax()}, not {int(np.argmax(expected))})", np.isclose(found[n], expected[-1]) and found[n - 1] > 1000 * expected[-1] and found.argmax() == np.argmax(expected) + 1)
raise SystemExit(wrong)
END
