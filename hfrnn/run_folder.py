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
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w

from hfrnn.backend import Array
from hfrnn.checkpoint import load_checkpoint, save_checkpoint
from hfrnn.config import TrainConfig, config_from_mapping, read_toml
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.errors import CheckpointError, InputError
from hfrnn.files import write_atomic
from hfrnn.model import Network
from hfrnn.parameters import HostArray


class LoadedRun(NamedTuple):
    """A trained network: its layout, its parameters and its symbols."""

    net: Network
    theta: Array
    vocabulary: Vocabulary


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
        cls, path: str | Path, config: TrainConfig, versions: dict[str, str], vocabulary: Vocabulary
    ) -> RunFolder:
        """Make the folder with its configuration and vocabulary.

        Raises
        ------
        InputError
            There is something at that path already, or it cannot be written.
        """
        folder = Path(path)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(
                f"{path} exists already and is left as it is: give another --out, or go on with it by --resume {path}"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{path} cannot be made ({error.strerror}): give another --out") from error
        vocabulary.save(folder / "vocabulary.json")
        table = {**config.to_toml(), "versions": versions}
        write_atomic(folder / "config.toml", tomli_w.dumps(table))
        return cls(folder)

    def config(self) -> TrainConfig:
        """The configuration that the run was started with."""
        table = read_toml(self._file("config.toml"))
        table.pop("versions", None)
        return config_from_mapping(table, str(self._file("config.toml")))

    def vocabulary(self) -> Vocabulary:
        """The run's symbols."""
        return Vocabulary.load(self._file("vocabulary.json"))

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
        """The lines of metrics.jsonl; a last line that is cut off is passed over."""
        records = []
        path = self._file("metrics.jsonl")
        for line in path.read_text("utf-8").splitlines() if path.is_file() else []:
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return records

    def cut_metrics(self, update: int) -> None:
        """Drop the lines after that update, so that the log agrees with the checkpoint."""
        kept = [record for record in self.metrics() if record["update"] <= update]
        write_atomic(self._file("metrics.jsonl"), "".join(json.dumps(record) + "\n" for record in kept))

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
    net = Network(**{**folder.config().network_arguments(vocabulary.size), "backend": backend})
    arrays, _ = folder.restore(which)
    return LoadedRun(net, checked_theta(net, arrays, folder.path), vocabulary)


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
