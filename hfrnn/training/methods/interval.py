"""The figures of the updates between two lines of the log."""

from __future__ import annotations

import math

from hfrnn.arrays.vectors import Scalar, fetch
from hfrnn.errors import NonFiniteError


class Interval:
    """Sums over some updates. Figures on a device stay there until `fetch`.

    Parameters
    ----------
    clip_norm : float or None
        Bound of the norm of the gradients; None or 0 for none.

    Attributes
    ----------
    updates : int
        Number of updates.
    weight : float
        Sum of the weights of their batches.
    """

    def __init__(self, clip_norm: float | None) -> None:
        self.updates, self.weight = 0, 0.0
        self._clip_norm = clip_norm or math.inf
        self._losses, self._norms, self._known, self._clipped = 0.0, 0.0, 0.0, 0
        self._waiting: list[tuple[Scalar, Scalar, float]] = []

    def add(self, loss: Scalar, norm: Scalar, weight: float) -> None:
        """Add the loss of an update, the norm of its gradient and the weight of its batch.

        Raises
        ------
        NonFiniteError
            The loss is a number on the host and is not finite.
        """
        self.updates, self.weight = self.updates + 1, self.weight + weight
        self._waiting.append((loss, norm, weight))
        if isinstance(loss, float):
            self.fetch()

    def fetch(self) -> None:
        """Take all figures to the host, in one transfer.

        Raises
        ------
        NonFiniteError
            A loss is not finite.
        """
        waiting, self._waiting = self._waiting, []
        found = iter(fetch(*(each for loss, norm, _ in waiting for each in (loss, norm))))
        for loss, norm, (_, _, weight) in zip(found, found, waiting, strict=True):
            if not math.isfinite(loss):
                raise NonFiniteError("The training loss is not finite.")
            self._losses, self._known = self._losses + loss * weight, self._known + weight
            self._norms += norm
            self._clipped += norm > self._clip_norm

    @property
    def loss(self) -> float:
        """The mean of the losses that are on the host; NaN if there are none."""
        return self._losses / self._known if self._known else math.nan

    @property
    def means(self) -> dict[str, float]:
        """The mean norm of the gradients, and the share of those that were longer than the bound; after `fetch`."""
        return {"gradient_norm": self._norms / self.updates, "clipped": self._clipped / self.updates}
