#!/usr/bin/env bash
# What scikit-learn and pandas divide by: losses, penalties, deviations, R2.
#
# Prints the versions, and for each fact what one would guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --disable-pip-version-check scikit-learn==1.9.1 pandas==3.0.0

"$folder/bin/python" - << 'END'
import numpy as np
import pandas
import sklearn
from sklearn.metrics import explained_variance_score, mean_squared_error, r2_score
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler

print(f"scikit-learn {sklearn.__version__}, pandas {pandas.__version__}")
wrong = 0


def fact(about, guess, found, expected):
    global wrong
    holds = bool(np.allclose(found, expected))
    wrong += not holds
    print(f"{about}\n  guess: {guess:.6g}\n  found: {found:.6g}{'' if holds else f', but the page says {expected:.6g}'}")


rng = np.random.default_rng(0)
x, y = rng.normal(size=(20, 4)), rng.normal(size=(20, 3))
alpha = 0.7
net = MLPRegressor(hidden_layer_sizes=(5,), alpha=alpha, solver="sgd", learning_rate_init=1e-12, max_iter=1, batch_size=20)
errors = (net.fit(x, y).predict(x) - y) ** 2
squares = sum((weights**2).sum() for weights in net.coefs_)
half = errors.sum(axis=1).mean() / 2
penalty = alpha * squares / 2
fact("MLPRegressor: loss_", half + penalty, net.loss_, half / 3 + penalty / 20)
print("  half the mean over samples AND outputs; the penalty is divided by the number of samples")

labels = rng.integers(0, 2, (20, 3))
net = MLPClassifier(hidden_layer_sizes=(5,), alpha=0.0, solver="sgd", learning_rate_init=1e-12, max_iter=1, batch_size=20)
p = net.fit(x, labels).predict_proba(x)
entropies = -np.log(np.where(labels == 1, p, 1 - p))
fact("MLPClassifier, 3 labels: loss_", entropies.mean(), net.loss_, entropies.sum(axis=1).mean())
print("  the sum over labels, although MLPRegressor has the mean over outputs")

predicted = y + rng.normal(size=(20, 3)) * [0.1, 1.0, 2.0]
ratio = 1 - ((predicted - y) ** 2).sum() / ((y - y.mean(axis=0)) ** 2).sum()
each = 1 - ((predicted - y) ** 2).mean(axis=0) / y.var(axis=0)
fact("r2_score of 3 outputs", ratio, r2_score(y, predicted), each.mean())
print("  the mean of the outputs' R2, not one ratio of sums")
fact("r2_score, targets that do not vary", -np.inf, r2_score([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]), 0.0)
fact("explained_variance_score of y + 5", 1 - 25 / y.var(), explained_variance_score(y, y + 5), 1.0)
print("  a constant error does not count; it does in r2_score")
mean = ((predicted - y) ** 2).mean()
fact("mean_squared_error of 3 outputs", mean, mean_squared_error(y, predicted), mean)

column = np.array([[1.0], [2.0], [4.0]])
fact("StandardScaler: the deviation it divides by", column.std(ddof=1), StandardScaler().fit(column).scale_[0], column.std(ddof=0))
fact("pandas std()", column.std(ddof=0), pandas.Series(column[:, 0]).std(), column.std(ddof=1))
raise SystemExit(wrong)
END
