"""A device array with nothing but what optimizers may use."""

from __future__ import annotations

import numpy as np


class DeviceArray:
    """A vector that mixes with its own kind and Python numbers only and never turns into a host array by itself."""

    def __init__(self, values):
        self.values = values
        self.shape, self.dtype = values.shape, values.dtype

    def __array__(self, *arguments, **keywords):
        raise TypeError("implicit conversion to a host array")

    __array_ufunc__ = None
    __float__ = __bool__ = __iter__ = __len__ = None

    @staticmethod
    def operand(other):
        if isinstance(other, DeviceArray):
            return other.values
        if type(other) in (int, float):
            return other
        raise TypeError(f"a device array and {type(other)} do not mix")

    def __add__(self, other):
        return DeviceArray(self.values + self.operand(other))

    def __sub__(self, other):
        return DeviceArray(self.values - self.operand(other))

    def __mul__(self, other):
        return DeviceArray(self.values * self.operand(other))

    def __neg__(self):
        return DeviceArray(-self.values)

    def __iadd__(self, other):
        self.values += self.operand(other)
        return self

    def __isub__(self, other):
        self.values -= self.operand(other)
        return self

    def __imul__(self, other):
        self.values *= self.operand(other)
        return self

    def __getitem__(self, key):
        return DeviceArray(self.values[key])

    def __setitem__(self, key, other):
        self.values[key] = self.operand(other)

    def copy(self):
        return DeviceArray(self.values.copy())

    def astype(self, dtype):
        return DeviceArray(self.values.astype(dtype))

    def fill(self, value):
        self.values.fill(value)

    def sum(self):
        return DeviceArray(np.asarray(self.values.sum()))

    def item(self):
        return self.values.item()
