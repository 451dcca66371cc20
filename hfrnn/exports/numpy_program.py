"""The program of a network in NumPy: one readable file that reads weights.npz beside it."""

from __future__ import annotations

from hfrnn._version import __version__
from hfrnn.exports.program import LayerStep, Program, about_data, called_functions

NEEDS = {
    "tanh": "", "exp": "", "maximum": "", "sigmoid": "tanh", "relu": "maximum", "softplus": "", "zeros": "",
    "softmax": "exp", "split": "", "concat": "", "stack": "", "class_softmax": "softmax concat",
}  # fmt: skip
"""The functions of a program, each with those that it calls."""
OF_NUMPY = ("exp", "maximum", "tanh")
FUNCTIONS = {
    "sigmoid": """
def sigmoid(a):
    return 0.5 * tanh(0.5 * a) + 0.5
""",
    "relu": """
def relu(a):
    return maximum(a, 0)
""",
    "softplus": """
def softplus(a):
    return np.logaddexp(a, 0)
""",
    "zeros": """
def zeros(width):
    return np.zeros((1, width), DTYPE)
""",
    "softmax": """
def softmax(a):
    e = exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
""",
    "split": """
def split(a, parts):
    return np.split(a, parts, axis=-1)
""",
    "concat": """
def concat(*parts):
    rows = max(len(part) for part in parts)
    return np.concatenate([np.broadcast_to(part, (rows, part.shape[-1])) for part in parts], axis=-1)
""",
    "stack": """
def stack(*parts):
    return np.stack(parts)
""",
    "class_softmax": """
def class_softmax(y, z):  # a softmax over the classes, times one over the symbols of each class
    parts = np.split(z, np.cumsum(CLASS_SIZES)[:-1], axis=-1)
    of_class = softmax(y)
    p = concat(*(softmax(part) * of_class[:, c : c + 1] for c, part in enumerate(parts)))
    return p[:, COLUMN_OF_SYMBOL]
""",
}
USAGE = """
    python network.py inputs.npy outputs.npy

reads an array of inputs (T, B{width}), T steps of B sequences, and writes the outputs (T, B, {n_out}).
"""
RUN = '''

def run(inputs, states=None):
    """Run all steps of inputs (T, B{width}). Return the outputs (T, B, {n_out}) and the states after them."""
    states, outputs = start(inputs.shape[1]) if states is None else states, []
    for x in inputs:
        y, states = step(x, states)
        outputs.append(y)
    return np.stack(outputs), states


if __name__ == "__main__":
    np.save(sys.argv[2], run(np.load(sys.argv[1]))[0])
'''


def numpy_program(program: Program) -> str:
    """Return the text of the program; it reads its arrays from `weights.npz` in its folder."""
    net = program.net
    sizes = {"width": "" if program.symbols else f", {net.n_in}", "n_out": net.n_out}
    functions = called_functions(program, NEEDS)
    of_numpy = [name for name in OF_NUMPY if name in functions]
    lines = [f'"""{net.describe()}: a network of hfrnn {__version__}, in NumPy.', USAGE.format(**sizes)]
    lines += [*about_data(program), '"""', "", "import sys", "from pathlib import Path", "", "import numpy as np"]
    if of_numpy:
        lines.append(f"from numpy import {', '.join(of_numpy)}")
    lines += ["", 'weights = dict(np.load(Path(__file__).with_name("weights.npz")))', f'DTYPE = "{program.dtype}"']
    if "class_softmax" in functions:
        lines += [f"{name} = {value}" for name, value in zip(
            ("CLASS_SIZES", "COLUMN_OF_SYMBOL"), program.class_order, strict=True
        )]  # fmt: skip
    lines += ["\n" + FUNCTIONS[name].rstrip() for name in functions if name in FUNCTIONS]
    lines += [line for layer in program.layers for line in _layer(layer)]
    lines += [*_start(program), *_step(program)]
    return "\n".join(lines) + "\n" + RUN.format(**sizes)


def _layer(layer: LayerStep) -> list[str]:
    """Return the function of one step of a layer: what it hands up, and its state."""
    state = ", ".join(layer.state)
    after = f"({state}{',' * (len(layer.state) == 1)})"
    lines = [f"{name} = weights[{f'{layer.group}.{name}'!r}]".replace("'", '"') for name in layer.parameters]
    body = [*lines, *layer.lines, f"return {layer.handed_up}, {after}"]
    return ["", "", f"def {layer.group}({', '.join([*layer.arguments, *layer.state])}):", *("    " + x for x in body)]


def _start(program: Program) -> list[str]:
    """Return the function that makes the state before the first step."""
    lines = ["", "", "def start(B):", '    """Return the states of all layers before the first step of B sequences."""']
    lines.append("    return [")
    for layer in program.layers:
        arrays = []
        for name, shape in layer.state.items():
            sizes = ", ".join(map(str, (*shape[:-1], "B", shape[-1]))) if shape else ""
            value = f"np.zeros(({sizes}), DTYPE)" if shape else "0"
            if shape and program.initial(layer, name) is not None:
                value = f'np.zeros(({sizes}), DTYPE) + weights["{layer.group}.{name}0"]'
            arrays.append(value)
        lines.append(f"        ({', '.join(arrays)}{',' * (len(arrays) == 1)}),")
    return [*lines, "    ]"]


def _step(program: Program) -> list[str]:
    """Return the function that runs one step of all layers."""
    scales, lines = program.scales, []
    lines += ["", "", "def step(inputs, states):"]
    lines.append('    """Run one step: inputs of B sequences, states -> outputs (B, n), states."""')
    if program.net.embedding is not None:
        lines.append('    inputs = weights["embedding.E"][inputs]')
    elif "input_mean" in scales:
        scaled = '((inputs - weights["input_mean"]) / weights["input_deviation"])'
        lines.append(f"    inputs = {scaled}.astype(DTYPE)")
    elif not program.symbols:
        lines.append("    inputs = np.asarray(inputs, DTYPE)")
    for l, layer in enumerate(program.layers):
        arguments = [*("inputs" if each == "inputs" else f"h{l - 1}" for each in layer.arguments), f"*states[{l}]"]
        lines.append(f"    h{l}, state{l} = {layer.group}({', '.join(arguments)})")
    lines += [f'    {name} = weights["output.{name}"]' for name in program.head]
    lines += [f"    {line}" for line in program.output]
    outputs = program.prediction
    if "target_mean" in scales:
        outputs += ' * weights["target_deviation"] + weights["target_mean"]'
    states = ", ".join(f"state{l}" for l in range(len(program.layers)))
    return [*lines, f"    return {outputs}, [{states}]"]
