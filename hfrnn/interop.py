"""Convert PyTorch's nn.LSTM and nn.RNN to hfrnn and back through their state dicts; torch is never imported.

    torch                                               hfrnn
    weight_ih_l0 (G*H, n_in)                            layer0.W_x (n_in, G*H)
    weight_ih_l{l} (G*H, H of the layer below), l > 0   layer{l}.W_below (H, G*H)
    weight_hh_l{l} (G*H, H)                             layer{l}.W_h (H, G*H)
    bias_ih_l{l} (G*H,) and bias_hh_l{l} (G*H,)         layer{l}.b (G*H,), their sum
    nn.Linear: weight (n_out, H), bias (n_out,)         output.W_y{top} (H, n_out), output.b_y (n_out,)
    nn.Embedding: weight (V, n_emb)                     embedding.E (V, n_emb)

nn.LSTM has G = 4 blocks of H columns, in torch in the order i, f, g, o and here i, f, o, g; nn.RNN has one block. In
torch the input is connected only to the lowest layer and the output only to the top layer: here
`direct_input=False, direct_output=False`. nn.GRU has no counterpart: its reset gate acts after the product and also on
a bias, `tanh(.. + r*(h' @ W + b))`, while that of `gru` acts before the product, `tanh(.. + (r*h') @ W)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array, HostArray
from hfrnn.engine.network import Network
from hfrnn.errors import InputError

StateDict = Mapping[str, Any]
"""Tensors by name: torch tensors, NumPy arrays, or objects that `numpy.asarray` accepts."""

ARCHITECTURES = {1: "rnn", 4: "lstm"}
"""The architecture with G blocks."""
ORDER = {1: [0], 4: [0, 1, 3, 2]}
"""The order of the blocks of one library in the other; it is the same in both directions."""


@dataclass(frozen=True)
class Part:
    """A parameter of hfrnn and the tensors whose sum it is.

    Attributes
    ----------
    name : str
        The name of the parameter.
    tensors : tuple of str
        The names of the tensors.
    blocks : int
        G for tensors of the recurrent module, else 1.
    transposed : bool
        Whether the parameter is the transpose of the tensors.
    """

    name: str
    tensors: tuple[str, ...]
    blocks: int = 1
    transposed: bool = True

    def from_torch(self, value: HostArray) -> HostArray:
        """Return a tensor in hfrnn's layout."""
        value = self._reordered(value)
        return value.T if self.transposed else value

    def to_torch(self, value: HostArray) -> HostArray:
        """Return a parameter in torch's layout."""
        return self._reordered(value.T if self.transposed else value)

    def _reordered(self, value: HostArray) -> HostArray:
        """Exchange the order of the blocks along the first axis."""
        apart = value.reshape(self.blocks, value.shape[0] // self.blocks, *value.shape[1:])
        return apart[ORDER[self.blocks]].reshape(value.shape)


def from_torch(state_dict: StateDict, *, embedding: str | None = None, **options: Any) -> tuple[Network, Array]:
    """Convert the state dict of a PyTorch model to a network and its parameters.

    The model consists of an nn.LSTM or nn.RNN (any number of layers, one direction, no projections), an nn.Linear after
    it and, optionally, an nn.Embedding before it. `net.run` computes the model's outputs in evaluation mode, that is
    without dropout. hfrnn's arrays are always time-major, also if the model has `batch_first=True`.

    Parameters
    ----------
    state_dict : mapping of name to tensor or array
        The result of `model.state_dict()`, or of `safetensors.numpy.load_file`.
    embedding : str, optional
        The name of the nn.Embedding in the model, for example "embedding" for the tensor `embedding.weight`. Without an
        embedding, inputs are one-hot symbols or real values.
    **options
        Options of `hfrnn.Network`: `loss` ("softmax" by default, as nn.CrossEntropyLoss), `dtype` (by default that of
        the state dict), `backend`, `l2`; for nn.RNN also `activation` ("tanh" by default; the state dict does not
        contain it).

    Returns
    -------
    net : Network
    theta : (n_parameters,) array
        A new vector on the network's device. The map from state dicts to theta is linear, so it also converts a
        direction in the model's parameters to the same direction in theta.

    Raises
    ------
    InputError
        The model is of another kind, two of its tensors share memory, or their shapes do not fit together.
    """
    values = _on_host(state_dict)
    parts = _parts(values, embedding)
    taken = {"arch", "n_in", "hidden", "n_out", "embedding", "bias", "output_bias", "direct_input", "direct_output"}
    if chosen := sorted(taken & set(options)):
        raise InputError(f"{', '.join(chosen)} cannot be chosen, because the state dict determines it: leave it out")
    shapes = {part.name: values[part.tensors[0]].shape for part in parts}
    recurrent = [part for part in parts if part.name.endswith(".W_h")]
    net = Network(
        ARCHITECTURES[recurrent[0].blocks],
        n_in=shapes["embedding.E"][0] if embedding is not None else shapes["layer0.W_x"][1],
        hidden=[shapes[part.name][1] for part in recurrent],
        n_out=shapes[f"output.W_y{len(recurrent) - 1}"][0],
        embedding=shapes["embedding.E"][1] if embedding is not None else None,
        bias="layer0.b" in shapes,
        output_bias="output.b_y" in shapes,
        direct_input=False,
        direct_output=False,
        **{"dtype": str(np.result_type(*values.values())), **options},
    )
    _check(net, parts, values)
    theta = np.zeros(net.n_parameters, net.dtype)
    views = net.views(theta)
    for part in parts:
        for name in part.tensors:
            views[part.name][...] += part.from_torch(values[name])
    return net, net.backend.asarray(theta)


def to_torch(net: Network, theta: Array, like: StateDict, *, embedding: str | None = None) -> dict[str, Any]:
    """Convert parameters, or a direction in them, to a state dict; `from_torch` converts it back to `theta`.

    Parameters
    ----------
    net : Network
        A network of the kind that `from_torch` makes.
    theta : (n_parameters,) array
    like : mapping of name to tensor or array
        The state dict of a model of this kind. It determines names, types and devices, and is not changed.
    embedding : str, optional
        As for `from_torch`.

    Returns
    -------
    dict of name to tensor or array
        New tensors: torch tensors where `like` has them, else NumPy arrays. The first bias of a layer is hfrnn's bias,
        the second is 0.

    Raises
    ------
    InputError
        The network and the model differ in kind or sizes.
    """
    return _export(net, theta, like, embedding, second=0.0)


def gradient_to_torch(
    net: Network, gradient: Array, like: StateDict, *, embedding: str | None = None
) -> dict[str, Any]:
    """Convert a gradient, or a curvature product `G @ v`, to the model's parameters.

    This is the transpose of the linear map `from_torch`: both biases of a layer get the gradient of hfrnn's one bias.

    Parameters
    ----------
    net : Network
        A network of the kind that `from_torch` makes.
    gradient : (n_parameters,) array
    like, embedding
        As for `to_torch`.

    Returns
    -------
    dict of name to tensor or array
        As for `to_torch`.

    Raises
    ------
    InputError
        The network and the model differ in kind or sizes.
    """
    return _export(net, gradient, like, embedding, second=1.0)


def _export(net: Network, vector: Array, like: StateDict, embedding: str | None, second: float) -> dict[str, Any]:
    """Convert a vector to a state dict; the second tensor of a parameter gets `second` times the value of the first."""
    values = _on_host(like)
    parts = _parts(values, embedding)
    _check(net, parts, values)
    views = net.views(net.backend.to_host(vector))
    exported = {}
    for part in parts:
        value = part.to_torch(views[part.name])
        for name, factor in zip(part.tensors, (1.0, second), strict=False):
            exported[name] = _as(like[name], factor * value)
    return {name: exported[name] for name in like}


def _as(like: Any, value: HostArray) -> Any:
    """Return a copy of a value with the type of `like`."""
    if hasattr(like, "new_tensor"):
        return like.new_tensor(np.ascontiguousarray(value))
    return np.array(value, dtype=np.asarray(like).dtype, order="C")


def _on_host(state_dict: StateDict) -> dict[str, HostArray]:
    """Return every tensor as a NumPy array; tensors in CPU memory are not copied."""
    values: dict[str, HostArray] = {}
    places: dict[int, str] = {}
    for name, value in state_dict.items():
        try:
            values[name] = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} cannot be a NumPy array ({error}): give float32 or float64") from error
        n = 2 if name.rpartition(".")[2].startswith("weight") else 1
        if values[name].ndim != n or not values[name].size:
            raise InputError(f"{name} has the shape {values[name].shape}: expected {n} sizes, 1 or more each")
        place = value.data_ptr() if hasattr(value, "data_ptr") else values[name].ctypes.data
        if place in places:
            raise InputError(
                f"{places[place]} and {name} are one tensor, but separate parameters in hfrnn: copy one of them"
            )
        places[place] = name
    return values


