"""The program of a network as an ONNX graph: a node LSTM, GRU or RNN where its equations are those, else a Scan.

onnxruntime computes these three nodes in single precision only, so that a network in double precision has a Scan. The
product with the inputs is computed for all steps before the Scan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hfrnn._version import __version__
from hfrnn.arrays.backend import HostArray
from hfrnn.errors import MissingExtraError, how_to_install
from hfrnn.exports.program import LayerStep, Program, about_data
from hfrnn.exports.walk import compute, evaluate

OPSET, IR_VERSION = 18, 9
OPERATIONS = {
    "+": "Add", "-": "Sub", "*": "Mul", "tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "softplus": "Softplus",
    "maximum": "Max", "exp": "Exp", "softmax": "Softmax",
}  # fmt: skip
ACTIVATIONS = {"tanh": "Tanh", "logistic": "Sigmoid", "relu": "Relu"}


@dataclass(frozen=True)
class Gates:
    """A node of ONNX that is an architecture: its gates as blocks of hfrnn's columns, in the order of ONNX."""

    kind: str
    order: tuple[int, ...]
    attributes: dict[str, Any]


NODES = {
    "lstm": Gates("LSTM", (0, 2, 1, 3), {}), "gru": Gates("GRU", (1, 0, 2), {"linear_before_reset": 0}),
    "gru-torch": Gates("GRU", (1, 0, 2), {"linear_before_reset": 1}), "rnn": Gates("RNN", (0,), {}),
}  # fmt: skip
"""hfrnn's gates are i, f, o, g and r, z, n; ONNX's are i, o, f, c and z, r, h."""


@dataclass(frozen=True)
class Tensor:
    """A value of the graph: its name, and its last axis."""

    name: str
    width: int = 0


@dataclass(frozen=True)
class Weight:
    """A parameter, or a part of it, which becomes a constant where it is used."""

    name: str
    array: HostArray

    @property
    def width(self) -> int:
        return int(self.array.shape[-1])


