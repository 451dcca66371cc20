"""A run folder: what it holds, how it is made, opened and read back.

config.toml         the full configuration and the versions it ran with
vocabulary.json     the symbols
metrics.jsonl       a line for every update
last.safetensors    the state after the last update, from which a run goes on
best.safetensors    the state with the lowest validation loss (training loss without a validation part)
update-N.safetensors  the states after the newest lines of the log, where they are asked for
summary.json        how the run ended, with its best and last metrics
.lock               while a process writes to the folder

An update is written in this order: its line of the log, its update-N, last, best. A process may be killed anywhere in
between: `settle` undoes what was written after `last`, and finishes what `last` says.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w

from hfrnn.arrays.backend import Array, HostArray
from hfrnn.atomic import write_atomic
from hfrnn.data.corpora import PARTS, Corpus, load_corpus
from hfrnn.data.music import FILES as MUSIC
from hfrnn.data.synthetic import tasks
from hfrnn.data.vocabulary import Vocabulary, counted
from hfrnn.engine.network import Network
from hfrnn.errors import CheckpointError, InputError
from hfrnn.optim.average import AVERAGE
from hfrnn.runs.checkpoint import check_description, checkpoint_bytes, load_checkpoint
from hfrnn.runs.config import TrainConfig, config_from_mapping
from hfrnn.runs.lock import NAME as LOCK
from hfrnn.runs.lock import FolderLock
from hfrnn.runs.metrics import Log
from hfrnn.runs.options import read_toml


class LoadedRun(NamedTuple):
    """A trained network: its layout, its parameters and its symbols."""

    net: Network
    theta: Array
    vocabulary: Vocabulary | None


class RunFolder:
    """The files of one run.

    Parameters
    ----------
    path : path
        An existing run folder; `create` makes a new one.

    Raises
    ------
    InputError
        The folder is not there or is no run folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not os.path.isdir(path):  # which has no errors of its own
            raise InputError(f"{path} is no run folder: give the folder that hfrnn train made (its --out)")
        if not self._file("config.toml").is_file():
            raise InputError(f"{path} is no run folder: it has no config.toml; give the folder that hfrnn train made")
        self.lock, self.log = FolderLock(self.path), Log(self._file("metrics.jsonl"))

    @classmethod
    def create(
        cls, path: str | Path, config: TrainConfig, versions: dict[str, str], vocabulary: Vocabulary | None
    ) -> RunFolder:
        """Make the folder with its configuration and vocabulary; its lock is held until `lock.release()`.

        What a process leaves that is killed while it does this is taken for an empty folder.

        Raises
        ------
        InputError
            There is something at that path already, or it cannot be made.
        StorageError
            A file cannot be written.
        """
        folder, lock = Path(path), FolderLock(Path(path))

        def taken() -> bool:
            return not folder.is_dir() or not all(map(_is_leftover, folder.iterdir()))

        try:
            content = tomli_w.dumps({**config.to_toml(), "versions": versions}).encode("utf-8")
        except UnicodeEncodeError as error:
            name = ascii(error.object[max(error.start - 20, 0) : error.end])
            raise InputError(
                f"the name of a file is not UTF-8 ({name}), as config.toml has to be: rename it"
            ) from error
        occupied = InputError(
            f"{path} exists already and is left as it is: give another --out, or go on with the run in it by "
            f"--resume {path}"
        )
        try:
            if folder.exists() and taken():
                raise occupied
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            reason = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"{path} cannot be made ({reason}): give another --out") from error
        lock.acquire()
        try:
            if taken():  # by another process, a moment ago
                raise occupied
            _tidy(folder)
            write_atomic(folder / "config.toml", content)
            if vocabulary is not None:
                vocabulary.save(folder / "vocabulary.json")
        except BaseException:
            lock.release()
            raise
        run = cls(folder)
        run.lock = lock
        return run

    def config(self) -> TrainConfig:
        """The configuration that the run was started with.

        Raises
        ------
        CheckpointError
            config.toml is damaged.
        """
        path = str(self._file("config.toml"))
        try:
            config = config_from_mapping(read_toml(path), path)
            if not self.versions():
                raise InputError(f"{path} has no table of versions")
        except InputError as error:
            raise CheckpointError(f"{error} (the file of a run; restore it from a copy)") from error
        return config

    def versions(self) -> dict[str, Any]:
        """What the run was started with: versions, and the checksum of its data."""
        table = tomllib.loads(self._file("config.toml").read_text("utf-8")).get("versions", {})
        return table if isinstance(table, dict) else {}

    def vocabulary(self) -> Vocabulary | None:
        """The run's symbols; None where it was not trained on a text.

        Raises
        ------
        CheckpointError
            The file is missing, damaged or of another run.
        """
        if not is_text(self.config()):
            return None
        path = self._file("vocabulary.json")
        vocabulary = Vocabulary.load(path)
        if self.versions().get("vocabulary_sha256") not in (None, vocabulary.to_json()["sha256"]):
            raise CheckpointError(f"the vocabulary {path} is not that of the run: restore it from a copy")
        return vocabulary

    def corpus(self) -> Corpus:
        """The text that the run was started with.

        Raises
        ------
        CheckpointError
            It has changed since.
        InputError
            It is not there any more, or the run is of no text.
        """
        if not is_text(self.config()):
            raise InputError(f"{self.path} was trained on {self.config().data}, which is no text")
        corpus = load_run_corpus(self.config())
        self.check_corpus(corpus)
        return corpus

    def check_corpus(self, corpus: Corpus) -> None:
        """Raise CheckpointError, which names the files, unless the text is that which the run was started with."""
        config, stored, found = self.config(), self.versions(), part_checksums(corpus)
        files = {"train": corpus.source, "valid": config.valid or corpus.source, "test": config.test or corpus.source}
        changed = [files[part] for part in PARTS if stored.get(f"{part}_sha256") not in (None, found[f"{part}_sha256"])]
        self.check_data(corpus.sha256, ", ".join(dict.fromkeys(changed)) or corpus.source)

    def check_data(self, sha256: str, source: str) -> None:
        """Raise CheckpointError unless the data is that which the run was started with."""
        if self.versions().get("data_sha256") != sha256:
            raise CheckpointError(
                f"the data of {self.path} has changed since the run was started ({source}): put the old one back, or "
                "start a new run"
            )

    @property
    def begun(self) -> bool:
        """Whether the first state has been written; without it a process was killed while it made the folder."""
        names = ("last.safetensors", "best.safetensors", "metrics.jsonl")
        return any(self._file(name).exists() for name in names)

    def save(self, arrays: dict[str, HostArray], meta: dict[str, Any], best: bool, keep: int = 0) -> None:
        """Write the state after update `meta["update"]`: as `last`, as `best` if it is, and as one of `keep` others.

        An older one goes only when this one is on the disk.
        """
        content = checkpoint_bytes(arrays, meta)
        if keep and meta["update"]:
            write_atomic(self._checkpoint(f"update-{meta['update']}"), content)
        write_atomic(self._checkpoint("last"), content)
        if best:
            write_atomic(self._checkpoint("best"), content)
        self._prune(keep)

    def restore(self, name: str) -> tuple[dict[str, HostArray], dict[str, Any]]:
        """Read a checkpoint: `last`, `best`, or one that was kept.

        Raises
        ------
        InputError
            There is none of that name.
        CheckpointError
            It is missing or damaged.
        """
        kept = re.fullmatch(r"update-(\d+)", name)
        if name not in ("best", "last") and not (kept and self._checkpoint(name).is_file()):
            others = [path.stem for path in self.kept().values()]
            more = f", or one that --keep has kept ({', '.join(others)})" if others else ""
            raise InputError(f"checkpoint {name!r} is not known: use best or last{more}")
        path = self._checkpoint(name)
        arrays, meta = load_checkpoint(path)
        check_description(meta, path, ("network",))
        return arrays, meta

    def kept(self) -> dict[int, Path]:
        """The files of the states that were kept beside `last` and `best`, by their updates, the oldest first."""
        found = {path: re.fullmatch(r"update-(\d+)\.safetensors", path.name) for path in self.path.iterdir()}
        return dict(sorted((int(name[1]), path) for path, name in found.items() if name))

    def _prune(self, keep: int) -> None:
        kept = list(self.kept().values())
        for path in kept[: max(len(kept) - keep, 0)]:
            with contextlib.suppress(OSError):  # one more than asked for does no harm
                path.unlink()

    def settle(self, update: int, best_is_last: bool, keep: int) -> None:
        """Make all files those of the state that `last` holds, whenever the process that wrote them was killed.

        Raises
        ------
        CheckpointError
            The log is damaged, or ends before that update; nothing was changed.
        """
        if self._file("summary.json").is_dir():
            raise CheckpointError(f"{self._file('summary.json')} is a folder, where the file belongs: move it away")
        self.log.cut(update)
        _tidy(self.path)
        for number, path in self.kept().items():
            if number > update:
                path.unlink(missing_ok=True)
        self._prune(keep)
        if best_is_last:
            last, best = self._checkpoint("last"), self._checkpoint("best")
            if not best.is_file() or best.read_bytes() != last.read_bytes():
                write_atomic(best, last.read_bytes())

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, as `Log.records` gives them."""
        return self.log.records()

    def drop_summary(self) -> None:
        """Take summary.json away: a run that goes on has not ended."""
        with contextlib.suppress(OSError):
            self._file("summary.json").unlink()

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write summary.json."""
        write_atomic(self._file("summary.json"), json.dumps(summary, indent=2) + "\n")

    def _file(self, name: str) -> Path:
        return self.path / name

    def _checkpoint(self, name: str) -> Path:
        """The file of a checkpoint; update-7 is update-000007."""
        word, _, number = name.partition("-")
        return self._file(f"{f'{word}-{int(number):06d}' if number else word}.safetensors")


