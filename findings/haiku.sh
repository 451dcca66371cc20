#!/usr/bin/env bash
# Forget bias, update gate and nonlinearity of recurrent cells in Haiku.
#
# Guesses: the forget gate of LSTM has a stored first bias of 1; z of GRU multiplies the state before; VanillaRNN has
# tanh.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check dm-haiku==0.0.17 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6

JAX_PLATFORMS=cpu "$folder/bin/python" - << 'END'
import warnings

warnings.simplefilter("ignore")
import haiku as hk
import jax
import numpy as np

print(f"Haiku {hk.__version__}, JAX {jax.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


rng = np.random.default_rng(0)
B, T, V, H = 2, 5, 3, 4
x = rng.normal(size=(T, B, V)).astype("float32")


def sigma(a):
    return 1 / (1 + np.exp(-a))


def layer(kind):
    """Return outputs for random parameters, these parameters and the first ones."""
    def forward(x):
        cell = kind(H)
        return hk.dynamic_unroll(cell, x, cell.initial_state(B))[0]

    made = hk.without_apply_rng(hk.transform(forward))
    first = made.init(jax.random.PRNGKey(0), x)
    drawn = {module: {name: rng.normal(size=p.shape).astype("float32") for name, p in block.items()} for module, block in first.items()}
    return np.asarray(made.apply(drawn, x)), drawn, first


def lstm(W, b, order, added):
    gates = {gate: slice(H * n, H * (n + 1)) for n, gate in enumerate(order)}
    h = c = np.zeros((B, H))
    for u in x:
        a = np.concatenate([u, h], axis=1) @ W + b
        c = sigma(a[:, gates["f"]] + added) * c + sigma(a[:, gates["i"]]) * np.tanh(a[:, gates["g"]])
        h = sigma(a[:, gates["o"]]) * np.tanh(c)
    return h


def gru(W, R, b, order, after, keeps):
    gates = {gate: slice(H * n, H * (n + 1)) for n, gate in enumerate(order)}
    h = np.zeros((B, H))
    for u in x:
        a, c = u @ W + b, h @ R
        r, z = (sigma(a[:, gates[gate]] + c[:, gates[gate]]) for gate in "rz")
        n = gates["n"]
        new = np.tanh(a[:, n] + (r * c[:, n] if after else (r * h) @ R[:, n]))
        h = z * h + (1 - z) * new if keeps else (1 - z) * h + z * new
    return h


out, drawn, first = layer(hk.LSTM)
block = drawn["lstm/linear"]
same = {(order, added): np.allclose(out[-1], lstm(block["w"], block["b"], order, added), atol=1e-5) for order in ("ifgo", "igfo") for added in (0, 1)}
zero = not np.any(first["lstm/linear"]["b"])
fact("LSTM: bias of the forget gate", "stored, and 1 at first", "stored as 0 at first, and each step adds 1 to it; blocks i, g, f, o", zero and same == {**dict.fromkeys(same, False), ("igfo", 1): True})
out, drawn, _ = layer(hk.GRU)
block = drawn["gru"]
same = {(order, after, keeps): np.allclose(out[-1], gru(block["w_i"], block["w_h"], block["b"], order, after, keeps), atol=1e-5) for order in ("rzn", "zrn") for after in (True, False) for keeps in (True, False)}
fact("GRU: what z multiplies", "the state before, as in PyTorch, Keras and ONNX", "the new value: h = (1-z)*h' + z*n; blocks z, r, n; reset before the product", same == {**dict.fromkeys(same, False), ("zrn", False, False): True})
out, drawn, _ = layer(hk.VanillaRNN)
into, back = drawn["vanilla_rnn/linear"], drawn["vanilla_rnn/linear_1"]
h = np.zeros((B, H))
for u in x:
    h = np.maximum(u @ into["w"] + into["b"] + h @ back["w"] + back["b"], 0)
fact("VanillaRNN: nonlinearity", "tanh", "relu", np.allclose(out[-1], h, atol=1e-5, rtol=1e-5))
raise SystemExit(wrong)
END
