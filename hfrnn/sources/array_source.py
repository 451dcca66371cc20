"""Training and validation sequences from arrays and tables: of a file, or from the memory of a Python program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hfrnn.arrays.backend import HostArray
from hfrnn.choices import IN_MEMORY
from hfrnn.data.array_data import ArrayData
from hfrnn.data.scaling import Scaling
from hfrnn.data.tasks import TaskSequences
from hfrnn.engine.batch import Batch
from hfrnn.errors import InputError
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.folder import RunFolder
from hfrnn.sources.given import Memory, same_shapes
from hfrnn.sources.read import load_run_arrays
from hfrnn.sources.source import Pool, Source, as_before
from hfrnn.wording import counted

REASONABLE = 30.0
"""With larger absolute values of inputs or targets, a run prints a hint to scale them."""

FAR = 2.0
"""If the mean of an input or a target is more deviations away from 0 than this, a run prints the same hint."""

_LISTED = 8  # most constant columns that are named


class ArraySource(Source):
    """Sequences of arrays or of a table, scaled if the options ask for it.

    Parameters
    ----------
    config : TrainConfig
        The options, resolved.
    data : ArrayData
    known : RunFolder, optional
        The run whose scaling is used; by default it is measured on the training part.
    """

    unit = "time step"

    def __init__(self, config: TrainConfig, data: ArrayData, known: RunFolder | None = None) -> None:
        self.name, self.sha256, self.data, self._dtype = data.name, data.sha256, data, config.dtype
        self.network = {"n_in": data.n_in, "n_out": data.n_out, "loss": data.loss}
        self.counts_errors = data.loss == "softmax"
        self.scaling = _scaling(config, data, known)
        self._pool = Pool(*self._ready(data.train))
        self.validation: Batch | None = None
        if data.valid is not None:
            self.validation = Pool(*self._ready(data.valid)).batch(slice(None))

    def pool(self, epoch: int) -> Pool:
        return self._pool

    def part(self, name: str) -> Pool:
        return Pool(*self._ready(self.sequences(name)))

    def sequences(self, name: str) -> TaskSequences:
        """Return the sequences of a part, in the units of the data.

        Parameters
        ----------
        name : {"train", "valid", "test"}

        Raises
        ------
        InputError
            There is no such part.
        """
        if name not in self.data.parts:
            raise InputError(f"{self.name} has no {name} part: use {' or '.join(self.data.parts)}")
        return self.data.parts[name]

    def lines(self) -> list[str]:
        data, T = self.data, self._pool.inputs.shape[0]
        short = "" if int(data.train.lengths.min()) == T else " at most"
        sizes = f"{counted(data.train.lengths.size, 'sequence')} of{short} {counted(T, 'step')} to train on"
        valid = "none to validate" if data.valid is None else f"{data.valid.lengths.size:,} to validate"
        inputs = counted(data.n_in, "symbol" if data.symbols else "input") + _named(data.input_names)
        outputs = f"{data.n_out:,} classes" if self.counts_errors else counted(data.n_out, "output")
        lines = [f"data      {self.name}: {sizes}, {valid}"]
        lines.append(f"          {inputs}, {outputs}{_named(data.target_names)}")
        lines.append(f"loss      {data.loss}: {data.reason}")
        if self.scaling is not None:
            scaled = ["inputs"] * (self.scaling.input_mean is not None)
            scaled += ["targets"] * (self.scaling.target_mean is not None)
            lines.append(f"scaling   {' and '.join(scaled)} in units of their deviation in the training part")
        elif why := self._unscaled():
            lines.append(f"scaling   none, though {why}: consider --standardize")
        if constant := self._constant():
            lines.append(f"constant  {constant} in the training part: check the data")
        return [*lines, *(f"          {note}" for note in data.notes)]

    def errors(self, logits: HostArray) -> float:
        """Return the share of scored steps with a wrong class, given logits of shape (T, B, n_out)."""
        valid = self.data.valid
        assert valid is not None
        scored = valid.weights > 0
        return float(np.mean((logits.argmax(axis=2) != valid.targets)[scored]))

    def _ready(self, sequences: TaskSequences) -> TaskSequences:
        """Return sequences as the network reads them: scaled, in the type of its numbers."""
        x, y, weights, lengths = sequences if self.scaling is None else self.scaling.scale(sequences)
        x, y = (each.astype(self._dtype) if each.ndim == 3 else each for each in (x, y))
        return TaskSequences(x, y, weights, lengths)

    def _unscaled(self) -> str | None:
        """Return what is unusual about real inputs or targets of the training part; None if nothing is."""
        arrays = (self.data.train.inputs, self.data.train.targets)
        if any(each.ndim == 3 and float(np.abs(each).max()) > REASONABLE for each in arrays):
            return f"there are values above {REASONABLE:g}"
        scaling = Scaling.measure(self.data.train, targets=self.data.loss == "squared")
        for what, mean, deviation in (
            ("an input", scaling.input_mean, scaling.input_deviation),
            ("a target", scaling.target_mean, scaling.target_deviation),
        ):
            if mean is not None and deviation is not None and (np.abs(mean) > FAR * deviation).any():
                return f"the mean of {what} is more than {FAR:g} deviations from 0"
        return None

    def _constant(self) -> str:
        """Return which real inputs and targets of the training part have one value only; "" if none has."""
        x, y, weights, lengths = self.data.train
        exists = (np.arange(x.shape[0])[:, None] < lengths)[:, :, None]
        known = weights.reshape(*weights.shape[:2], -1) > 0
        found = []
        for what, values, counts, names in (
            ("input", x, exists, self.data.input_names), ("target", y, known, self.data.target_names),
        ):  # fmt: skip
            columns = _constant_columns(values, counts) if values.ndim == 3 else []
            if columns:
                listed = [names[k] if names else str(k) for k in columns[:_LISTED]]
                listed += [f"{len(columns) - _LISTED:,} more"] if len(columns) > _LISTED else []
                counted_from = "" if names else " (counted from 0)"
                found.append(f"{what}{'' if len(columns) == 1 else 's'} {', '.join(listed)}{counted_from}")
        return " and ".join(found)


class DrawnSource(ArraySource):
    """Sequences that a function draws anew in every epoch.

    Parameters
    ----------
    config : TrainConfig
        The options, resolved.
    data : ArrayData
        The sequences of the first epoch, and those for validation.
    known : RunFolder, optional
        The run whose scaling is used.
    memory : Memory
        Holds the function.
    """

    fresh = True

    def __init__(self, config: TrainConfig, data: ArrayData, known: RunFolder | None, memory: Memory) -> None:
        super().__init__(config, data, known)
        self._config, self._memory = replace(config, loss=data.loss), memory

    def pool(self, epoch: int) -> Pool:
        if epoch == 0:
            return self._pool
        drawn = self._memory.draw(self._config, epoch)
        same_shapes(drawn.train, self._pool)
        for what, size, most in (("symbol", drawn.n_in, self.data.n_in), ("class", drawn.n_out, self.data.n_out)):
            if size > most:
                raise InputError(
                    f"batches returned the {what} {size - 1}, and {most - 1} was the largest at the first call: return "
                    "the largest one at the first call too"
                )
        return Pool(*self._ready(drawn.train))

    def lines(self) -> list[str]:
        first, *more = super().lines()
        return [first.replace("to train on", "in every epoch, drawn anew"), *more]


def drawn_source(config: TrainConfig, folder: RunFolder | None, known: RunFolder | None, memory: Memory) -> DrawnSource:
    """Open the sequences that a function draws in every epoch; arguments and errors are those of `open_arrays`."""
    config.refuse(("fractions", "window", "stride", "burn_in"), "batches= gives the sequences")
    first, valid = memory.draw(config, 0), memory.validation(config)
    if valid.loss != first.loss and config.loss == "auto":
        first = replace(first, loss="squared", reason="the targets are real numbers")
    pairs = {"x": (first.train.inputs, valid.train.inputs), "y": (first.train.targets, valid.train.targets)}
    for name, (one, other) in pairs.items():
        if one.shape[2:] != other.shape[2:]:
            raise InputError(
                f"batches returned {name} of shape {one.shape} (time first), and validation has {other.shape}: give "
                "the same kind of sequences"
            )
    if folder is not None:
        folder.check_data(valid.sha256, "the sequences of valid=")
    return DrawnSource(config, replace(first, valid=valid.train, sha256=valid.sha256), known, memory)


def open_arrays(
    config: TrainConfig, folder: RunFolder | None, known: RunFolder | None, memory: Memory | None = None
) -> ArraySource:
    """Open the arrays or the table of a run.

    Parameters
    ----------
    config : TrainConfig
        The options, resolved.
    folder : RunFolder, optional
        The folder of a run to be resumed.
    known : RunFolder, optional
        The run whose scaling is used.
    memory : Memory, optional
        Arrays that were given in Python.

    Raises
    ------
    CheckpointError
        The data have changed since the run was started.
    InputError
        The data do not fit the options, or the training part of a new run has no target of an output.
    """
    with as_before(None if config.data in IN_MEMORY else folder):
        data = load_run_arrays(config) if memory is None else memory.arrays(config)
    if folder is not None:
        folder.check_data(data.sha256, data.source)
    if known is None:
        _check_targets(data)
    return ArraySource(config, data, known)


def _check_targets(data: ArrayData) -> None:
    """Raise InputError if the training part scores an output nowhere: nothing would train its weights."""
    weights = data.train.weights
    known = (weights > 0).any(axis=(0, 1)) if weights.ndim == 3 else np.ones(1, dtype=bool)
    if not known.all():
        k = int(known.argmin())
        if data.target_names:
            name, advice = data.target_names[k], "leave it out of --targets, or give other --fractions"
        else:
            name, advice = f"output {k} (counted from 0) of {data.name}", "leave it out of y, or give other sequences"
        raise InputError(f"{name} has no known target in the training part that is scored: {advice}")


def _scaling(config: TrainConfig, data: ArrayData, known: RunFolder | None) -> Scaling | None:
    """Return the scaling of a run: that of a known run, or that of the training part; None if nothing is scaled."""
    if known is not None:
        scaling = known.scaling()
    elif config.standardize:
        scaling = Scaling.measure(data.train, targets=data.loss == "squared")
    else:
        return None
    if scaling is None or (scaling.input_mean is None and scaling.target_mean is None):
        return None
    for mean, size, what in ((scaling.input_mean, data.n_in, "inputs"), (scaling.target_mean, data.n_out, "outputs")):
        if mean is not None and len(mean) != size:
            raise InputError(
                f"the scaling of {known and known.path} is for {len(mean)} {what}, and {data.name} has {size}: give "
                "data of that kind, or another run"
            )
    return scaling


def _constant_columns(values: HostArray, counts: HostArray) -> list[int]:
    """Return the numbers of the columns of (T, N, n) values that have one value where `counts`, (T, N, n or 1)."""
    counts = np.broadcast_to(counts, values.shape)
    lowest = np.where(counts, values, np.inf).min(axis=(0, 1))
    highest = np.where(counts, values, -np.inf).max(axis=(0, 1))
    return [int(k) for k in np.flatnonzero(lowest == highest)]


def _named(names: tuple[str, ...]) -> str:
    """Return names in parentheses; nothing without names."""
    return f" ({', '.join(names)})" if names else ""
