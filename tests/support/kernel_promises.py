"""What every kernel promises, as checks by its name: adjoint routines, exact tangents, unwritten inputs.

python -m support.kernel_promises FILE NAME...      check kernels that a file registers (from the folder tests)
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import hfrnn
from hfrnn.arrays.backend import Buffers, get_backend
from hfrnn.kernels import import_kernels, make_kernel


def arrays(kernel: hfrnn.Kernel, K: int, B: int, seed: int = 0) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """Parameters, U and a state."""
    rng = np.random.default_rng(seed)
    slots = sum(slot.width for slot in kernel.slots)
    p = {name: 0.5 * rng.standard_normal(shape) for name, shape in kernel.parameter_shapes().items()}
    shapes = kernel.state_shapes(B)
    state = {name: 0.5 * rng.standard_normal(shape) if shape else 0 for name, shape in shapes.items()}
    return p, rng.standard_normal((K, B, slots)), state


def without_integers(state: dict[str, Any]) -> dict[str, Any]:
    """The arrays of a state: integers have neither tangents nor adjoints."""
    return {name: value for name, value in state.items() if not isinstance(value, int)}


def tape() -> hfrnn.Tape:
    backend = get_backend("numpy")
    return hfrnn.Tape("", Buffers(backend, "float64"), Buffers(backend, "float64"))


def check_adjoint(arch: str, K: int, B: int) -> None:
    """<dhs, Rhs> + <dstate, Rstate after> = <dU, RU> + <dstate before, Rstate> + <grad, v>: K >= 1, on one segment."""
    kernel, recorded = make_kernel(arch, 4, {}), tape()
    p, U, state = arrays(kernel, K, B)
    v, RU, Rstate = arrays(kernel, K, B, seed=1)
    hs, after = kernel.forward(p, U, state, recorded)
    assert hs.shape == (K, B, kernel.width)
    assert {name: np.shape(value) for name, value in after.items()} == kernel.state_shapes(B)
    rng, carried = np.random.default_rng(2), without_integers(after)
    dhs, dstate = rng.standard_normal(hs.shape), {name: rng.standard_normal(x.shape) for name, x in carried.items()}
    Rhs, Rafter = kernel.rforward(p, v, recorded, RU, without_integers(Rstate))
    assert Rafter.keys() == carried.keys()
    left = (dhs * Rhs).sum() + sum((dstate[name] * Rafter[name]).sum() for name in dstate)
    grad = {name: np.zeros_like(value) for name, value in p.items()}
    dU, dbefore = kernel.backward(p, recorded, dhs, dstate, grad)
    assert dbefore.keys() == carried.keys()
    right = (dU * RU).sum() + sum((x[name] * y[name]).sum() for x, y in ((dbefore, Rstate), (grad, v)) for name in x)
    assert left == pytest.approx(right, rel=1e-11)
    assert all(np.linalg.norm(value) > 1e-6 for value in grad.values())


def check_inputs_unwritten(arch: str) -> None:
    kernel, recorded = make_kernel(arch, 4, {}), tape()
    p, U, state = arrays(kernel, 5, 3)
    v, RU, Rstate = arrays(kernel, 5, 3, seed=1)
    Rstate = without_integers(Rstate)
    for given in (*p.values(), U, *without_integers(state).values(), *v.values(), RU, *Rstate.values()):
        given.flags.writeable = False
    hs, after = kernel.forward(p, U, state, recorded)
    kernel.rforward(p, v, recorded, RU, Rstate)
    dhs, dstate = np.ones_like(hs), {name: np.ones_like(x) for name, x in without_integers(after).items()}
    for given in (dhs, *dstate.values()):
        given.flags.writeable = False
    first = {name: np.zeros_like(value) for name, value in p.items()}
    kernel.backward(p, recorded, dhs, dstate, first)
    second = {name: np.ones_like(value) for name, value in p.items()}
    kernel.backward(p, recorded, dhs, dstate, second)
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value + 1, rtol=1e-12)


def check_linearised(arch: str) -> None:
    """Complex steps through forward alone give the tangents of hs and of the state."""
    kernel = make_kernel(arch, 4, {})
    p, U, state = arrays(kernel, 5, 3)
    v, RU, Rstate = arrays(kernel, 5, 3, seed=1)
    recorded = tape()
    kernel.forward(p, U, state, recorded)
    Rstate = without_integers(Rstate)
    Rhs, Rafter = kernel.rforward(p, v, recorded, RU, Rstate)
    backend, step = get_backend("numpy"), 1e-20
    complex_tape = hfrnn.Tape("", Buffers(backend, "complex128"), Buffers(backend, "complex128"))
    hs, after = kernel.forward(
        {name: p[name] + 1j * step * v[name] for name in p},
        U + 1j * step * RU,
        state | {name: state[name] + 1j * step * R for name, R in Rstate.items()},
        complex_tape,
    )
    np.testing.assert_allclose(Rhs, hs.imag / step, rtol=1e-11, atol=1e-13)
    for name, value in without_integers(after).items():
        np.testing.assert_allclose(Rafter[name], value.imag / step, rtol=1e-11, atol=1e-13)


def check_same_bits_without_record(arch: str) -> None:
    kernel, recorded, plain = make_kernel(arch, 4, {}), tape(), tape()
    plain.records = False
    p, U, state = arrays(kernel, 5, 3)
    with_record, without = (kernel.forward(p, U, state, each) for each in (recorded, plain))
    np.testing.assert_array_equal(with_record[0], without[0])
    for name, value in with_record[1].items():
        np.testing.assert_array_equal(value, without[1][name])


def check_all(arch: str) -> None:
    """Check every promise on a few sizes; raises AssertionError where one is broken."""
    for K in (1, 6):
        for B in (1, 3):
            check_adjoint(arch, K, B)
    check_inputs_unwritten(arch)
    check_linearised(arch)
    check_same_bits_without_record(arch)


if __name__ == "__main__":
    import_kernels(sys.argv[1])
    for name in sys.argv[2:]:
        check_all(name)
