"""Optimizers: numerics on flat vectors and callables, with no knowledge of networks."""

from hfrnn.optim.minimize import Minimum, MinimumStop, minimize

__all__ = ["Minimum", "MinimumStop", "minimize"]
