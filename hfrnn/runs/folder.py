"""A run folder: its files, and how they are created, read and kept consistent.

config.toml           the options of the run and the versions it was started with
vocabulary.json       the symbols
scaling.json          means and deviations of real inputs and targets, if they are scaled
metrics.jsonl         a record for every update
last.safetensors      the state after the last update, from which a run resumes
best.safetensors      the state with the lowest validation loss (training loss without a validation part)
update-N.safetensors  the states after the newest records, if `keep` asks for them
summary.json          how the run ended, with its best and last record
restarts.json         if there are restarts: their seeds and results; restart-1, restart-2, ... are their run folders
.lock                 exists while a process writes to the folder

The files of an update are written in this order: its record, update-N, last, best. A process may be killed at any
moment. `make_consistent` then deletes what was written after `last`, and completes what belongs to `last`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import platform
import re
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from hfrnn._version import __version__
from hfrnn.arrays.backend import HostArray
from hfrnn.arrays.threads import default_threads
from hfrnn.checks import shown
from hfrnn.data.scaling import Scaling
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.errors import CheckpointError, InputError, Message, PerReader, reason_of, worded
from hfrnn.files import CHECKPOINT_SHARE, is_regular, memory_share, read_bytes, write_atomic
from hfrnn.option import in_toml, option_key
from hfrnn.runs.checkpoint import check_description, checkpoint_bytes, load_checkpoint
from hfrnn.runs.config import Tables, TrainConfig, beside, checked_options, read_toml, stored_config
from hfrnn.runs.lock import NAME as LOCK
from hfrnn.runs.lock import FolderLock
from hfrnn.runs.metrics import MetricsFile, Record
from hfrnn.runs.optimizers import OPTIMIZERS
from hfrnn.wording import counted

RUN_FILES = ("last.safetensors", "best.safetensors", "metrics.jsonl", "vocabulary.json", ".lock")
"""A folder is a run folder if it holds config.toml and one of these files."""
RESTARTS = "restarts.json"
"""The file in a folder with several restarts of a run, which gets the files of the best one at the end."""

OF_THE_SYSTEM = (".DS_Store", "Thumbs.db", "desktop.ini")
"""Files that macOS and Windows put into a folder that is looked at."""


class RunFolder:
    """The files of one run, in an existing run folder. `create` makes a new one."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not os.path.isdir(path):  # unlike Path.is_dir, it does not raise for any path
            advice = "give the folder that hfrnn train made (its {out})"
            raise InputError(Message(f"{{0}} is not a run folder: {advice}", path))
        if not (self.path / "config.toml").is_file():
            reason = "it has no config.toml; give the folder that hfrnn train made"
            if (self.path / RESTARTS).is_file():
                reason = "it holds restarts that have not all ended; resume it, or give one of its folders"
            raise InputError(f"{path} is not a run folder: {reason}")

    @cached_property
    def lock(self) -> FolderLock:
        """The lock that whoever writes to the folder must hold."""
        return FolderLock(self.path)

    @cached_property
    def metrics_file(self) -> MetricsFile:
        """The file metrics.jsonl."""
        return MetricsFile(self.path / "metrics.jsonl")

    @classmethod
    def create(
        cls, path: str | Path, config: TrainConfig, versions: dict[str, str], vocabulary: Vocabulary | None,
        numbered: bool = False, scaling: Scaling | None = None,
    ) -> RunFolder:  # fmt: skip
        """Create a run folder with its configuration and vocabulary, and hold its lock until `lock.release()`.

        The folder may exist if it is empty, or if a killed process left nothing but temporary files there. With
        `numbered`, the folder is path-2, path-3, ... if there is something at the path.
        """
        folder, content = Path(path), _config_content(config, versions)
        if numbered:
            folder = make_numbered_folder(folder)
        else:
            make_empty_folder(folder, path)
        lock = FolderLock(folder)
        lock.acquire()
        try:
            if not is_unused(folder):  # another process was faster
                raise occupied(path)
            delete_leftovers(folder)
            write_atomic(folder / "config.toml", content)
            if vocabulary is not None:
                vocabulary.save(folder / "vocabulary.json")
            if scaling is not None:
                scaling.save(folder / "scaling.json")
        except BaseException:
            lock.release()
            raise
        run = cls(folder)
        run.lock = lock
        return run

    # ------------------------------------------------------------------ what the run was started with

    @cached_property
    def _tables(self) -> Tables:
        """The tables of config.toml, which is read once."""
        with self._whole("config.toml"):
            tables = read_toml(self.path / "config.toml", links=False)
            if "hfrnn" not in tables.versions:
                raise InputError(f"{self.path / 'config.toml'} has no table of versions")
        return tables

    @cached_property
    def _config(self) -> TrainConfig:
        """The configuration in config.toml."""
        tables, path = self._tables, str(self.path / "config.toml")
        optimizer = {**tables.followed, **tables.given}.get("optimizer")
        if isinstance(optimizer, str) and optimizer not in OPTIMIZERS.names():
            advice = PerReader("import the module that registers it", "name the file that registers it: {kernel:FILE}")
            unknown = "{0} names the optimizer {1}, which is not known: {2}"
            raise CheckpointError(Message(unknown, path, shown(optimizer), advice))
        with self._whole("config.toml"):
            values = checked_options({**tables.followed, **tables.given}, path)
            config = stored_config({name: values[name] for name in values if option_key(name) in tables.given}, values)
        return beside(config, self.path)

    @contextlib.contextmanager
    def _whole(self, name: str) -> Iterator[None]:
        """Let an InputError about a file of the run say so."""
        try:
            yield
        except InputError as error:
            path = self.path / name
            what = worded(error, in_toml)  # nobody gave these options to the call or the command
            raise CheckpointError(f"{path} is damaged ({what}): restore it from a copy") from error

    def config(self) -> TrainConfig:
        """Return the configuration that the run was started with: what was given, and the defaults of that time.

        Files of data that are gone, and lie beside the run folder or in the current one, have their new paths.
        """
        return self._config

    def rewrite_config(self, config: TrainConfig) -> None:
        """Store a configuration, with other paths of the same files, in place of that of the run."""
        write_atomic(self.path / "config.toml", _config_content(config, self.versions()))
        self.__dict__["_config"] = config

    def versions(self) -> dict[str, Any]:
        """Return the versions that the run was started with, and the checksums of its data."""
        return self._tables.versions

    @cached_property
    def _vocabulary(self) -> Vocabulary | None:
        """The symbols in vocabulary.json."""
        stored = self.versions().get("vocabulary_sha256")
        if stored is None and not self.config().kind.in_bits:
            return None
        path = self.path / "vocabulary.json"
        vocabulary = Vocabulary.load(path, links=False)
        if stored != vocabulary.to_json()["sha256"]:
            raise CheckpointError(f"the vocabulary {path} is not that of the run: restore it from a copy")
        return vocabulary

    def vocabulary(self) -> Vocabulary | None:
        """Return the symbols of the run; None if its data have none."""
        return self._vocabulary

    def scaling(self) -> Scaling | None:
        """Return the scaling of the run's inputs and targets; None if they are used as they are."""
        stored = self.versions().get("scaling_sha256")
        if stored is None:
            return None
        scaling = Scaling.load(self.path / "scaling.json")
        if scaling.sha256 != stored:
            raise CheckpointError(f"{self.path / 'scaling.json'} is not that of the run: restore it from a copy")
        return scaling

    # ------------------------------------------------------------------ checkpoints

    @property
    def begun(self) -> bool:
        """Whether the folder holds a state. If not, a process was killed while it created the folder."""
        names = ("last.safetensors", "best.safetensors", "metrics.jsonl")
        return any(os.path.lexists(self.path / name) for name in names)

    def save(self, arrays: dict[str, HostArray], meta: dict[str, Any], best: bool, keep: int = 0) -> None:
        """Write the state after update `meta["update"]` as `last`, and as `best` too if it is the best one.

        `keep` is the number of latest states to keep under names of their own, this one included. An older one is
        deleted only after this state is on the disk.
        """
        content = checkpoint_bytes(arrays, meta)
        self.lock.check()
        if keep and meta["update"]:
            write_atomic(self._checkpoint(f"update-{meta['update']}"), content)
        write_atomic(self._checkpoint("last"), content)
        if best:
            write_atomic(self._checkpoint("best"), content)
        self._prune(keep)

    def restore(self, name: str) -> tuple[dict[str, HostArray], dict[str, Any]]:
        """Read a checkpoint: `last`, `best`, or a kept one such as `update-000120`."""
        kept = re.fullmatch(r"update-[0-9]{1,18}", name) if isinstance(name, str) else None
        named = isinstance(name, str) and name in ("best", "last")
        if not named and not (kept and is_regular(self._checkpoint(name))):
            others = ", ".join(path.stem for path in self.kept().values())
            more = ", or one that {keep} has kept ({1})" if others else "; training with {keep} stores others"
            raise InputError(Message(f"checkpoint {{0}} is not known: use best or last{more}", shown(name), others))
        path = self._checkpoint(name)
        return load_checkpoint(path, partial(self._most_bytes, path))

    def kept(self) -> dict[int, Path]:
        """Return the files of the kept states by update, the oldest first. `last` and `best` are not among them."""
        found = {path: re.fullmatch(r"(update-([0-9]{6,18}))\.safetensors", path.name) for path in self.path.iterdir()}
        return dict(sorted(
            (int(name[2]), path) for path, name in found.items()
            if name and self._checkpoint(name[1]).name == path.name and is_regular(path)
        ))  # fmt: skip

    def make_consistent(self, update: int, best_is_last: bool, keep: int) -> None:
        """Make all files agree with `last`, the state after an update, when a process was killed while it wrote them.

        `keep` is that of `save`. If metrics.jsonl is damaged or ends before that update, nothing is changed.
        """
        if (self.path / "summary.json").is_dir():
            raise CheckpointError(f"{self.path / 'summary.json'} is a folder, where the file belongs: move it away")
        self.metrics_file.check()
        self.metrics_file.cut(update)
        self.delete_leftovers()
        for number, path in self.kept().items():
            if number > update:
                path.unlink(missing_ok=True)
        self._prune(keep)
        if best_is_last:
            content = read_bytes(self._checkpoint("last"), memory_share(CHECKPOINT_SHARE), links=False)
            best = self._checkpoint("best")
            if not is_regular(best) or read_bytes(best, memory_share(CHECKPOINT_SHARE), links=False) != content:
                write_atomic(best, content)

    def delete_leftovers(self) -> None:
        """Delete temporary files of a killed process, but keep our own lock."""
        delete_leftovers(self.path)

    # ------------------------------------------------------------------ metrics and summary

    def metrics(self) -> list[Record]:
        """Return the records of metrics.jsonl; raises the errors of `MetricsFile.records`."""
        return self.metrics_file.records()

    def append(self, record: Record) -> None:
        """Append a record to metrics.jsonl; raises StorageError like `save`."""
        self.lock.check()
        self.metrics_file.append(record)

    def delete_summary(self) -> None:
        """Delete summary.json, because a resumed run has not ended; raises StorageError like `save`."""
        self.lock.check()
        with contextlib.suppress(OSError):
            (self.path / "summary.json").unlink()

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write summary.json; raises StorageError like `save`."""
        self.lock.check()
        write_atomic(self.path / "summary.json", json.dumps(summary, indent=2) + "\n")

    def _prune(self, keep: int) -> None:
        """Delete the oldest kept states, so that `keep` remain."""
        kept = list(self.kept().values())
        for path in kept[: max(len(kept) - keep, 0)]:
            with contextlib.suppress(OSError):  # a state too many does no harm
                path.unlink()

    def _most_bytes(self, path: Path, meta: dict[str, Any]) -> int:
        """Return the most bytes that the arrays of a checkpoint with this description may take."""
        check_description(meta, path, ("network",))
        return largest_state(self.config(), meta["network"])

    def _checkpoint(self, name: str) -> Path:
        """Return the path of a checkpoint; `update-7` is stored as update-000007.safetensors."""
        word, _, number = name.partition("-")
        return self.path / f"{f'{word}-{int(number):06d}' if number else word}.safetensors"


def _config_content(config: TrainConfig, versions: dict[str, str]) -> bytes:
    """Return the content of config.toml. The last line has the version of hfrnn: no shorter file looks whole."""
    ordered = dict(sorted(versions.items(), key=lambda item: item[0] == "hfrnn"))
    try:
        return config.to_toml(ordered).encode("utf-8")
    except UnicodeEncodeError as error:
        name = ascii(error.object[max(error.start - 20, 0) : error.end])
        problem = f"the name of a file is not UTF-8 ({name}), but config.toml must be UTF-8"
        raise InputError(f"{problem}: rename the file") from error


# ------------------------------------------------------------------ new folders, and what a killed process left


def enclosing_run(path: str | os.PathLike[str]) -> Path | None:
    """Return the run folder that a path lies in, at any depth; None if it lies in none."""
    for folder in Path(os.path.realpath(path)).parents:
        if (folder / "config.toml").is_file() and any(os.path.lexists(folder / name) for name in RUN_FILES):
            return folder
    return None


def make_numbered_folder(wanted: Path) -> Path:
    """Make a folder with this path, or with -2, -3, ... after it if something is there already; return its path."""
    _check_place(wanted, wanted)
    folder, number = wanted, 1
    while True:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir()  # of several processes that try this at once, one succeeds
            return folder
        except OSError as error:
            if not isinstance(error, FileExistsError) or not os.path.lexists(folder):
                raise InputError(Message("{0} cannot be made ({1}): give an {out}", folder, error.strerror)) from error
            number += 1
            folder = wanted.with_name(f"{wanted.name}-{number}")


def make_empty_folder(folder: Path, given: str | Path) -> None:
    """Make a folder unless it exists and is unused; messages show its path as it was given."""
    check_unused(folder, given)
    with _refused(given):
        folder.mkdir(parents=True, exist_ok=True)


def check_unused(folder: Path, given: str | Path) -> None:
    """Raise InputError if a folder exists and is not unused, or would lie in a run folder; nothing is made."""
    _check_place(folder, given)
    with _refused(given):
        if folder.exists() and not folder.is_dir():
            kept = "{0} exists already and is left as it is, because it is no folder"
            raise InputError(Message(f"{kept}: give a new or an empty folder as {{out}}", given))
        if folder.exists() and not is_unused(folder):
            raise occupied(given)
        place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextlib.contextmanager
def _refused(given: str | Path) -> Iterator[None]:
    """Raise InputError for a path that cannot be a folder."""
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(Message("{0} cannot be made ({1}): give another {out}", given, reason_of(error))) from error


def _check_place(folder: Path, given: str | Path) -> None:
    """Raise InputError if a new run would lie in the folder of another one."""
    run = None
    with contextlib.suppress(OSError, ValueError):  # a path that cannot be is refused when the folder is made
        run = enclosing_run(folder)
    if run is not None:
        inside = "{0} lies in the run folder {1}, which only that run writes to: give another {out}"
        raise InputError(Message(inside, given, run))


def occupied(path: str | Path) -> InputError:
    advice = "give another {out}, or resume the run in it with {resume:{0}}"
    return InputError(Message(f"{{0}} exists already and is left as it is: {advice}", path))


def is_unused(folder: Path) -> bool:
    """Return whether a path is a folder that holds nothing, or only what a killed process or the system left."""
    return folder.is_dir() and all(_is_leftover(each) or each.name in OF_THE_SYSTEM for each in folder.iterdir())


def _is_leftover(path: Path) -> bool:
    """Return whether a file is a lock or a temporary file, which a killed process may leave, and no link."""
    named = path.name == LOCK or (path.name.startswith(".hfrnn-") and path.suffix == ".tmp")
    return named and is_regular(path)


def delete_leftovers(folder: Path) -> None:
    """Delete temporary files of a killed process, but keep our own lock."""
    for path in folder.iterdir():
        if _is_leftover(path) and path.name != LOCK:
            path.unlink(missing_ok=True)


# ------------------------------------------------------------------ versions


def versions() -> dict[str, str]:
    """Return what the bits and the speed of a run depend on: versions and the machine, by name."""
    import scipy

    return {
        "hfrnn": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {counted(default_threads(), 'processor')}",
    }


# ------------------------------------------------------------------ the folder as other ranks see it


class UnwrittenFolder(RunFolder):
    """A run folder that another rank writes. It only remembers the description of the last state, `saved` at first."""

    def __init__(self, path: str | Path, saved: dict[str, Any] | None = None) -> None:
        self.path = Path(path)
        self.lock: FolderLock = _NoLock(self.path)
        self._saved = saved or {}

    def save(self, arrays: dict[str, HostArray], meta: dict[str, Any], best: bool, keep: int = 0) -> None:
        self._saved = meta

    def restore(self, name: str) -> tuple[dict[str, HostArray], dict[str, Any]]:
        return {}, self._saved

    def append(self, record: Record) -> None:
        """Do nothing: the other rank appends it."""

    def delete_summary(self) -> None:
        """Do nothing: the other rank deletes it."""

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Do nothing: the other rank writes it."""


