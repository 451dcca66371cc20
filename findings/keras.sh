#!/usr/bin/env bash
# Gate orders, reset gate, forget bias and losses of Keras.
#
# Prints the versions, and for each fact what one would guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --disable-pip-version-check keras==3.15.1 torch==2.13.0

KERAS_BACKEND=torch "$folder/bin/python" - << 'END'
import keras
import numpy as np

print(f"keras {keras.__version__}, backend {keras.backend.backend()}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


rng = np.random.default_rng(0)
H, n_in = 3, 2
x = rng.normal(size=(1, 5, n_in)).astype("float32")


def sigma(a):
    return 1 / (1 + np.exp(-a))


def gru(W, R, b, order, after):
    blocks = {gate: slice(H * n, H * (n + 1)) for n, gate in enumerate(order)}
    h = np.zeros(H)
    for u in x[0]:
        a, c = u @ W + b[0], h @ R + b[1]
        r, z = (sigma(a[blocks[gate]] + c[blocks[gate]]) for gate in "rz")
        n = blocks["n"]
        recurrent = r * c[n] if after else (r * h) @ R[:, n]
        h = z * h + (1 - z) * np.tanh(a[n] + recurrent)
    return h


def lstm(W, R, b, order):
    blocks = {gate: slice(H * n, H * (n + 1)) for n, gate in enumerate(order)}
    h = c = np.zeros(H)
    for u in x[0]:
        a = u @ W + h @ R + b
        i, f, o = (sigma(a[blocks[gate]]) for gate in "ifo")
        c = f * c + i * np.tanh(a[blocks["g"]])
        h = o * np.tanh(c)
    return h


def layer(kind, **options):
    made = kind(H, bias_initializer="random_normal", unit_forget_bias=False, **options) if kind is keras.layers.LSTM \
        else kind(H, bias_initializer="random_normal", **options)
    return keras.ops.convert_to_numpy(made(x))[0], [keras.ops.convert_to_numpy(w).astype("float64") for w in made.weights]


out, (W, R, b) = layer(keras.layers.GRU)
same = {(order, after): np.allclose(out, gru(W, R, b, order, after), atol=1e-6) for order in ("rzn", "zrn") for after in (True, False)}
fact("GRU: order of the blocks", "r, z, n, as in PyTorch", "z, r, n", same == {**dict.fromkeys(same, False), ("zrn", True): True})
out, (W, R, b) = layer(keras.layers.GRU, reset_after=False)
before = np.allclose(out, gru(W, R, np.stack([b, 0 * b]), "zrn", False), atol=1e-6)
fact("GRU: reset gate", "before the product, as in the first paper", "after it; before it with reset_after=False", before)
out, (W, R, b) = layer(keras.layers.LSTM)
fact("LSTM: order of the blocks", "i, f, g, o", "i, f, g, o (g is called c)", np.allclose(out, lstm(W, R, b, "ifgo"), atol=1e-6))
made = keras.layers.LSTM(H)
made.build((None, None, n_in))
b = keras.ops.convert_to_numpy(made.weights[2])
fact("LSTM: first biases", "0", "0, but 1 for the forget gate", np.array_equal(b, np.repeat([0.0, 1.0, 0.0, 0.0], H)))

y, p = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 4, 3))
mse = keras.losses.MeanSquaredError()
weights = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
errors = ((y - p) ** 2).mean(axis=-1)
found = float(mse(y, p, sample_weight=weights))
fact("MeanSquaredError with sample_weight", "sum / 5, the sum of the weights", "sum / 8, the number of steps", np.isclose(found, (weights * errors).sum() / 8))
fact("MeanSquaredError", "half the sum over outputs, or their mean", "the mean over outputs and steps", np.isclose(float(mse(y, p)), errors.mean()))
raise SystemExit(wrong)
END
