"""Kernels whose time loops numba compiles, for the backend `numba`: one file per architecture family.

Each class replaces whole routines of its reference kernel and cites the reference's equations. A segment is one
compiled call, which releases the interpreter lock, so that shards on several threads do not wait for each other.
Complex arrays and the structural metrics other than `hidden` run the reference.
"""
