"""Bounds for the length of the weights into each unit of a network, imposed after a step.

Matrices act on rows, x @ W, so column j of a matrix (n_in, n_out) holds the weights into unit j:

    N1  W_j <- W_j * min(1, c/|W_j|)

This is the constraint of Hinton and others (2012), "max norm" in [S thesis] 6.1.5 and "column normalization" in [S],
both after Pachitariu & Sahani (2013). [S] gives no c and does not say which matrices it means. [S thesis] bounds |w|^2
by its constant, and we bound |w|.

- One number bounds all weights into a unit as one vector: a column of all matrices whose products are added up in it.
- A number by name bounds each column of that parameter by itself. A block with three axes is a matrix for each index
  of the first one: the orders of a HORNN.
- An embedding has no units with weights from several inputs at once: its vectors are its rows, one for each symbol.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.checks import POSITIVE, instance, near_hint, number, shown
from hfrnn.engine.layout import Layout
from hfrnn.engine.operators import check_output
from hfrnn.errors import InputError
from hfrnn.optim.clipping import max_norm

EMBEDDING = "embedding.E"


class MaxNorm:
    """Largest Euclidean norm of the weights into each unit of a network.

    Parameters
    ----------
    net : Network
    bound : float, or mapping of str to float
        A number, above 0, for all weights into a unit together; or numbers by name of a parameter that is a matrix
        (`layer0.W_h`), each for the columns of that matrix alone. In a name, `*` stands for any characters; a
        later name replaces an earlier one. Biases and other vectors have no bound.

    Raises
    ------
    InputError
        A bound is out of range, or the network has no matrix of a name.

    Notes
    -----
    The bounds are a convex set, so an average of weights that keep them keeps them too. `impose` projects onto it.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> theta = np.ones(net.n_parameters)
    >>> hfrnn.MaxNorm(net, {"layer0.W_h": 0.5}).impose(theta)
    >>> np.linalg.norm(net.views(theta)["layer0.W_h"], axis=0).round(6).tolist()
    [0.5, 0.5, 0.5]
    """

    def __init__(self, net: Layout, bound: float | Mapping[str, float]) -> None:
        self.net: Layout = instance("net", net, Layout, "a hfrnn.Network")
        self.of_units: float | None = None
        self.of_columns: dict[str, float] = {}
        if not isinstance(bound, Mapping):
            self.of_units = number("bound", bound, POSITIVE)
            return
        names = [block.name for block in net.parameters.blocks if len(block.shape) > 1]
        if not bound:
            raise InputError(f"bound has no names: give numbers for some of {', '.join(names)}")
        for pattern, value in bound.items():
            found = [name for name in names if isinstance(pattern, str) and fnmatchcase(name, pattern)]
            if not found:
                raise InputError(
                    f"a norm bound is given for {shown(pattern)}{near_hint(pattern, names)}, which is not a matrix "
                    f"of this network: use {', '.join(names)}"
                )
            self.of_columns |= dict.fromkeys(found, number(f"bound of {pattern}", value, POSITIVE))

    def impose(self, theta: Array) -> None:
        """Scale down the vectors of theta that are too long, in place (N1).

        Parameters
        ----------
        theta : (n_parameters,) array, of the type of the network
        """
        check_output(self.net.backend, "theta", theta, (self.net.n_parameters,), self.net.dtype)
        if self.of_units is not None:
            self._bound_units(theta, self.of_units)
            return
        views = self.net.views(theta)
        for name, bound in self.of_columns.items():
            _bound_columns(_columns(name, views[name]), bound)

    def _bound_units(self, theta: Array, bound: float) -> None:
        """Bound all weights into each unit. Matrices of equal width in a layer feed the same units.

        So do the matrices of a block with three axes that have a column for each unit of the layer (all orders of a
        HORNN), but not those with other widths (`W_up` of gated-feedback).
        """
        for layer, group in self.net.groups(theta).items():
            matrices = [_columns(f"{layer}.{name}", W) for name, W in group.items() if W.ndim >= 2 and W.size]
            apart = [W for W in matrices if W.ndim > 2 and W.shape[-1] % self.net.hidden[int(layer[5:])]]
            for W in apart:
                _bound_columns(W, bound)
            joint = [W for W in matrices if all(W is not other for other in apart)]
            for width in {W.shape[-1] for W in joint}:
                max_norm([W for W in joint if W.shape[-1] == width], bound)


def _bound_columns(W: Array, bound: float) -> None:
    """Bound the columns of each matrix of a block (..., n, H) by themselves."""
    for index in np.ndindex(W.shape[:-2]):
        max_norm([W[index]], bound)


def _columns(name: str, W: Array) -> Array:
    """Return a matrix with the vectors to bound as its columns."""
    return W.T if name == EMBEDDING else W
