#!/usr/bin/env bash
# numba: float32 means over long recordings.
#
# Guess: x.mean() in compiled code is what NumPy's is: 1 for ones, with variance 0.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check numba==0.68.1 numpy==2.4.6

"$folder/bin/python" - << 'END'
import numba
import numpy as np

print(f"numba {numba.__version__}, numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


@numba.njit
def moments(x):
    return x.mean(), x.var(), x.sum() / x.size


x = np.ones(2**25, "float32")
mean, variance, share = moments(x)
fact("x.mean(), float32 ones, 2^25 of them", f"{x.mean()}, as NumPy", f"{mean}: added one after another in float32", mean == 0.5 and share == 0.5 and x.mean() == 1)
fact("x.var()", f"{x.var()}, as NumPy", f"{variance}, from the wrong mean", variance == 0.25 and x.var() == 0)
raise SystemExit(wrong)
END
