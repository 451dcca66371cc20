"""Sequences to score and to predict: those of a run's own data, or of a file with data of the same kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfrnn.analysis.prediction import score, scored_rows
from hfrnn.analysis.scores import Row, figures
from hfrnn.arrays.backend import Array, HostArray
from hfrnn.choices import ARRAY_FILES, IN_MEMORY, TABLES, names_arrays
from hfrnn.data.array_data import ROLES, check_filled
from hfrnn.data.array_files import read_array_file
from hfrnn.data.array_shapes import ArrayFormat, arranged
from hfrnn.data.music import music_batch
from hfrnn.data.scaling import Scaling
from hfrnn.data.tables import NoColumnError, read_columns, rows_ahead
from hfrnn.data.tasks import SUCCESS, make_task, tasks
from hfrnn.data.windows import WINDOW, Windows, as_column, two_axes
from hfrnn.engine.batch import Batch
from hfrnn.engine.network import Network
from hfrnn.errors import InputError
from hfrnn.runs.config import TrainConfig, is_arrays
from hfrnn.runs.defaults import kind_of_data
from hfrnn.runs.folder import RunFolder
from hfrnn.sources.array_source import ArraySource
from hfrnn.sources.open import open_source
from hfrnn.sources.read import array_windows, load_run_music
from hfrnn.sources.source import chosen_part
from hfrnn.wording import counted

TASK_SEQUENCES = 10_000
"""New sequences on which a synthetic task is scored (docs/specification.md, section 9)."""

TASK_STEPS = 1_000_000
"""Scored steps of a task after which its errors are measured on no more sequences, so that they fit in memory."""


class Given(NamedTuple):
    """Sequences to predict, in the units of the data.

    Attributes
    ----------
    name : str
        What they are, for a person.
    batch : Batch
        Without targets if there are none.
    scaling : Scaling or None
        The scaling of the run.
    recording : bool
        Whether the batch is one recording, whose file has no axis of sequences.
    input_names, output_names : tuple of str
        Names of the columns of a table; empty for other data.
    ahead : int
        Rows of a table from an input to the target that it predicts.
    note : str
        Why there are no targets; empty if there are.
    burn_in : int
        Steps at the beginning of a recording that are not scored.
    """

    name: str
    batch: Batch
    scaling: Scaling | None
    recording: bool = False
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    ahead: int = 0
    note: str = ""
    burn_in: int = 0

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the outputs, for figures; None if they have none."""
        return self.output_names or None


def own_sequences(folder: RunFolder, part: str | None = None) -> Given:
    """Return the sequences of a part of a run's own data.

    Parameters
    ----------
    folder : RunFolder
    part : {"train", "valid", "test"}, optional
        "valid" by default. A task has no parts: its validation sequences are returned.

    Raises
    ------
    InputError
        The run is on a text, the part is not there or not known, or the data are missing.
    CheckpointError
        The data have changed since the run was started.
    """
    config = folder.config()
    part = chosen_part(config, part, "valid")
    if kind_of_data(config.data) == "a text":
        raise InputError(f"{folder.path} was trained on a text: its network predicts symbols, see hfrnn evaluate")
    if config.data in IN_MEMORY:
        raise InputError(
            f"the data of {folder.path} were in the memory of a Python program, and are not stored: "
            "give a file of arrays"
        )
    source, _ = open_source(config, folder)
    if config.data in tasks():
        assert source.validation is not None
        return Given(f"validation sequences of {config.data}", source.validation, None)
    name = f"{part} part of {source.name}"
    if not isinstance(source, ArraySource):  # music
        return Given(name, source.part(part).batch(slice(None)), None)
    sequences = source.sequences(part)
    names = (source.data.input_names, source.data.target_names)
    ahead = rows_ahead(*names, config.ahead) if kind_of_data(config.data) == "a table" else 0
    return Given(name, Batch(*sequences), source.scaling, False, *names, ahead)


