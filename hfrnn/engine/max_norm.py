"""Bounds for the length of the weights into each unit of a network, imposed after a step.

Matrices act on rows, x @ W, so column j of a matrix (n_in, n_out) holds the weights into unit j:

    N1  W_j <- W_j * min(1, c/|W_j|)

This is the constraint of Hinton and others (2012), "max norm" in [S thesis] 6.1.5 and "column normalization" in [S],
both after Pachitariu & Sahani (2013). [S] gives no c and does not say which matrices it means. [S thesis] bounds |w|^2
by its constant, and we bound |w|.

- One number bounds all weights into a unit as one vector: a column of all matrices whose products are added up in it.
  Each gate of a cell is a unit of its own. `Kernel.added_to` says to what products with recurrent matrices are added.
- A number by name bounds each column of that parameter by itself. A block with three axes is a matrix for each index
  of the first one: the orders of a HORNN.
- An embedding has no units with weights from several inputs at once: its vectors are its rows, one for each symbol.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.checks import POSITIVE, instance, near_hint, number, shown
from hfrnn.engine.layout import Layout
from hfrnn.engine.operators import check_output
from hfrnn.errors import InputError
from hfrnn.kernels.base import Kernel
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
            self._joint = _matrices_into_units(net)
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
        views = self.net.views(theta)
        if self.of_units is not None:
            for columns in self._joint:
                max_norm([_columns(name, views[name])[index] for name, index in columns], self.of_units)
            return
        for name, bound in self.of_columns.items():
            _bound_columns(_columns(name, views[name]), bound)


UnitColumns = list[tuple[str, Any]]
"""Columns of parameter blocks, one for each of some units: the name of a block, and the index of its columns."""


def _matrices_into_units(net: Layout) -> list[UnitColumns]:
    """Return, for each group of units, the columns of all matrices whose products are added up in these units."""
    found: defaultdict[Any, UnitColumns] = defaultdict(list)
    matrices = {block.name: block.shape for block in net.parameters.blocks if len(block.shape) > 1 and block.size}
    for name in matrices:
        if name.startswith("output."):
            found["classes" if name.startswith("output.W_class") else "outputs"].append((name, ...))
        elif name == EMBEDDING:
            found[name].append((name, ...))
    for l, layer in enumerate(net.layers):
        at = 0
        for slot in layer.kernel.slots:
            units = None if layer.kernel.one_unit else slot.name
            for name, columns in (("W_x", layer.direct), ("W_below", layer.below)):
                for first, start, width in columns.runs:
                    if first <= at < first + width:
                        here = start + at - first
                        found[l, units].append((f"layer{l}.{name}", np.s_[..., here : here + slot.width]))
            at += slot.width
        for own in layer.kernel.parameter_shapes():
            if (name := f"layer{l}.{own}") in matrices:
                for units, index in _columns_into_slots(layer.kernel, own, matrices[name]):
                    found[l, units].append((name, index))
    return list(found.values())


def _columns_into_slots(kernel: Kernel, name: str, shape: tuple[int, ...]) -> list[tuple[Any, Any]]:
    """Return the slots to which products with a recurrent matrix are added, each with the index of its columns.

    A matrix that is added to no slot has units of its own.
    """
    widths = {slot.name: slot.width for slot in kernel.slots}
    as_wide = tuple(widths) if sum(widths.values()) == shape[-1] else ()
    slots = as_wide if kernel.added_to is None else kernel.added_to.get(name, ())
    if not slots:
        return [((name, index), index) for index in np.ndindex(shape[:-2])]
    ends = list(accumulate(widths[slot] for slot in slots))
    if ends[-1] != shape[-1]:
        return [(slot, n) for n, slot in enumerate(slots)]
    return [(slot, np.s_[..., end - widths[slot] : end]) for slot, end in zip(slots, ends, strict=True)]


def _bound_columns(W: Array, bound: float) -> None:
    """Bound the columns of each matrix of a block (..., n, H) by themselves."""
    for index in np.ndindex(W.shape[:-2]):
        max_norm([W[index]], bound)


def _columns(name: str, W: Array) -> Array:
    """Return a matrix with the vectors to bound as its columns."""
    return W.T if name == EMBEDDING else W
