"""Convert PyTorch's nn.LSTM and nn.RNN to hfrnn and back; torch is never imported.

    torch                                               hfrnn
    weight_ih_l0 (G*H, n_in)                            layer0.W_x (n_in, G*H)
    weight_ih_l{l} (G*H, H of the layer below), l > 0   layer{l}.W_below (H, G*H)
    weight_hh_l{l} (G*H, H)                             layer{l}.W_h (H, G*H)
    bias_ih_l{l} (G*H,) and bias_hh_l{l} (G*H,)         layer{l}.b (G*H,), their sum
    nn.Linear: weight (n_out, H), bias (n_out,)         output.W_y{top} (H, n_out), output.b_y (n_out,)
    nn.Embedding: weight (V, n_emb)                     embedding.E (V, n_emb)

nn.LSTM has G = 4 blocks of H columns, in torch in the order i, f, g, o and here i, f, o, g; nn.RNN has one block. In
torch the input is connected only to the lowest layer and the output only to the top layer: here
`direct_input=False, direct_output=False`. An nn.GRU is not converted. It computes the same as `gru-torch`: its
reset gate acts after the product and also on a bias, `tanh(.. + r*(h' @ W + b))`, while that of `gru` acts before the
product, `tanh(.. + (r*h') @ W)`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array, HostArray
from hfrnn.arrays.checks import array
from hfrnn.checks import instance, shown, string
from hfrnn.engine.network import Network
from hfrnn.errors import InputError

StateDict = Mapping[str, Any]
"""Tensors by name: torch tensors, NumPy arrays, or objects that `numpy.asarray` accepts."""

EXPECTED = "one nn.LSTM or nn.RNN, one nn.Linear after it and, named as embedding, one nn.Embedding before it"
"""The models that have a counterpart."""
WITHOUT_EFFECT = ("Dropout", "Identity", "Loss")
"""Ends of the class names of modules without tensors that do not change the outputs of a model in evaluation mode."""
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


def from_torch(model: Any, *, embedding: str | None = None, **options: Any) -> tuple[Network, Array]:
    """Convert a PyTorch model, or its state dict, to a network and its parameters.

    The model consists of an nn.LSTM or nn.RNN (any number of layers, one direction, no projections), an nn.Linear after
    it and, optionally, an nn.Embedding before it. `net.run` computes the model's outputs in evaluation mode, that is
    without dropout. hfrnn's arrays are always time-major, also if the model has `batch_first=True`. What the model's
    `forward` does between these modules cannot be seen and is not converted.

    Parameters
    ----------
    model : torch.nn.Module, or mapping of name to tensor or array
        The model; or the result of its `state_dict()`, or of `safetensors.numpy.load_file`.
    embedding : str, optional
        The name of the nn.Embedding in the model, for example "embedding" for the tensor `embedding.weight`. Without an
        embedding, inputs are one-hot symbols or real values.
    **options
        Options of `hfrnn.Network`: `loss` ("softmax" by default, as nn.CrossEntropyLoss), `dtype` (by default that of
        the tensors), `backend`, `l2`. The state dict of an nn.RNN also needs `activation`, "tanh" or "relu", because
        PyTorch does not store its `nonlinearity` there; a module has it.

    Returns
    -------
    net : Network
    theta : (n_parameters,) array
        A new vector on the network's device. The map from state dicts to theta is linear, so it also converts a
        direction in the model's parameters to the same direction in theta.

    Raises
    ------
    InputError
        The model is of another kind, two of its tensors share memory, their shapes do not fit together, or the
        activation of an nn.RNN is not known.
    """
    values = _on_host(_state_dict("model", model))
    string("embedding", embedding, "the name of a module", or_none=True)
    parts = _parts(values, embedding)
    taken = {"arch", "n_in", "hidden", "n_out", "embedding", "bias", "output_bias", "direct_input", "direct_output"}
    if chosen := sorted(taken & set(options)):
        raise InputError(f"{', '.join(chosen)} cannot be chosen, because the model determines it: leave it out")
    shapes = {part.name: values[part.tensors[0]].shape for part in parts}
    recurrent = [part for part in parts if part.name.endswith(".W_h")]
    arch = ARCHITECTURES[recurrent[0].blocks]
    if arch == "rnn":
        options["activation"] = _activation(model, recurrent[0].tensors[0], options.get("activation"))
    net = Network(
        arch,
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


def to_torch(net: Network, theta: Array, like: Any, *, embedding: str | None = None) -> dict[str, Any]:
    """Convert parameters, or a direction in them, to a state dict; `from_torch` converts it back to `theta`.

    Parameters
    ----------
    net : Network
        A network of the kind that `from_torch` makes.
    theta : (n_parameters,) array
    like : torch.nn.Module, or mapping of name to tensor or array
        A model of this kind, or its state dict. It determines names, types and devices, and is not changed.
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
    return _export("theta", net, theta, like, embedding, second=0.0)


def gradient_to_torch(net: Network, gradient: Array, like: Any, *, embedding: str | None = None) -> dict[str, Any]:
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
    return _export("gradient", net, gradient, like, embedding, second=1.0)


