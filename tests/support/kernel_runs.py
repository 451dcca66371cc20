"""The three routines of a kernel on random arrays, for comparisons of backends."""

from __future__ import annotations

from typing import Any

import numpy as np

from hfrnn.arrays.backend import Backend, Buffers
from hfrnn.kernels.base import Kernel, Tape


def routines(kernel: Kernel, backend: Backend, K: int, B: int, dtype: str = "float64") -> dict[str, Any]:
    """Return everything that the three routines of a kernel compute on one segment, on the host."""
    rng = np.random.default_rng(K * 1000 + B)

    def random(*shape: int, scale: float = 1.0) -> Any:
        return backend.asarray((scale * rng.standard_normal(shape)).astype(dtype))

    def parameters() -> dict[str, Any]:
        shapes = kernel.parameter_shapes().items()
        return {name: random(*shape, scale=shape[-2] ** -0.5 if shape[1:] else 1.0) for name, shape in shapes}

    def states() -> dict[str, Any]:
        return {name: random(*shape) for name, shape in kernel.state_shapes(B).items() if shape}

    tape, slots = Tape("", Buffers(backend, dtype), Buffers(backend, dtype)), sum(slot.width for slot in kernel.slots)
    p, v, state = parameters(), parameters(), {"t": 3} | states()
    hs, after = kernel.forward(p, random(K, B, slots), state, tape)
    Rhs, Rafter = kernel.rforward(p, v, tape, random(K, B, slots), states())
    grad = {name: backend.zeros(x.shape, dtype) for name, x in p.items()}
    results = {"hs": hs, "Rhs": Rhs} | {f"R{name}": x for name, x in Rafter.items()}
    results |= {name: x for name, x in after.items() if not isinstance(x, int)}
    found = {name: backend.to_host(x).copy() for name, x in results.items()}
    dU, before = kernel.backward(p, tape, random(K, B, kernel.width), states(), grad)
    more = {"dU": dU} | {f"d{name}": x for name, x in before.items()} | {f"grad {name}": x for name, x in grad.items()}
    return found | {name: backend.to_host(x).copy() for name, x in more.items()}
