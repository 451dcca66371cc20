#!/usr/bin/env bash
# What the wiring of a neural circuit policy means in the CfC networks of ncps.
#
# Guess: in one step of a CfC or LTC network with a wiring, neuron j depends on neuron i or input i only along synapses
# of the wiring, and entry i of the state is neuron i of the wiring.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check torch==2.13.0 ncps==1.0.1 numpy==2.4.6

"$folder/bin/python" -W ignore - << 'END'
from importlib.metadata import version

import numpy as np
import torch
from ncps.torch import LTC, CfC
from ncps.wirings import AutoNCP

print(f"ncps {version('ncps')}, torch {torch.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
inputs, units, motor = 4, 20, 3


def wiring():
    return AutoNCP(units, motor, seed=1)


made = wiring()
nets = {"LTC": LTC(inputs, made), "CfC": CfC(inputs, wiring()), "CfC, pure": CfC(inputs, wiring(), mode="pure")}
layers = [made.get_neurons_of_layer(k) for k in range(made.num_layers)]  # inter, command, motor
order = np.concatenate(layers)
neurons, senses = torch.tensor(made.adjacency_matrix != 0), torch.tensor(made.sensory_adjacency_matrix != 0)
path = neurons | torch.eye(units, dtype=bool)
for _ in range(5):
    path = path.double() @ path.double() > 0  # from i to j over any number of synapses
x, h = torch.randn(1, 1, inputs), torch.randn(1, units)


def depends(net):
    """Rows: old states and inputs. Columns: new states."""
    J = torch.autograd.functional.jacobian(lambda h, x: net(x, h)[1][0], (h, x))
    return J[0][:, 0].T.abs() > 1e-12, J[1][:, 0, 0].T.abs() > 1e-12


positions = {}
for name in ("LTC", "CfC"):
    outputs, state = nets[name](x, h)
    positions[name] = [int((state[0] - value).abs().argmin()) for value in outputs[0, 0]]
fact("Entries of the state that are the outputs, neurons 0, 1 and 2 of the wiring", "0, 1, 2", f"{positions['LTC']} in LTC, {positions['CfC']} in CfC, whose state has the order of the layers: inter, command, motor", positions == {"LTC": [0, 1, 2], "CfC": [17, 18, 19]})

old, new = depends(nets["LTC"])
assert not (old & ~path).any() and not (new & ~(senses.double() @ path.double() > 0)).any()  # LTC is as guessed
first = len(layers[0])
synapses = senses[:, layers[0]]
default, pure = depends(nets["CfC"])[1][:, :first], depends(nets["CfC, pure"])[1][:, :first]
fact(f"Pairs of one of {inputs} inputs and one of {first} inter neurons that depends on it, in a step of CfC", f"{int(synapses.sum())}, the synapses of the wiring", f"{int(default.sum())}, all: the gates of time are not masked; {int(pure.sum())} with mode='pure'", bool(default.all()) and torch.equal(pure, synapses) and not synapses.all())

old = depends(nets["CfC"])[0]
among = neurons[layers[0]][:, layers[0]]
fact("Pairs of two inter neurons of which one depends on the old state of the other", f"{int(among.sum())}: the wiring has no synapse there, and LTC no such pair", f"{int(old[:first, :first].sum()) - first}, all", bool(old[:first, :first].all()) and not among.any())
motors = torch.tensor(order[-motor:])
back = neurons[motors][:, motors]
fact("The same for two motor neurons", f"{int(back.sum())}", f"{int(old[-motor:, -motor:].sum()) - motor}, all", bool(old[-motor:, -motor:].all()) and not back.any())
raise SystemExit(wrong)
END
