"""The recurrent architectures, one file each: forward, R-forward and backward by hand."""

from hfrnn.kernels.base import Kernel, Slot, Tape
from hfrnn.kernels.registry import architectures, import_kernels, make_kernel, register_kernel
from hfrnn.option import Option

__all__ = ["Kernel", "Option", "Slot", "Tape", "architectures", "import_kernels", "make_kernel", "register_kernel"]
