"""Data that a Python program gives to `hfrnn.train`: arrays by name, or a function that draws new sequences."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hfrnn.arrays.backend import host_copy
from hfrnn.checks import function, shown
from hfrnn.data.kinds.memory import Objects, TimeMajor
from hfrnn.engine.batch import Batch
from hfrnn.errors import InputError


def given_objects(data: Any, batches: Any, valid: Any) -> Objects | None:
    """Return the data that were given as objects of Python; None if the options name the data."""
    function("batches", batches, or_none=True)
    if data is not None and not isinstance(data, Mapping | str | os.PathLike):
        raise InputError(f"data is {shown(data)}: give a dict with the arrays x and y, or the name of a file")
    if batches is not None and data is not None:
        raise InputError("both data and batches were given: give one of them")
    if isinstance(valid, Mapping | Batch) and batches is None:
        raise InputError(
            "valid= takes sequences only together with batches=; with data=, name the arrays of data valid_x, "
            "valid_y, ..."
        )
    if batches is not None:
        if valid is not None and not isinstance(valid, Mapping | Batch):
            raise InputError(f"valid is {shown(valid)}: with batches give a dict of arrays or a hfrnn.Batch")
        return Objects(batches=lambda rng: _by_name(batches(rng), "batches"), valid=_by_name(valid, "valid"))
    return Objects(data=data) if isinstance(data, Mapping) else None


def _by_name(given: Any, name: str) -> Any:
    """Return a batch as arrays by name; anything else unchanged."""
    if not isinstance(given, Batch):
        return given
    if given.initial_state is not None or given.targets is None:
        wrong = "no targets" if given.targets is None else "an initial state"
        raise InputError(f"{name} has {wrong}: give a hfrnn.Batch of inputs, targets, weights and lengths")
    values = {"x": given.inputs, "y": given.targets, "mask": given.weights, "lengths": given.lengths}
    return TimeMajor({role: host_copy(value) for role, value in values.items()})
