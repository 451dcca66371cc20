"""What callbacks may read of the state of a training run."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING

from hfrnn.arrays.backend import Array

if TYPE_CHECKING:
    from hfrnn.runs.config import TrainConfig
    from hfrnn.runs.metrics import Record
    from hfrnn.runs.run_folder import RunFolder
    from hfrnn.training.run_state import RunState


class VisibleState:
    """Base class of a training run, with properties that read its state."""

    state: RunState

    @property
    def config(self) -> TrainConfig:
        """The options, resolved."""
        return self.state.config

    @property
    def folder(self) -> RunFolder:
        """The run folder, locked while the run writes to it."""
        return self.state.folder

    @property
    def path(self) -> Path:
        """The path of the run folder."""
        return self.state.folder.path

    @property
    def theta(self) -> Array:
        """The parameters; with constraints, the variables that they are made of."""
        return self.state.theta

    @property
    def weights(self) -> Array:
        """The weights that are validated: the parameters, or an average of them."""
        return self.state.weights

    @property
    def update(self) -> int:
        """The number of updates so far."""
        return self.state.update

    @property
    def seconds(self) -> float:
        """The training time so far, without validation."""
        return self.state.seconds

    @property
    def symbols(self) -> int:
        """The number of symbols used for gradients so far."""
        return self.state.symbols

    @property
    def last(self) -> Record | None:
        """A copy of the record after the last update; None before there is one."""
        return copy.deepcopy(self.state.last)

    @property
    def best(self) -> Record | None:
        """A copy of the record after the best update; None before there is one."""
        return copy.deepcopy(self.state.best)
