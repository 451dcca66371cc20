"""Optimizers: numerics on flat vectors and callables, with no knowledge of networks."""
