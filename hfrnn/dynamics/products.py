"""Arrays whose matrix products are known without computing them, which makes passes for Jacobians several times faster.

All states get the same directions, and no direction moves a parameter. So most products of an R-pass are the same for
every state, or zero. The kernels need not know: NumPy asks the arrays themselves (`__array_ufunc__`). Everything but
`matmul` treats them as plain arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hfrnn.arrays.backend import HostArray


class _Known(np.ndarray[Any, Any]):
    """An array that answers `matmul(..., out=...)` itself where it can."""

    def product(self, x: Any, W: Any, out: HostArray) -> bool:
        """Write x @ W to `out`, where x or W is this array; return False if it cannot be told without computing it."""
        raise NotImplementedError

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **more: Any) -> Any:
        if ufunc is np.matmul and method == "__call__" and out and self.product(inputs[0], inputs[1], out[0]):
            return out[0]
        plain = [x.view(np.ndarray) if isinstance(x, _Known) else x for x in inputs]
        if out:
            more["out"] = tuple(x.view(np.ndarray) if isinstance(x, _Known) else x for x in out)
        return getattr(ufunc, method)(*plain, **more)


class Zeros(_Known):
    """Zeros, or a view of them; a product with them is zero."""

    @classmethod
    def of_shape(cls, shape: tuple[int, ...]) -> Zeros:
        """Return zeros in float64, which cannot be written to."""
        found = np.zeros(shape).view(cls)
        found.flags.writeable = False
        return found

    def product(self, x: Any, W: Any, out: HostArray) -> bool:
        out[...] = 0
        return True


class RepeatedRows(_Known):
    """Rows (d, m), each B times in succession: (d*B, m). The product of each distinct row is computed once."""

    rows: HostArray | None

    @classmethod
    def of_rows(cls, rows: HostArray, B: int) -> RepeatedRows:
        """Repeat each row B times."""
        found = np.repeat(rows, B, axis=0).view(cls)
        found.rows = rows
        return found

    def __array_finalize__(self, of: Any) -> None:
        self.rows = None  # a view need not have the same rows

    def product(self, x: Any, W: Any, out: HostArray) -> bool:
        if x is not self or self.rows is None or W.ndim != 2 or not out.flags.c_contiguous:
            return False
        d = len(self.rows)
        out.reshape(d, len(self) // d, W.shape[1])[...] = (self.rows @ np.asarray(W))[:, None]
        return True
