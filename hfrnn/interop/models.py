"""Read a PyTorch model without importing torch: modules are recognised by the names of their classes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hfrnn.arrays.backend import HostArray
from hfrnn.checks import shown, string
from hfrnn.errors import HfrnnWarning, InputError

StateDict = Mapping[str, Any]
"""Tensors by name: torch tensors, NumPy arrays, or objects that `numpy.asarray` accepts."""

RECURRENT = ("LSTM", "GRU", "RNN")
COMPUTED = (*RECURRENT, "Linear", "Embedding")
"""Classes of PyTorch that hfrnn computes."""
CONTAINERS = ("Module", "Sequential", "ModuleDict", "ModuleList", "DataParallel", "DistributedDataParallel")
"""Classes of PyTorch whose subclasses hold other modules and have an own `forward`, which cannot be seen."""
WITHOUT_EFFECT = ("Dropout", "Identity", "Loss")
"""Ends of the class names of modules without tensors that do not change the outputs of a model in evaluation mode."""
REPLACED = {
    ("_orig", "_mask"): ("is pruned", "torch.nn.utils.prune.remove"),
    ("_orig", "_u"): ("has a spectral norm", "torch.nn.utils.remove_spectral_norm"),
    ("_g", "_v"): ("has a weight norm", "torch.nn.utils.remove_weight_norm"),
}
"""Ends of the names of two tensors that PyTorch puts in place of one, why, and the function that undoes it."""


@dataclass
class TorchModel:
    """A PyTorch model, or its state dict."""

    tensors: StateDict  # the parameters of the module, or the whole state dict
    embedding: str | None  # the name of its nn.Embedding
    activation: str | None = None  # `nonlinearity` of its nn.RNN, if it is known
    left_out: list[str] = field(default_factory=list)  # what PyTorch does in training and hfrnn does not
    frozen: frozenset[str] | None = None  # parameters that require no gradient; a state dict does not tell
    others: StateDict = field(default_factory=dict)  # the buffers of the module

    @property
    def of_module(self) -> bool:
        """Whether it is a module, not a state dict."""
        return self.frozen is not None

    def warn(self) -> None:
        """Warn of what is left out; the warning names the line that called the caller."""
        for reason in self.left_out:
            warnings.warn(reason, HfrnnWarning, stacklevel=3)


def read_model(argument: str, model: Any, embedding: Any = None) -> TorchModel:
    """Return what a model or a state dict holds; InputError if it has modules that hfrnn does not compute."""
    embedding = string("embedding", embedding, "the name of a module", or_none=True)
    if hasattr(model, "state_dict") and hasattr(model, "named_modules"):
        _check_replaced(model.state_dict())
        return _read_module(model, embedding)
    if isinstance(model, str | os.PathLike):
        raise InputError(
            f"{argument} is the path {shown(os.fspath(model))}: load the file and give the state dict, as from "
            "safetensors.numpy.load_file(path) or torch.load(path)"
        )
    if not isinstance(model, Mapping):
        raise InputError(f"{argument} is {shown(model)}: give a torch.nn.Module or its state dict, model.state_dict()")
    _check_replaced(model)
    return TorchModel(model, embedding)


def _check_replaced(tensors: StateDict) -> None:
    """Raise InputError if PyTorch computes a tensor of a model from others."""
    for name in map(str, tensors):
        *path, tensor = name.split(".")
        why = function = ""
        if "parametrizations" in path:  # as in lstm.parametrizations.weight_hh_l0.original
            at = path.index("parametrizations")
            path, tensor = path[:at], name.split(".")[at + 1]
            why, function = "is parametrized", "torch.nn.utils.parametrize.remove_parametrizations"
        for (end, other), reason in REPLACED.items():
            if name.endswith(end) and name.removesuffix(end) + other in tensors:
                tensor, (why, function) = tensor.removesuffix(end), reason
        if why:
            raise InputError(
                f"{'.'.join([*path, tensor])} {why}, so PyTorch computes it from other tensors, and hfrnn does not: "
                f"call {function}(model.get_submodule({'.'.join(path)!r}), {tensor!r}) first"
            )


def _kind(module: Any) -> str:
    """Return the name of the class of PyTorch that a module is made from: `LSTM` for a subclass of nn.LSTM too."""
    return str(getattr(module, "original_name", _class_of(module).__name__))  # compiled modules (TorchScript) have one


def _class_of(module: Any) -> Any:
    """Return the class of PyTorch that a module is made from; its own class if there is none."""
    return next((cls for cls in type(module).__mro__ if cls.__module__.startswith("torch.nn.")), type(module))


def _read_module(model: Any, embedding: str | None) -> TorchModel:
    found, strange, embeddings, recurrent = _tensors_of(model, embedding), [], [], False
    early = []  # modules nn.Linear before the recurrent one
    for name, module in model.named_modules():
        kind = _kind(module)
        if kind in COMPUTED and _has_own_forward(module):
            found.left_out.append(
                f"{name or 'the model'} is an nn.{kind} with a forward of its own ({type(module).__name__}), which "
                f"hfrnn cannot see: it computes that of nn.{kind}, so compare the outputs once"
            )
        if kind == "Linear" and not recurrent:
            early.append(name)
        if kind in RECURRENT:
            recurrent = True
            if module.batch_first:
                found.left_out.append(
                    f"{name or kind} has batch_first=True, and hfrnn's arrays have the steps on the first axis: give "
                    "Batch(inputs.transpose(0, 1), targets.transpose(0, 1))"
                )
            found.activation = getattr(module, "nonlinearity", None) if kind == "RNN" else found.activation
            if module.training and module.dropout and module.num_layers > 1:
                found.left_out.append(_without_dropout(name or kind, module.dropout))
        elif kind == "Embedding":
            embeddings.append(name)
            _check_embedding(name or kind, module, found)
        elif kind.rstrip("123d").endswith("Dropout"):
            if module.training and module.p:
                found.left_out.append(_without_dropout(name or kind, module.p))
        elif not (kind == "Linear" or _is_container(kind, module) or _has_no_effect(kind, module)):
            strange.append(f"{name or 'the model itself'} ({type(module).__name__ if kind in CONTAINERS else kind})")
    if strange:
        raise InputError(
            f"hfrnn does not compute {', '.join(strange)}: give a model of one nn.LSTM, nn.GRU or nn.RNN, one "
            "nn.Linear after it and at most one nn.Embedding before it; or the state dict of these modules, if the "
            "others do not change the outputs"
        )
    if not recurrent and any(name.endswith("weight_hh_l0") for name in found.tensors):
        raise InputError(
            "the model has a tensor weight_hh_l0, but no nn.LSTM, nn.GRU or nn.RNN: give its state dict, if it "
            "computes the same as one of these"
        )
    if not recurrent:
        raise InputError(
            "the model has no nn.LSTM, nn.GRU or nn.RNN, and hfrnn computes recurrent networks: give a model of one of "
            "these and one nn.Linear after it"
        )
    if early:
        raise InputError(
            f"{early[0]} is an nn.Linear that was made before the recurrent layer, where hfrnn computes none: give a "
            "model whose nn.Linear comes after it; or the state dict of these two modules, if the first one "
            "belongs after it"
        )
    if found.frozen and len(found.frozen) < len(found.tensors):
        found.left_out.append(
            f"{', '.join(sorted(found.frozen))}: requires_grad is False, but hfrnn's gradients, products and updates "
            "treat all parameters alike; TorchLayout(net, model, trainable=True) leaves these out of products"
        )
    if len(embeddings) > 1:
        raise InputError(f"the model has the embeddings {', '.join(embeddings)}: give a model with at most one")
    if found.embedding is None and embeddings:
        found.embedding = embeddings[0]
    return found


def _tensors_of(model: Any, embedding: str | None) -> TorchModel:
    """Return the parameters of a module, those of them that are frozen, and the rest of its state dict."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    frozen = frozenset(name for name, each in parameters.items() if not each.requires_grad)
    state = model.state_dict()
    tensors = {name: tensor for name, tensor in state.items() if name in parameters}
    others = {name: tensor for name, tensor in state.items() if name not in parameters}
    return TorchModel(tensors, embedding, frozen=frozen, others=others)


