"""`linalg` of the fake device: the decompositions that optimizers use. Device arrays only, as CuPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.fake_device import FakeArray


def eigh(a: FakeArray) -> tuple[FakeArray, FakeArray]:
    """Return the eigenvalues and eigenvectors of a symmetric matrix."""
    values, vectors = np.linalg.eigh(_host(a))
    return FakeArray(values), FakeArray(vectors)


def qr(a: FakeArray) -> tuple[FakeArray, FakeArray]:
    """Return the factors Q and R of a matrix."""
    Q, R = np.linalg.qr(_host(a))
    return FakeArray(Q), FakeArray(R)


def _host(a: Any) -> Any:
    if not isinstance(a, FakeArray):
        raise TypeError(f"the device decomposes its own arrays, not a {type(a).__name__}")
    return a._host
