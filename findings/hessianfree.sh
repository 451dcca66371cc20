#!/usr/bin/env bash
# Loss and Gauss-Newton matrix of recurrent networks in hessianfree.
#
# Guess: the loss is a mean over sequences and steps; for softmax and cross-entropy, the Gauss-Newton matrix is the Fisher
#   matrix of the model and does not depend on targets.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check hessianfree==0.4.0 matplotlib==3.10.7 numpy==2.4.6 scipy==1.17.1

MPLBACKEND=agg "$folder/bin/python" - << 'END'
from importlib.metadata import version

import hessianfree
import numpy as np
from hessianfree.loss_funcs import CrossEntropy, SquaredError
from hessianfree.nonlinearities import Linear, Softmax, Tanh

print(f"hessianfree {version('hessianfree')}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


rng = np.random.default_rng(0)
sequences, steps, n_out = 4, 5, 3
x = rng.normal(size=(sequences, steps, 2))


def network(output, loss, targets):
    layers = [Linear(), Tanh(), output]
    net = hessianfree.RNNet([2, 3, n_out], layers=layers, loss_type=loss, dtype=np.float64, rng=np.random.RandomState(1))
    net.optimizer = hessianfree.opt.HessianFree(plotting=False)
    net.cache_minibatch(x, targets)
    return net


def gauss_newton(net):
    return np.stack([net.calc_G(e) for e in np.eye(net.W.size)])


def jacobian(function, theta, width=1e-5):
    return np.stack([(function(theta + width * e) - function(theta - width * e)) / (2 * width) for e in np.eye(theta.size)], axis=-1)


y = rng.normal(size=(sequences, steps, n_out))
net = network(Linear(), SquaredError(), y)
error = net.forward(x)[-1] - y
J = jacobian(lambda theta: net.forward(x, theta)[-1], net.W)
whole = np.einsum("stci,stcj->ij", J, J) / sequences
summed = np.isclose(net.error(), (error**2).sum() / 2 / sequences) and np.allclose(gauss_newton(net), whole, atol=1e-6)
fact("SquaredError of sequences", "half the sum over outputs, mean over sequences and steps", f"mean over sequences, sum over steps: loss and Gauss-Newton matrix are {steps} times the mean over {steps} steps", summed)

labels = rng.integers(n_out, size=(2, sequences, steps))
found, of_targets, of_model = [], [], []
for k in labels:
    net = network(Softmax(), CrossEntropy(), np.eye(n_out)[k])
    p = net.forward(x)[-1]
    J = jacobian(lambda theta: np.log(net.forward(x, theta)[-1]), net.W)
    found.append(gauss_newton(net))
    of_targets.append(np.einsum("stc,stci,stcj->ij", np.eye(n_out)[k], J, J) / sequences)
    of_model.append(np.einsum("stc,stci,stcj->ij", p, J, J) / sequences)
traces = [np.trace(G) for G in (*found, *of_model)]
fact("Gauss-Newton matrix of Softmax and CrossEntropy, for two sets of targets", f"J'(diag(p) - pp')J, the Fisher matrix of the model: traces {traces[2]:.2f} and {traces[3]:.2f}", f"the sum of gg' of single steps' gradients g with the targets, an empirical Fisher matrix: traces {traces[0]:.2f} and {traces[1]:.2f}", np.allclose(found, of_targets, atol=1e-6) and not np.allclose(found, of_model, rtol=0.1, atol=0.1))
raise SystemExit(wrong)
END