def load(run: str | Path, which: str = "best", backend: str = "numpy") -> LoadedRun:
    """The network, parameters and vocabulary of a run; of Hessian-free training the average of the parameters.

    Parameters
    ----------
    run : path
        A run folder.
    which : {"best", "last"} or str
        The checkpoint to take; also one that `keep` has kept, such as "update-000120".
    backend : {"numpy", "cupy"}
        Where the network is to compute, wherever it was trained.

    Returns
    -------
    LoadedRun
        `net, theta, vocabulary`, by name or as a tuple.

    Raises
    ------
    InputError
        No such run, or another name of a checkpoint.
    CheckpointError
        A file of the run is missing, damaged or does not fit the others.
    """
    folder = RunFolder(run)
    vocabulary = folder.vocabulary()
    arrays, meta = folder.restore(which)
    arguments = folder.config().network_arguments(meta["network"])
    net = Network(**{**arguments, "backend": backend})
    return LoadedRun(net, checked_weights(net, arrays, folder.path), vocabulary)


def is_text(config: TrainConfig) -> bool:
    """Whether a run of that configuration is trained on a text, not on a synthetic task or music."""
    return config.data not in (*tasks(), *MUSIC)


def load_run_corpus(config: TrainConfig) -> Corpus:
    """The data of a configuration that is `resolved`."""
    return load_corpus(config.text, config.data, config.level, config.valid, config.test, config.fractions)


