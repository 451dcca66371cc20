#!/usr/bin/env bash
# NumPy: float32 sums over long recordings, and random orthogonal matrices.
#
# Guess: the mean of ones is 1, along the first axis too; the variance is 0; half of the orthogonal matrices of a QR
#   have determinant 1, and their trace is 0 in the mean.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check numpy==2.4.6

"$folder/bin/python" - << 'END'
import numpy as np

print(f"numpy {np.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


T = 2**25
x = np.ones((T, 2), "float32")
found = x.mean(axis=0)
fact("x.mean(axis=0), float32 ones, 2^25 steps of 2 channels", "1", f"{found[0]}: the rows are added one after another, and the sum stays at 2^24", np.all(found == 0.5))
fact("the same array in Fortran order", "the same", f"{np.asfortranarray(x).mean(axis=0)[0]}: each column is summed in pairs", np.all(np.asfortranarray(x).mean(axis=0) == 1))
fact("x.var(axis=0) of the ones", "0", f"{x.var(axis=0)[0]}", np.all(x.var(axis=0) == 0.125))
found = np.einsum("tc->c", x) / T
fact("einsum('tc->c')", "1: it has blocks of its own", f"{found[0]}", np.all(found == 0.5))
rng = np.random.default_rng(0)
for n in (4, 5, 64):
    made = [np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(200)]
    signs = {int(np.sign(np.linalg.det(Q))) for Q in made}
    trace = np.mean([np.trace(Q) for Q in made])
    fact(f"Q of linalg.qr of {n}x{n} normal numbers", "determinants 1 and -1; mean trace 0", f"determinants {signs}; mean trace {trace:.1f}", signs == {-1 if n % 2 == 0 else 1} and trace < -0.5)
raise SystemExit(wrong)
END