def file_sequences(folder: RunFolder, net: Network, path: str) -> Given:
    """Return the sequences of a file of the same kind as the data of a run.

    A table, and an array of one recording, are not cut into windows. Their first steps are not scored: as many as the
    burn-in of the run. Of a file with several parts, only `x`, `y`, `mask` and `lengths` are read.

    Parameters
    ----------
    folder : RunFolder
    net : Network
        The network of the run.
    path : str
        The file. Targets may be missing.

    Raises
    ------
    InputError
        The run is not on arrays or a table, the file is of another kind, or it cannot be read.
    """
    config = folder.config()
    own, kind = kind_of_data(config.data), kind_of_data(path)
    if not is_arrays(config):
        raise InputError(
            f"{folder.path} was trained on {config.data or 'a text'}, which has no such files: leave {path} out"
        )
    if not names_arrays(path) or (kind == "a table") != (own == "a table"):
        wanted = " or ".join(TABLES if own == "a table" else ARRAY_FILES)
        raise InputError(f"{path} is {kind}, and {folder.path} was trained on {own}: give a file ending in {wanted}")
    given = _table(config, path) if kind == "a table" else _arrays(config, net, path)
    return given._replace(scaling=folder.scaling())


def _table(config: TrainConfig, path: str) -> Given:
    """Return the recording of a table."""
    note = ""
    try:
        columns = read_columns(path, config.inputs, config.targets)
    except NoColumnError as error:
        columns, note = read_columns(path, config.inputs, None), str(error)
    names = columns.target_names or tuple(config.targets or ())
    ahead = rows_ahead(columns.input_names, names, config.ahead)
    burn_in = Windows(config.window or WINDOW, config.stride, config.burn_in).checked()[2]
    targets = None if note else columns.targets
    batch = recording(columns.inputs, targets, columns.missing, ahead, burn_in)
    return Given(Path(path).name, batch, None, True, columns.input_names, names, ahead, note, burn_in)


def _arrays(config: TrainConfig, net: Network, path: str) -> Given:
    """Return the sequences, or the recording, of a file of arrays."""
    found = read_array_file(path, ROLES.__contains__)
    arrays, name = found.arrays, Path(path).name
    if "x" not in arrays:
        raise InputError(
            f"{path} has no array x: it holds {', '.join([*arrays, *found.others]) or 'nothing'}; name the inputs x"
        )
    note = "" if "y" in arrays else f"{name} has no array y"
    matlab = path.lower().endswith(".mat")
    if config.window is not None:
        x, *rest = (two_axes(as_column(arrays[role], matlab), role, path) for role in ("x", "y") if role in arrays)
        y = rest[0] if rest else None
        if y is not None and len(x) != len(y):
            raise InputError(f"x has {len(x)} steps and y {len(y)} in {path}: give as many in both")
        windows = array_windows(config)
        burn_in = 0 if windows is None else windows.checked()[2]
        return Given(name, recording(x, y, None, 0, burn_in), None, recording=True, note=note, burn_in=burn_in)
    if note:
        T_N = arrays["x"].shape[:2]
        symbols = net.head.integer_targets
        arrays = {
            **{role: arrays[role] for role in ("x", "lengths") if role in arrays},
            "y": np.zeros(T_N if symbols else (*T_N, net.n_out), dtype=np.int64 if symbols else np.float64),
        }
    check_filled(arrays, path)
    loss = "softmax" if net.head.integer_targets else net.loss_name
    layout = ArrayFormat(path, config.time_first, matlab, loss)
    part = arranged({role: arrays.get(role) for role in ROLES}, "", layout)
    x, y, weights, lengths = part.sequences(path)
    return Given(name, Batch(x, None, lengths=lengths) if note else Batch(x, y, weights, lengths), None, note=note)


def recording(
    inputs: NDArray[Any], targets: NDArray[Any] | None, missing: NDArray[np.bool_] | None, ahead: int, burn_in: int
) -> Batch:
    """Return one recording as a batch of one sequence.

    Parameters
    ----------
    inputs : (steps, n_in) array
    targets : (steps, n_out) array, optional
    missing : (steps, n_out) bool, optional
        Targets that are not known, which are not scored.
    ahead : int
        Steps from an input to the target that it predicts.
    burn_in : int
        Steps at the beginning that are not scored.
    """
    x = inputs.astype(np.float64)[:, None]
    if targets is None:
        return Batch(x)
    known = np.zeros((len(x), 1, targets.shape[1]), dtype=bool)
    y = np.zeros(known.shape)
    reached = max(len(x) - ahead, 0)
    y[:reached, 0], known[:reached] = targets[ahead:], True
    if missing is not None:
        known[:reached, 0] &= ~missing[ahead:]
    known[:burn_in] = False
    return Batch(x, y, known.astype(np.float32))


# ---------------------------------------------------------------------- figures of a run


