"""A run folder: what it holds, how it is made, opened and read back.

config.toml         the full configuration and the versions it ran with
vocabulary.json     the symbols
metrics.jsonl       a line for every update
last.safetensors    the state after the last update, from which a run goes on
best.safetensors    the state with the lowest validation loss (training loss without a validation part)
summary.json        how the run ended, with its best and last metrics
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w

from hfrnn.backend import Array
from hfrnn.checkpoint import load_checkpoint, save_checkpoint
from hfrnn.config import TrainConfig, config_from_mapping, read_toml
from hfrnn.data.corpora import Corpus, load_corpus
from hfrnn.data.music import FILES as MUSIC
from hfrnn.data.synthetic import tasks
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.errors import CheckpointError, InputError
from hfrnn.files import write_atomic
from hfrnn.model import Network
from hfrnn.parameters import HostArray


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
        if not self.path.is_dir():
            raise InputError(f"{path} is no run folder: give the folder that hfrnn train made (its --out)")
        if not self._file("config.toml").is_file():
            raise InputError(f"{path} is no run folder: it has no config.toml; give the folder that hfrnn train made")

    @classmethod
    def create(
        cls, path: str | Path, config: TrainConfig, versions: dict[str, str], vocabulary: Vocabulary | None
    ) -> RunFolder:
        """Make the folder with its configuration and vocabulary.

        Raises
        ------
        InputError
            There is something at that path already, or it cannot be written.
        """
        folder = Path(path)
        try:
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise InputError(
                    f"{path} exists already and is left as it is: give another --out, or go on with the run in it by "
                    f"--resume {path}"
                )
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{path} cannot be made ({error.strerror}): give another --out") from error
        if vocabulary is not None:
            vocabulary.save(folder / "vocabulary.json")
        table = {**config.to_toml(), "versions": versions}
        write_atomic(folder / "config.toml", tomli_w.dumps(table))
        return cls(folder)

    def config(self) -> TrainConfig:
        """The configuration that the run was started with.

        Raises
        ------
        CheckpointError
            config.toml is damaged.
        """
        path = str(self._file("config.toml"))
        try:
            return config_from_mapping(read_toml(path), path)
        except InputError as error:
            raise CheckpointError(f"{error} (the file of a run; restore it from a copy)") from error

    def versions(self) -> dict[str, Any]:
        """What the run was started with: versions, and the checksum of its data."""
        table = tomllib.loads(self._file("config.toml").read_text("utf-8")).get("versions", {})
        return table if isinstance(table, dict) else {}

    def vocabulary(self) -> Vocabulary | None:
        """The run's symbols; None where it was not trained on a text."""
        if is_text(self.config()):
            return Vocabulary.load(self._file("vocabulary.json"))
        return None

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
        self.check_data(corpus.sha256, corpus.source)
        return corpus

    def check_data(self, sha256: str, source: str) -> None:
        """Raise CheckpointError unless the data is that which the run was started with."""
        if self.versions().get("data_sha256") != sha256:
            raise CheckpointError(
                f"the data of {self.path} has changed since the run was started ({source}): put the old one back, or "
                "start a new run"
            )

    def save(self, name: str, arrays: dict[str, HostArray], meta: dict[str, Any]) -> None:
        """Write the checkpoint `last` or `best`, whole or not at all."""
        save_checkpoint(self._file(f"{name}.safetensors"), arrays, meta)

    def restore(self, name: str) -> tuple[dict[str, HostArray], dict[str, Any]]:
        """Read the checkpoint `last` or `best`."""
        return load_checkpoint(self._file(f"{name}.safetensors"))

    def append_metrics(self, record: dict[str, Any]) -> None:
        """Add a line to metrics.jsonl."""
        try:
            with self._file("metrics.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise CheckpointError(f"{self._file('metrics.jsonl')} cannot be written ({error.strerror})") from error

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, one for every update; a last line that is cut off is passed over.

        Raises
        ------
        CheckpointError
            The file is damaged in another way.
        """
        path = self._file("metrics.jsonl")
        lines = path.read_bytes().split(b"\n") if path.is_file() else []
        records: list[dict[str, Any]] = []
        for number, line in enumerate(lines[:-1], 1):  # what follows the last newline is nothing, or was cut off
            try:
                records.append(json.loads(line))
                fits = records[-1]["update"] > (records[-2]["update"] if number > 1 else 0)
            except (ValueError, KeyError, TypeError):
                fits = False
            if not fits:
                raise CheckpointError(
                    f"{path} is damaged: line {number} is not that of a later update; restore it from a copy"
                )
        return records

    def cut_metrics(self, update: int) -> None:
        """Drop what was written after that update, so that the log agrees with the checkpoint.

        Raises
        ------
        CheckpointError
            The log is damaged, or ends before that update.
        """
        path, records = self._file("metrics.jsonl"), self.metrics()
        kept = [record for record in records if record["update"] <= update]
        last = kept[-1]["update"] if kept else 0
        if last != update:
            raise CheckpointError(
                f"{path} is damaged: it ends at update {last}, and the checkpoint is of update {update}; "
                "restore it from a copy"
            )
        if path.is_file():
            write_atomic(path, "".join(json.dumps(record) + "\n" for record in kept))

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write summary.json."""
        write_atomic(self._file("summary.json"), json.dumps(summary, indent=2) + "\n")

    def _file(self, name: str) -> Path:
        return self.path / name


def load(run: str | Path, which: str = "best", backend: str = "numpy") -> LoadedRun:
    """The network, parameters and vocabulary of a run.

    Parameters
    ----------
    run : path
        A run folder.
    which : {"best", "last"}
        The checkpoint to take.
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
    if which not in ("best", "last"):
        raise InputError(f"checkpoint {which!r} is not known: use best or last")
    folder = RunFolder(run)
    vocabulary = folder.vocabulary()
    arrays, meta = folder.restore(which)
    if not isinstance(meta.get("network"), dict):
        raise CheckpointError(f"the checkpoint in {folder.path} lacks 'network': it is not of a run of this version")
    arguments = folder.config().network_arguments(meta["network"])
    net = Network(**{**arguments, "backend": backend})
    return LoadedRun(net, checked_theta(net, arrays, folder.path), vocabulary)


def is_text(config: TrainConfig) -> bool:
    """Whether a run of that configuration is trained on a text, not on a synthetic task or music."""
    return config.data not in (*tasks(), *MUSIC)


def load_run_corpus(config: TrainConfig) -> Corpus:
    """The data of a configuration that is `resolved`."""
    return load_corpus(config.text, config.data, config.level, config.valid, config.test, config.fractions)


def run_vocabulary(config: TrainConfig, corpus: Corpus) -> Vocabulary:
    """The symbols of a new run."""
    min_count = config.min_count or corpus.min_count
    return Vocabulary.build(corpus.train, config.level, min_count, config.max_vocabulary)


def checked_theta(net: Network, arrays: dict[str, HostArray], path: Path) -> Array:
    """The parameters of a checkpoint on the network's device, if they fit it."""
    theta = arrays.get("theta")
    if theta is None or theta.shape != (net.n_parameters,):
        found = "no parameters" if theta is None else f"{theta.size} parameters"
        raise CheckpointError(f"the checkpoint in {path} holds {found}: this network has {net.n_parameters}")
    return net.backend.asarray(theta.astype(net.dtype, copy=False))


def versions() -> dict[str, str]:
    """The versions that a run's bits depend on."""
    import platform

    import scipy

    from hfrnn._version import __version__

    return {
        "hfrnn": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }
