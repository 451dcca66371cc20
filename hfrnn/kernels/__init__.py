"""The recurrent architectures. Each file has the hand-written forward, R-forward and backward of one architecture."""

from hfrnn.kernels.base import Kernel, Slot, Tape
from hfrnn.kernels.registry import architectures, import_kernels, make_kernel, register_kernel
from hfrnn.option import Option

__all__ = ["Kernel", "Option", "Slot", "Tape", "architectures", "import_kernels", "make_kernel", "register_kernel"]