def evaluate_sequences(
    net: Network, theta: Array, config: TrainConfig, part: str | None = None, folder: RunFolder | None = None,
    path: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Score a network on a synthetic task, on music, or on arrays or a table.

    Parameters
    ----------
    net : Network
    theta : (n_parameters,) array
    config : TrainConfig
        The configuration of the run, which names the data.
    part : {"train", "valid", "test"}, optional
        The part of the data, "valid" by default. A task has no parts and is scored on 10,000 new sequences.
    folder : RunFolder, optional
        The run; needed for arrays and tables.
    path : str, optional
        A file of arrays or a table to score instead of the run's own data.

    Returns
    -------
    dict
        `loss` (that of training, the mean over all scored steps; `nats_per_time_step` for music), the name and size
        of the data, and the figures of `hfrnn.score`. For a task also `wrong`, the share of wrong answers, and
        `solved`, "yes" or "no".

    Raises
    ------
    InputError
        A part was given for a task, the part is unknown, or a file is missing or does not fit.
    """
    net = net.without_penalty()
    part = chosen_part(config, part, "valid") if path is None else None
    if path is None and config.data in tasks():
        return _task_figures(net, theta, config)
    if path is None and not is_arrays(config):
        music = load_run_music(config)
        if folder is not None:
            folder.check_data(music.sha256, music.source)
        pieces = music.part(str(part))
        batch = Batch(*music_batch(pieces))
        where = {"music": config.data, "part": part, "pieces": len(pieces)}
        return {**where, "nats_per_time_step": net.loss(theta, batch), **score(net, theta, batch).overall}
    assert folder is not None
    given = own_sequences(folder, part) if path is None else file_sequences(folder, net, path)
    if given.batch.targets is None:
        raise InputError(f"{path} has no targets to score ({given.note}): give them, or use hfrnn predict")
    if given.recording:
        _check_recording(given)
    found = score(net, theta, given.batch, given.names, given.scaling)
    where = {"data": config.data, "part": part} if path is None else {"data": path}
    return {**where, "sequences": given.batch.B, "loss": net.loss(theta, scaled(given)), **found.to_json()}


def _check_recording(given: Given) -> None:
    """Raise InputError unless a recording has a target after the burn-in."""
    if np.any(given.batch.weights):
        return
    has, begun = f"{given.name} has {counted(given.batch.T, 'row')}", given.burn_in
    burn_in = f"and the first {begun:,} {'is' if begun == 1 else 'are'} the burn-in, which is not scored"
    if begun + given.ahead < given.batch.T:
        raise InputError(f"{has}{f', {burn_in}' if begun else ''}, and no other target is known: give targets")
    ahead = f"; a target is {counted(given.ahead, 'row')} after its input" if given.ahead else ""
    raise InputError(f"{has}, {burn_in}{ahead}: give more rows")


def scaled(given: Given) -> Batch:
    """Return sequences as the network reads and learns them."""
    batch, scaling = given.batch, given.scaling
    if scaling is None:
        return batch
    x, y = np.asarray(batch.inputs), np.asarray(batch.targets)
    x, y = scaling.scale_inputs(x) if x.ndim == 3 else x, scaling.scale_targets(y) if y.ndim == 3 else y
    return Batch(x, y, batch.weights, batch.lengths)


def _task_figures(net: Network, theta: Array, config: TrainConfig) -> dict[str, Any]:
    """Return the share of wrong answers of a task on new sequences, and the figures of real or binary answers."""
    task = make_task(str(config.data), config.length)
    rng, wrong, losses, count = np.random.default_rng([2, config.seed]), 0, 0.0, 0
    rows: list[tuple[HostArray, HostArray, HostArray]] = []
    while count < TASK_SEQUENCES:
        drawn = task.sequences(min(TASK_SEQUENCES - count, 1000), rng)
        batch, size = Batch(*drawn), drawn.lengths.size
        losses += net.loss(theta, batch) * size
        outputs = net.backend.to_host(net.run(theta, batch)[0])
        wrong += int(task.wrong(outputs, drawn).sum())
        if task.loss != "softmax" and sum(len(z) for z, _, _ in rows) < TASK_STEPS:
            rows.append(scored_rows(outputs, batch))
        count += size
        if task.fixed_count:  # this batch holds all sequences
            break
    share = wrong / count
    solved = "yes" if share < SUCCESS else "no"
    overall: Row = {}
    if rows:
        z, y, w = (np.concatenate(each) for each in zip(*rows, strict=True))
        overall = dict(figures(task.loss, z, y, w).overall)
    return {"task": task.name, "sequences": count, "loss": losses / count, "wrong": share, "solved": solved, **overall}