def _has_own_forward(module: Any) -> bool:
    """Return whether a subclass of one of PyTorch's modules has another `forward`."""
    own: Any = type(module)
    return not hasattr(module, "original_name") and own.forward is not _class_of(module).forward


def _is_container(kind: str, module: Any) -> bool:
    """Return whether a module holds other modules; its own tensors are checked by their names."""
    own = hasattr(module, "original_name") or kind in CONTAINERS
    return own and (any(module.children()) or bool(module.state_dict()))


def _has_no_effect(kind: str, module: Any) -> bool:
    return kind.endswith(WITHOUT_EFFECT) and not list(module.parameters())


def _without_dropout(name: str, p: float) -> str:
    return (
        f"{name} has dropout {p}, which hfrnn leaves out: its results are those of model.eval(); call that to convert "
        "without this warning"
    )


def _check_embedding(name: str, module: Any, found: TorchModel) -> None:
    if getattr(module, "max_norm", None) is not None:
        raise InputError(f"{name} has max_norm {module.max_norm}, which changes its rows in forward: set it to None")
    if getattr(module, "padding_idx", None) is not None:
        found.left_out.append(
            f"{name} has padding_idx {module.padding_idx}, whose row gets no gradient in PyTorch; in hfrnn it gets one "
            "where the symbol is an input before the end of its sequence: give Batch the lengths"
        )
    if getattr(module, "scale_grad_by_freq", False):
        found.left_out.append(f"{name} has scale_grad_by_freq, which hfrnn leaves out: its gradients are not scaled")


def on_host(state_dict: StateDict, dtype: str | None = None) -> dict[str, HostArray]:
    """Return every tensor as a NumPy array; tensors in CPU memory are not copied.

    With a `dtype`, tensors of bfloat16, which NumPy does not have, become float32, without rounding.
    """
    values: dict[str, HostArray] = {}
    places: dict[int, str] = {}
    for name, value in state_dict.items():
        if dtype is not None and str(getattr(value, "dtype", "")).endswith("bfloat16"):
            value = value.float() if hasattr(value, "float") else value.astype(np.float32)
        try:
            values[name] = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"{name} cannot be a NumPy array ({error}): give float32 or float64, or the argument dtype"
            ) from error
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
