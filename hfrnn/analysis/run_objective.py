"""The objective of a run on a batch of its data: the arguments of `spectrum` and other analyses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hfrnn import checks
from hfrnn.arrays.backend import Array
from hfrnn.checks import choice, path, string
from hfrnn.choices import AUTO, BACKENDS, DEVICES, PARTS
from hfrnn.data.kinds.data_kind import Pool
from hfrnn.data.ragged import RaggedPool
from hfrnn.engine.batch import Batch
from hfrnn.engine.constrained_objective import ConstrainedObjective
from hfrnn.engine.network import Network
from hfrnn.engine.objective import Objective
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.load import load_run
from hfrnn.runs.run_constraints import stored_constraints
from hfrnn.sources.open import Source, chosen_part, open_source
from hfrnn.wording import brief, counted


@brief
class RunObjective(NamedTuple):
    """The objective of a run on a batch of its data in float64, the weights, and a description of the batch."""

    objective: Objective | ConstrainedObjective
    theta: Array
    data: str


class RunSequences(NamedTuple):
    """A network of a run in float64, its weights, and random sequences of its data as it reads them.

    `source` is the data, `name` what the sequences are of, and `about` the sequences in words.
    """

    net: Network
    theta: Array
    batch: Batch
    source: Source
    name: str
    about: str


def load_objective(
    run: str, which: str = "best", part: str | None = None, symbols: int = 5000, seed: int = 0, backend: str = "numpy"
) -> RunObjective:
    """Make the arguments of `spectrum` from a run folder, with random sequences like those of its training.

    Parameters
    ----------
    run, which, backend : as for `hfrnn.load`
    part : {"train", "valid", "test"}, optional
        The part of the run's data, "train" by default. A synthetic task has no parts; new sequences are drawn.
    symbols : int
        About how many steps the batch has in all; it holds at least one sequence and at most all sequences. They keep
        their order, so in a batch of all sequences of the training part, sequence b is training sequence b.
    seed : int
        Seed of the choice of sequences, 0 or more.

    Returns
    -------
    objective, theta, data
        By name or as a tuple. A run with constraints has a `ConstrainedObjective`, and `theta` holds its variables.

    Raises
    ------
    InputError
        As `hfrnn.load`; or the data is missing, has no such part, or is too short.

    Examples
    --------
    >>> import hfrnn
    >>> options = {"data": "sine", "length": 20, "sequences": 20, "hidden": 4, "updates": 2}
    >>> result = hfrnn.train(**options, out="run")
    >>> objective, theta, about = hfrnn.load_objective("run")
    >>> objective.net.dtype
    dtype('float64')
    """
    symbols, seed = checks.count("symbols", symbols, 1), checks.count("seed", seed)
    if part is not None:
        choice("part", part, PARTS)
    string("which", which, "best, last or the name of a kept checkpoint")
    choice("backend", backend, (AUTO, *BACKENDS))
    folder = RunFolder(path("run", run))
    config, found = folder.config(), random_sequences(folder, which, part, symbols, seed, backend)
    net, theta = found.net, found.theta
    memory = config.memory_bytes if net.backend.on_host == (config.backend not in DEVICES) else None
    objective = Objective(net, found.batch, config.threads, memory=memory)
    constraints = stored_constraints(net, folder.restore(which)[0], folder.path)
    if constraints is None:
        return RunObjective(objective, theta, found.about)
    return RunObjective(ConstrainedObjective(objective, constraints), constraints.variables(theta), found.about)


def random_sequences(
    folder: RunFolder, which: str, part: str | None, symbols: int, seed: int, backend: str = "numpy"
) -> RunSequences:
    """Return the network of a run and random sequences of its data; for arguments and errors see `load_objective`."""
    rng, config, (net, theta, _) = np.random.default_rng(seed), folder.config(), load_run(folder, which, backend)
    wide = net.remade(dtype="float64", backend=backend)
    part, source = chosen_part(config, part, "train"), open_source(config, folder)
    pool, name = _sequences(config, source, part, symbols, rng)
    T, N = pool.longest, pool.sequences
    length = T if pool.lengths is None else pool.lengths.mean()
    columns = np.sort(rng.permutation(N)[: max(round(symbols / length), 1)])
    batch = source.batch(pool, columns)
    steps = columns.size * T if batch.lengths is None else int(batch.lengths.sum())
    about = f"{counted(columns.size, 'random sequence')} of the {name}, {counted(steps, 'step')}"
    if config.closed_loop:
        about += ", with the recorded values in place of fed-back outputs"
    return RunSequences(wide, wide.backend.asarray(theta, dtype="float64"), batch, source, name, about)


def _sequences(
    config: TrainConfig, source: Source, part: str, symbols: int, rng: np.random.Generator
) -> tuple[Pool | RaggedPool, str]:
    """Return the sequences to choose a batch from, and their name."""
    if config.kind.has_parts:
        return source.part(part), source.part_name(part)
    return source.drawn(max(symbols // source.length, 1), rng), f"{source.score_names[0]} {source.name}"
