"""Training and validation data of a run: a text, a synthetic task, or music, as sequences of equal length."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hfrnn.arrays.backend import HostArray
from hfrnn.choices import SHIFTED, UNITS
from hfrnn.data.corpora import PARTS, Corpus
from hfrnn.data.music import Music, music_batch
from hfrnn.data.scaling import Scaling
from hfrnn.data.streams import evaluation_streams, sequence_count, training_sequences
from hfrnn.data.tasks import Task, tasks
from hfrnn.data.vocabulary import Vocabulary, frequency_classes
from hfrnn.engine.batch import Batch
from hfrnn.errors import InputError, MissingExtraError
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.defaults import kind_of_data
from hfrnn.runs.outputs import data_files
from hfrnn.sources.read import part_checksums
from hfrnn.wording import counted

if TYPE_CHECKING:
    from hfrnn.runs.folder import RunFolder

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


def epoch_generator(seed: int, epoch: int) -> np.random.Generator:
    """Return the random generator of an epoch; epoch -1 is validation, which is the same for every seed."""
    entropy = [0, 0] if epoch < 0 else [1, seed, epoch]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


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
    ends_by_success : bool
        Whether a run ends when few answers are wrong.
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
    fresh = counts_errors = ends_by_success = in_bits = False
    scaling: Scaling | None = None

    @property
    def checksums(self) -> dict[str, str]:
        """Checksums of the data, its parts and its scaling, under the names that config.toml uses."""
        scaling = {} if self.scaling is None else {"scaling_sha256": self.scaling.sha256}
        return {"data_sha256": self.sha256, **scaling}

    def pool(self, epoch: int) -> Pool:
        """Return the training sequences of an epoch."""
        raise NotImplementedError

    def part(self, name: str) -> Pool:
        """Return the sequences of a part, as the network reads them; raise InputError if there is none."""
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
    """A corpus, cut into sequences: at the same symbols in every epoch, or shifted by a random number of symbols.

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
        self.fresh, self._length, self._seed = config.sequence_starts == SHIFTED, config.sequence_length, config.seed
        sequence_count(self.symbols.size, self._length)  # a text that is too short is refused at once
        valid = vocabulary.encode(corpus.valid, config.unknown)
        self.valid_symbols, self.skipped = valid.size, vocabulary.count(corpus.valid)[0] - valid.size
        self.validation = None
        if valid.size >= 2 or config.valid is not None:
            self.validation = Batch(*evaluation_streams(valid, VALIDATION_STREAMS, VALIDATION_WARM_UP))

    @property
    def checksums(self) -> dict[str, str]:
        return {**super().checksums, **part_checksums(self.corpus)}

    def pool(self, epoch: int) -> Pool:
        if not self.fresh:
            return self._fixed_pool
        shift = int(epoch_generator(self._seed, epoch).integers(self._length))
        return Pool(*training_sequences(self.symbols, self._length, shift))

    @cached_property
    def _fixed_pool(self) -> Pool:
        return Pool(*training_sequences(self.symbols, self._length))

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
    """A synthetic task: new sequences in every epoch, and others for validation; or all of them, if they are few."""

    unit = "answer"
    fresh = counts_errors = ends_by_success = True

    def __init__(self, config: TrainConfig, task: Task) -> None:
        self.name, self.task, self.seed, self.count = task.name, task, config.seed, config.sequences
        self.network = {"n_in": task.n_in, "n_out": task.n_out, "loss": task.loss}
        self._held_out = task.sequences(VALIDATION_SEQUENCES, epoch_generator(self.seed, -1))
        self.validation = Pool(*self._held_out).batch(slice(None))

    def pool(self, epoch: int) -> Pool:
        return Pool(*self.task.sequences(self.count, epoch_generator(self.seed, epoch)))

    def lines(self) -> list[str]:
        assert self.validation is not None
        begin = f"task      {self.name}, length {self.task.length}:"
        if all_of_them := self.task.fixed_count:
            return [f"{begin} all {all_of_them:,} sequences in every epoch", "          the same ones to validate"]
        new = f"{begin} {counted(self.count, 'new sequence')} an epoch"
        return [new, f"          {self.validation.B:,} others to validate"]

    def errors(self, logits: HostArray) -> float:
        return float(np.mean(self.task.wrong(logits, self._held_out)))


class MusicSource(Source):
    """Pieces of music as piano rolls; the network predicts the next chord."""

    unit = "time step"

    def __init__(self, music: Music) -> None:
        self.name, self.music, self.sha256 = music.name, music, music.sha256
        self._pool = Pool(*music_batch(music.train))
        n = self._pool.inputs.shape[2]
        self.network = {"n_in": n, "n_out": n, "loss": "logistic"}
        self.validation = Pool(*music_batch(music.valid)).batch(slice(None)) if music.valid else None

    def pool(self, epoch: int) -> Pool:
        return self._pool

    def part(self, name: str) -> Pool:
        return Pool(*music_batch(self.music.part(name)))

    def lines(self) -> list[str]:
        music = self.music
        train, valid, test = counted(len(music.train), "piece"), len(music.valid), len(music.test)
        lines = [f"music     {self.name}: {train} to train on, {valid} to validate, {test} to test"]
        return [*lines, f"          {self.music.note}"] if self.music.note else lines


# ------------------------------------------------------------------ data that have changed since the start of a run


class LostFileError(InputError):
    """A file that a run was started with is no longer there."""


@contextlib.contextmanager
def as_before(folder: RunFolder | None) -> Iterator[None]:
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
        files = [str(config.data)] if kind_of_data(config.data) == "MIDI music" else data_files(config)
        lost = [path for path in files if not os.path.exists(path)]
        if lost:
            raise LostFileError(f"{begin}: there is no file {lost[0]}; put it back there") from error
        raise InputError(f"{begin}: {error}") from error
