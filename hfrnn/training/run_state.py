"""A run between two updates: its network, method and parameters, in memory and in the files of its folder."""

from __future__ import annotations

import math
import shlex
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array, HostArray
from hfrnn.arrays.threads import default_threads
from hfrnn.data.vocabulary import Vocabulary, counted
from hfrnn.engine.network import Network
from hfrnn.engine.plan import Plan
from hfrnn.errors import CheckpointError, InputError
from hfrnn.optim.schedules import EarlyStopping
from hfrnn.runs.checkpoint import check_description
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.options import option_key, option_name
from hfrnn.runs.run_folder import RunFolder, checked_theta, checked_weights
from hfrnn.training.methods import METHODS
from hfrnn.training.signals import Interruption
from hfrnn.training.sources import Source

Record = dict[str, Any]

LIMITS = ("updates", "minutes", "epochs")
"""A new one of these replaces all old ones when a run is resumed."""
RESUMABLE = (
    *LIMITS, "target_bits", "patience", "keep", "threads", "backend", "checkpoint", "memory", "sample_length",
)  # fmt: skip
"""Options that may differ when a run is resumed."""


def continued(stored: TrainConfig, changes: dict[str, Any]) -> TrainConfig:
    """The configuration of a run that goes on with other options.

    Raises
    ------
    InputError
        One of them may not differ.
    """
    foreign = [key for key, value in changes.items() if key not in RESUMABLE and value != getattr(stored, key)]
    if foreign:
        names = ", ".join(map(option_key, foreign))
        raise InputError(f"a resumed run keeps its {names}: leave it out, only {', '.join(RESUMABLE)} may differ")
    if set(LIMITS) & changes.keys():
        stored = replace(stored, updates=None, minutes=None, epochs=None)
    return replace(stored, **changes)


