"""Convert PyTorch's nn.LSTM, nn.GRU and nn.RNN to hfrnn and back; torch is never imported.

    torch                                               hfrnn
    weight_ih_l0 (G*H, n_in)                            layer0.W_x (n_in, G*H)
    weight_ih_l{l} (G*H, H of the layer below), l > 0   layer{l}.W_below (H, G*H)
    weight_hh_l{l} (G*H, H)                             layer{l}.W_h (H, G*H)
    bias_ih_l{l} (G*H,) and bias_hh_l{l} (G*H,)         layer{l}.b (G*H,), their sum
    nn.GRU: the last H rows of bias_hh_l{l}             layer{l}.b_hn (H,); they are not added to layer{l}.b
    nn.Linear: weight (n_out, H), bias (n_out,)         output.W_y{top} (H, n_out), output.b_y (n_out,)
    nn.Embedding: weight (V, n_emb)                     embedding.E (V, n_emb)

nn.LSTM has G = 4 blocks of H columns, in torch in the order i, f, g, o and here i, f, o, g. nn.GRU has three, in both
in the order r, z, n, and nn.RNN has one. In torch the input is connected only to the lowest layer and the output only
to the top layer: here `direct_input=False, direct_output=False`. An nn.GRU is the architecture `gru-torch`, whose reset
gate acts after the recurrent product and on b_hn. `gru` is another function. An nn.GRU without biases has no b_hn:
`candidate_bias=False`.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from hfrnn.arrays.array_checks import array
from hfrnn.arrays.backend import Array, HostArray
from hfrnn.checks import instance
from hfrnn.engine.network import Network
from hfrnn.errors import InputError
from hfrnn.interop.models import TorchModel, on_host, read_model
from hfrnn.interop.torch_parameters import ARCHITECTURES, check_parts, parts_of
from hfrnn.interop.torch_vectors import TorchLayout

__all__ = ["TorchLayout", "from_torch", "gradient_to_torch", "to_torch"]

DETERMINED = {
    "arch", "n_in", "hidden", "n_out", "embedding", "bias", "output_bias", "direct_input", "direct_output",
    "candidate_bias",
}  # fmt: skip
"""Options of a network that the model determines."""


def from_torch(model: Any, *, embedding: str | None = None, **options: Any) -> tuple[Network, Array]:
    """Convert a PyTorch model, or its state dict, to a network and its parameters.

    The model contains an nn.LSTM, nn.GRU or nn.RNN (any number of layers, one direction, no projections), an nn.Linear
    after it and, optionally, an nn.Embedding before it; they may be anywhere in it. `net.run` computes the model's
    outputs in evaluation mode, that is without dropout. hfrnn's arrays are always time-major, also if the model has
    `batch_first=True`. What the model's `forward` does between these modules cannot be seen and is not converted.

    Parameters
    ----------
    model : torch.nn.Module, or mapping of name to tensor or array
        The model; or the result of its `state_dict()`, or of `safetensors.numpy.load_file`.
    embedding : str, optional
        The name of the nn.Embedding, for example "embedding" for the tensor `embedding.weight`. A module tells it; a
        state dict does not. Without an embedding, inputs are one-hot symbols or real values.
    **options
        Options of `hfrnn.Network`: `loss` ("softmax" by default, as nn.CrossEntropyLoss), `dtype` (by default that of
        the tensors; needed for bfloat16), `backend`, `l2`. The state dict of an nn.RNN also needs `activation`, "tanh"
        or "relu", because PyTorch does not store its `nonlinearity` there; a module has it.

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
        activation of an nn.RNN is not known. The message names every module that was not understood.

    Warns
    -----
    HfrnnWarning
        The model has dropout and is in training mode; its nn.Embedding treats gradients in a way of its own
        (`padding_idx`, `scale_grad_by_freq`); its recurrent layer has `batch_first`; some of its parameters require no
        gradient; or one of its modules is of a subclass with a `forward` of its own.

    Examples
    --------
    >>> import torch
    >>> import hfrnn
    >>> from hfrnn.interop import from_torch
    >>> net, theta = from_torch(torch.nn.Sequential(torch.nn.LSTM(2, 3), torch.nn.Linear(3, 1)), loss="squared")
    >>> net
    <Network lstm 3, 2 in, 1 out (squared), 76 weights>
    >>> theta.shape
    (76,)
    """
    source = read_model("model", model, embedding)
    values, embedding = on_host(source.tensors, options.get("dtype")), source.embedding
    parts = parts_of(values, embedding, source.of_module)
    if chosen := sorted(DETERMINED & set(options)):
        raise InputError(f"{', '.join(chosen)} cannot be chosen, because the model determines it: leave it out")
    shapes = {part.name: values[part.pieces[0].tensor].shape for part in parts}
    recurrent = [part for part in parts if part.name.endswith(".W_h")]
    arch = ARCHITECTURES[recurrent[0].blocks]
    if arch == "rnn":
        options["activation"] = _activation(source, options.get("activation"))
    elif arch == "gru-torch":
        options["candidate_bias"] = "layer0.b_hn" in shapes
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
    check_parts(net, parts, values)
    theta = np.zeros(net.n_parameters, net.dtype)
    views = net.views(theta)
    for part in parts:
        part.from_torch(values, views[part.name])
    source.warn()
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
        the second is 0; that of an nn.GRU ends in b_hn. Buffers of a module are copied.

    Raises
    ------
    InputError
        The network and the model differ in kind or sizes.

    Examples
    --------
    >>> import torch
    >>> from hfrnn.interop import from_torch, to_torch
    >>> model = torch.nn.Sequential(torch.nn.RNN(2, 3), torch.nn.Linear(3, 1))
    >>> net, theta = from_torch(model)
    >>> model.load_state_dict(to_torch(net, 2 * theta, model))
    <All keys matched successfully>
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
        As for `to_torch`, with the same errors.

    Examples
    --------
    >>> import torch
    >>> import hfrnn
    >>> from hfrnn.interop import from_torch, gradient_to_torch
    >>> model = torch.nn.Sequential(torch.nn.RNN(2, 3), torch.nn.Linear(3, 1))
    >>> net, theta = from_torch(model, loss="squared")
    >>> _, gradient = net.loss_and_gradient(theta, hfrnn.Batch(torch.ones(5, 4, 2), torch.ones(5, 4, 1)))
    >>> gradient_to_torch(net, gradient, model)["1.weight"].shape
    torch.Size([1, 3])
    """
    return _export("gradient", net, gradient, like, embedding, second=1.0)