def run_vocabulary(config: TrainConfig, corpus: Corpus) -> Vocabulary:
    """The symbols of a new run; InputError if there is one only."""
    min_count = config.min_count or corpus.min_count
    vocabulary = Vocabulary.build(corpus.train, config.level, min_count, config.max_vocabulary)
    if vocabulary.size == 1:
        raise InputError(
            f"the training part of {corpus.source} holds one symbol only, {vocabulary.decode([0])!r}, so there is "
            "nothing to predict: give another text"
        )
    return vocabulary


def part_checksums(corpus: Corpus) -> dict[str, str]:
    """The sha256 of each part of a text, under the names that config.toml has for them."""
    texts: dict[str, str | bytes] = {part: getattr(corpus, part) for part in PARTS}
    return {
        f"{part}_sha256": hashlib.sha256(text if isinstance(text, bytes) else text.encode("utf-8")).hexdigest()
        for part, text in texts.items()
    }


def _is_leftover(path: Path) -> bool:
    """Whether a file is none of a run, but what a killed process leaves."""
    return path.name == LOCK or (path.name.startswith(".hfrnn-") and path.suffix == ".tmp")


def _tidy(folder: Path) -> None:
    """Take the leftovers away, of which the lock is not one as long as this process has it."""
    for path in folder.iterdir():
        if _is_leftover(path) and path.name != LOCK:
            path.unlink(missing_ok=True)


def checked_weights(net: Network, arrays: dict[str, HostArray], path: Path) -> Array:
    """What a checkpoint was validated with: the average of the parameters if it has one, else the parameters."""
    theta, name = checked_theta(net, arrays, path), f"method.{AVERAGE}"
    return checked_theta(net, arrays, path, name) if name in arrays else theta


def checked_theta(net: Network, arrays: dict[str, HostArray], path: Path, name: str = "theta") -> Array:
    """The parameters of that name in a checkpoint on the network's device, if they fit it and are finite."""
    theta = arrays.get(name)
    if theta is None or theta.shape != (net.n_parameters,) or theta.dtype != net.dtype:
        found = "no parameters"
        if theta is not None:
            found = f"{counted(theta.size, 'parameter')} of type {theta.dtype}, of shape {theta.shape}"
        raise CheckpointError(
            f"the checkpoint in {path} holds {found}: this network has {net.n_parameters} of type {net.dtype}"
        )
    if not np.isfinite(theta).all():
        raise CheckpointError(f"the checkpoint in {path} holds parameters that are not finite: use another one")
    return net.backend.asarray(theta)
