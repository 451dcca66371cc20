#!/usr/bin/env bash
# Noise of a continuous-time RNN in nn4n.
#
# Guess: a new model with preact_noise=0.5 is noisy, as its flag training is True.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check torch==2.13.0 nn4n==1.1.1 numpy

"$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

import torch
from nn4n.model import CTRNN

print(f"nn4n {version('nn4n')}, torch {torch.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


warnings.simplefilter("ignore")


def noisy(model):
    outputs = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        outputs.append(model(torch.zeros(2, 5, 2))[0])
    return not torch.equal(*outputs)


model = CTRNN(dims=[2, 10, 1], preact_noise=0.5)
training, before = model.training, noisy(model)
model.train()
after = noisy(model)
fact("two runs of a new model with preact_noise=0.5", "differ: model.training is True", f"are equal, with training {training}; after train() they {'differ' if after else 'are equal'}", training and not before and after)
raise SystemExit(wrong)
END
