"""The scaling of real inputs and targets by their means and standard deviations in the training part."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.data.ragged import RaggedPool
from hfrnn.errors import CheckpointError
from hfrnn.files import DESCRIPTION, read_bytes, write_atomic
from hfrnn.wording import brief

Vector = NDArray[np.float64]
_FIELDS = ("input_mean", "input_deviation", "target_mean", "target_deviation")


@brief
@dataclass(frozen=True, eq=False)
class Scaling:
    """The means and standard deviations of the training part.

    Attributes
    ----------
    input_mean, input_deviation : (n_in,) float64, or None
        None if the inputs are left as they are.
    target_mean, target_deviation : (n_out,) float64, or None
        None if the targets are left as they are.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> x = np.arange(40.0).reshape(10, 4, 1)
    >>> result = hfrnn.train(data={"x": x, "y": 2 * x}, standardize=True, arch="rnn", hidden=2, updates=1, out="run")
    >>> scaling = hfrnn.load_scaling("run")
    >>> scaling
    Scaling(input_mean=[17.5], input_deviation=[10.39], target_mean=[35], target_deviation=[20.78])
    """

    input_mean: Vector | None = None
    input_deviation: Vector | None = None
    target_mean: Vector | None = None
    target_deviation: Vector | None = None

    @staticmethod
    def measure(sequences: RaggedPool, inputs: bool = True, targets: bool = True) -> Scaling:
        """Return the scaling of some sequences.

        Parameters
        ----------
        sequences : RaggedPool
            The training part. Targets of weight 0 do not count.
        inputs, targets : bool
            Whether to scale them. Symbols are never scaled. An input of zeros and ones keeps its values, and one
            without variation is only shifted.
        """
        rows, values, counted = _in_order(sequences)
        found: list[Vector | None] = [None] * 4
        if inputs and not sequences.symbols:
            rows = rows.astype(np.float64, copy=False)  # (steps, n_in)
            mean, deviation = rows.mean(axis=0), rows.std(axis=0)
            plain = ((rows == 0) | (rows == 1)).all(axis=0)
            found[:2] = np.where(plain, 0.0, mean), np.where(plain | ~_varies(mean, deviation), 1.0, deviation)
        if targets and values.dtype.kind == "f":
            axes, values = tuple(range(values.ndim - 1)), values.astype(np.float64, copy=False)
            counted = np.broadcast_to(counted, values.shape)
            number = np.maximum(counted.sum(axis=axes), 1)
            mean = np.where(counted, values, 0.0).sum(axis=axes) / number
            deviation = np.sqrt((np.where(counted, values - mean, 0.0) ** 2).sum(axis=axes) / number)
            found[2:] = mean, np.where(_varies(mean, deviation), deviation, 1.0)
        return Scaling(*found)

    def scale_inputs(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return inputs (..., n_in) in units of their deviation, as the network reads them."""
        if self.input_mean is None or self.input_deviation is None:
            return inputs
        return (inputs - self.input_mean) / self.input_deviation

    def scale_targets(self, targets: NDArray[Any]) -> NDArray[Any]:
        """Return targets (..., n_out) in units of their deviation, as the network learns them."""
        if self.target_mean is None or self.target_deviation is None:
            return targets
        return (targets - self.target_mean) / self.target_deviation

    def unscale_outputs(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Return outputs (..., n_out) of the network in the units of the targets."""
        if self.target_mean is None or self.target_deviation is None:
            return outputs
        return outputs * self.target_deviation + self.target_mean

    def scale(self, sequences: RaggedPool, dtype: str | None = None) -> RaggedPool:
        """Return sequences with scaled inputs and targets, stored as `dtype`; symbols and classes as they are."""

        def stored(values: NDArray[Any], scaled: NDArray[Any]) -> NDArray[Any]:
            return values if scaled is values or values.dtype.kind != "f" else scaled.astype(dtype or scaled.dtype)

        x, y = sequences.x, sequences.y
        return replace(sequences, x=stored(x, self.scale_inputs(x)), y=stored(y, self.scale_targets(y)))

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as lists by name, as scaling.json holds them; None where nothing is scaled."""
        values = {name: getattr(self, name) for name in _FIELDS}
        return {name: None if value is None else value.tolist() for name, value in values.items()}

    @staticmethod
    def from_json(content: Any) -> Scaling:
        """Return the scaling that `to_json` described; raise CheckpointError if it is damaged."""
        given = content if isinstance(content, dict) else {}
        values = [given.get(name) for name in _FIELDS]
        if given.keys() != set(_FIELDS) or not (_fit(*values[:2]) and _fit(*values[2:])):
            raise CheckpointError("it holds no means and deviations above 0: restore it from a copy")
        return Scaling(*(None if value is None else np.array(value, dtype=np.float64) for value in values))

    @property
    def sha256(self) -> str:
        """The hash of the numbers."""
        return hashlib.sha256(json.dumps(self.to_json()).encode()).hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write scaling.json; raise StorageError if it cannot be written."""
        write_atomic(path, json.dumps(self.to_json(), indent=1) + "\n")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Scaling:
        """Read scaling.json of a run; raise CheckpointError if it is missing or damaged."""
        try:
            return Scaling.from_json(json.loads(read_bytes(path, DESCRIPTION, links=False)))
        except CheckpointError as error:
            raise CheckpointError(f"the scaling {path} is damaged: {error}") from error
        except OSError as error:
            raise CheckpointError(f"cannot read the scaling {path}: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"the scaling {path} is damaged: it is not JSON ({error})") from error


def _in_order(sequences: RaggedPool) -> tuple[NDArray[Any], NDArray[Any], Any]:
    """Return the inputs (steps, n_in), the targets (..., n_out), and which targets count, (..., n_out or 1).

    Sequences of equal length are read step by step: sums over them have the bits of sums over padded arrays.
    """
    if sequences.ragged:
        w = sequences.w
        return sequences.x, sequences.y, True if w is None else w.reshape(len(w), -1) > 0
    x, y, weights, _ = replace(sequences, dtype=None)
    T, N = weights.shape[:2]
    return x.reshape(T * N, *x.shape[2:]), np.ascontiguousarray(y), weights.reshape(T, N, -1) > 0


def _varies(mean: Vector, deviation: Vector) -> NDArray[np.bool_]:
    """Return for each column whether it varies: a constant column has rounding errors only."""
    return deviation > 1e-12 * np.abs(mean)


def _fit(mean: Any, deviation: Any) -> bool:
    """Return whether two values are None, or lists of as many means as deviations."""
    if mean is None or deviation is None:
        return mean is deviation
    numbers = _are_numbers(mean) and _are_numbers(deviation) and len(mean) == len(deviation)
    return numbers and all(each > 0 for each in deviation)


def _are_numbers(values: Any) -> bool:
    """Return whether a value is a list of finite floats."""
    return isinstance(values, list) and all(type(each) is float and np.isfinite(each) for each in values)
