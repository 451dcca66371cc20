"""Kernels whose time steps are fused in CUDA C, for the backend `cupy`: one source file per architecture family.

Each class replaces whole routines of its reference kernel and cites the reference's equations. A time step is one
matrix product for each recurrent matrix, and one launch after each product. Some architectures run all steps of a
segment in one launch: of blocks of their own if the network is small (launch.py), else of blocks that wait for each
other (grid.py). Complex arrays and the structural metrics other than `hidden` run the reference.
"""
