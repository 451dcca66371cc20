"""The objective of a run on a batch of its data: the arguments of `spectrum` and other analyses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hfrnn import checks
from hfrnn.arrays.backend import Array
from hfrnn.checks import choice, path, string
from hfrnn.choices import AUTO, BACKENDS, DEVICES
from hfrnn.data.corpora import PARTS
from hfrnn.data.music import music_batch
from hfrnn.data.streams import training_sequences
from hfrnn.data.tasks import make_task, tasks
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.engine.constrained_objective import ConstrainedObjective
from hfrnn.engine.network import Network
from hfrnn.engine.objective import Objective
from hfrnn.errors import InputError
from hfrnn.runs.config import TrainConfig, is_arrays
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.load import load
from hfrnn.runs.run_constraints import stored_constraints
from hfrnn.sources.open import open_source, run_corpus
from hfrnn.sources.read import load_run_music, part_name
from hfrnn.sources.source import Pool, chosen_part
from hfrnn.wording import brief, counted


@brief
class RunObjective(NamedTuple):
    """The objective of a run on a batch of its data in float64, the weights, and a description of the batch.

    A run with constraints has a `ConstrainedObjective`, and `theta` holds its variables.
    """

    objective: Objective | ConstrainedObjective
    theta: Array
    data: str


def load_objective(
    run: str,
    which: str = "best",
    part: str | None = None,
    symbols: int = 5000,
    seed: int = 0,
    backend: str = "numpy",
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
    RunObjective
        `objective, theta, data`, by name or as a tuple. A run with constraints has a `ConstrainedObjective` and its
        variables.

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
    folder, rng = RunFolder(path("run", run)), np.random.default_rng(seed)
    config, (net, theta, vocabulary) = folder.config(), load(run, which, backend)
    wide = Network(**{**net.config, "dtype": "float64", "backend": backend})
    pool, name = _sequences(folder, config, vocabulary, part, symbols, rng)
    T, N = pool.inputs.shape[:2]
    length = T if pool.lengths is None else pool.lengths.mean()
    columns = np.sort(rng.permutation(N)[: max(round(symbols / length), 1)])
    batch = pool.batch(columns)
    steps = columns.size * T if batch.lengths is None else int(batch.lengths.sum())
    memory = config.memory_bytes if wide.backend.on_host == (config.backend not in DEVICES) else None
    objective = Objective(wide, batch, config.threads, memory=memory)
    words = f"{counted(columns.size, 'random sequence')} of the {name}, {steps:,} steps"
    theta = wide.backend.asarray(theta, dtype="float64")
    constraints = stored_constraints(wide, folder.restore(which)[0], folder.path)
    if constraints is None:
        return RunObjective(objective, theta, words)
    return RunObjective(ConstrainedObjective(objective, constraints), constraints.variables(theta), words)


def _sequences(
    folder: RunFolder, config: TrainConfig, vocabulary: Vocabulary | None, part: str | None, symbols: int,
    rng: np.random.Generator,
) -> tuple[Pool, str]:  # fmt: skip
    """Return the sequences to choose a batch from, and their name."""
    part = chosen_part(config, part, "train")
    if config.data in tasks():
        count = max(symbols // config.length, 1)
        return Pool(*make_task(config.data, config.length).sequences(count, rng)), f"task {config.data}"
    name = f"{part} part of {config.data or config.text}"
    if is_arrays(config):
        return open_source(config, folder)[0].part(part), name
    if vocabulary is None:
        music = load_run_music(config)
        folder.check_data(music.sha256, music.source)
        return Pool(*music_batch(music.part(part))), name
    corpus = run_corpus(folder)
    row = vocabulary.encode(getattr(corpus, part), config.unknown)
    name = part_name(config, corpus, part)
    if row.size < 2:
        raise InputError(f"the {name} has fewer than two symbols: give another part")
    return Pool(*training_sequences(row, min(config.sequence_length, row.size - 1))), name
