"""Several GPUs: which one a process uses, and copies from which a network can send."""

from __future__ import annotations

from hfrnn.arrays.backend import Array, Backend, HostArray


def use_device(backend: Backend, number: int) -> None:
    """Compute on the GPU of this number, modulo the number of GPUs; do nothing on a CPU."""
    if not backend.on_host:
        runtime = backend.xp.cuda.runtime
        runtime.setDevice(number % runtime.getDeviceCount())


def pinned_copy(backend: Backend, values: Array) -> HostArray:
    """Return an array of a GPU as a NumPy array in pinned memory, from and to which copies are fast."""
    from cupyx import empty_pinned

    host: HostArray = backend.xp.asnumpy(values, out=empty_pinned(values.shape, values.dtype))
    return host
