"""Read a PyTorch model: its tensors as NumPy arrays, and the activation of an nn.RNN. torch is never imported."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from hfrnn.arrays.backend import HostArray
from hfrnn.checks import shown
from hfrnn.errors import InputError

StateDict = Mapping[str, Any]
"""Tensors by name: torch tensors, NumPy arrays, or objects that `numpy.asarray` accepts."""

WITHOUT_EFFECT = ("Dropout", "Identity", "Loss")
"""Ends of the class names of modules without tensors that do not change the outputs of a model in evaluation mode."""


def _is_module(model: Any) -> bool:
    return hasattr(model, "state_dict") and hasattr(model, "named_modules")


def state_dict_of(argument: str, model: Any) -> StateDict:
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


def activation_of(model: Any, tensor: str, given: Any) -> Any:
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


def on_host(state_dict: StateDict) -> dict[str, HostArray]:
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
