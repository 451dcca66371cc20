"""State dicts of PyTorch models, and PyTorch's equations written out in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import hfrnn

Arrays = dict[str, np.ndarray]
EPS = 1e-20
"""The step of complex-step derivatives."""


def sizes(seed: int) -> dict[str, Any]:
    """Random sizes of a model: kind, n_in, hidden, n_out, layers, with or without embedding and biases."""
    rng = np.random.default_rng(seed)
    n_in, hidden, n_out, layers = (int(n) for n in rng.integers((2, 1, 2, 1), (9, 12, 9, 4)))
    return {
        "kind": ("lstm", "rnn", "gru")[seed % 3], "n_in": n_in, "hidden": hidden, "n_out": n_out, "layers": layers,
        "embedding": int(rng.integers(1, 7)) if seed % 4 else None, "bias": bool(seed % 5),
    }  # fmt: skip


def state_dict(
    kind: str = "lstm", n_in: int = 5, hidden: int = 4, n_out: int = 3, layers: int = 1, embedding: int | None = None,
    bias: bool = True, seed: int = 0, dtype: str = "float64",
) -> Arrays:  # fmt: skip
    """What `model.state_dict()` of such a model holds, its modules named `embedding`, the kind and `decoder`."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {}
    if embedding is not None:
        shapes["embedding.weight"] = (n_in, embedding)
    rows = {"lstm": 4, "rnn": 1, "gru": 3}[kind] * hidden
    for l in range(layers):
        shapes[f"{kind}.weight_ih_l{l}"] = (rows, hidden if l else embedding or n_in)
        shapes[f"{kind}.weight_hh_l{l}"] = (rows, hidden)
        if bias:
            shapes[f"{kind}.bias_ih_l{l}"] = shapes[f"{kind}.bias_hh_l{l}"] = (rows,)
    shapes["decoder.weight"] = (n_out, hidden)
    if bias:
        shapes["decoder.bias"] = (n_out,)
    return {name: 0.6 * rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


def kind_of(p: Arrays) -> str:
    return next(kind for kind in ("lstm", "rnn", "gru") if f"{kind}.weight_hh_l0" in p)


def sigma(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def reference(p: Arrays, inputs: np.ndarray, activation: Any = np.tanh) -> tuple[np.ndarray, list[Arrays]]:
    """The outputs (T, B, n_out) and last states by the equations in the documentation of nn.LSTM, nn.GRU and nn.RNN."""
    kind = kind_of(p)
    if "embedding.weight" in p:
        xs = p["embedding.weight"][inputs]
    else:
        xs = np.eye(p[f"{kind}.weight_ih_l0"].shape[1])[inputs] if inputs.ndim == 2 else inputs
    states, l, biased = [], 0, f"{kind}.bias_ih_l0" in p
    while f"{kind}.weight_ih_l{l}" in p:
        W_ih, W_hh = p[f"{kind}.weight_ih_l{l}"], p[f"{kind}.weight_hh_l{l}"]
        b_ih, b_hh = (p[f"{kind}.bias_{side}_l{l}"] if biased else 0.0 for side in ("ih", "hh"))
        h = c = np.zeros((xs.shape[1], W_hh.shape[1]), W_hh.dtype)
        hs = []
        for x in xs:
            a_x, a_h = x @ W_ih.T + b_ih, h @ W_hh.T + b_hh
            if kind == "rnn":
                h = activation(a_x + a_h)
            elif kind == "gru":
                (x_r, x_z, x_n), (h_r, h_z, h_n) = (np.split(part, 3, axis=1) for part in (a_x, a_h))
                z, n = sigma(x_z + h_z), np.tanh(x_n + sigma(x_r + h_r) * h_n)
                h = (1 - z) * n + z * h
            else:
                a_i, a_f, a_g, a_o = np.split(a_x + a_h, 4, axis=1)  # torch's order
                c = sigma(a_f) * c + sigma(a_i) * np.tanh(a_g)
                h = sigma(a_o) * np.tanh(c)
            hs.append(h)
        xs, l = np.stack(hs), l + 1
        states.append({"h": h, "c": c} if kind == "lstm" else {"h": h})
    z = xs @ p["decoder.weight"].T
    return (z + p["decoder.bias"] if "decoder.bias" in p else z), states


def data(p: Arrays, real: bool = False, T: int = 7, B: int = 3, seed: int = 1) -> hfrnn.Batch:
    rng = np.random.default_rng(seed)
    first = p.get("embedding.weight")
    n_in = next(w for name, w in p.items() if "weight_ih_l0" in name).shape[1] if first is None else first.shape[0]
    inputs = rng.standard_normal((T, B, n_in)) if real else rng.integers(0, n_in, (T, B))
    return hfrnn.Batch(inputs, rng.integers(0, p["decoder.weight"].shape[0], (T, B)))


def directions(p: Arrays, seed: int = 2) -> Arrays:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(w.shape) for name, w in p.items()}


def moved(p: Arrays, v: Arrays, step: complex) -> Arrays:
    return {name: w + step * v[name] for name, w in p.items()}


def inner(u: Any, v: Any) -> float:
    assert list(u) == list(v)
    return float(sum((np.asarray(u[name]) * np.asarray(v[name])).sum() for name in u))


def named(p: Arrays) -> dict[str, str]:
    return {"embedding": "embedding"} if "embedding.weight" in p else {}


def taken(p: Arrays) -> dict[str, str]:
    """The arguments that `from_torch` needs with a state dict: the embedding's name and an rnn's activation."""
    return named(p) | ({"activation": "tanh"} if kind_of(p) == "rnn" else {})
