"""Which tensors of a PyTorch model make up which parameter of hfrnn (table in `hfrnn.interop`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hfrnn.arrays.backend import HostArray
from hfrnn.checks import shown
from hfrnn.engine.network import Network
from hfrnn.errors import InputError

MODULES = "nn.LSTM, nn.GRU or nn.RNN"
EXPECTED = f"one {MODULES}, one nn.Linear after it and, named as embedding, one nn.Embedding before it"
"""The models that have a counterpart."""
ARCHITECTURES = {1: "rnn", 3: "gru-torch", 4: "lstm"}
"""The architecture with G blocks."""
ORDER = {1: [0], 3: [0, 1, 2], 4: [0, 1, 3, 2]}
"""The order of the blocks of one library in the other; it is the same in both directions."""


@dataclass(frozen=True)
class Piece:
    """Rows of a tensor, by name, that are added to the first rows of a parameter, in torch's layout."""

    tensor: str
    start: int = 0
    stop: int | None = None

    def of(self, values: Mapping[str, HostArray]) -> HostArray:
        """Return a view of the rows."""
        return values[self.tensor][self.start : self.stop]


@dataclass(frozen=True)
class TensorSum:
    """A parameter of hfrnn and the tensors whose sum it is."""

    name: str
    pieces: tuple[Piece, ...]
    blocks: int = 1  # G for tensors of the recurrent module
    transposed: bool = True  # whether the parameter is the transpose of the tensors

    def from_torch(self, values: Mapping[str, HostArray], parameter: HostArray) -> None:
        """Write the sum of the tensors to the parameter."""
        value = np.zeros(parameter.shape[::-1] if self.transposed else parameter.shape, parameter.dtype)
        for piece in self.pieces:
            rows = piece.of(values)
            value[: len(rows)] += rows
        value = self._reordered(value)
        parameter[...] = value.T if self.transposed else value

    def to_torch(self, parameter: HostArray, tensors: Mapping[str, HostArray], second: float) -> None:
        """Write the parameter to its first tensor, and `second` times the parameter to its second tensor."""
        value = self._reordered(parameter.T if self.transposed else parameter)
        for piece, factor in zip(self.pieces, (1.0, second), strict=False):
            rows = piece.of(tensors)
            rows[...] = factor * value[: len(rows)]

    def _reordered(self, value: HostArray) -> HostArray:
        """Exchange the order of the blocks along the first axis."""
        apart = value.reshape(self.blocks, value.shape[0] // self.blocks, *value.shape[1:])
        return apart[ORDER[self.blocks]].reshape(value.shape)


def parts_of(values: Mapping[str, HostArray], embedding: str | None, of_module: bool = False) -> list[TensorSum]:
    """Return the parameters of hfrnn with their tensors; every row of a tensor belongs to one parameter.

    Tensors of a module (`of_module`) tell the name of its embedding; a state dict does not.
    """
    modules: dict[str, set[str]] = {}
    for name in values:
        module, _, tensor = name.rpartition(".")
        modules.setdefault(module, set()).add(tensor)
    recurrent = [module for module, tensors in modules.items() if "weight_hh_l0" in tensors]
    if len(recurrent) != 1:
        many = f"{len(recurrent)} recurrent modules (a tensor weight_hh_l0 each)"
        raise InputError(f"the model has {many}: give a model with one {MODULES}")
    if embedding is not None and modules.get(embedding) != {"weight"}:
        raise InputError(
            f"embedding is {shown(embedding)}, but the model has no such nn.Embedding: it has {', '.join(modules)}"
        )
    rest = [module for module in modules if module not in (recurrent[0], embedding)]
    matrices = [m for m in rest if "weight" in modules[m] and values[_joined(m, "weight")].ndim == 2]
    linear = {_joined(module, tensor) for module in matrices for tensor in ("weight", "bias")}
    names = [_joined(module, tensor) for module in rest for tensor in sorted(modules[module])]
    if unknown := [name for name in names if name not in linear]:
        raise InputError(f"{', '.join(unknown)} cannot be placed in a network of hfrnn: expected {EXPECTED}")
    if len(matrices) != 1:
        named = "" if of_module else ", and the name of the nn.Embedding, if there is one, as embedding"
        raise InputError(
            f"besides {recurrent[0] or 'the recurrent module'} the model has {', '.join(matrices) or 'nothing'}: "
            f"expected one nn.Linear{named}"
        )
    for name, value in values.items():
        n = 2 if name.rpartition(".")[2].startswith("weight") else 1
        if value.ndim != n:
            raise InputError(f"{name} has the shape {value.shape}: expected {n} sizes")
    parts = [] if embedding is None else [TensorSum("embedding.E", (Piece(f"{embedding}.weight"),), transposed=False)]
    parts += _recurrent_parts(values, recurrent[0], modules[recurrent[0]])
    top = parts[-1].name.split(".")[0].removeprefix("layer")
    parts.append(TensorSum(f"output.W_y{top}", (Piece(_joined(matrices[0], "weight")),)))
    if "bias" in modules[matrices[0]]:
        parts.append(TensorSum("output.b_y", (Piece(_joined(matrices[0], "bias")),)))
    return parts


def _joined(module: str, tensor: str) -> str:
    """Return the name of a tensor in the state dict; the module of a model that is one module has no name."""
    return f"{module}.{tensor}" if module else tensor


def _recurrent_parts(values: Mapping[str, HostArray], module: str, tensors: set[str]) -> list[TensorSum]:
    """Return the parameters of the recurrent layers; the last is the recurrent matrix of the top layer."""
    called, prefix = module or "the recurrent module", f"{module}." if module else ""
    rows, H = values[f"{prefix}weight_hh_l0"].shape
    layers, biased = sum(tensor.startswith("weight_hh_l") for tensor in tensors), "bias_hh_l0" in tensors
    parts, blocks = [], rows // H
    for l in range(layers):
        tensor = {kind: f"{prefix}{kind}_l{l}" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        parts.append(TensorSum(f"layer{l}.{'W_below' if l else 'W_x'}", (Piece(tensor["weight_ih"]),), blocks))
        gru = blocks == 3  # the candidate's second bias is b_hn
        if biased:
            second = Piece(tensor["bias_hh"], stop=2 * H if gru else None)
            parts.append(TensorSum(f"layer{l}.b", (Piece(tensor["bias_ih"]), second), blocks))
            if gru:
                parts.append(TensorSum(f"layer{l}.b_hn", (Piece(tensor["bias_hh"], start=2 * H),)))
        parts.append(TensorSum(f"layer{l}.W_h", (Piece(tensor["weight_hh"]),), blocks))
    reason = ""
    if any(tensor.endswith("_reverse") for tensor in tensors):
        reason = "runs in two directions"
    elif any(tensor.startswith("weight_hr") for tensor in tensors):
        reason = "has projections"
    elif {f"{prefix}{tensor}" for tensor in tensors} != {piece.tensor for part in parts for piece in part.pieces}:
        reason = f"has the tensors {', '.join(sorted(tensors))}"
    elif blocks not in ARCHITECTURES:
        reason = f"has {prefix}weight_hh_l0 of shape {(rows, H)}"
    if reason:
        raise InputError(f"{called} {reason}: hfrnn takes an {MODULES} in one direction, without projections")
    return parts


def check_parts(net: Network, parts: list[TensorSum], values: Mapping[str, HostArray]) -> None:
    """Raise InputError unless the tensors fit the network in kind and shape."""
    arch = ARCHITECTURES[next(part.blocks for part in parts if part.name == "layer0.W_h")]
    if net.arch != arch:
        raise InputError(f"the network is {net.arch}, and the state dict is of {arch}: give two of one architecture")
    if net.learn_initial_state:
        raise InputError(
            "the network learns its initial state, and the recurrent modules of PyTorch have no parameter for it: "
            "convert a network without learn_initial_state"
        )
    shapes = {block.name: block.shape for block in net.parameters.blocks}
    if odd := sorted(set(shapes) ^ {part.name for part in parts}):
        raise InputError(
            f"{', '.join(odd)} is only in one of the network and the state dict: a network for PyTorch has "
            "direct_input and direct_output False, and biases where the model has them (candidate_bias too)"
        )
    for part in parts:
        shape = shapes[part.name]
        expected = tuple(shape[::-1] if part.transposed else shape)
        for tensor in (piece.tensor for piece in part.pieces if piece.start == 0):
            if values[tensor].shape != expected:
                raise InputError(f"{tensor} has the shape {values[tensor].shape}: the other tensors require {expected}")