class _NoLock(FolderLock):
    """A lock that is not taken."""

    def acquire(self) -> None:
        """Do nothing."""

    def check(self) -> None:
        """Do nothing."""


# ---------------------------------------------------------------------- the size of a state


LIKE_THETA = 16
"""More arrays of the size of the parameters than any optimizer stores for a batch, beside square matrices."""
LIKE_FACTORS = 8
"""More pairs of square matrices, of the rows and of the columns of a matrix, than any optimizer stores for it."""
LIKE_TRACES = 4
"""More arrays of the size of the parameters than the online rule stores for each stream."""
SPARE = 2**26
"""Bytes for what does not grow with the network."""


def largest_state(config: TrainConfig, network: Mapping[str, Any]) -> int:
    """Return the most bytes that the arrays of a run's checkpoint may take; `network` is that of its description."""
    from hfrnn.engine.network import Network

    net = Network(**{**config.network_arguments(network), "backend": "numpy"})
    states = sum(math.prod(shape) for layer in net.layers for shape in layer.kernel.state_shapes(1).values())
    vectors = net.n_parameters * (LIKE_THETA + LIKE_TRACES * config.streams)
    squares = LIKE_FACTORS * sum(block.rows**2 + block.columns**2 for block in net.matrix_blocks)
    return int(SPARE + 8 * (vectors + squares + states * config.streams * (config.sequence_length + 1)))
