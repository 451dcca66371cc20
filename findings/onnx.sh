#!/usr/bin/env bash
# Gate orders, reset gate and lengths in ONNX.
#
# Prints the versions, and for each fact what one would guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --disable-pip-version-check onnx==1.23.2 onnxruntime==1.32.0

"$folder/bin/python" - << 'END'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

print(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


rng = np.random.default_rng(0)
T, B, H, n_in = 5, 2, 3, 2
x = rng.normal(size=(T, B, n_in)).astype("float32")


def sigma(a):
    return 1 / (1 + np.exp(-a))


def model(kind, gates, lengths=False, **attributes):
    made = [rng.normal(size=s).astype("float32") for s in ((1, gates * H, n_in), (1, gates * H, H), (1, 2 * gates * H))]
    names = ["x", "W", "R", "b", *(["lengths"] if lengths else [])]
    node = helper.make_node(kind, names, ["ys", "last"], hidden_size=H, **attributes)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [T, B, n_in])]
    constants = [onnx.numpy_helper.from_array(value, name) for value, name in zip(made, "WRb")]
    if lengths:
        constants.append(onnx.numpy_helper.from_array(np.array([5, 2], "int32"), "lengths"))
    outputs = [helper.make_tensor_value_info("last", TensorProto.FLOAT, [1, B, H])]
    graph = helper.make_graph([node], "g", inputs, outputs, constants)
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    onnx.checker.check_model(whole, full_check=True)
    W, R, b = (value[0].astype("float64") for value in made)
    return whole, (W, R, b[: gates * H], b[gates * H :])


def runtime(whole):
    return onnxruntime.InferenceSession(whole.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0][0]


def blocks(order):
    return {gate: slice(H * n, H * (n + 1)) for n, gate in enumerate(order)}


def gru(weights, order, after):
    (W, R, b, b_R), at, h = weights, blocks(order), np.zeros((B, H))
    for u in x:
        a, c = u @ W.T + b, h @ R.T + b_R
        r, z = (sigma(a[:, at[gate]] + c[:, at[gate]]) for gate in "rz")
        n = at["n"]
        recurrent = r * c[:, n] if after else (r * h) @ R[n].T + b_R[n]
        h = z * h + (1 - z) * np.tanh(a[:, n] + recurrent)
    return h


def lstm(weights, order):
    (W, R, b, b_R), at, h, c = weights, blocks(order), np.zeros((B, H)), np.zeros((B, H))
    for u in x:
        a = u @ W.T + h @ R.T + b + b_R
        i, f, o = (sigma(a[:, at[gate]]) for gate in "ifo")
        c = f * c + i * np.tanh(a[:, at["g"]])
        h = o * np.tanh(c)
    return h


def close(a, b):
    return a.shape == b.shape and np.allclose(a, b, atol=1e-5)


whole, weights = model("LSTM", 4)
found = [order for order in ("ifgo", "iofg") if close(runtime(whole), lstm(weights, order))]
fact("LSTM: order of the blocks", "i, f, g, o, as in PyTorch", "i, o, f, g (g is called c)", found == ["iofg"])
whole, weights = model("GRU", 3)
found = [(order, after) for order in ("rzn", "zrn") for after in (True, False) if close(runtime(whole), gru(weights, order, after))]
fact("GRU: order and reset gate", "r, z, n, after the product, as in PyTorch", "z, r, n, before the product", found == [("zrn", False)])
whole, weights = model("GRU", 3, linear_before_reset=1)
fact("GRU with linear_before_reset=1", "before the product", "after the product: the product (linear) comes first", close(runtime(whole), gru(weights, "zrn", True)))
whole, weights = model("GRU", 3, lengths=True)
kept, x_short = runtime(whole), x
x = x[:2]
at_length = gru(weights, "zrn", False)[1]
x = x_short
last = ReferenceEvaluator(whole).run(["last"], {"x": x})[0][0]
fact("GRU with sequence_lens: last state in onnxruntime", "after the length", "after the length", close(kept[1], at_length))
fact("the same in onnx's ReferenceEvaluator", "after the length", "after the padding: it ignores sequence_lens", close(last[1], gru(weights, "zrn", False)[1]))
raise SystemExit(wrong)
END
