"""One step of a network as text: its layers, its output and its state, for all targets of an export."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

import numpy as np

from hfrnn.arrays.backend import Array, HostArray
from hfrnn.data.scaling import Scaling
from hfrnn.engine.heads.heads import CLASS_SOFTMAX
from hfrnn.engine.heads.output_map import INPUT
from hfrnn.engine.layers import Columns, Layer, deviations_name, initial_state_name
from hfrnn.engine.network import Network
from hfrnn.errors import InputError
from hfrnn.exports.equations import columns, equations
from hfrnn.losses import LOSSES
from hfrnn.option import either
from hfrnn.wording import counted

PREDICTIONS = {
    "softmax": "softmax(z)", CLASS_SOFTMAX: "class_softmax(y, z)", "logistic": "sigmoid(z)", "squared": "z",
    "poisson": "exp(z)", "gaussian": "z[:, :{n_out}]",
}  # fmt: skip
"""What `hfrnn.predict` returns for each loss, from the outputs z; y are the outputs of the classes."""


@dataclass(frozen=True)
class LayerStep:
    """One step of a layer."""

    group: str  # "layer0": the beginning of its parameters' names
    arguments: tuple[str, ...]  # of "inputs" and "below", those that the layer reads
    parameters: tuple[str, ...]
    state: dict[str, tuple[int, ...]]  # shape of one sequence's state by name, () for the count of steps
    lines: tuple[str, ...]
    handed_up: str


@dataclass(frozen=True)
class Program:
    """One step of a network, its arrays and the scaling of its data."""

    net: Network
    symbols: bool  # whether inputs are integer symbols
    arrays: dict[str, HostArray]  # the parameters by their names in `net.views`
    scaling: Scaling
    layers: tuple[LayerStep, ...]
    output: tuple[str, ...]  # lines that compute z, and y, from the layers' h0, h1, ..., and perhaps from `inputs`
    head: tuple[str, ...]  # the parameters of the output
    prediction: str

    @property
    def dtype(self) -> str:
        """The type of the weights, "float32" or "float64"."""
        return self.net.dtype.name

    def initial(self, layer: LayerStep, name: str) -> HostArray | None:
        """Return the learned initial state (width,), or None where it is zeros."""
        return self.arrays.get(f"{layer.group}.{initial_state_name(name)}")

    @property
    def scales(self) -> dict[str, HostArray]:
        """The means and deviations of the data by name, those that there are."""
        found = {name: getattr(self.scaling, name) for name in Scaling.__dataclass_fields__}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def class_order(self) -> tuple[list[int], list[int]]:
        """The number of symbols of each class, and the column of W_y of each symbol."""
        classes = np.array(self.net.head.classes or (0,))
        column_of = np.empty(classes.size, np.int64)
        column_of[np.argsort(classes, kind="stable")] = np.arange(classes.size)
        return np.bincount(classes).tolist(), column_of.tolist()


def make_program(net: Network, theta: Array, scaling: Scaling | None, symbols: bool) -> Program:
    """Return the program of a network; raise InputError if its architecture or its loss is not known as text."""
    if net.loss_name not in PREDICTIONS:
        raise InputError(f"networks with the loss {net.loss_name!r} cannot be exported: use {either(PREDICTIONS)}")
    views = {name: np.ascontiguousarray(net.backend.to_host(x)) for name, x in net.views(theta).items()}
    arrays = {name: value for name, value in views.items() if value.size}
    layers = tuple(_layer(net, l, layer, arrays, symbols) for l, layer in enumerate(net.layers))
    z, head = [], []
    looked_up = symbols and net.embedding is None
    for name, letter in (("y", "z"), ("class", "y")):
        if name == "class" and net.loss_name != CLASS_SOFTMAX:
            continue
        feeding = [l for l in net.head.widths if l != INPUT]
        terms = [f"h{l} @ W_{name}{l}" for l in feeding]
        head += [f"W_{name}{l}" for l in feeding]
        if net.feedthrough:
            terms.append(_of_inputs(f"W_{name}_u", looked_up))
            head.append(f"W_{name}_u")
        if f"output.b_{name}" in arrays:
            terms.append(f"b_{name}")
            head.append(f"b_{name}")
        z.append(f"{letter} = {' + '.join(terms)}")
    prediction = PREDICTIONS[net.loss_name].format(n_out=net.n_out)
    return Program(net, symbols, arrays, scaling or Scaling(), layers, tuple(z), tuple(head), prediction)


def _layer(net: Network, l: int, layer: Layer, arrays: dict[str, HostArray], symbols: bool) -> LayerStep:
    kernel, group = layer.kernel, f"layer{l}"
    shapes = kernel.state_shapes(1)
    state = {name: (*shape[:-2], shape[-1]) if shape else () for name, shape in shapes.items() if 0 not in shape}
    own = [name.partition(".")[2] for name in arrays if name.startswith(f"{group}.")]
    names = (initial_state_name, deviations_name)
    learned = {named(name) for name in shapes for named in names} if net.learn_initial_state else set()
    lines, handed_up = equations(kernel, net.arch)
    arguments = [*["inputs"] * bool(layer.direct.width), *["below"] * bool(layer.below.width)]
    return LayerStep(
        group, tuple(arguments), tuple(name for name in own if name not in learned), state,
        (_input_line(layer, symbols and net.embedding is None), *lines), handed_up,
    )  # fmt: skip


def _of_inputs(name: str, looked_up: bool) -> str:
    """Return the product of the inputs with a matrix; it is a row of the matrix where the inputs are symbols."""
    return f"{name}[inputs]" if looked_up else f"inputs @ {name}"


def _input_line(layer: Layer, looked_up: bool) -> str:
    """Return the line that computes U; each run of its columns is the sum of what feeds it."""
    parts = [(layer.direct, _of_inputs("W_x", looked_up)), (layer.below, "below @ W_below"), (layer.bias, "b")]
    edges = {0, layer.slots}
    for each, _ in parts:
        edges |= {edge for start, _, width in each.runs for edge in (start, start + width)}
    sums = []
    for start, stop in itertools.pairwise(sorted(edges)):
        terms = [text + _part(each, start, stop, text == "b") for each, text in parts if _feeds(each, start)]
        if not any("@" in text or "inputs" in text for text in terms):
            terms.insert(0, f"zeros({stop - start})")  # no input feeds these columns
        sums.append(" + ".join(terms))
    return f"U = {sums[0]}" if len(sums) == 1 else f"U = concat({', '.join(sums)})"


def _feeds(each: Columns, at: int) -> bool:
    return any(start <= at < start + width for start, _, width in each.runs)


def _part(each: Columns, start: int, stop: int, vector: bool) -> str:
    """Return the brackets that take the columns `start` to `stop` of U from a parameter block; none for all of it."""
    first = next(first + start - begin for begin, first, width in each.runs if begin <= start < begin + width)
    found = columns("", first, first + stop - start, each.width)
    return found.replace("[:, ", "[") if vector else found


def called_functions(program: Program, needs: dict[str, str]) -> list[str]:
    """Return the functions that a program calls, in the order of `needs`: of each name, the names that it calls."""
    lines = [line for layer in program.layers for line in layer.lines] + [program.prediction]
    found: set[str] = set()
    ahead = set(re.findall(r"\b([a-z_]+)\(", "\n".join(lines)))
    while ahead:
        found |= ahead
        ahead = {each for name in ahead for each in needs[name].split()} - found
    return [name for name in needs if name in found]


def about_data(program: Program) -> list[str]:
    """Return sentences about the inputs and outputs of a program, for its documentation."""
    net, scales = program.net, program.scales
    what = f"symbols from 0 to {net.n_in - 1}" if program.symbols else counted(net.n_in, "real input")
    kind = "real values" if LOSSES[net.loss_name].real_values else "probabilities"
    return [
        f"A step reads {what}" + (", in the units of the data" if "input_mean" in scales else "") + ".",
        f"It returns {counted(net.n_out, 'output')}: {kind}"
        + (", in the units of the data" if "target_mean" in scales else "") + ".",
    ]  # fmt: skip
