"""Data that a Python program gives to `hfrnn.train`: arrays by name, DataFrames, or a function that draws sequences."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hfrnn.arrays.backend import host_copy
from hfrnn.checks import function, shown
from hfrnn.data.kinds.memory import Frames, Given, Objects, TimeMajor
from hfrnn.engine.batch import Batch
from hfrnn.errors import InputError


def given_objects(data: Any, batches: Any, valid: Any, test: Any = None) -> Given | None:
    """Return the data that were given as objects of Python; None if the options name the data."""
    function("batches", batches, "rng", or_none=True)
    if batches is None and _frames(data):
        others = {"valid": valid, "test": test}
        for name, given in others.items():
            if given is not None and not _frames(given):
                raise InputError(f"{name} is {shown(given)}, and data a DataFrame: give DataFrames for each part")
        return Frames(_listed(data), *(None if given is None else _listed(given) for given in others.values()))
    if data is not None and not _named(data) and not isinstance(data, Mapping):
        raise InputError(
            f"data is {shown(data)}: give a dict with the arrays x and y, DataFrames, or the names of files"
        )
    if batches is not None and data is not None:
        raise InputError("both data and batches were given: give one of them")
    if isinstance(data, Mapping) and batches is None:
        return Objects(data=_with_parts(data, {"valid": valid, "test": test}))
    if isinstance(valid, Mapping | Batch) and batches is None:
        raise InputError(
            "valid= takes sequences only together with batches=, or with arrays as data=: give one of them"
        )
    if batches is not None:
        if valid is not None and not isinstance(valid, Mapping | Batch):
            raise InputError(f"valid is {shown(valid)}: with batches give a dict of arrays or a hfrnn.Batch")
        return Objects(batches=lambda rng: _by_name(batches(rng), "batches"), valid=_by_name(valid, "valid"))
    return None


def _with_parts(data: Mapping[str, Any], parts: Mapping[str, Any]) -> dict[Any, Any]:
    """Return arrays by name with those of other parts, which were given by themselves."""
    found = dict(data)
    for part, given in parts.items():
        if given is None:
            continue
        if not isinstance(given, Mapping):
            raise InputError(f"{part} is {shown(given)}, and data holds arrays: give a dict with the arrays x and y")
        named = {f"{part}_{name}" if isinstance(name, str) else name: value for name, value in given.items()}
        if twice := sorted(name for name in data if isinstance(name, str) and name.startswith(f"{part}_")):
            raise InputError(f"{part} was given, and data has {twice[0]} itself: leave one of them out")
        found |= named
    return found


def _is_frame(value: Any) -> bool:
    """Return whether an object is a DataFrame, or a Dataset of xarray, which makes one."""
    return hasattr(value, "iloc") or hasattr(value, "to_dataframe")


def _frames(value: Any) -> bool:
    """Return whether a value is a DataFrame or a list of them."""
    return _is_frame(value) or (isinstance(value, list | tuple) and bool(value) and all(map(_is_frame, value)))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _named(value: Any) -> bool:
    """Return whether a value is a name or a path, or a list of them."""
    listed = value if isinstance(value, list | tuple) and value else [value]
    return all(isinstance(each, str | os.PathLike) for each in listed)


def _by_name(given: Any, name: str) -> Any:
    """Return a batch as arrays by name; anything else unchanged."""
    if not isinstance(given, Batch):
        return given
    if given.initial_state is not None or given.targets is None:
        wrong = "no targets" if given.targets is None else "an initial state"
        raise InputError(f"{name} has {wrong}: give a hfrnn.Batch of inputs, targets, weights and lengths")
    values = {"x": given.inputs, "y": given.targets, "mask": given.weights, "lengths": given.lengths}
    return TimeMajor({role: host_copy(value) for role, value in values.items()})
