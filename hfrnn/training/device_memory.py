"""What a run does when the memory of a GPU is used up: it says which budget to give."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hfrnn.errors import DeviceMemoryError
from hfrnn.wording import shell_command

if TYPE_CHECKING:
    from hfrnn.arrays.backend import Backend
    from hfrnn.runs.config import TrainConfig
    from hfrnn.training.run_state import RunState


def smaller_budget(config: TrainConfig) -> dict[str, str]:
    """Return the options of a run that plans with half of the memory budget; only `checkpoint="auto"` has a budget."""
    half = {"memory": f"{max(config.memory_bytes >> 21, 1)}MiB"}
    return half if config.checkpoint == "auto" else {"checkpoint": "auto", **half}


@contextmanager
def before_updates(backend: Backend, config: TrainConfig) -> Iterator[None]:
    """Tell within the context, while a run prepares its first update, which memory budget to give.

    Raises
    ------
    DeviceMemoryError
        The memory of the GPU is used up.
    """
    try:
        yield
    except backend.memory_errors as error:
        flags = [word for name, value in smaller_budget(config).items() for word in (f"--{name}", value)]
        raise DeviceMemoryError(
            f"the memory of the GPU is used up before the first update, with a budget of {config.memory}: give a "
            f"smaller one ({shell_command(flags)})"
        ) from error


def after_an_update(state: RunState) -> DeviceMemoryError:
    """Return the error of a run that has a folder: which update is saved, and how to resume it with a smaller budget.

    Parameters
    ----------
    state : RunState
        Its summary has been written.
    """
    config = state.config
    return DeviceMemoryError(
        f"the memory of the GPU is used up after update {state.saved['update']}, which is saved, with a budget of "
        f"{config.memory}: resume with a smaller one, {state.command_to_resume(smaller_budget(config))}"
    )
