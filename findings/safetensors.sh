#!/usr/bin/env bash
# Transposed arrays in safetensors.numpy.
#
# Guess: an array that is not in C order is copied into it, or refused, as safetensors.torch does.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check safetensors==0.8.0 numpy==2.4.6

"$folder/bin/python" - << 'END'
import numpy as np
import safetensors
from safetensors.numpy import load, save

print(f"safetensors {safetensors.__version__}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


x = np.arange(24.0).reshape(2, 3, 4)
for about, array in (("a transposed weight, x[0].T", x[0].T), ("Fortran order, asfortranarray(x[0])", np.asfortranarray(x[0])), ("axes exchanged, x.swapaxes(0, 1)", x.swapaxes(0, 1))):
    read = load(save({"a": array}))["a"]
    memory = array.ravel(order="K").reshape(array.shape)
    fact(about, "read back as it was", "the right shape with the values as they lie in memory, without an error", np.array_equal(read, memory) and not np.array_equal(read, array))
raise SystemExit(wrong)
END