def _parts(values: Mapping[str, HostArray], embedding: str | None) -> list[Part]:
    """Return the parameters of hfrnn with their tensors; every tensor belongs to one parameter."""
    modules: dict[str, set[str]] = {}
    for name in values:
        module, _, tensor = name.rpartition(".")
        modules.setdefault(module, set()).add(tensor)
    recurrent = [module for module, tensors in modules.items() if "weight_hh_l0" in tensors]
    if len(recurrent) != 1:
        raise InputError(
            f"the state dict has {len(recurrent)} recurrent modules (a tensor weight_hh_l0 each): give that of a model "
            "with one nn.LSTM or nn.RNN"
        )
    if embedding is not None and modules.get(embedding) != {"weight"}:
        raise InputError(f"the state dict has no nn.Embedding {embedding!r}: it has {', '.join(modules)}")
    rest = [module for module in modules if module not in (recurrent[0], embedding)]
    if len(rest) != 1 or not {"weight"} <= modules[rest[0]] <= {"weight", "bias"}:
        raise InputError(
            f"besides {recurrent[0] or 'the recurrent module'} the state dict has {', '.join(rest) or 'nothing'}: "
            "expected one nn.Linear, and the name of the nn.Embedding, if there is one, as embedding"
        )
    parts = [] if embedding is None else [Part("embedding.E", (f"{embedding}.weight",), transposed=False)]
    parts += _recurrent_parts(values, recurrent[0], modules[recurrent[0]])
    dot, top = "." if rest[0] else "", parts[-1].name.split(".")[0].removeprefix("layer")
    parts.append(Part(f"output.W_y{top}", (f"{rest[0]}{dot}weight",)))
    if "bias" in modules[rest[0]]:
        parts.append(Part("output.b_y", (f"{rest[0]}{dot}bias",)))
    return parts


