"""hfrnn: training recurrent networks by their curvature.

The names below are imported when they are first used, so that `import hfrnn` and `hfrnn --help` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hfrnn._version import __version__

if TYPE_CHECKING:
    from hfrnn.batch import Batch
    from hfrnn.config import TrainConfig
    from hfrnn.dynamic import Dynamic, mean_square_gradient
    from hfrnn.errors import CheckpointError, HfrnnError, InputError, MissingExtraError, NonFiniteError, StorageError
    from hfrnn.evaluation import Evaluation, evaluate
    from hfrnn.kernels import Kernel, Slot, Tape, architectures, register_kernel
    from hfrnn.model import Network
    from hfrnn.objective import Objective
    from hfrnn.optim.damping import Damping, LevenbergMarquardt
    from hfrnn.optim.hessian_free import HessianFree, HessianFreeOptions
    from hfrnn.optim.minimum import Minimum, minimize
    from hfrnn.run_folder import LoadedRun, load
    from hfrnn.sampling import sample
    from hfrnn.spectral import Spectrum, load_objective, spectrum
    from hfrnn.training import Callback, TrainingResult, train

_ROOMS = {
    "batch": ("Batch",),
    "config": ("TrainConfig",),
    "dynamic": ("Dynamic", "mean_square_gradient"),
    "errors": ("CheckpointError", "HfrnnError", "InputError", "MissingExtraError", "NonFiniteError", "StorageError"),
    "evaluation": ("Evaluation", "evaluate"),
    "kernels": ("Kernel", "Slot", "Tape", "architectures", "register_kernel"),
    "model": ("Network",),
    "objective": ("Objective",),
    "optim.damping": ("Damping", "LevenbergMarquardt"),
    "optim.hessian_free": ("HessianFree", "HessianFreeOptions"),
    "optim.minimum": ("Minimum", "minimize"),
    "run_folder": ("LoadedRun", "load"),
    "sampling": ("sample",),
    "spectral": ("Spectrum", "load_objective", "spectrum"),
    "training": ("Callback", "TrainingResult", "train"),
}
_room_of = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "Batch",
    "Callback",
    "CheckpointError",
    "Damping",
    "Dynamic",
    "Evaluation",
    "HessianFree",
    "HessianFreeOptions",
    "HfrnnError",
    "InputError",
    "Kernel",
    "LevenbergMarquardt",
    "LoadedRun",
    "Minimum",
    "MissingExtraError",
    "Network",
    "NonFiniteError",
    "Objective",
    "Slot",
    "Spectrum",
    "StorageError",
    "Tape",
    "TrainConfig",
    "TrainingResult",
    "__version__",
    "architectures",
    "evaluate",
    "load",
    "load_objective",
    "mean_square_gradient",
    "minimize",
    "register_kernel",
    "sample",
    "spectrum",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _room_of:
        raise AttributeError(f"module 'hfrnn' has no attribute {name!r}")
    return getattr(importlib.import_module(f"hfrnn.{_room_of[name]}"), name)


def __dir__() -> list[str]:
    return __all__
