"""Several ranks that train one network: what they must have in common, and how they end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from hfrnn._version import __version__
from hfrnn.arrays.backend import get_backend
from hfrnn.arrays.devices import use_device
from hfrnn.errors import InputError, Message
from hfrnn.ranks.one import Ranks
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.optimizers import OPTIMIZERS

OWN = ("text", "data", "valid", "test", "init_from", "connectivity", "out", "threads")
"""Options that may differ between ranks: paths, whose files are compared, and the number of threads."""


def prepared(ranks: Ranks, config: TrainConfig) -> TrainConfig:
    """Return the options of a run, after all ranks have compared theirs, and each has chosen its device.

    All ranks use the memory budget of rank 0.

    Raises
    ------
    InputError
        A rank has other options or another version of hfrnn, or the optimizer works in one process only.
    """
    if ranks.size == 1:
        return config
    if not OPTIMIZERS[config.optimizer].on_ranks:
        raise InputError(Message(
            "{optimizer} is {0}, which works in one process, and {1} ranks were started: start it without mpiexec",
            config.optimizer, ranks.size,
        ))  # fmt: skip
    ranks.wait_at_most(config.rank_timeout)
    config = config.completed(memory=ranks.broadcast(config.memory))
    options = {name: value for name, value in {**config.followed, **config.given}.items() if name not in OWN}
    ranks.check_data("the configuration", json.dumps([__version__, options], sort_keys=True))
    use_device(get_backend(config.backend), ranks.local_rank)
    return config


@contextmanager
def ending_together(ranks: Ranks) -> Iterator[None]:
    """Let an error within the context end all ranks."""
    try:
        yield
    except BaseException as error:
        ranks.abort(error)
        raise
