"""What optimizers ask of a device array."""

from __future__ import annotations

from typing import Any

import support.linalg  # noqa: F401  `hfrnn.arrays.vectors` looks for it in the package of FakeArray
from support.fake_device import FakeArray


class OptimizerArray:
    """What optimizers ask of a device array beyond what the engine does."""

    _host: Any

    def fill(self, value: float) -> None:
        self._host.fill(value)

    def clip(self, low: float | None, high: float | None, out: Any = None) -> Any:
        return FakeArray(self._host.clip(low, high, out=None if out is None else out._host))

    def __pow__(self, power: float) -> Any:
        return FakeArray(self._host**power)

    def __ipow__(self, power: float) -> Any:
        self._host **= power
        return self

    def __abs__(self) -> Any:
        return FakeArray(abs(self._host))

    def repeat(self, count: int) -> Any:
        return FakeArray(self._host.repeat(count))

    def argsort(self) -> Any:
        return FakeArray(self._host.argsort())


NAMES = ("fill", "clip", "__pow__", "__ipow__", "__abs__", "repeat", "argsort")
"""The methods to give to `FakeArray`."""
