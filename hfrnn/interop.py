"""PyTorch's nn.LSTM and nn.RNN to hfrnn and back, by their state dicts; torch itself is never imported.

    torch                                               hfrnn
    weight_ih_l0 (G*H, n_in)                            layer0.W_x (n_in, G*H)
    weight_ih_l{l} (G*H, H of the layer below), l > 0   layer{l}.W_below (H, G*H)
    weight_hh_l{l} (G*H, H)                             layer{l}.W_h (H, G*H)
    bias_ih_l{l} (G*H,) and bias_hh_l{l} (G*H,)         layer{l}.b (G*H,), their sum
    nn.Linear: weight (n_out, H), bias (n_out,)         output.W_y{top} (H, n_out), output.b_y (n_out,)
    nn.Embedding: weight (V, n_emb)                     embedding.E (V, n_emb)

nn.LSTM has G = 4 blocks of H, in torch i, f, g, o and here i, f, o, g; nn.RNN has one. In torch an upper layer hears
only the layer below and only the top one speaks to the output: `direct_input=False, direct_output=False` here. nn.GRU
has no counterpart: there r acts after the product and on a bias of its own, `tanh(.. + r*(h' @ W + b))`, and in `gru`
before it, `tanh(.. + (r*h') @ W)`.
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
"""Names to torch tensors, NumPy arrays, or whatever `numpy.asarray` takes."""

ARCHITECTURES = {1: "rnn", 4: "lstm"}
"""The architecture of G blocks."""
ORDER = {1: [0], 4: [0, 1, 3, 2]}
"""The blocks of either library in the order of the other."""


@dataclass(frozen=True)
class Part:
    """One block of hfrnn and the tensors that it is the sum of; those of the recurrent module have G blocks."""

    name: str
    tensors: tuple[str, ...]
    blocks: int = 1
    transposed: bool = True

    def from_torch(self, value: HostArray) -> HostArray:
        """A tensor in hfrnn's layout."""
        value = self._reordered(value)
        return value.T if self.transposed else value

    def to_torch(self, value: HostArray) -> HostArray:
        """A block in torch's layout."""
        return self._reordered(value.T if self.transposed else value)

    def _reordered(self, value: HostArray) -> HostArray:
        apart = value.reshape(self.blocks, value.shape[0] // self.blocks, *value.shape[1:])
        return apart[ORDER[self.blocks]].reshape(value.shape)


def from_torch(state_dict: StateDict, *, embedding: str | None = None, **options: Any) -> tuple[Network, Array]:
    """The network that a PyTorch model is, and its parameters.

    The model is an nn.LSTM or nn.RNN (of any number of layers, in one direction, without projections) with an nn.Linear
    behind it and, maybe, an nn.Embedding before it. `net.run` gives its outputs in evaluation mode, without dropout.
    hfrnn is time-major, whatever the model's `batch_first`.

    Parameters
    ----------
    state_dict : mapping of name to tensor or array
        `model.state_dict()`, or arrays as `safetensors.numpy.load_file` gives them.
    embedding : str, optional
        The name of the nn.Embedding in the model, "embedding" for `embedding.weight`. Without one, inputs are one-hot
        symbols or real values.
    **options
        Of `hfrnn.Network`: `loss` ("softmax" by default: nn.CrossEntropyLoss), `dtype` (by default the state dict's),
        `backend`, `l2`; for nn.RNN also `activation` (by default "tanh"; the state dict does not say it).

    Returns
    -------
    net : Network
    theta : (n_parameters,) array
        Fresh, on the network's device. The map from state dicts to theta is linear: it turns a direction in the model's
        parameters into the same direction in hfrnn's.

    Raises
    ------
    InputError
        The model is not such a one, two of its tensors are one, or their shapes do not fit each other.
    """
    values = _on_host(state_dict)
    parts = _parts(values, embedding)
    taken = {"arch", "n_in", "hidden", "n_out", "embedding", "bias", "output_bias", "direct_input", "direct_output"}
    if chosen := sorted(taken & set(options)):
        raise InputError(f"{', '.join(chosen)} cannot be chosen: the state dict says it; leave it out")
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
    """The state dict of parameters, or of a direction in them: what `from_torch` turns into `theta` again.

    Parameters
    ----------
    net : Network
        As `from_torch` makes them.
    theta : (n_parameters,) array
    like : mapping of name to tensor or array
        The state dict of a model of this kind, for its names, types and devices; not written.
    embedding : str, optional
        As in `from_torch`.

    Returns
    -------
    dict of name to tensor or array
        Fresh; torch tensors where `like` has them, else NumPy arrays. Of a layer's two biases the first is hfrnn's and
        the second is 0.

    Raises
    ------
    InputError
        The network and the model are not of the same kind and sizes.
    """
    return _export(net, theta, like, embedding, second=0.0)


def gradient_to_torch(
    net: Network, gradient: Array, like: StateDict, *, embedding: str | None = None
) -> dict[str, Any]:
    """The gradient in the model's parameters of a function whose gradient in hfrnn's is given.

    So too for a curvature product `G @ v`. It is the transpose of `from_torch`: both biases of a layer get what hfrnn's
    one has. Parameters, returns and errors are those of `to_torch`.
    """
    return _export(net, gradient, like, embedding, second=1.0)


def _export(net: Network, vector: Array, like: StateDict, embedding: str | None, second: float) -> dict[str, Any]:
    """A vector as a state dict; the second tensor of a block gets `second` times what the first gets."""
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
    """A fresh copy of the value, of the type of the other."""
    if hasattr(like, "new_tensor"):
        return like.new_tensor(np.ascontiguousarray(value))
    return np.array(value, dtype=np.asarray(like).dtype, order="C")


def _on_host(state_dict: StateDict) -> dict[str, HostArray]:
    """Every tensor as a NumPy array, without a copy where it is in the host's memory."""
    values: dict[str, HostArray] = {}
    places: dict[int, str] = {}
    for name, value in state_dict.items():
        try:
            values[name] = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} is no array for NumPy ({error}): give float32 or float64") from error
        n = 2 if name.rpartition(".")[2].startswith("weight") else 1
        if values[name].ndim != n or not values[name].size:
            raise InputError(f"{name} has the shape {values[name].shape}: expected {n} sizes, 1 or more each")
        place = value.data_ptr() if hasattr(value, "data_ptr") else values[name].ctypes.data
        if place in places:
            raise InputError(f"{places[place]} and {name} are one tensor, and would be two in hfrnn: copy one of them")
        places[place] = name
    return values


