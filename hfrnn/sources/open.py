"""Open the data of a run, new or resumed, and check that they are as they were when it was started."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hfrnn.arrays.backend import HostArray
from hfrnn.choices import PARTS
from hfrnn.data.kinds import takers
from hfrnn.data.kinds.data_kind import DataKind, Earlier, Pool
from hfrnn.data.kinds.memory import Given
from hfrnn.data.ragged import RaggedPool
from hfrnn.engine.batch import Batch, chosen_states
from hfrnn.engine.ragged_batch import RaggedBatch
from hfrnn.errors import CheckpointError, InputError, Message, MissingExtraError
from hfrnn.option import argument
from hfrnn.runs.config import PATHS, TrainConfig, files_of, useless
from hfrnn.runs.folder import RunFolder


class LostFileError(InputError):
    """A file that a run was started with is no longer there."""


def open_source(config: TrainConfig, folder: RunFolder | None = None, given: Given | None = None) -> Source:
    """Open the data of a run.

    The vocabulary, the classes and the scaling come from `folder` if it holds a state, else from the run that the
    option `init_from` names, else from the data. A file that it names may give the vocabulary and the classes.

    Raises
    ------
    CheckpointError
        The data have changed since the run was started.
    MissingExtraError
        The data need a package that is not installed.
    InputError
        There are no such data, an option does not apply to them, or the run of `init_from` has data of another kind.
    """
    begins = folder is None or not folder.begun
    known = None if begins else folder
    earlier = None
    if begins and config.init_from is not None:
        config.refuse(OF_WEIGHTS, Message("{init_from} gives the first weights"))
        if os.path.isfile(config.init_from):
            earlier = _earlier_of_file(config, config.init_from)
        else:
            known = RunFolder(config.init_from)
            _check_first_run(config, known)
    if folder is None and config.data is not None:
        config.kind.check(config.data)
    _refuse_foreign_options(config)
    data = opened(config, folder, given)
    data.prepare(earlier if known is None else _earlier(known, "best" if begins else "last"))
    return Source(data)


def opened(config: TrainConfig, folder: RunFolder | None = None, given: Given | None = None) -> DataKind:
    """Read the data of a run, before they are made ready for a network; arguments and errors as for `open_source`."""
    with _as_before(None if config.kind.in_memory else folder):
        data = config.kind.open(config.values, given)
    if folder is not None and (changed := data.changed(folder.versions())):
        raise CheckpointError(
            f"the data of {folder.path} has changed since the run was started ({changed}): put the old one back, or "
            "start a new run"
        )
    return data


def run_text(folder: RunFolder, part: str) -> str | bytes:
    """Return a part of the text that a run was started with, as it was read; raise InputError for a run without one."""
    config = folder.config()
    if not config.kind.level(config.values):
        raise InputError(f"{folder.path} was trained on {config.data}, which is not a text")
    return opened(config, folder).content(part)


@contextlib.contextmanager
def _as_before(folder: RunFolder | None) -> Iterator[None]:
    """Let an InputError about the data of a run say that they have changed since its start, or which file is gone."""
    try:
        yield
    except MissingExtraError:
        raise
    except InputError as error:
        if folder is None:
            raise
        begin = f"the data of {folder.path} is not as it was when the run was started"
        config = folder.config()
        lost = [path for path in config.kind.files(config.values) if not os.path.exists(path)]
        if lost:
            known = _hash_of(folder, str(lost[0]))
            option = next((name for name in PATHS if str(lost[0]) in files_of(config, name)), "data")
            raise LostFileError(Message(
                "{0}: there is no file {1}{2}; put it back there or beside the run folder, or give its new path with "
                f"{{resume}} and {argument(option)}", begin, lost[0], known and f" (sha256 {known[:16]}...)",
            )) from error  # fmt: skip
        raise InputError(Message("{0}: {1}", begin, error)) from error


def _hash_of(folder: RunFolder, path: str) -> str:
    """Return the checksum of one of a run's files; "" if it is not stored by itself."""
    config, stored = folder.config(), folder.versions()
    files = [str(each) for each in config.kind.files(config.values)]
    hashes = str(stored.get("files_sha256", stored.get("data_sha256", ""))).split()
    return hashes[files.index(path)] if path in files and len(files) == len(hashes) else ""


