"""Weights that stay 0 and weights that keep a sign: fixed connectivity, and Dale's law.

The optimizers see variables v in place of the weights w. A weight with a sign s is s*v^2:

    C1  w = 0, s*v^2 or v           absent, with a sign, free
    C2  D = dw/dv = 0, 2*s*v or 1

Without signs, v and w are the same. docs/constraints.md compares this with a projection of every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hfrnn.arrays.array_checks import array, as_array
from hfrnn.arrays.backend import Array, HostArray
from hfrnn.arrays.parameters import Block
from hfrnn.checks import instance, shown
from hfrnn.engine.layout import Layout
from hfrnn.errors import InputError

ABSENT = 2
"""Code of an absent weight; other codes are signs."""


class Constraints:
    """Which weights of a network are absent, and which ones keep a sign.

    Parameters
    ----------
    net : Network
    masks : mapping of str to array, optional
        By name of a parameter, 1 where the weight exists and 0 where it stays 0. An array has the shape of its
        parameter (`net.views(theta)[name].shape`), or a part of it, which is repeated: (rows, H) for the gates of
        a (rows, k*H) matrix, (H, H) for every order of a HORNN, (rows,) for all columns. Row i holds the weights that
        leave unit i.
    signs : mapping of str to array, optional
        By name of a parameter, the sign of each weight, in the shapes of `masks`: 1 for 0 or more, -1 for 0 or less,
        0 for any sign. With Dale's law, all weights that leave a unit have one sign: give (rows,).

    Attributes
    ----------
    absent : (n_parameters,) array of bool
        Whether a weight is absent.
    signs : (n_parameters,) array of int8
        The sign of each weight; 0 for any sign, and for absent weights.
    codes : (n_parameters,) ndarray of int8
        The same in one array: 2 for an absent weight, else the sign.

    Raises
    ------
    InputError
        There is no parameter of a name, or an array has another shape or other values.

    Notes
    -----
    A `ConstrainedObjective` is a function of `variables(w)`, and an optimizer of it finds such variables:

        v = constraints.variables(constraints.initial(net.init(seed=0)))
        objective = hfrnn.ConstrainedObjective(hfrnn.Objective(net, batch), constraints)
        v = optimizer.update(v, objective).theta
        theta = constraints.weights(v)

    Without signs, all optimizers but SOAP and Muon keep absent weights at 0 by themselves; `weights` does it for all.
    A weight with a sign that is exactly 0 has no gradient, and stays 0.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> mask = np.tri(3)  # unit i feeds units 0 to i
    >>> constraints = hfrnn.Constraints(net, {"layer0.W_h": mask})
    >>> constraints
    <Constraints of <Network rnn 3, 2 in, 1 out (squared), 21 weights>: 3 absent, 0 with a sign>
    >>> theta = constraints.initial(net.init(seed=0))
    >>> bool((net.views(theta)["layer0.W_h"][mask == 0] == 0).all())
    True
    """

    def __init__(
        self, net: Layout, masks: Mapping[str, Any] | None = None, signs: Mapping[str, Any] | None = None
    ) -> None:
        self.net: Layout = instance("net", net, Layout, "a hfrnn.Network")
        codes, exists = np.zeros(net.n_parameters, "int8"), np.ones(net.n_parameters, bool)
        for what, given, flat in (("mask", masks, exists), ("sign", signs, codes)):
            instance(f"{what}s", given, Mapping, "arrays by name of a parameter", or_none=True)
            blocks = {block.name: block for block in net.parameters.blocks}
            for name, value in (given or {}).items():
                if name not in blocks:
                    raise InputError(
                        f"{what}s has an array for {shown(name)}: this network has the parameters {', '.join(blocks)}"
                    )
                blocks[name].view(flat)[...] = self._whole(blocks[name], value, what)
        codes[~exists] = ABSENT
        self._set(codes)

    def __repr__(self) -> str:
        absent, signs = int((self.codes == ABSENT).sum()), int(np.isin(self.codes, (1, -1)).sum())
        return f"<Constraints of {self.net!r}: {absent:,} absent, {signs:,} with a sign>"

    def _set(self, codes: HostArray) -> None:
        """Take the code of every weight: its sign, or `ABSENT`."""
        asarray, signs = self.net.backend.asarray, np.where(codes == ABSENT, 0, codes).astype("int8")
        self.codes, self.absent, self.signs = codes, asarray(codes == ABSENT), asarray(signs)
        self._signed, self._s = asarray(signs != 0), asarray(signs.astype(self.net.dtype))

    def _whole(self, block: Block, value: Any, what: str) -> HostArray:
        """Return a given mask or array of signs in the shape of its parameter."""
        name, shape = f"the {what} of {block.name}", block.shape
        given = self.net.backend.to_host(as_array(name, value, self.net.backend))
        gates = self.net.gates(block.name, shape[-1]) if len(shape) > 1 else 1
        rows = shape[-2:-1]
        of_gate = *rows, shape[-1] // gates
        fitting = list(dict.fromkeys((shape, of_gate, rows or shape)))
        if given.shape not in fitting or given.dtype.kind not in "fiub":
            wanted = " or ".join(map(str, fitting))
            raise InputError(f"{name} has shape {given.shape} and type {given.dtype}: give numbers of shape {wanted}")
        allowed = (0, 1) if what == "mask" else (-1, 0, 1)
        if not np.isin(given, allowed).all():
            raise InputError(f"{name} has other values than {', '.join(map(str, allowed))}: give only these")
        if given.shape == rows:
            given = given[:, None]
        elif given.shape == of_gate:
            given = np.tile(given, gates)
        return np.broadcast_to(given, shape)

    @classmethod
    def of_codes(cls, net: Layout, codes: Any) -> Constraints:
        """Return the constraints with given `codes` (n_parameters,), as a checkpoint stores them."""
        found = cls(net)
        codes = net.backend.to_host(array("codes", codes, (net.n_parameters,), "i"))
        if not np.isin(codes, (-1, 0, 1, ABSENT)).all():
            raise InputError(f"codes has other values than -1, 0, 1 and {ABSENT}: give the codes of Constraints")
        found._set(codes.astype("int8"))
        return found

    def weights(self, variables: Array) -> Array:
        """Return the weights of given variables (C1): absent ones are 0, and all signs are right.

        Parameters
        ----------
        variables : (n_parameters,) array

        Returns
        -------
        (n_parameters,) array
            A new vector.
        """
        v, where = self.net.lazy_vector(variables, "variables"), self.net.backend.xp.where
        return where(self.absent, 0, where(self._signed, self._s * v * v, v))  # C1

    def variables(self, weights: Array, like: Array | None = None) -> Array:
        """Return variables of given weights; 0 for absent weights.

        Parameters
        ----------
        weights : (n_parameters,) array
            Weights that the constraints allow.
        like : (n_parameters,) array, optional
            Variables of other weights, whose signs are used. By default those of weights with a sign are 0 or more.

        Returns
        -------
        (n_parameters,) array
            A new vector.

        Raises
        ------
        InputError
            The constraints do not allow the weights.
        """
        w = self.net.vector(weights, "weights")
        if not self.allows(w):
            raise InputError(
                "weights has an entry other than 0 for an absent weight, or one of the wrong sign: give weights that "
                "the constraints allow, such as initial(net.init())"
            )
        return self.lazy_variables(w, None if like is None else self.net.vector(like, "like"))

    def lazy_variables(self, weights: Array, like: Array | None = None) -> Array:
        """Return `variables` of weights that are known to be allowed, without a check, which waits for a device."""
        root, xp = self.net.backend.xp.sqrt(self._s * weights), self.net.backend.xp
        if like is not None:
            root = xp.where(like < 0, -root, root)
        return xp.where(self._signed, root, weights)

    def slopes(self, variables: Array) -> Array:
        """Return dw/dv of all weights (C2) at variables (n_parameters,), of their type."""
        where = self.net.backend.xp.where
        return where(self.absent, 0, where(self._signed, 2 * self._s * variables, 1))  # C2

    def restrict(self, variables: Array) -> None:
        """Write 0 into the entries of absent weights of a vector (n_parameters,)."""
        variables[...] = self.net.backend.xp.where(self.absent, 0, variables)

    def nearest(self, weights: Array) -> Array:
        """Return the allowed weights nearest to given ones: absent weights and weights of the wrong sign become 0.

        Parameters
        ----------
        weights : (n_parameters,) array

        Returns
        -------
        (n_parameters,) array
            A new vector.
        """
        w = self.net.lazy_vector(weights, "weights")
        return self.net.backend.xp.where(self.absent | (self._s * w < 0), 0, w)

    def allows(self, weights: Array) -> bool:
        """Return whether all absent weights (n_parameters,) are 0 and all signs are right."""
        w = self.net.vector(weights, "weights")
        stray = self.net.backend.xp.where(self.absent, w, 0)
        return bool(stray.min().item() == stray.max().item() == 0 and (self._s * w).min().item() >= 0)

    def initial(self, theta: Array) -> Array:
        """Return initial parameters that the constraints allow, made of unconstrained ones.

        Absent weights become 0, and all others get their signs. Weights with a sign that are 0 take the absolute
        values of the others of their matrix, in order. A unit that receives weights of both signs gets smaller or
        larger negative ones, so that their sum is 0 (Song and others 2016). At the end, each constrained matrix is
        scaled to its Frobenius norm in theta.

        Parameters
        ----------
        theta : (n_parameters,) array
            For example `net.init(seed=0)`.

        Returns
        -------
        (n_parameters,) array
            A new vector.
        """
        values = self.net.backend.to_host(self.net.vector(theta)).astype("float64")
        for block in self.net.parameters.blocks:
            W, codes = block.view(values), block.view(self.codes)
            gates = self.net.gates(block.name, block.shape[-1]) if W.ndim > 1 else 1
            for w, c in zip(np.split(W, gates, -1), np.split(codes, gates, -1), strict=True):
                for index in np.ndindex(w.shape[:-2]):
                    if c[index].any():
                        w[index] = _imposed(w[index], c[index])
        return self.net.backend.asarray(values, dtype=self.net.dtype)


def _imposed(w: HostArray, codes: HostArray) -> HostArray:
    """Return one matrix, or a vector, of initial weights with its constraints."""
    signed, size = (codes == 1) | (codes == -1), abs(w)
    zero, others = signed & (w == 0), size[w != 0]
    size[zero] = np.resize(others, zero.sum()) if others.size else 0.0
    new = np.where(codes == ABSENT, 0.0, np.where(signed, size * codes, w))
    if new.ndim == 2:
        positive, negative = (np.where(codes == sign, abs(new), 0.0).sum(0) for sign in (1, -1))
        balance = np.divide(positive, negative, out=np.ones_like(positive), where=(positive > 0) & (negative > 0))
        new = np.where(codes == -1, new * balance, new)
    before, after = np.linalg.norm(w), np.linalg.norm(new)
    return new * (before / after) if after > 0 else new
