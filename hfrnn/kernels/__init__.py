"""The recurrent architectures, one file each: forward, R-forward and backward by hand."""

from hfrnn.kernels.base import Kernel, Slot, Tape
from hfrnn.kernels.registry import architectures, import_kernels, make_kernel, register_kernel

__all__ = ["Kernel", "Slot", "Tape", "architectures", "import_kernels", "make_kernel", "register_kernel"]
