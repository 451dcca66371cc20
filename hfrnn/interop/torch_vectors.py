"""Vectors in the order of a PyTorch model's parameters, and the linear map between them and theta."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from hfrnn.arrays.array_checks import is_tensor
from hfrnn.arrays.backend import Array
from hfrnn.arrays.tensors import shared
from hfrnn.checks import flag, instance, shown
from hfrnn.engine.network import Network
from hfrnn.engine.tensor_operator import vector_of
from hfrnn.errors import InputError
from hfrnn.interop.models import on_host, read_model
from hfrnn.interop.torch_parameters import check_parts, parts_of
from hfrnn.wording import counted


class TorchLayout:
    """The order of a PyTorch model's parameters, and the linear map P from it to the order of theta.

    PyTorch's vectors are those of `torch.nn.utils.parameters_to_vector(model.parameters())`. P changes the order of the
    entries and adds up the two biases of a layer, so a gradient returns by its transpose P'. In PyTorch's order, a
    curvature matrix G is P' G P: `G.to_torch(layout)`. With `trainable`, vectors have the parameters that require a
    gradient, in the order of `[p for p in model.parameters() if p.requires_grad]`; P adds zeros for the others.

    Parameters
    ----------
    net : Network
        A network of the kind that `from_torch` makes.
    like : torch.nn.Module, or mapping of name to tensor or array
        The model, or its state dict. Only names, shapes and order are read.
    embedding : str, optional
        The name of the nn.Embedding; not needed with a module.
    trainable : bool
        Whether to leave out parameters that require no gradient. This needs the module.

    Attributes
    ----------
    names, shapes : tuple of str, tuple of tuple of int
        Names and shapes of the parameters, in their order.
    size : int
        Number of entries of a vector of PyTorch; larger than `net.n_parameters` if layers have two biases.

    Raises
    ------
    InputError
        The network and the model differ in kind or sizes, or no parameter is left.

    Examples
    --------
    >>> import torch
    >>> import hfrnn
    >>> from hfrnn.interop import TorchLayout, from_torch
    >>> model = torch.nn.Sequential(torch.nn.LSTM(2, 3), torch.nn.Linear(3, 1))
    >>> net, theta = from_torch(model, loss="squared")
    >>> layout, batch = TorchLayout(net, model), hfrnn.Batch(torch.ones(5, 4, 2), torch.ones(5, 4, 1))
    >>> G = hfrnn.Objective(net, batch).gauss_newton(theta).to_torch(layout)
    >>> (G @ torch.ones(layout.size)).shape
    torch.Size([88])
    """

    def __init__(self, net: Network, like: Any, *, embedding: str | None = None, trainable: bool = False) -> None:
        self.net: Network = instance("net", net, Network, "a hfrnn.Network")
        model = read_model("like", like, embedding)
        values = on_host(model.tensors)
        parts = parts_of(values, model.embedding, model.of_module)
        check_parts(net, parts, values)
        if flag("trainable", trainable) and model.frozen is None:
            raise InputError("trainable needs the model: a state dict does not tell what requires a gradient")
        frozen = model.frozen if trainable and model.frozen else frozenset()
        self.names = tuple(name for name in values if name not in frozen)
        if not self.names:
            raise InputError("no parameter of the model requires a gradient: leave trainable out")
        self.shapes = tuple(values[name].shape for name in self.names)
        self._edges = [0, *accumulate(math.prod(shape) for shape in self.shapes)]
        self.size = self._edges[-1]
        views = net.views(np.arange(net.n_parameters, dtype=np.float64))
        index = {name: np.empty(value.shape) for name, value in values.items()}
        for part in parts:
            part.to_torch(views[part.name], index, second=1.0)
        owner = np.concatenate([index[name].ravel() for name in self.names]).astype(np.int64)
        owned, first = np.unique(owner, return_index=True)
        second = np.setdiff1d(np.arange(self.size), first)
        asarray = net.backend.asarray
        self._owner = asarray(owner)  # (size,): the entry of theta that each entry belongs to
        self._owned, self._first = asarray(owned), asarray(first)  # those entries of theta, and who comes first
        self._second, self._to = asarray(second), asarray(owner[second])  # entries that are added to others

    def direction(self, v: Any) -> Array:
        """Return P v: a direction in the model's parameters as one in theta, (n_parameters,) or (n_parameters, k).

        v is a tensor or array (size,) or (size, k), or a dict of name to tensor or array. The parameters themselves
        give theta: `direction(dict(model.named_parameters()))`, without `trainable`.
        """
        v = vector_of("v", self.join(v) if isinstance(v, Mapping) else v, self.size, self.net.backend)
        found = v[self._first]
        if self._owned.size < self.net.n_parameters:
            among, found = found, self.net.backend.zeros((self.net.n_parameters, *v.shape[1:]), v.dtype)
            found[self._owned] = among
        if self._second.size:
            found[self._to] += v[self._second]
        return found

    def gradient(self, g: Any) -> Array:
        """Return P' g: a gradient or a product `G @ v` in the order of the model, (size,) or (size, k)."""
        return vector_of("g", g, self.net.n_parameters, self.net.backend)[self._owner]

    def parameters(self, theta: Any) -> Array:
        """Return theta, or a direction in it, in the order of the model, (size,) or (size, k); second biases are 0."""
        found = vector_of("theta", theta, self.net.n_parameters, self.net.backend)[self._owner]
        found[self._second] = 0  # the first of them has the whole
        return found

    def split(self, vector: Any) -> dict[str, Any]:
        """Return the parts of a vector (size,) by name; they are views, tensors if the vector is one."""
        if tuple(getattr(vector, "shape", ())) != (self.size,):
            raise InputError(f"vector is {shown(vector)}: give an array or tensor of shape {(self.size,)}")
        edges = zip(self._edges[:-1], self._edges[1:], strict=True)
        return {
            name: vector[start:stop].reshape(shape)
            for name, shape, (start, stop) in zip(self.names, self.shapes, edges, strict=True)
        }

    def named(self, parts: Sequence[Any]) -> dict[str, Any]:
        """Return tensors or arrays in the order of the model's parameters as a dict, by name."""
        if len(parts) != len(self.names):
            raise InputError(
                f"v has {counted(len(parts), 'tensor')}, and the model has {counted(len(self.names), 'parameter')}: "
                "give one for each, or a dict of name to tensor"
            )
        return dict(zip(self.names, parts, strict=True))

    def join(self, parts: Mapping[str, Any]) -> Array:
        """Return the vector (size,) of a dict of tensors or arrays by name."""
        if odd := sorted(set(parts) ^ set(self.names), key=str):
            raise InputError(f"v and the model differ in {', '.join(map(str, odd))}: give a tensor for each parameter")
        flat = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            value = shared(name, parts[name], self.net.backend) if is_tensor(parts[name]) else parts[name]
            if tuple(np.shape(value)) != shape:
                raise InputError(f"{name} has the shape {tuple(np.shape(value))}: the model's has {shape}")
            flat.append(self.net.backend.asarray(value).reshape(-1))
        return self.net.backend.xp.concatenate(flat)
