"""Kinds of data: one class for each, and the registry of them."""