def _earlier(folder: RunFolder, checkpoint: str) -> Earlier:
    """Return what new data take over from a run."""

    def network() -> dict[str, Any]:
        found = folder.restore(checkpoint)[1].get("network")
        if not isinstance(found, dict):
            raise CheckpointError(f"the checkpoint in {folder.path} lacks 'network': it is not a training state")
        return found

    return Earlier(str(folder.path), network, folder.vocabulary(), folder.scaling())


def _earlier_of_file(config: TrainConfig, path: str) -> Earlier | None:
    """Return what new data take over from a file of `hfrnn.save`: the symbols and the classes; None without symbols."""
    from hfrnn.runs.load import load_saved  # the chain of imports stays short

    net, _, vocabulary = load_saved(Path(path), "numpy")
    level = config.kind.level(config.values)
    if vocabulary is None or not level:
        return None
    if vocabulary.level != level:
        raise InputError(Message(
            "the symbols of {0} are for a text of {level:{1}}, and this run is on {2}: give data of that kind",
            path, vocabulary.level, _described(config),
        ))  # fmt: skip
    config.refuse(("min_count", "max_vocabulary"), Message("{init_from} gives the symbols"))
    network: dict[str, Any] = {
        name: net.config[name] for name in ("n_in", "n_out", "loss", "classes") if name in net.config
    }
    return Earlier(path, lambda: network, vocabulary)


def _refuse_foreign_options(config: TrainConfig) -> None:
    """Raise InputError if an option was given that has no effect on such data."""
    for name in config.given:
        if takers(name) and (why := useless(name, config)):
            config.refuse((name,), why)


def _check_first_run(config: TrainConfig, known: RunFolder) -> None:
    """Raise InputError unless a run with these options can start from the weights and symbols of another run."""
    config.refuse(("min_count", "max_vocabulary"), Message("{init_from} gives the symbols"))
    stored = known.config()
    if stored.kind.level(stored.values) != config.kind.level(config.values):
        raise InputError(Message(
            "the weights of {0} are for {1}, and this run is on {2}: give data of that kind, or another run",
            known.path, _described(stored), _described(config),
        ))  # fmt: skip


def _described(config: TrainConfig) -> Message:
    """Describe the data of a configuration in words."""
    if level := config.kind.level(config.values):
        return Message(f"{config.kind.about} of {argument('level', level)}")
    return Message("{0}, which is {1}", config.data, config.kind.about)


OF_WEIGHTS = ("initializer", "spectral_radius", "init_scale", "input_scale")
"""Options of the first weights."""
LN2 = math.log(2)


class Source:
    """The data of a run, ready for a network, as batches. All other attributes are those of the data (`DataKind`)."""

    def __init__(self, data: DataKind) -> None:
        self.data = data
        self.validation = None if data.validation is None else self.batch(data.validation)

    def __getattr__(self, name: str) -> Any:
        if name == "data":  # while an object is copied
            raise AttributeError(name)
        return getattr(self.data, name)

    def batch(self, pool: Pool | RaggedPool, columns: HostArray | slice = slice(None)) -> Batch:
        """Return some sequences of a pool as a batch; one of sequences of unequal lengths is padded as it is used."""
        if isinstance(pool, RaggedPool) and pool.ragged:
            return RaggedBatch(pool, columns)
        states = pool.states if isinstance(pool, RaggedPool) else None
        return Batch(*pool.select(columns), chosen_states(states, columns))


def chosen_part(config: TrainConfig, part: str | None, default: str) -> str:
    """Return the part of a run's data that was asked for, or the default one; raise InputError if there is none."""
    if part is not None and not config.kind.has_parts:
        raise InputError(f"{config.data} has no parts, its sequences are generated: leave {part!r} out")
    part = part or default
    if part not in PARTS:
        raise InputError(f"part {part!r} is not known: use {', '.join(PARTS)}")
    return part
