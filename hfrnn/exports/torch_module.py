"""The program of a network as a PyTorch module: one readable file that reads weights.npz beside it."""

from __future__ import annotations

import re

from hfrnn._version import __version__
from hfrnn.engine.heads.heads import CLASS_SOFTMAX
from hfrnn.exports.program import LayerStep, Program, about_data, called_functions
from hfrnn.losses import LOSSES

NEEDS = {
    "tanh": "", "exp": "", "maximum": "", "sigmoid": "", "relu": "", "softplus": "", "zeros": "", "split": "",
    "concat": "", "stack": "", "softmax": "", "class_softmax": "concat exp",
}  # fmt: skip
"""The functions of a module, each with those that it calls."""
RETURNED = {
    "softmax": "logits", "logistic": "logits", CLASS_SOFTMAX: "log-probabilities", "poisson": "logarithms of rates",
    "gaussian": "means and logarithms of variances",
}  # fmt: skip
"""What `forward` returns for each loss but the squared one."""
OF_TORCH = ("exp", "maximum", "relu", "sigmoid", "tanh")
FUNCTIONS = {
    "softplus": """
def softplus(a):  # that of PyTorch is the identity above 20
    return torch.logaddexp(a, torch.zeros_like(a))
""",
    "split": """
def split(a, parts):
    return a.chunk(parts, dim=-1)
""",
    "concat": """
def concat(*parts):
    rows = max(len(part) for part in parts)
    return torch.cat([part.expand(rows, -1) for part in parts], dim=-1)
""",
    "stack": """
def stack(*parts):
    return torch.stack(parts)
""",
    "softmax": """
def softmax(a):
    return torch.softmax(a, dim=-1)
""",
    "class_softmax": """
def class_log_softmax(y, z):  # log p(class) + log p(symbol | class)
    of_class = torch.log_softmax(y, dim=-1)
    parts = [torch.log_softmax(part, dim=-1) for part in z.split(CLASS_SIZES, dim=-1)]
    log_p = concat(*(part + of_class[:, c : c + 1] for c, part in enumerate(parts)))
    return log_p[:, COLUMN_OF_SYMBOL]
""",
}
LOADING = '''

class Network(torch.nn.Module):
    """{net}.

{about}
    The names of the parameters are those of hfrnn.
    """

    def __init__(self, weights=Path(__file__).with_name("weights.npz")):
        super().__init__()
        stored = {{name: torch.from_numpy(value) for name, value in np.load(weights).items()}}
        for group in {groups}:
            own = {{name: value for name, value in stored.items() if name.startswith(group + ".")}}
            self.add_module(group, torch.nn.ParameterDict({{name.split(".")[1]: own[name] for name in own}})){scales}'''
RUN = '''
    def forward(self, inputs, states=None):
        """Run all steps of inputs (T, B{width}).

        Returns {returned}, (T, B, {n_out}), and the states after the last step.
        """
        states, outputs = self.start(inputs.shape[1]) if states is None else states, []
        for x in inputs:
            y, states = self.step(x, states)
            outputs.append(y)
        return torch.stack(outputs), states

    def predict(self, inputs):
        """Return {predicted}, (T, B, {n_out})."""
        with torch.no_grad():
            outputs = self(inputs)[0]
            return {prediction}
'''


def pytorch_module(program: Program) -> str:
    """Return the text of the module; it reads its arrays from `weights.npz` in its folder."""
    net, functions = program.net, called_functions(program, NEEDS)
    lines = [
        f'"""{net.describe()}: a network of hfrnn {__version__}, in PyTorch."""',
        "",
        "from pathlib import Path",
        "",
    ]
    lines += ["import numpy as np", "import torch"]
    if of_torch := [name for name in OF_TORCH if name in functions]:
        lines.append(f"from torch import {', '.join(of_torch)}")
    if net.loss_name == CLASS_SOFTMAX:
        names = ("CLASS_SIZES", "COLUMN_OF_SYMBOL")
        lines += ["", *(f"{name} = {value}" for name, value in zip(names, program.class_order, strict=True))]
    lines += ["\n" + FUNCTIONS[name].rstrip() for name in functions if name in FUNCTIONS]
    groups = [*["embedding"] * (net.embedding is not None), *(layer.group for layer in program.layers), "output"]
    about = "\n".join(f"    {line}" for line in about_data(program))
    scales = "".join(f'\n        self.register_buffer("{name}", stored["{name}"])' for name in program.scales)
    loading = LOADING.format(net=net.describe(), about=about, groups=groups, scales=scales).replace("'", '"')
    methods = [*_start(program), *_step(program), *(line for layer in program.layers for line in _layer(layer))]
    text = "\n".join(["\n".join(lines), loading, *("    " + line if line else "" for line in methods)])
    return text + "\n" + _run(program)