def _parts(values: Mapping[str, HostArray], embedding: str | None) -> list[Part]:
    """The blocks of hfrnn and the tensors that make them; every tensor belongs to one."""
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
            f"beside {recurrent[0] or 'the recurrent module'} the state dict has {', '.join(rest) or 'nothing'}: "
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
    """The blocks of the layers, the recurrent matrix of the top one last."""
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
        reason = "is an nn.GRU, whose reset gate acts elsewhere than that of gru"
    elif {f"{prefix}{tensor}" for tensor in tensors} != {name for part in parts for name in part.tensors}:
        reason = f"has the tensors {', '.join(sorted(tensors))}"
    elif blocks not in ARCHITECTURES:
        reason = f"has {prefix}weight_hh_l0 of shape {(rows, H)}"
    if reason:
        raise InputError(f"{called} {reason}: hfrnn takes an nn.LSTM or nn.RNN in one direction, without projections")
    return parts


def _check(net: Network, parts: list[Part], values: Mapping[str, HostArray]) -> None:
    """Raise InputError unless the tensors are those of the network, in kind and shape."""
    arch = ARCHITECTURES[next(part.blocks for part in parts if part.name == "layer0.W_h")]
    if net.arch != arch:
        raise InputError(f"the network is {net.arch}, and the state dict is of {arch}: give two of a kind")
    shapes = {block.name: block.shape for block in net.parameters.blocks}
    if odd := sorted(set(shapes) ^ {part.name for part in parts}):
        raise InputError(
            f"{', '.join(odd)} is in one of the network and the state dict only: a network for PyTorch has "
            "direct_input and direct_output False, and biases where the model has them"
        )
    for part in parts:
        expected = shapes[part.name][::-1] if part.transposed else shapes[part.name]
        for name in part.tensors:
            if values[name].shape != expected:
                raise InputError(
                    f"{name} has the shape {values[name].shape}: in a model with the other tensors it has {expected}"
                )
