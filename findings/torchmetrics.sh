#!/usr/bin/env bash
# Errors of fit of data with an offset, and concordance, in TorchMetrics.
#
# Guesses: R2Score, ExplainedVariance, RelativeSquaredError and NRMSE are the same for data with a constant added to
# outputs and targets, as those of scikit-learn in float32. ConcordanceCorrCoef has variances with ddof 0.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check torch==2.13.0 torchmetrics==1.9.0 scikit-learn==1.9.1 numpy==2.4.6

"$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

warnings.simplefilter("ignore")
import numpy as np
import torch
from sklearn.metrics import r2_score
from torchmetrics.regression import ConcordanceCorrCoef, ExplainedVariance, NormalizedRootMeanSquaredError, R2Score, RelativeSquaredError

print(f"TorchMetrics {version('torchmetrics')}, torch {torch.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


torch.manual_seed(0)
y, noise = torch.randn(1000), 0.5 * torch.randn(1000)
offsets = (0.0, 1e4, 1e5)
R2, other, exact = [], [], []
for offset in offsets:
    target = y + offset  # float32
    output = target + noise
    exact.append(r2_score(target.numpy(), output.numpy()))
    R2.append(R2Score()(output, target).item())
    other.append([ExplainedVariance()(output, target).item(), RelativeSquaredError()(output, target).item(), NormalizedRootMeanSquaredError("std")(output, target).item()])
assert np.ptp(exact) < 1e-3
double = R2Score()((y + 1e5).double() + noise, (y + 1e5).double()).item()
fact("`R2Score` of data with a deviation of 1 and offsets of 0, 1e4 and 1e5", ", ".join(f"{v:.2f}" for v in exact) + ", as `r2_score` of the same float32 numbers", ", ".join(f"{v:.2f}" for v in R2) + f": sums of squares are subtracted in float32; {double:.2f} for 1e5 in float64", np.isclose(R2[0], exact[0], rtol=1e-4) and abs(R2[2] - exact[2]) > 0.1 and abs(double - exact[0]) < 1e-3)
root = (1 - exact[2]) ** 0.5
fact("`ExplainedVariance`, `RelativeSquaredError` and `NormalizedRootMeanSquaredError('std')` for the offset 1e5", f"{exact[2]:.2f}, {root**2:.2f}, {root:.2f}", ", ".join(f"{v:.3g}" for v in other[2]), np.allclose(other[0], [exact[0], 1 - exact[0], (1 - exact[0]) ** 0.5], atol=1e-3) and not np.isclose(other[2], [exact[2], root**2, root], atol=0.1).any())

a, b = torch.tensor([1.0, 2.0, 4.0, 7.0]), torch.tensor([2.0, 1.0, 5.0, 9.0])


def concordance(ddof):
    spread = ((a - a.mean()) * (b - b.mean())).sum() / (len(a) - ddof)
    return float(2 * spread / (a.var(correction=ddof) + b.var(correction=ddof) + (a.mean() - b.mean()) ** 2))


found = ConcordanceCorrCoef()(a, b).item()
fact("`ConcordanceCorrCoef` of 4 numbers", f"{concordance(0):.4f}, with ddof 0, as Lin's estimate", f"{found:.4f}, with ddof 1", abs(found - concordance(1)) < 1e-5 and abs(found - concordance(0)) > 1e-3)
raise SystemExit(wrong)
END
