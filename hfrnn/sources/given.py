"""Data that a Python program gives to `hfrnn.train`: arrays by name, or a function that draws new sequences."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hfrnn.arrays.backend import host_copy
from hfrnn.checks import function, shown
from hfrnn.data.array_data import ArrayData, from_memory
from hfrnn.data.tasks import TaskSequences
from hfrnn.engine.batch import Batch
from hfrnn.errors import InputError
from hfrnn.runs.config import TrainConfig
from hfrnn.sources.read import array_windows
from hfrnn.sources.source import Pool, epoch_generator

Drawing = Callable[[np.random.Generator], Any]


@dataclass(frozen=True, eq=False)
class Memory:
    """Data in the memory of a Python program.

    Attributes
    ----------
    data : mapping of str to array, or None
        Arrays by the names of `hfrnn.data.array_data`.
    batches : callable, or None
        Returns new sequences, given a random generator.
    valid : mapping or Batch, or None
        Sequences to validate on, with `batches`.
    """

    data: Mapping[str, Any] | None = None
    batches: Drawing | None = None
    valid: Any = None

    @property
    def name(self) -> str:
        """The value of the option `data` of such a run."""
        return "arrays" if self.batches is None else "batches"

    def arrays(self, config: TrainConfig) -> ArrayData:
        """Return the arrays as the options say; raise InputError if they do not fit."""
        assert self.data is not None
        return from_memory(
            self.data, time_first=config.time_first, fractions=config.fractions, loss=config.loss,
            windows=array_windows(config),
        )  # fmt: skip

    def draw(self, config: TrainConfig, epoch: int) -> ArrayData:
        """Return the sequences of an epoch; epoch -1 is validation, which is the same for every seed."""
        assert self.batches is not None
        return replace(_read(self.batches(epoch_generator(config.seed, epoch)), "batches", config), sha256="")

    def validation(self, config: TrainConfig) -> ArrayData:
        """Return the sequences to validate on: the given ones with their checksum, or one draw, which has none."""
        return self.draw(config, -1) if self.valid is None else _read(self.valid, "valid", config)


def given_arrays(data: Any, batches: Any, valid: Any) -> Memory | None:
    """Return the data that were given as objects of Python; None if the options name the data.

    Raises
    ------
    InputError
        Both arrays and a function were given, or validation data without a function.
    """
    arrays = data if isinstance(data, Mapping) else None
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
        return Memory(batches=batches, valid=valid)
    return None if arrays is None else Memory(data=arrays)


def _read(given: Any, name: str, config: TrainConfig) -> ArrayData:
    """Return the sequences of a dict of arrays or of a Batch."""
    time_first = config.time_first
    if isinstance(given, Batch):
        if given.initial_state is not None or given.targets is None:
            wrong = "no targets" if given.targets is None else "an initial state"
            raise InputError(f"{name} has {wrong}: give a hfrnn.Batch of inputs, targets, weights and lengths")
        values = {"x": given.inputs, "y": given.targets, "mask": given.weights, "lengths": given.lengths}
        given, time_first = {role: host_copy(value) for role, value in values.items()}, True
    if not isinstance(given, Mapping):
        raise InputError(f"{name} is {shown(given)}: return a dict of arrays x, y, mask, lengths, or a hfrnn.Batch")
    if parts := [each for each in given if isinstance(each, str) and each.startswith(("valid_", "test_"))]:
        raise InputError(f"{name} has {parts[0]}: return x, y, mask and lengths, and give the others as valid=")
    return from_memory(given, time_first=time_first, fractions=(1.0, 0.0, 0.0), loss=config.loss, name=name)


def same_shapes(new: TaskSequences, first: Pool) -> None:
    """Raise InputError unless a draw has the shapes of the first one."""
    for name, one, other in (("x", new.inputs, first.inputs), ("y", new.targets, first.targets)):
        if one.shape != other.shape:
            raise InputError(
                f"batches returned {name} of shape {one.shape} (time first), and {other.shape} at the first call: "
                "return the same shapes at every call, with lengths or a mask for shorter sequences"
            )