def _export(
    argument: str, net: Network, vector: Array, like: Any, embedding: str | None, second: float
) -> dict[str, Any]:
    """Convert a vector to a state dict; the second tensor of a parameter gets `second` times the value of the first."""
    instance("net", net, Network, "a hfrnn.Network")
    model = read_model("like", like, embedding)
    like, values = model.tensors, on_host(model.tensors)
    parts = parts_of(values, model.embedding, model.of_module)
    check_parts(net, parts, values)
    vector = array(argument, vector, (net.n_parameters,), backend=net.backend)
    views = net.views(net.backend.to_host(vector))
    tensors = {name: np.zeros(value.shape, vector.dtype) for name, value in values.items()}
    for part in parts:
        part.to_torch(views[part.name], tensors, second)
    found = {name: _as(like[name], tensors[name]) for name in like}
    return found | {name: copy.deepcopy(tensor) for name, tensor in model.others.items()}


def _activation(model: TorchModel, given: Any) -> Any:
    """Return the activation of an nn.RNN: that of the module, or the given one."""
    own = model.activation
    if own is None and given is None:
        raise InputError(
            'a state dict does not hold the nonlinearity of an nn.RNN: add activation="tanh" or activation="relu", or '
            "give the module itself"
        )
    if None not in (own, given) and own != given:
        raise InputError(f"activation is {given!r}, but the nn.RNN has the nonlinearity {own!r}: leave activation out")
    return given if own is None else own


def _as(like: Any, value: HostArray) -> Any:
    """Return a copy of a value with the type of `like`."""
    if hasattr(like, "new_tensor"):
        return like.new_tensor(np.ascontiguousarray(value))
    return np.array(value, dtype=np.asarray(like).dtype, order="C")