def _export(
    argument: str, net: Network, vector: Array, like: Any, embedding: str | None, second: float
) -> dict[str, Any]:
    """Convert a vector to a state dict; the second tensor of a parameter gets `second` times the value of the first."""
    instance("net", net, Network, "a hfrnn.Network")
    like = _state_dict("like", like)
    values = _on_host(like)
    string("embedding", embedding, "the name of a module", or_none=True)
    parts = _parts(values, embedding)
    _check(net, parts, values)
    vector = array(argument, vector, (net.n_parameters,), backend=net.backend)
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


def _is_module(model: Any) -> bool:
    return hasattr(model, "state_dict") and hasattr(model, "named_modules")


def _state_dict(argument: str, model: Any) -> StateDict:
    """Return the state dict of a module, or the mapping itself."""
    if _is_module(model):
        for name, module in model.named_modules():
            kind = str(getattr(module, "original_name", type(module).__name__))
            if not (any(module.children()) or module.state_dict() or kind.rstrip("123d").endswith(WITHOUT_EFFECT)):
                raise InputError(
                    f"the model has the module {name or kind} ({kind}), which hfrnn does not compute: give model."
                    "state_dict() if it does not change the outputs"
                )
        model = model.state_dict()
    if isinstance(model, str | os.PathLike):
        raise InputError(
            f"{argument} is the path {shown(os.fspath(model))}: load the file and give the state dict, as from "
            "safetensors.numpy.load_file(path) or torch.load(path)"
        )
    if not isinstance(model, Mapping):
        raise InputError(f"{argument} is {shown(model)}: give a torch.nn.Module or its state dict, model.state_dict()")
    return model


def _activation(model: Any, tensor: str, given: Any) -> Any:
    """Return the activation of an nn.RNN: that of the module, or the given one."""
    own = None
    if _is_module(model):
        own = getattr(dict(model.named_modules())[tensor.rpartition(".")[0]], "nonlinearity", None)
    if own is None and given is None:
        raise InputError(
            'a state dict does not hold the nonlinearity of an nn.RNN: add activation="tanh" or activation="relu", or '
            "give the module itself"
        )
    if None not in (own, given) and own != given:
        raise InputError(f"activation is {given!r}, but the nn.RNN has the nonlinearity {own!r}: leave activation out")
    return given if own is None else own


def _on_host(state_dict: StateDict) -> dict[str, HostArray]:
    """Return every tensor as a NumPy array; tensors in CPU memory are not copied."""
    values: dict[str, HostArray] = {}
    places: dict[int, str] = {}
    for name, value in state_dict.items():
        try:
            values[name] = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{name} cannot be a NumPy array ({error}): give float32 or float64") from error
        if not isinstance(name, str) or values[name].dtype.kind == "O":
            raise InputError(
                f"the entry {name!r} is of type {type(value).__name__}, not a tensor with a name: give the state dict "
                "only, if it is one entry of a checkpoint"
            )
        if not values[name].size:
            raise InputError(f"{name} has the shape {values[name].shape}: expected sizes of 1 or more")
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
            f"the model has {len(recurrent)} recurrent modules (a tensor weight_hh_l0 each): "
            "give a model with one nn.LSTM or nn.RNN"
        )
    if embedding is not None and modules.get(embedding) != {"weight"}:
        raise InputError(
            f"embedding is {shown(embedding)}, but the model has no such nn.Embedding: it has {', '.join(modules)}"
        )
    rest = [module for module in modules if module not in (recurrent[0], embedding)]
    matrices = [m for m in rest if "weight" in modules[m] and values[_joined(m, "weight")].ndim == 2]
    linear = {_joined(module, tensor) for module in matrices for tensor in ("weight", "bias")}
    unknown = [_joined(module, tensor) for module in rest for tensor in sorted(modules[module])]
    if unknown := [name for name in unknown if name not in linear]:
        raise InputError(f"{', '.join(unknown)} cannot be placed in a network of hfrnn: expected {EXPECTED}")
    if len(matrices) != 1:
        raise InputError(
            f"besides {recurrent[0] or 'the recurrent module'} the model has {', '.join(matrices) or 'nothing'}: "
            "expected one nn.Linear, and the name of the nn.Embedding, if there is one, as embedding"
        )
    for name, value in values.items():
        n = 2 if name.rpartition(".")[2].startswith("weight") else 1
        if value.ndim != n:
            raise InputError(f"{name} has the shape {value.shape}: expected {n} sizes")
    parts = [] if embedding is None else [Part("embedding.E", (f"{embedding}.weight",), transposed=False)]
    parts += _recurrent_parts(values, recurrent[0], modules[recurrent[0]])
    top = parts[-1].name.split(".")[0].removeprefix("layer")
    parts.append(Part(f"output.W_y{top}", (_joined(matrices[0], "weight"),)))
    if "bias" in modules[matrices[0]]:
        parts.append(Part("output.b_y", (_joined(matrices[0], "bias"),)))
    return parts


def _joined(module: str, tensor: str) -> str:
    """Return the name of a tensor in the state dict; the module of a model that is one module has no name."""
    return f"{module}.{tensor}" if module else tensor


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
    if net.learn_initial_state:
        raise InputError(
            "the network learns its initial state, and the recurrent modules of PyTorch have no parameter for it: "
            "convert a network without learn_initial_state"
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