class RunState:
    """What training changes, and what it is made of.

    theta, best_theta : the parameters, and the weights with the lowest validation loss (training loss without one)
    update, seconds, symbols : how much has been done
    last, best : the lines of the log after the last update and the best one, None before there is one
    stopping : counts validations without a better one, None where nobody asked for patience
    folder : None until there is one
    changes : options that a resumed run was given
    saved : what `last` says
    interrupted : whether a signal has come; none raises once files are written
    """

    def __init__(
        self, config: TrainConfig, source: Source, vocabulary: Vocabulary | None, interrupted: Interruption
    ) -> None:
        self.config, self.source, self.vocabulary, self.interrupted = config, source, vocabulary, interrupted
        if not source.in_bits:
            config.refuse(("target_bits",), f"the loss of {source.name} is not in bits")
        self.net = Network(**config.network_arguments(source.network))
        taken = self.net.n_parameters * self.net.dtype.itemsize
        if taken > config.memory_bytes:
            raise InputError(
                f"the network has {self.net.n_parameters:,} weights, which take {taken / 2**20:,.1f} MiB, and --memory "
                f"is {config.memory}: give a smaller network or more memory"
            )
        self.method = METHODS[config.optimizer](config, source, self.net)
        self.theta = self._first()
        self.best_theta = self.theta
        self.update, self.seconds, self.symbols = 0, 0.0, 0
        self.best: Record | None = None
        self.last: Record | None = None
        self.stopping = None if config.patience is None else EarlyStopping(config.patience)
        self.folder: RunFolder | None = None
        self.changes: dict[str, Any] = {}
        self.saved: dict[str, Any] = {}

    def _first(self) -> Array:
        """The parameters that a run starts from."""
        if self.source.first is not None:
            return self.net.backend.asarray(self.source.first, dtype=self.net.dtype)
        given = {"scale": self.config.init_scale, "W_x": self.config.input_scale}
        scales = {name: scale for name, scale in given.items() if scale is not None}
        with np.errstate(over="ignore"):  # a scale beyond the type's range is reported by the first update
            return self.net.init(self.config.seed, self.config.initializer, self.config.spectral_radius, **scales)

    @property
    def weights(self) -> Array:
        """What is validated, kept as the best and drawn from: the parameters, or what the method makes of them."""
        return self.method.weights(self.theta)

    @property
    def path(self) -> Path:
        """The run folder."""
        assert self.folder is not None
        return self.folder.path

    @property
    def command(self) -> str:
        """What goes on with the run, for a shell."""
        modules = {type(layer.kernel).__module__ for layer in self.net.layers}
        kernels = [word for module in sorted(modules) if (word := module.partition("hfrnn --kernel ")[2])]
        words = ["hfrnn", *(word for file in kernels for word in ("--kernel", file)), "train", "--resume"]
        changes = ((option_name(name), str(value)) for name, value in self.changes.items() if value is not None)
        return shlex.join([*words, str(self.path), *(word for pair in changes for word in pair)])

    def create(self) -> None:
        """Make the run folder, locked, with the state before the first update."""
        config = self.config = replace(self.config, **self.method.resolved())
        manner = config.damping if config.optimizer == "hf" else config.optimizer
        self.interrupted.at_once = False
        out = config.out or f"runs/{config.arch}-{manner}-{time.strftime('%Y%m%d-%H%M%S')}"
        known = {} if self.vocabulary is None else {"vocabulary_sha256": self.vocabulary.to_json()["sha256"]}
        self.folder = RunFolder.create(out, config, {**versions(), **self.source.checksums, **known}, self.vocabulary)
        try:
            self._save(best=True)
        except BaseException:
            self.folder.lock.release()
            raise

    def go_on(self, replanned: bool) -> None:
        """Take over what the run folder holds, and make its files agree where a process was killed.

        Parameters
        ----------
        replanned : bool
            Whether the plans are those of the configuration, not those that the run was started with.

        Raises
        ------
        CheckpointError
            A file is missing, damaged or does not fit the others; nothing was changed.
        """
        assert self.folder is not None
        best_is_last = self._restore(replanned) if self.folder.begun else False
        self.interrupted.at_once = False
        if self.folder.begun:
            self.folder.settle(self.update, best_is_last, self.config.keep)
        else:
            if self.vocabulary is not None:
                self.vocabulary.save(self.path / "vocabulary.json")
            self._save(best=True)

    def look_into(self, folder: RunFolder) -> None:
        """Take over the state in a run folder; raises as `go_on`, and writes nothing."""
        self.folder, stored = folder, folder.config()
        if folder.begun:
            self._restore(any(getattr(stored, name) != getattr(self.config, name) for name in ("checkpoint", "memory")))
            folder.log.until(self.update)

    def finish(self, record: Record) -> None:
        """Log and save an update."""
        assert self.folder is not None
        self.last = record
        better = self._score(record) < self._score(self.best)
        is_best = better or self.best is None  # until one is validated, the last state stands for the best
        if is_best:
            self.best, self.best_theta = record if better else None, self.weights.copy()
        self.folder.log.append(record)
        self._save(is_best)

    def _score(self, record: Record | None) -> float:
        """What `best` is chosen by: validation loss, or training loss without validation; not finite is worst."""
        loss = None if record is None else record["train_loss" if self.source.validation is None else "valid_loss"]
        return math.inf if loss is None else float(loss)

    def reached(self) -> bool:
        """Whether the best is as good as `target_bits` asks for."""
        if self.config.target_bits is None or self.best is None:
            return False
        bits = self.best["train_bits" if self.source.validation is None else "valid_bits"]
        return bits is not None and bits <= self.config.target_bits

    def _save(self, best: bool) -> None:
        assert self.folder is not None
        to_host = self.net.backend.to_host
        arrays, plain = {"theta": to_host(self.theta)}, {}
        for key, value in self.method.state_dict().items():
            if hasattr(value, "shape"):
                arrays[f"method.{key}"] = to_host(value)
            else:
                plain[key] = value
        meta = {
            "update": self.update, "seconds": self.seconds, "symbols": self.symbols, "method": plain,
            "stopping": None if self.stopping is None else self.stopping.state_dict(),
            "best": self.best, "last": self.last, "network": self.source.network,
            "plans": {role: plan.to_json() for role, plan in self.method.plans.items()},
        }  # fmt: skip
        self.folder.save(arrays, meta, best, self.config.keep)
        self.saved = meta

    def _restore(self, replanned: bool) -> bool:
        """Take over what `last` holds, and `best`; whether `best` is to be the same as `last`."""
        assert self.folder is not None
        arrays, meta = self.folder.restore("last")
        check_description(meta, self.path / "last.safetensors")
        self.theta = checked_theta(self.net, arrays, self.path)
        as_array = self.net.backend.asarray
        try:
            vectors = {key.split(".", 1)[1]: v for key, v in arrays.items() if key.startswith("method.")}
            self._check_vectors(vectors)
            self.method.load_state_dict({**meta["method"], **{key: as_array(v) for key, v in vectors.items()}})
            self.update, self.seconds, self.symbols = meta["update"], float(meta["seconds"]), meta["symbols"]
            self.best, self.last, self.saved = meta["best"], meta["last"], meta
            if self.stopping is not None and meta["stopping"] is not None:
                self.stopping.load_state_dict(meta["stopping"])
            if not replanned:
                self.method.plans = {role: _plan(meta["plans"][role], own) for role, own in self.method.plans.items()}
            best_update = self.update if self.best is None else self.best["update"]
        except (KeyError, IndexError, TypeError, AttributeError, OverflowError, ValueError) as error:
            what = f"lacks {error}" if isinstance(error, KeyError) else f"does not fit ({error})"
            raise CheckpointError(
                f"{self.path / 'last.safetensors'} {what}: it is not a state of this run, restore it from a copy"
            ) from error
        return self._restore_best(best_update)

    def _check_vectors(self, vectors: dict[str, HostArray]) -> None:
        """Raise ValueError unless the method's arrays are of the network's type, and those like theta of its size.

        States and traces, which are no vectors like theta, are checked by those who take them over.
        """
        for key, vector in vectors.items():
            like_theta = "optimizer." in key or not key.startswith(("batches.", "rule."))
            if vector.dtype != self.net.dtype or (like_theta and vector.shape != self.theta.shape):
                raise ValueError(f"{key} has shape {vector.shape} and type {vector.dtype}")
            if np.isnan(vector).any():
                raise ValueError(f"{key} holds NaN")

    def _restore_best(self, update: int) -> bool:
        """Take over `best`, which is that of an update by what `last` says; whether it is to be the same as `last`."""
        assert self.folder is not None
        is_last, path = update == self.update, self.path / "best.safetensors"
        if is_last and self.update == 0 and not path.exists():  # killed before the first update
            self.best_theta = self.weights
            return True
        arrays, meta = self.folder.restore("best")
        check_description(meta, path)
        theta = checked_weights(self.net, arrays, self.path)
        found = meta["update"]
        if is_last and (self.best is None or found <= update):
            self.best_theta = self.weights  # `best` is written after `last`: a process was killed in between
            return True
        if found != update and found <= self.update:
            raise CheckpointError(f"{path} is of update {found}, and the best is of {update}: restore it from a copy")
        if found > self.update:  # it outlived a `last` that was put back: better than all until then
            self.best = self.saved["best"] = meta["best"]
        self.best_theta = theta
        return False


def _plan(stored: dict[str, Any], own: Plan) -> Plan:
    """A plan as a checkpoint holds it, for the same sequences as the method's own; ValueError for another."""
    plan = Plan.from_json(stored)
    edges = plan.shards
    counts = [*edges, plan.slots, *([] if plan.segment is None else [plan.segment])]
    if not all(type(count) is int for count in counts) or min(counts[len(edges) :]) < 1:
        raise ValueError("its plan does not hold whole numbers")
    if (edges[0], edges[-1]) != (0, own.shards[-1]) or any(a >= b for a, b in pairwise(edges)):
        raise ValueError("its plan is of another batch")
    return plan


def versions() -> dict[str, str]:
    """What a run's bits and seconds depend on: versions, and the machine."""
    import platform

    import scipy

    from hfrnn._version import __version__

    return {
        "hfrnn": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {counted(default_threads(), 'processor')}",
    }
