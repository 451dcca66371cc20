"""Sequences of one length, or padded to one, as kinds of data give them to a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Pool(NamedTuple):
    """N sequences of at most T steps, time-major.

    Attributes
    ----------
    inputs : ndarray, shape (T, N) or (T, N, n_in)
        Symbols or values.
    targets : ndarray, shape (T, N) or (T, N, n_out)
    weights : ndarray, shape (T, N) or (T, N, n_out), or None
        Weights of the targets; None if all weigh the same.
    lengths : ndarray, shape (N,), or None
        Lengths of the sequences; None if all have T steps.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> x = np.zeros((5, 4, 2))  # 5 steps of 4 sequences
    >>> hfrnn.Pool(x, x.sum(axis=2, keepdims=True)).targets.shape
    (5, 4, 1)
    """

    inputs: NDArray[Any]
    targets: NDArray[Any]
    weights: NDArray[Any] | None = None
    lengths: NDArray[Any] | None = None

    @property
    def weighs_outputs(self) -> bool:
        """Whether every output has its own weight."""
        return self.weights is not None and self.weights.ndim == 3

    @property
    def sequences(self) -> int:
        """The number of sequences, N."""
        return int(self.inputs.shape[1])

    @property
    def longest(self) -> int:
        """The number of steps, T."""
        return int(self.inputs.shape[0])

    @property
    def mean_length(self) -> float:
        """The number of steps that a sequence counts for in the sizes of batches: T, with its padding."""
        return self.longest

    def planned_lengths(self, count: int) -> None:
        """Return None: a plan is made for sequences of T steps."""

    @property
    def symbols(self) -> bool:
        """Whether the inputs are symbols."""
        return self.inputs.ndim == 2

    def select(self, columns: NDArray[Any] | slice) -> Pool:
        """Return some sequences, of T steps too."""
        weights = None if self.weights is None else self.weights[:, columns]
        lengths = None if self.lengths is None else self.lengths[columns]
        return Pool(self.inputs[:, columns], self.targets[:, columns], weights, lengths)
