#!/usr/bin/env bash
# What PyTorch divides by, and its standard deviation.
#
# Prints the versions, and for each fact what one would guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --disable-pip-version-check torch==2.13.0 numpy

"$folder/bin/python" - << 'END'
import numpy as np
import torch
from torch.nn import functional

print(f"torch {torch.__version__}")
wrong = 0


def fact(about, guess, found, expected):
    global wrong
    holds = bool(np.isclose(found, expected))
    wrong += not holds
    print(f"{about}\n  guess: {guess:.6g}\n  found: {found:.6g}{'' if holds else f', but the page says {expected:.6g}'}")


torch.manual_seed(0)
logits, y = torch.randn(8, 3, dtype=torch.float64), torch.tensor([0, 0, 0, 0, 0, 1, 1, 2])
w = torch.tensor([1.0, 4.0, 9.0], dtype=torch.float64)
each = functional.cross_entropy(logits, y, reduction="none")
fact("cross_entropy with class weights", float((w[y] * each).mean()), float(functional.cross_entropy(logits, y, w)), float((w[y] * each).sum() / w[y].sum()))
print("  divided by the sum of the targets' weights, not by their number")
labels = torch.rand(8, 3, dtype=torch.float64).round()
each = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
v = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
found = functional.binary_cross_entropy_with_logits(logits, labels, v)
fact("binary_cross_entropy_with_logits with weights", float((v * each).sum() / (8 * v.sum())), float(found), float((v * each).sum() / 24))
print("  divided by the number of targets, although cross_entropy divides by the weights")
values = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
fact("torch.std", float(values.numpy().std()), float(values.std()), float(values.numpy().std(ddof=1)))
raise SystemExit(wrong)
END
