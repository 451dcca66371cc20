"""Trials of unequal length: which of their axes holds the steps, and how they become arrays of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.array_shapes import stacked
from hfrnn.data.held import Content
from hfrnn.errors import InputError

Values = NDArray[Any]
MOST_CLASSES = 100
"""Real targets with more different values than this are not taken for classes."""


class Trials:
    """Trials by role, x, y and mask: arrays (steps, n), the same number of each.

    Parameters
    ----------
    given : dict of str to list of ndarray
        Numbers with at most two axes. The steps are on the first one. They are on the second one if only that makes the
        trials unequal, or if only that fits the other role.
    names : dict of str to str
        What the user calls each role.
    source : str
        The file, for messages.

    Attributes
    ----------
    roles : dict of str to list of ndarray
        With the steps on the first axis. Targets of the last step only have one row.
    notes : list of str
    """

    def __init__(self, given: dict[str, list[Values]], names: dict[str, str], source: str) -> None:
        self.names, self.source, self.notes = names, source, list[str]()
        self.roles = {role: [self._matrix(each, role) for each in values] for role, values in given.items()}
        first = len(self.roles["x"])
        for role, values in self.roles.items():
            if len(values) != first:
                raise InputError(
                    f"{names[role]} of {source} holds {len(values)} trials and {names['x']} {first}: give as many"
                )
        self._turn()

    def _matrix(self, values: Values, role: str) -> Values:
        if values.ndim > 2:
            raise InputError(
                f"{self.names[role]} of {self.source} holds a trial of shape {values.shape}: give (steps, n)"
            )
        return values.reshape(1, 1) if values.ndim == 0 else values[:, None] if values.ndim == 1 else values

    def _turn(self) -> None:
        """Put the steps of all roles on the first axis."""
        x, y = self.roles["x"], self.roles.get("y")
        axis = _axis(x)
        if y is not None:
            own = _axis(y)
            orders = [(axis, own), (axis, 1 - own)]
            if len({each.shape for each in x}) == 1 and x[0].shape[1 - axis] > x[0].shape[axis]:
                orders += [(1 - axis, own), (1 - axis, 1 - own)]  # only if this makes the trials longer
            fits = (pair for pair in orders if _steps(x, pair[0]) == _steps(y, pair[1]))
            chosen = next(fits, None)
            if chosen is not None:
                axis = chosen[0]
                self.roles["y"] = self._turned("y", chosen[1])
            else:
                self.roles["y"] = self._last_targets(_steps(x, axis))
        self.roles["x"] = self._turned("x", axis)
        if "mask" in self.roles:
            steps, mask = _steps(self.roles["x"], 0), self.roles["mask"]
            self.roles["mask"] = mask if _steps(mask, 0) == steps else [each.T for each in mask]
            self._check("mask")

    def _turned(self, role: str, axis: int) -> list[Values]:
        values = self.roles[role]
        if axis and any(len(each) > 1 for each in values):
            self.notes.append(f"{self.names[role]}: its second axis holds the steps")
        return [each.T for each in values] if axis else values

    def _last_targets(self, steps: list[int]) -> list[Values]:
        """Return targets of the last step, (1, n_out) for each trial."""
        y = self.roles["y"]
        if all(1 in each.shape for each in y) and len({each.size for each in y}) == 1:
            return [each.reshape(1, -1) for each in y]
        self.roles["x"] = [each if len(each) == n else each.T for each, n in zip(self.roles["x"], steps, strict=True)]
        self._check("y")
        return y

    def _check(self, role: str) -> None:
        """Raise InputError if the trials of a role have other steps than those of x."""
        for n, (one, other) in enumerate(zip(self.roles["x"], self.roles[role], strict=True), 1):
            if len(one) != len(other):
                raise InputError(
                    f"trial {n} of {self.source} has {len(one)} steps in {self.names['x']} and {len(other)} in "
                    f"{self.names[role]}: give as many in both"
                )

    def sequences(self) -> dict[str, Content]:
        """Return an array (steps, n) for each trial, or one array (sequences, steps, n) of trials of one length.

        Classes and symbols have no last axis. Targets of the last step are (sequences, n_out), classes (sequences,).
        """
        longest = max(_steps(self.roles["x"], 0))
        found: dict[str, Content] = {}
        for role, values in self.roles.items():
            arrays = _alike(values, f"{self.names[role]} of {self.source}")
            if role == "y" and longest > 1 and all(len(each) == 1 for each in values):
                last = np.concatenate(arrays)  # (N, n_out)
                found[role] = last if last.shape[1] > 1 or last.dtype.kind == "f" else last[:, 0]
                continue
            if arrays[0].shape[1] == 1 and arrays[0].dtype.kind in "iu":
                arrays = [each[:, 0] for each in arrays]
            found[role] = stacked(arrays)
        return found


def _axis(values: Sequence[Values]) -> int:
    """Return the axis that looks like that of the steps."""
    first, second = ({each.shape[n] for each in values} for n in (0, 1))
    return int(len(first) == 1 and (len(second) > 1 or (first == {1} and second != {1})))


def _steps(values: Sequence[Values], axis: int) -> list[int]:
    return [each.shape[axis] for each in values]


def _alike(values: Sequence[Values], name: str) -> list[Values]:
    """Return trials (steps, n) as arrays of one type."""
    widths = {each.shape[1] for each in values}
    if len(widths) > 1:
        raise InputError(f"{name} holds trials of {min(widths)} to {max(widths)} columns: give as many in each")
    kind = np.result_type(*values)
    return [each.astype(kind, copy=False) for each in values]


def beside(parts: Sequence[Sequence[Values]], names: Sequence[str], source: str) -> list[Values]:
    """Return the columns of several names side by side, for each trial or recording: (steps, n)."""
    counts = {len(each) for each in parts}
    if len(counts) > 1:
        raise InputError(f"{' and '.join(names)} of {source} hold {min(counts)} and {max(counts)} trials: give as many")
    if len(parts) == 1:
        return list(parts[0])
    turned = [Trials({"x": list(each)}, {"x": name}, source).roles["x"]
              for each, name in zip(parts, names, strict=True)]  # fmt: skip
    found = []
    for pieces in zip(*turned, strict=True):
        lengths = {len(each) for each in pieces}
        if len(lengths) > 1:
            raise InputError(
                f"{' and '.join(names)} of {source} have {min(lengths)} and {max(lengths)} steps: give as many in each"
            )
        found.append(np.concatenate(pieces, axis=1))
    return found


def first_class(targets: Sequence[Values], loss: str) -> int:
    """Return 1 if targets that MATLAB wrote are classes that count from 1, else 0.

    With the softmax loss these are whole numbers from 1. With "auto" they are integers in one column, or real numbers
    that take all values from 1 to at most 100 and each of them twice, on the average.
    """
    if loss not in ("auto", "softmax") or not targets or not all(each.size for each in targets):
        return 0
    real = any(each.dtype.kind == "f" for each in targets)
    if any(each.dtype.kind == "b" for each in targets) or any(each.ndim > 2 for each in targets):
        return 0
    values = np.unique(np.concatenate([np.ravel(each) for each in targets]))
    if real and loss == "softmax":
        values = values[np.isfinite(values)]  # others are not scored
    if not values.size or values[0] != 1 or not np.isfinite(values).all() or (values != np.floor(values)).any():
        return 0
    if loss == "softmax" or not real:
        return 1
    several = sum(each.size for each in targets) >= 2 * len(values)
    return int(1 < len(values) <= MOST_CLASSES and values[-1] == len(values) and several)
