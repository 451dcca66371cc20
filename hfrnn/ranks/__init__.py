"""Ranks, the processes that work on one run: MPI, and the tree in whose order sums are added."""