class OnnxMachine:
    """Collects the nodes of a graph. A body of a Scan has a machine of its own, with the same constants."""

    def __init__(self, onnx: Any, dtype: str, constants: dict[str, HostArray] | None = None, prefix: str = "") -> None:
        self.onnx, self.dtype, self.prefix = onnx, dtype, prefix
        self.constants: dict[str, HostArray] = {} if constants is None else constants
        self.nodes: list[Any] = []
        self.steps = Tensor("")
        """The numbers of steps and of sequences, for values that nothing feeds."""

    def add(self, kind: str, inputs: Sequence[Any], width: int = 0, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; return its output, or several. Inputs are values, numbers and arrays; None leaves one out."""
        names = [f"{self.prefix}{kind}_{len(self.nodes)}_{n}" for n in range(outputs)]
        given = ["" if each is None else self.name_of(each) for each in inputs]
        self.nodes.append(self.onnx.helper.make_node(kind, given, names, **attributes))
        found = [Tensor(name, width) for name in names]
        return found[0] if outputs == 1 else tuple(found)

    def name_of(self, value: Any) -> str:
        """Return the name of a value; numbers, arrays and weights become constants."""
        if isinstance(value, Tensor):
            return value.name
        if isinstance(value, Weight):
            self.constants[value.name] = value.array
            return value.name
        array = np.asarray(value, self.dtype) if isinstance(value, float) else np.asarray(value)
        name = f"constant_{len(self.constants)}"
        self.constants[name] = array
        return name

    def cast(self, value: Any, dtype: str) -> Any:
        """Return a value in another data type."""
        return self.add("Cast", [value], value.width, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    # ------------------------------------------------------------------ the operations of a machine

    def assign(self, name: str, value: Any) -> Any:
        return value

    def binary(self, operator: str, a: Any, b: Any) -> Any:
        width = max(getattr(each, "width", 0) for each in (a, b))
        if width == 0:  # a count of steps
            return self.add(OPERATIONS[operator], [a, np.int64(b)])
        a, b = (float(each) if isinstance(each, int) else each for each in (a, b))
        return self.add(OPERATIONS[operator], [a, b], width)

    def product(self, x: Any, W: Any) -> Any:
        return self.add("MatMul", [x, W], W.width)

    def call(self, function: str, arguments: Sequence[Any]) -> Any:
        if function == "class_softmax":
            return self.class_softmax(*arguments)
        attributes = {"axis": -1} if function == "softmax" else {}
        return self.add(OPERATIONS[function], arguments, arguments[0].width, **attributes)

    def class_softmax(self, y: Any, z: Any) -> Any:
        """Return a softmax over the classes, times one over the symbols of each class."""
        sizes, column_of_symbol = self.classes
        parts = self.add("Split", [z, np.array(sizes)], outputs=len(sizes), axis=-1) if len(sizes) > 1 else (z,)
        of_class, found = self.call("softmax", [y]), []
        for c, part in enumerate(parts):
            own = self.columns(replace(of_class, width=len(sizes)), c, c + 1)
            found.append(self.add("Mul", [self.call("softmax", [part]), own]))
        joined = self.add("Concat", found, axis=-1)
        return self.add("Gather", [joined, np.array(column_of_symbol)], len(column_of_symbol), axis=-1)

    classes: tuple[list[int], list[int]]
    """`Program.class_order`, for the class softmax."""

    def columns(self, x: Any, start: int | None, stop: int | None) -> Any:
        first, last = start or 0, x.width if stop is None else stop
        if isinstance(x, Weight):
            return Weight(f"{x.name}[..., {first}:{last}]", np.ascontiguousarray(x.array[..., first:last]))
        ends = [np.array([first]), np.array([last]), np.array([-1])]
        return self.add("Slice", [x, *ends], last - first)

    def rows(self, W: Weight, start: int | None, stop: int | None) -> Weight:
        return Weight(f"{W.name}[{start}:{stop}]", W.array[start:stop])

    def entry(self, x: Any, number: int) -> Any:
        if isinstance(x, Weight):
            return Weight(f"{x.name}[{number}]", x.array[number])
        return self.add("Gather", [x, np.int64(number)], x.width, axis=0)

    def look_up(self, W: Weight, symbols: Tensor) -> Any:
        return self.add("Gather", [W, symbols], W.width, axis=0)

    def split(self, x: Any, parts: int) -> Any:
        return self.add("Split", [x], x.width // parts, parts, axis=-1, num_outputs=parts)

    def concat(self, parts: Sequence[Any]) -> Any:
        return self.add("Concat", parts, sum(part.width for part in parts), axis=-1)

    def stack(self, parts: Sequence[Any]) -> Any:
        apart = [self.add("Unsqueeze", [part, np.array([0])]) for part in parts]
        return self.add("Concat", apart, parts[0].width, axis=0)

    def zeros(self, width: int) -> Any:
        shape = self.add("Concat", [self.steps, np.array([width])], axis=0)
        return self.add("Expand", [np.zeros(1, self.dtype), shape], width)

    def every(self, period: int, t: Tensor, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        active = self.add("Equal", [self.add("Mod", [t, np.int64(period)]), np.int64(0)])
        value = then()
        return self.add("Where", [active, value, otherwise()], value.width)


def onnx_graph(program: Program) -> bytes:
    """Return the content of network.onnx; raise MissingExtraError without onnx."""
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError(f"an ONNX graph needs onnx: {how_to_install('onnx')}") from error
    graph = _Graph(onnx, program)
    model = onnx.helper.make_model(
        graph.made(), opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=IR_VERSION,
        producer_name="hfrnn", producer_version=__version__, doc_string=" ".join(about_data(program)),
    )  # fmt: skip
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


class _Graph:
    """The graph of a network that runs all steps."""

    def __init__(self, onnx: Any, program: Program) -> None:
        self.onnx, self.program = onnx, program
        self.machine = OnnxMachine(onnx, program.dtype)
        self.machine.classes = program.class_order
        self.kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(program.dtype))
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def made(self) -> Any:
        """Return the graph."""
        net, machine, helper = self.program.net, self.machine, self.onnx.helper
        shape = ["T", "B"] if self.program.symbols else ["T", "B", net.n_in]
        integer = self.onnx.TensorProto.INT64
        of_inputs = integer if self.program.symbols else self.kind
        self.inputs.append(helper.make_tensor_value_info("inputs", of_inputs, shape))
        size = machine.add("Shape", [Tensor("inputs")], end=2)
        machine.steps = size
        self.batch = machine.add("Slice", [size, np.array([1]), np.array([2])])
        known, below = self._read(), None
        handed: dict[str, Any] = {}
        for l, layer in enumerate(self.program.layers):
            below = handed[f"h{l}"] = self._layer(layer, known, below)
        names = handed | {"inputs": known} | {name: self._weight(f"output.{name}") for name in self.program.head}
        compute(self.program.output, names, machine)
        self._emit(evaluate(self.program.prediction, names, machine))
        first = [self.outputs.pop()]
        constants = [self.onnx.numpy_helper.from_array(x, name) for name, x in machine.constants.items()]
        return helper.make_graph(machine.nodes, "network", self.inputs, first + self.outputs, constants)

    def _weight(self, name: str) -> Weight:
        return Weight(name, self.program.arrays[name])

    def _read(self) -> Any:
        """Return what the layers read: values in the units of their deviation, embedded symbols, or symbols."""
        machine, scales, given = self.machine, self.program.scales, Tensor("inputs", self.program.net.n_in)
        if self.program.net.embedding is not None:
            return machine.look_up(self._weight("embedding.E"), given)
        if "input_mean" in scales:
            shifted = machine.add("Sub", [machine.cast(given, "float64"), scales["input_mean"]], given.width)
            scaled = machine.add("Div", [shifted, scales["input_deviation"]], given.width)
            return machine.cast(scaled, self.program.dtype)
        return given

    def _emit(self, outputs: Any) -> None:
        """Give the graph its outputs, in the units of the data."""
        machine, scales, n_out = self.machine, self.program.scales, self.program.net.n_out
        if "target_mean" in scales:
            scaled = machine.add("Mul", [machine.cast(outputs, "float64"), scales["target_deviation"]], n_out)
            shifted = machine.add("Add", [scaled, scales["target_mean"]], n_out)
            outputs = machine.cast(shifted, self.program.dtype)
        self._output("outputs", outputs, ["T", "B", n_out])

    def _output(self, name: str, value: Any, shape: Sequence[Any], kind: Any = None) -> None:
        self.machine.nodes.append(self.onnx.helper.make_node("Identity", [self.machine.name_of(value)], [name]))
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, kind or self.kind, shape))

    def _layer(self, layer: LayerStep, known: Any, below: Any) -> Any:
        """Add one layer; return what it hands up at all steps, (T, B, width)."""
        states = {name: self._state(layer, name, shape) for name, shape in layer.state.items()}
        names = {"inputs": known, "below": below}
        names |= {name: self._weight(f"{layer.group}.{name}") for name in layer.parameters}
        if self.program.net.arch in NODES and self.program.dtype == "float32":
            handed, after = self._node(layer, names, states)
        else:
            compute(layer.lines[:1], names, self.machine)
            if not states:
                compute(layer.lines[1:], names, self.machine)
                return names[layer.handed_up]
            handed, after = self._scan(layer, names, states)
        for name, shape in layer.state.items():
            dims = [*shape[:-1], "B", shape[-1]] if shape else []
            self._output(f"{layer.group}.{name}.after", after[name], dims, None if shape else self._integer)
        return handed

    @property
    def _integer(self) -> Any:
        return self.onnx.TensorProto.INT64

    def _state(self, layer: LayerStep, name: str, shape: tuple[int, ...]) -> Tensor:
        """Add an input for a state, whose default is the state before the first step; return it for all sequences."""
        helper, named = self.onnx.helper, f"{layer.group}.{name}"
        if not shape:
            self.inputs.append(helper.make_tensor_value_info(named, self._integer, []))
            self.machine.constants[named] = np.array(0)
            return Tensor(named)
        self.inputs.append(helper.make_tensor_value_info(named, self.kind, [*shape[:-1], None, shape[-1]]))
        start = np.zeros((*shape[:-1], 1, shape[-1]), self.program.dtype)
        learned = self.program.initial(layer, name)
        self.machine.constants[named] = start if learned is None else start + learned
        sizes = [*([np.array(shape[:-1])] if len(shape) > 1 else []), self.batch, np.array(shape[-1:])]
        every = self.machine.add("Expand", [Tensor(named), self.machine.add("Concat", sizes, axis=0)], shape[-1])
        return Tensor(every.name, shape[-1])

    def _scan(self, layer: LayerStep, names: dict[str, Any], states: dict[str, Tensor]) -> tuple[Any, dict[str, Any]]:
        """Run the equations step by step, after the line that computes U for all steps."""
        helper, U = self.onnx.helper, names["U"]
        body = OnnxMachine(self.onnx, self.program.dtype, self.machine.constants, f"{layer.group}/")
        before = {name: Tensor(f"{layer.group}/{name}", value.width) for name, value in states.items()}
        own = {**names, **before, "U": Tensor(f"{layer.group}/U", U.width)}
        compute(layer.lines[1:], own, body)
        inputs, outputs = [], []
        for name, shape in layer.state.items():
            dims, kind = [*shape[:-1], None, shape[-1]] if shape else [], self.kind if shape else self._integer
            inputs.append(helper.make_tensor_value_info(before[name].name, kind, dims))
            outputs.append(helper.make_tensor_value_info(f"{layer.group}/{name}/after", kind, dims))
        inputs.append(helper.make_tensor_value_info(own["U"].name, self.kind, [None, U.width]))
        handed = own[layer.handed_up]
        outputs.append(helper.make_tensor_value_info(f"{layer.group}/handed_up", self.kind, [None, handed.width]))
        for value, output in zip([*(own[name] for name in states), handed], outputs, strict=True):
            body.nodes.append(helper.make_node("Identity", [body.name_of(value)], [output.name]))
        graph = helper.make_graph(body.nodes, f"step of {layer.group}", inputs, outputs)
        *after, all_steps = self.machine.add(
            "Scan", [*states.values(), U], handed.width, len(outputs), body=graph, num_scan_inputs=1
        )
        return all_steps, dict(zip(states, after, strict=True))

    def _node(self, layer: LayerStep, names: dict[str, Any], states: dict[str, Tensor]) -> tuple[Any, dict[str, Any]]:
        """Run the layer as one node of ONNX."""
        gates, machine, net = NODES[self.program.net.arch], self.machine, self.program.net
        H, options = layer.state["h"][0], dict(gates.attributes)
        read = [(names[each], names["W_x" if each == "inputs" else "W_below"].array) for each in layer.arguments]
        if "inputs" in layer.arguments and self.program.symbols and net.embedding is None:
            on = np.array([0, 1], self.program.dtype)
            read[0] = (machine.add("OneHot", [names["inputs"], np.int64(net.n_in), on], net.n_in, axis=-1), read[0][1])
        x = read[0][0] if len(read) == 1 else machine.concat([each for each, _ in read])
        blocks = np.concatenate([np.arange(n * H, (n + 1) * H) for n in gates.order])
        recurrent = [names[name].array for name in ("W_h", "W_hg") if name in names]
        W, R = np.concatenate([W for _, W in read]), np.concatenate(recurrent, axis=1)
        b = np.zeros((2, len(blocks)), self.program.dtype)
        if "b" in names:
            b[0] = names["b"].array[blocks]
        if "b_hn" in names:
            b[1, 2 * H :] = names["b_hn"].array
        if gates.kind == "RNN":
            options["activations"] = [ACTIVATIONS[net.options["activation"]]]
        weights = [
            Weight(f"{layer.group}.{name}", np.ascontiguousarray(value[None]))
            for name, value in (("W", W[:, blocks].T), ("R", R[:, blocks].T), ("B", b.reshape(-1)))
        ]
        apart = [machine.add("Unsqueeze", [value, np.array([0])]) for value in states.values()]
        y, *after = machine.add(gates.kind, [x, *weights, None, *apart], H, 1 + len(apart), hidden_size=H, **options)
        handed = machine.add("Squeeze", [y, np.array([1])], H)
        last = [machine.add("Squeeze", [value, np.array([0])], H) for value in after]
        return handed, dict(zip(states, last, strict=True))
