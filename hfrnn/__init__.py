"""hfrnn: training recurrent networks by their curvature."""

from hfrnn._version import __version__
from hfrnn.batch import Batch
from hfrnn.errors import CheckpointError, HfrnnError, InputError, MissingExtraError, NonFiniteError
from hfrnn.kernels import Kernel, Slot, Tape, architectures, register_kernel
from hfrnn.model import Network
from hfrnn.objective import Objective

__all__ = [
    "Batch",
    "CheckpointError",
    "HfrnnError",
    "InputError",
    "Kernel",
    "MissingExtraError",
    "Network",
    "NonFiniteError",
    "Objective",
    "Slot",
    "Tape",
    "__version__",
    "architectures",
    "register_kernel",
]
