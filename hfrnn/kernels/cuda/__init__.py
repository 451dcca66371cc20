"""Kernels whose time steps are fused in CUDA C, for the backend `cupy`: one source file per architecture family.

Each class replaces whole routines of its reference kernel and cites the reference's equations. A time step is one
matrix product for each recurrent matrix, and one launch after each product. Complex arrays and the structural metrics
other than `hidden` run the reference.
"""
