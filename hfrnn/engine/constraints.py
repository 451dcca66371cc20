"""Weights that stay 0 and weights that keep a sign: fixed connectivity, and Dale's law.

    C1  P x            x with 0 in the entries of absent weights
    C2  project(theta) P theta with 0 in the entries of the wrong sign: the nearest vector that the constraints allow
    C3  held           absent weights, and weights at 0 with a sign s where s*g >= 0: a step along -g leaves C2's set

An objective with constraints is f(project(theta)). Its gradient is P g, and its curvature P G P. Hessian-free updates
solve for the entries that are not held (Bertsekas 1982, *Projected Newton methods*), and project every trial point.
First-order steps are projected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array, Backend, HostArray
from hfrnn.arrays.checks import array, as_array
from hfrnn.arrays.parameters import Block
from hfrnn.arrays.threads import CallLock
from hfrnn.checks import instance, shown
from hfrnn.engine.layout import Layout
from hfrnn.engine.operators import check_output, make_operator
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
    docs/constraints.md explains how the optimizers respect constraints, with measurements.
    """

    def __init__(
        self, net: Layout, masks: Mapping[str, Any] | None = None, signs: Mapping[str, Any] | None = None
    ) -> None:
        self.net: Layout = instance("net", net, Layout, "a hfrnn.Network")
        codes, exists = (np.zeros(net.n_parameters, dtype) for dtype in ("int8", "bool"))
        exists[:] = True
        for what, given, flat in (("mask", masks, exists), ("sign", signs, codes)):
            instance(f"{what}s", given, Mapping, "arrays by name of a parameter", or_none=True)
            blocks = {block.name: block for block in net.parameters.blocks}
            for name, value in (given or {}).items():
                if name not in blocks:
                    raise InputError(
                        f"there is a {what} for {shown(name)}: this network has the parameters {', '.join(blocks)}"
                    )
                blocks[name].view(flat)[...] = self._whole(blocks[name], value, what)
        codes[~exists] = ABSENT
        self._set(codes)

    def _set(self, codes: HostArray) -> None:
        """Take the code of every weight: its sign, or `ABSENT`."""
        asarray, signs = self.net.backend.asarray, np.where(codes == ABSENT, 0, codes).astype("int8")
        self.codes, self.absent, self.signs = codes, asarray(codes == ABSENT), asarray(signs)
        self._signed = bool(signs.any())

    def _whole(self, block: Block, value: Any, what: str) -> HostArray:
        """Return a given mask or array of signs in the shape of its parameter."""
        name, shape = f"the {what} of {block.name}", block.shape
        given = self.net.backend.to_host(as_array(name, value, self.net.backend))
        gates = self.net.gates(block.name, shape[-1]) if len(shape) > 1 else 1
        of_gate = *shape[-2:-1], shape[-1] // gates
        fitting = list(dict.fromkeys((shape, shape[-2:], of_gate, shape[-2:-1] or shape)))
        if given.shape not in fitting or given.dtype.kind not in "fiub":
            wanted = " or ".join(map(str, fitting))
            raise InputError(f"{name} has shape {given.shape} and type {given.dtype}: give numbers of shape {wanted}")
        allowed = (0, 1) if what == "mask" else (-1, 0, 1)
        if not np.isin(given, allowed).all():
            raise InputError(f"{name} has other values than {', '.join(map(str, allowed))}: give only these")
        if given.shape == shape[-2:-1]:
            given = given[:, None]
        elif given.shape == of_gate:
            given = np.tile(given, gates)
        return np.broadcast_to(given, shape)

    @classmethod
    def of_codes(cls, net: Layout, codes: Any) -> Constraints:
        """Return the constraints with given `codes`, as a checkpoint stores them.

        Parameters
        ----------
        net : Network
        codes : (n_parameters,) array of int8
            0, 1 and -1 for signs, 2 for absent weights.

        Raises
        ------
        InputError
            They do not fit the network, or are no codes.
        """
        found = cls(net)
        codes = net.backend.to_host(array("codes", codes, (net.n_parameters,), "i"))
        if not np.isin(codes, (-1, 0, 1, ABSENT)).all():
            raise InputError(f"codes has other values than -1, 0, 1 and {ABSENT}: give the codes of Constraints")
        found._set(codes.astype("int8"))
        return found

    def project(self, theta: Array, out: Array | None = None) -> Array:
        """Return the nearest parameters that the constraints allow: absent weights, and those of a wrong sign, are 0.

        Parameters
        ----------
        theta : (n_parameters,) array
        out : (n_parameters,) array, optional
            Array for the result, which may be theta; by default a new one.

        Returns
        -------
        (n_parameters,) array
        """
        theta = self.net.vector(theta)
        if out is None:
            out = theta.copy()
        elif out is not theta:
            check_output(self.net.backend, "out", out, (self.net.n_parameters,), self.net.dtype)
            out[...] = theta
        self.restrict(out)
        if self._signed:
            out[out * self.signs < 0] = 0  # C2
        return out

    def restrict(self, x: Array) -> None:
        """Write 0 into the entries of absent weights of an array (..., n_parameters)."""
        x[..., self.absent] = 0  # C1

    def held(self, theta: Array, gradient: Array) -> Array:
        """Return which weights an update must not move (C3), (n_parameters,) bool.

        Parameters
        ----------
        theta : (n_parameters,) array
            Parameters that the constraints allow.
        gradient : (n_parameters,) array
        """
        if not self._signed:
            return self.absent
        return self.absent | ((theta == 0) & (self.signs != 0) & (gradient * self.signs >= 0))

    def allows(self, theta: Array) -> bool:
        """Return whether all absent weights of theta (n_parameters,) are 0 and all signs are right."""
        theta = self.net.vector(theta)
        return bool((self.project(theta) == theta).all().item())

    def initial(self, theta: Array) -> Array:
        """Return initial parameters that the constraints allow, made of unconstrained ones.

        Absent weights become 0, and all others get their signs. A unit that receives weights of both signs gets
        smaller or larger negative ones, so that their sum is 0 (Song and others 2016). At the end each
        constrained matrix is scaled to its Frobenius norm in theta.

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
    signed = (codes == 1) | (codes == -1)
    new = np.where(codes == ABSENT, 0.0, np.where(signed, abs(w) * codes, w))
    if new.ndim == 2:
        positive, negative = (np.where(codes == sign, abs(new), 0.0).sum(0) for sign in (1, -1))
        balance = np.divide(positive, negative, out=np.ones_like(positive), where=(positive > 0) & (negative > 0))
        new = np.where(codes == -1, new * balance, new)
    before, after = np.linalg.norm(w), np.linalg.norm(new)
    return new * (before / after) if after > 0 else new


def checked_constraints(constraints: Any, net: Layout) -> Constraints | None:
    """Return constraints, or None, after checking that they fit a network."""
    found: Constraints | None = instance("constraints", constraints, Constraints, "a hfrnn.Constraints", or_none=True)
    if found is None:
        return None
    if found.net.parameters.blocks != net.parameters.blocks or found.net.backend.xp is not net.backend.xp:
        raise InputError("the constraints are of another network: make them for this one")
    return found


def constrained_operator(
    constraints: Constraints | None,
    backend: Backend,
    shape: tuple[int, int],
    dtype: Any,
    apply: Callable[[Array, Array], None],
    adjoint: Callable[[Array, Array], None] | None = None,
) -> Any:
    """Return `make_operator` of P A P for a symmetric A, and of A P if an adjoint is given; of A without constraints.

    The arguments are those of `make_operator`.
    """
    if constraints is None:
        return make_operator(backend, shape, dtype, apply, adjoint)
    scratch, lock = backend.empty((shape[1],), dtype), CallLock()

    def restricted(v: Array, out: Array) -> None:
        with lock:
            scratch[...] = v
            constraints.restrict(scratch)
            apply(scratch, out)
        if adjoint is None:
            constraints.restrict(out)

    def restricted_adjoint(u: Array, out: Array) -> None:
        assert adjoint is not None
        adjoint(u, out)
        constraints.restrict(out)

    return make_operator(backend, shape, dtype, restricted, None if adjoint is None else restricted_adjoint)