def _recurrent_parts(values: Mapping[str, HostArray], module: str, tensors: set[str]) -> list[Part]:
    """Return the parameters of the recurrent layers; the last is the recurrent matrix of the top layer."""
    called, prefix = module or "the recurrent module", f"{module}." if module else ""
    rows, H = values[f"{prefix}weight_hh_l0"].shape
    layers, biased = sum(tensor.startswith("weight_hh_l") for tensor in tensors), "bias_hh_l0" in tensors
    parts, blocks = [], rows // H
    for l in range(layers):
        parts.append(Part(f"layer{l}.{'W_below' if l else 'W_x'}", (f"{prefix}weight_ih_l{l}",), blocks))
        if biased:
            parts.append(Part(f"layer{l}.b", (f"{prefix}bias_ih_l{l}", f"{prefix}bias_hh_l{l}"), blocks))
        parts.append(Part(f"layer{l}.W_h", (f"{prefix}weight_hh_l{l}",), blocks))
    reason = ""
    if any(tensor.endswith("_reverse") for tensor in tensors):
        reason = "runs in two directions"
    elif any(tensor.startswith("weight_hr") for tensor in tensors):
        reason = "has projections"
    elif blocks == 3:
        reason = "is an nn.GRU, whose reset gate acts at another place than that of gru"
    elif {f"{prefix}{tensor}" for tensor in tensors} != {name for part in parts for name in part.tensors}:
        reason = f"has the tensors {', '.join(sorted(tensors))}"
    elif blocks not in ARCHITECTURES:
        reason = f"has {prefix}weight_hh_l0 of shape {(rows, H)}"
    if reason:
        raise InputError(f"{called} {reason}: hfrnn takes an nn.LSTM or nn.RNN in one direction, without projections")
    return parts


def _check(net: Network, parts: list[Part], values: Mapping[str, HostArray]) -> None:
    """Raise InputError unless the tensors fit the network in kind and shape."""
    arch = ARCHITECTURES[next(part.blocks for part in parts if part.name == "layer0.W_h")]
    if net.arch != arch:
        raise InputError(
            f"the network is {net.arch}, and the state dict is of {arch}: give two of the same architecture"
        )
    shapes = {block.name: block.shape for block in net.parameters.blocks}
    if odd := sorted(set(shapes) ^ {part.name for part in parts}):
        raise InputError(
            f"{', '.join(odd)} is only in one of the network and the state dict: a network for PyTorch has "
            "direct_input and direct_output False, and biases where the model has them"
        )
    for part in parts:
        expected = shapes[part.name][::-1] if part.transposed else shapes[part.name]
        for name in part.tensors:
            if values[name].shape != expected:
                raise InputError(f"{name} has the shape {values[name].shape}: the other tensors require {expected}")