def _run(program: Program) -> str:
    """Return the methods that run all steps."""
    net = program.net
    units = "in the units of the data" if "target_mean" in program.scales else "as hfrnn.predict returns them"
    real, p = f"the outputs {units}", re.sub(r"\bz\b", "outputs", program.prediction).replace("[:, ", "[..., ")
    if "target_mean" in program.scales and net.loss_name != "squared":
        p += " * self.target_deviation + self.target_mean"
    return RUN.format(
        width="" if program.symbols else f", {net.n_in}", n_out=net.n_out,
        returned=RETURNED.get(net.loss_name, real),
        predicted=real if LOSSES[net.loss_name].real_values else "probabilities",
        prediction="exp(outputs)" if net.loss_name == CLASS_SOFTMAX else p,
    )  # fmt: skip


def _layer(layer: LayerStep) -> list[str]:
    """Return the method of one step of a layer: what it hands up, and its state."""
    state = ", ".join(layer.state)
    body = [f'{name} = self.{layer.group}["{name}"]' for name in layer.parameters]
    body += [re.sub(r"\bzeros\((\d+)\)", rf"{layer.parameters[0]}.new_zeros((1, \1))", line) for line in layer.lines]
    body.append(f"return {layer.handed_up}, ({state}{',' * (len(layer.state) == 1)})")
    arguments = ", ".join(["self", *layer.arguments, *layer.state])
    return ["", f"def step_of_{layer.group}({arguments}):", *("    " + line for line in body)]


def _start(program: Program) -> list[str]:
    """Return the method that makes the state before the first step."""
    lines = [
        "",
        "def start(self, B):",
        '    """Return the states of all layers before the first step of B sequences."""',
    ]
    lines += [f'    zeros = self.output["{program.head[0]}"].new_zeros', "    return ["]
    for layer in program.layers:
        arrays = []
        for name, shape in layer.state.items():
            sizes = ", ".join(map(str, (*shape[:-1], "B", shape[-1]))) if shape else ""
            value = f"zeros(({sizes}))" if shape else "0"
            if shape and program.initial(layer, name) is not None:
                value += f' + self.{layer.group}["{name}0"]'
            arrays.append(value)
        lines.append(f"        ({', '.join(arrays)}{',' * (len(arrays) == 1)}),")
    return [*lines, "    ]"]


def _step(program: Program) -> list[str]:
    """Return the method that runs one step of all layers."""
    net, scales = program.net, program.scales
    lines = ["", "def step(self, inputs, states):"]
    lines.append('    """Run one step: inputs of B sequences, states -> outputs (B, n), states."""')
    kind = f'.to(self.output["{program.head[0]}"].dtype)'
    if net.embedding is not None:
        lines.append('    inputs = self.embedding["E"][inputs]')
    elif "input_mean" in scales:
        lines.append(f"    inputs = ((inputs - self.input_mean) / self.input_deviation){kind}")
    elif not program.symbols:
        lines.append(f"    inputs = inputs{kind}")
    for l, layer in enumerate(program.layers):
        arguments = [*("inputs" if each == "inputs" else f"h{l - 1}" for each in layer.arguments), f"*states[{l}]"]
        lines.append(f"    h{l}, state{l} = self.step_of_{layer.group}({', '.join(arguments)})")
    lines += [f'    {name} = self.output["{name}"]' for name in program.head]
    lines += [f"    {line}" for line in program.output]
    outputs = "class_log_softmax(y, z)" if net.loss_name == CLASS_SOFTMAX else "z"
    if "target_mean" in scales and net.loss_name == "squared":
        outputs += " * self.target_deviation + self.target_mean"
    states = ", ".join(f"state{l}" for l in range(len(program.layers)))
    return [*lines, f"    return {outputs}, [{states}]"]
