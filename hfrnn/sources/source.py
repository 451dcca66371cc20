"""The data of a run, opened, as batches: what training, analysis and the report read."""

from __future__ import annotations

import math
from typing import Any

from hfrnn.arrays.backend import HostArray
from hfrnn.choices import PARTS
from hfrnn.data.kinds.data_kind import DataKind, Pool
from hfrnn.engine.batch import Batch
from hfrnn.errors import InputError
from hfrnn.runs.config import TrainConfig

LN2 = math.log(2)


class Source:
    """The data of a run as batches. All other attributes are those of the data (`DataKind`).

    Parameters
    ----------
    data : DataKind
        Ready for a network.

    Attributes
    ----------
    data : DataKind
    validation : Batch or None
        The validation data.
    """

    def __init__(self, data: DataKind) -> None:
        self.data = data
        self.validation = None if data.validation is None else Batch(*data.validation)

    def __getattr__(self, name: str) -> Any:
        if name == "data":  # while an object is copied
            raise AttributeError(name)
        return getattr(self.data, name)

    def batch(self, pool: Pool, columns: HostArray | slice) -> Batch:
        """Return some sequences of a pool as a batch."""
        weights = None if pool.weights is None else pool.weights[:, columns]
        lengths = None if pool.lengths is None else pool.lengths[columns]
        return Batch(pool.inputs[:, columns], pool.targets[:, columns], weights, lengths)


def chosen_part(config: TrainConfig, part: str | None, default: str) -> str:
    """Return the part of a run's data that was asked for, or the default one.

    Parameters
    ----------
    config : TrainConfig
        The options of the run.
    part : {"train", "valid", "test"} or None
        The part that was asked for; None for the default one.
    default : {"train", "valid", "test"}

    Returns
    -------
    str

    Raises
    ------
    InputError
        The part is not known, or the data have no parts.
    """
    if part is not None and not config.kind.has_parts:
        raise InputError(f"{config.data} has no parts, its sequences are generated: leave {part!r} out")
    part = part or default
    if part not in PARTS:
        raise InputError(f"part {part!r} is not known: use {', '.join(PARTS)}")
    return part
