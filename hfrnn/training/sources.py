"""Training and validation data of a run: a text, a synthetic task, or music, as sequences of equal length."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hfrnn.arrays.backend import HostArray
from hfrnn.data.corpora import PARTS, Corpus
from hfrnn.data.music import FILES as MUSIC
from hfrnn.data.music import Music, load_music, music_batch
from hfrnn.data.scaling import Scaling
from hfrnn.data.streams import evaluation_streams, training_sequences
from hfrnn.data.synthetic import Task, make_task, tasks
from hfrnn.data.vocabulary import Vocabulary, frequency_classes
from hfrnn.engine.batch import Batch
from hfrnn.errors import CheckpointError, InputError
from hfrnn.names import UNITS
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.data import (
    is_arrays,
    is_text,
    load_run_corpus,
    part_checksums,
    refuse_arrays_as_text,
    refuse_foreign_options,
    run_vocabulary,
)
from hfrnn.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from hfrnn.training.memory import Memory

VALIDATION_STREAMS = 64
"""Number of pieces into which the validation part of a text is cut, side by side."""
VALIDATION_WARM_UP = 100
"""Symbols that each piece but the first reads before it is scored, so that it starts with a state."""
VALIDATION_SEQUENCES = 1000
"""Number of validation sequences of a synthetic task. They are the same in every run."""
LN2 = math.log(2)


class Pool(NamedTuple):
    """N training sequences of T steps, time-major.

    Attributes
    ----------
    inputs : ndarray, shape (T, N) or (T, N, n_in)
        Symbols or values.
    targets : ndarray, shape (T, N) or (T, N, n_out)
    weights : ndarray, shape (T, N) or (T, N, n_out), or None
        Weights of the targets; None if all weigh the same.
    lengths : ndarray, shape (N,), or None
        Lengths of the sequences; None if all have T steps.
    """

    inputs: HostArray
    targets: HostArray
    weights: HostArray | None = None
    lengths: HostArray | None = None

    @property
    def weighs_outputs(self) -> bool:
        """Whether every output has its own weight."""
        return self.weights is not None and self.weights.ndim == 3

    def batch(self, columns: HostArray | slice) -> Batch:
        """Return some of the sequences as a batch."""
        weights = None if self.weights is None else self.weights[:, columns]
        lengths = None if self.lengths is None else self.lengths[columns]
        return Batch(self.inputs[:, columns], self.targets[:, columns], weights, lengths)


def chosen_part(config: TrainConfig, part: str | None, default: str) -> str:
    """Return the part of a run's data that was asked for, or the default one.

    Parameters
    ----------
    config : TrainConfig
        The options of the run.
    part : {"train", "valid", "test"} or None
        The part that was asked for; None for the default one.
    default : {"train", "valid", "test"}

    Returns
    -------
    str

    Raises
    ------
    InputError
        The part is not known, or the data are those of a synthetic task, which have no parts.
    """
    if config.data in tasks() and part is not None:
        raise InputError(f"{config.data} has no parts, its sequences are generated: leave {part!r} out")
    part = part or default
    if part not in PARTS:
        raise InputError(f"part {part!r} is not known: use {', '.join(PARTS)}")
    return part


class Source:
    """Base class of the data of a run.

    Attributes
    ----------
    name : str
        Name of the data.
    unit : str
        What is predicted: a character, byte, word, answer or time step.
    network : dict
        `n_in`, `n_out` and `loss` of the network, and the classes of a class softmax.
    validation : Batch or None
        The validation data.
    sha256 : str
        Checksum of the data; empty if the data are generated.
    fresh : bool
        Whether every epoch has new sequences.
    counts_errors : bool
        Whether answers are right or wrong.
    in_bits : bool
        Whether the loss is that of a symbol, which is shown in bits.
    scaling : Scaling or None
        The scaling of real inputs and targets; None if they are used as they are.
    """

    name: str
    unit: str
    network: dict[str, Any]
    validation: Batch | None
    sha256 = ""
    fresh = counts_errors = in_bits = False
    scaling: Scaling | None = None

    @property
    def checksums(self) -> dict[str, str]:
        """Checksums of the data, its parts and its scaling, under the names that config.toml uses."""
        scaling = {} if self.scaling is None else {"scaling_sha256": self.scaling.sha256}
        return {"data_sha256": self.sha256, **scaling}

    def pool(self, epoch: int) -> Pool:
        """Return the training sequences of an epoch."""
        raise NotImplementedError

    def text(self) -> HostArray | None:
        """Return all training symbols in order, if they are one text; else None."""
        return None

    def lines(self) -> list[str]:
        """Return lines for the screen about the training and validation data."""
        raise NotImplementedError

    def errors(self, logits: HostArray) -> float:
        """Return the share of validation sequences with a wrong answer, given logits of shape (T, B, n_out)."""
        raise NotImplementedError


class TextSource(Source):
    """A corpus, cut into sequences that do not overlap.

    Parameters
    ----------
    config : TrainConfig
    corpus : Corpus
    vocabulary : Vocabulary
        The symbols.
    network : dict, optional
        The attribute `network`; by default it is made from the text.
    """

    in_bits = True

    def __init__(
        self, config: TrainConfig, corpus: Corpus, vocabulary: Vocabulary, network: dict[str, Any] | None = None
    ) -> None:
        self.sha256, self.corpus = corpus.sha256, corpus
        self.name, self.unit = corpus.name, UNITS[config.level]
        self.symbols = vocabulary.encode(corpus.train, config.unknown)
        self.foreign = vocabulary.count(corpus.train)[0] - self.symbols.size
        self.network = {"n_in": vocabulary.size, "n_out": vocabulary.size, "loss": "softmax"}
        if network is not None:
            self.network = network
        elif config.classes:
            counts = np.bincount(self.symbols, minlength=vocabulary.size)
            classes = frequency_classes(counts, config.classes).tolist()
            self.network = {**self.network, "loss": "class-softmax", "classes": classes}
        self._pool = Pool(*training_sequences(self.symbols, config.sequence_length))
        valid = vocabulary.encode(corpus.valid, config.unknown)
        self.valid_symbols, self.skipped = valid.size, vocabulary.count(corpus.valid)[0] - valid.size
        self.validation = None
        if valid.size >= 2 or config.valid is not None:
            self.validation = Batch(*evaluation_streams(valid, VALIDATION_STREAMS, VALIDATION_WARM_UP))

    @property
    def checksums(self) -> dict[str, str]:
        return {**super().checksums, **part_checksums(self.corpus)}

    def pool(self, epoch: int) -> Pool:
        return self._pool

    def text(self) -> HostArray:
        return self.symbols

    def lines(self) -> list[str]:
        lines = [
            f"text      {self.name}: {self.symbols.size:,} {self.unit}s to train on, "
            f"{self.valid_symbols + self.skipped:,} to validate"
        ]
        if self.foreign:
            lines.append(f"          {self.foreign:,} more to train on are not in the vocabulary and are skipped")
        if self.skipped:
            lines.append(f"          {self.skipped:,} of the latter were never seen in training and are skipped")
        return lines


class TaskSource(Source):
    """A synthetic task: new sequences in every epoch, and others for validation."""

    unit = "answer"
    fresh = counts_errors = True

    def __init__(self, config: TrainConfig, task: Task) -> None:
        self.name, self.task, self.seed, self.count = task.name, task, config.seed, config.sequences
        self.network = {"n_in": task.n_in, "n_out": task.n_out, "loss": task.loss}
        self._held_out = task.sequences(VALIDATION_SEQUENCES, self._generator(-1))
        self.validation = Pool(*self._held_out).batch(slice(None))

    def pool(self, epoch: int) -> Pool:
        return Pool(*self.task.sequences(self.count, self._generator(epoch)))

    def lines(self) -> list[str]:
        assert self.validation is not None
        return [
            f"task      {self.name}, length {self.task.length}: {self.count:,} new sequences an epoch",
            f"          {self.validation.B:,} others to validate",
        ]

    def errors(self, logits: HostArray) -> float:
        return float(np.mean(self.task.wrong(logits, self._held_out)))

    def _generator(self, epoch: int) -> np.random.Generator:
        """Return the random generator of an epoch; epoch -1 is validation, which is the same for every seed."""
        entropy = [0, 0] if epoch < 0 else [1, self.seed, epoch]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


class MusicSource(Source):
    """Pieces of music as piano rolls; the network predicts the next chord."""

    unit = "time step"

    def __init__(self, music: Music) -> None:
        self.name, self.music, self.sha256 = music.name, music, music.sha256
        self._pool = Pool(*music_batch(music.train))
        n = self._pool.inputs.shape[2]
        self.network = {"n_in": n, "n_out": n, "loss": "logistic"}
        self.validation = Pool(*music_batch(music.valid)).batch(slice(None))

    def pool(self, epoch: int) -> Pool:
        return self._pool

    def lines(self) -> list[str]:
        return [
            f"music     {self.name}: {len(self.music.train)} pieces to train on, {len(self.music.valid)} to validate"
        ]


def open_source(
    config: TrainConfig, folder: RunFolder | None = None, memory: Memory | None = None
) -> tuple[Source, Vocabulary | None]:
    """Open the data of a run.

    The vocabulary and the classes come from `folder` if it holds a state, else from the run that the option `init_from`
    names, else from the text.

    Parameters
    ----------
    config : TrainConfig
        The options, resolved.
    folder : RunFolder, optional
        The folder of a run to be resumed.
    memory : Memory, optional
        Arrays that were given in Python.

    Returns
    -------
    source : Source
    vocabulary : Vocabulary or None
        The symbols of a text.

    Raises
    ------
    CheckpointError
        The data have changed since the run was started.
    InputError
        There are no such data, an option does not apply to them, or the run of `init_from` has data of another kind.
    """
    begins = folder is None or not folder.begun
    known = None if begins else folder
    if begins and config.init_from is not None:
        known = RunFolder(config.init_from)
        _check_first_run(config, known)
    refuse_foreign_options(config)
    if is_text(config):
        if folder is None:
            refuse_arrays_as_text(config.text)
        return _open_text(config, folder, known)
    if is_arrays(config):
        from hfrnn.training.array_source import open_arrays

        if memory is not None and memory.batches is not None:
            return memory.drawn(config, known), None
        return open_arrays(config, folder, known, memory), None
    if config.data in MUSIC:
        music = load_music(config.data)
        if folder is not None:
            folder.check_data(music.sha256, music.source)
        return MusicSource(music), None
    assert config.data is not None
    return TaskSource(config, make_task(config.data, config.length)), None


def _open_text(config: TrainConfig, folder: RunFolder | None, known: RunFolder | None) -> tuple[TextSource, Vocabulary]:
    """Open a text, checked against that of `folder`, with the vocabulary and the classes of `known`."""
    try:
        corpus = load_run_corpus(config)
    except InputError as error:
        if folder is None:
            raise
        raise InputError(f"the data of {folder.path} is not as it was when the run was started: {error}") from error
    if folder is not None:
        folder.check_corpus(corpus)
    vocabulary = None if known is None else known.vocabulary()
    network = None
    if vocabulary is None or known is None:
        vocabulary = run_vocabulary(config, corpus)
    elif config.classes:
        network = known.restore("last" if known is folder else "best")[1].get("network")
        if not isinstance(network, dict):
            raise CheckpointError(f"the checkpoint in {known.path} lacks 'network': it is not a training state")
    return TextSource(config, corpus, vocabulary, network), vocabulary


def _check_first_run(config: TrainConfig, known: RunFolder) -> None:
    """Raise InputError unless a run with these options can start from the weights and symbols of another run."""
    config.refuse(
        ("initializer", "spectral_radius", "init_scale", "input_scale"), "--init-from gives the first weights"
    )
    config.refuse(("min_count", "max_vocabulary"), "--init-from gives the symbols")
    if is_text(known.config()) != is_text(config) or known.config().level != config.level:
        raise InputError(
            f"the weights of {known.path} are for {_kind(known.config())}, and this run is on {_kind(config)}: "
            "give data of that kind, or another run"
        )


def _kind(config: TrainConfig) -> str:
    """Describe the data of a configuration in words, for error messages."""
    return f"a text of --level {config.level}" if is_text(config) else f"--data {config.data}"
