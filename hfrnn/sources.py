"""What a run trains on and is validated on: a text, a synthetic task, or music, as sequences of one shape."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hfrnn.batch import Batch
from hfrnn.config import TrainConfig
from hfrnn.data.corpora import Corpus
from hfrnn.data.music import FILES as MUSIC
from hfrnn.data.music import Music, load_music, music_batch
from hfrnn.data.streams import evaluation_streams, training_sequences
from hfrnn.data.synthetic import Task, make_task, tasks
from hfrnn.data.vocabulary import Vocabulary, frequency_classes
from hfrnn.run_folder import RunFolder, is_text, load_run_corpus, run_vocabulary

VALIDATION_STREAMS = 64
"""Pieces that the validation part of a text is cut into, side by side."""
VALIDATION_WARM_UP = 100
"""Symbols that each piece but the first is fed before it is scored, to have a state."""
VALIDATION_SEQUENCES = 1000
"""Fresh sequences that a synthetic task is validated on, always the same."""
LN2 = math.log(2)

HostArray = np.ndarray[Any, Any]


class Pool(NamedTuple):
    """Training sequences side by side, time-major; weights and lengths None where all steps count."""

    inputs: HostArray  # (T, N) or (T, N, n_in)
    targets: HostArray
    weights: HostArray | None = None  # (T, N)
    lengths: HostArray | None = None  # (N,)

    def batch(self, columns: HostArray | slice) -> Batch:
        """Some of the sequences."""
        weights = None if self.weights is None else self.weights[:, columns]
        lengths = None if self.lengths is None else self.lengths[columns]
        return Batch(self.inputs[:, columns], self.targets[:, columns], weights, lengths)


class Source:
    """The data of a run.

    name : what it is called
    unit : what one prediction is: a character, a byte, a word, an answer, a time step
    network : n_in, n_out and loss of the network, and the classes of a class softmax
    validation : the batch that a run is validated on, or None
    sha256 : of the data, "" where it is made by the seed
    """

    name: str
    unit: str
    network: dict[str, Any]
    validation: Batch | None
    sha256 = ""
    fresh = False
    """Whether every epoch brings new sequences."""
    counts_errors = False
    """Whether answers are right or wrong."""
    in_bits = False
    """Whether the loss is that of a symbol, which is shown in bits."""

    def pool(self, epoch: int) -> Pool:
        """The training sequences of an epoch."""
        raise NotImplementedError

    def text(self) -> HostArray | None:
        """All training symbols in a row, where they are one text."""
        return None

    def lines(self) -> list[str]:
        """What there is to train and validate on, for the screen."""
        raise NotImplementedError

    def errors(self, logits: HostArray) -> float:
        """The share of validation sequences that are answered wrongly."""
        raise NotImplementedError


class TextSource(Source):
    """A corpus, cut into sequences that do not overlap."""

    in_bits = True

    def __init__(self, config: TrainConfig, corpus: Corpus, vocabulary: Vocabulary) -> None:
        self.sha256, self.corpus = corpus.sha256, corpus
        self.name, self.unit = corpus.name, {"char": "character"}.get(config.level, config.level)
        self.symbols = vocabulary.encode(corpus.train)
        self.network = {"n_in": vocabulary.size, "n_out": vocabulary.size, "loss": "softmax"}
        if config.classes:
            counts = np.bincount(self.symbols, minlength=vocabulary.size)
            classes = frequency_classes(counts, config.classes).tolist()
            self.network = {**self.network, "loss": "class-softmax", "classes": classes}
        self._pool = Pool(*training_sequences(self.symbols, config.sequence_length))
        valid = vocabulary.encode(corpus.valid, config.unknown)
        self.valid_symbols, self.skipped = valid.size, vocabulary.count(corpus.valid)[0] - valid.size
        self.validation = None
        if valid.size >= 2 or config.valid is not None:
            self.validation = Batch(*evaluation_streams(valid, VALIDATION_STREAMS, VALIDATION_WARM_UP))

    def pool(self, epoch: int) -> Pool:
        return self._pool

    def text(self) -> HostArray:
        return self.symbols

    def lines(self) -> list[str]:
        lines = [
            f"text      {self.name}: {self.symbols.size:,} {self.unit}s to train on, "
            f"{self.valid_symbols + self.skipped:,} to validate"
        ]
        if self.skipped:
            lines.append(f"          {self.skipped:,} of the latter were never seen in training and are skipped")
        return lines


class TaskSource(Source):
    """A synthetic task: new sequences in every epoch, and some that are kept apart for validation."""

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
        """The chance of one epoch; epoch -1 is that of validation, the same for every seed."""
        entropy = [0, 0] if epoch < 0 else [1, self.seed, epoch]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


class MusicSource(Source):
    """Pieces of music as piano rolls: the next chord from those before it."""

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


def open_source(config: TrainConfig, folder: RunFolder | None = None) -> tuple[Source, Vocabulary | None]:
    """The data of a configuration that is `resolved`, and the symbols of a text: those of a run, if one is given.

    Raises
    ------
    CheckpointError
        The data has changed since the run was started.
    InputError
        There is no such data, or it has no use for an option.
    """
    if not is_text(config):
        config.refuse(("valid", "test", "fractions", "classes"), f"--data {config.data} is no text")
    if config.data in tasks():
        return TaskSource(config, make_task(config.data, config.length)), None
    if config.data in MUSIC:
        music = load_music(config.data)
        if folder is not None:
            folder.check_data(music.sha256, music.source)
        return MusicSource(music), None
    corpus = load_run_corpus(config)
    if folder is not None:
        folder.check_data(corpus.sha256, corpus.source)
    vocabulary = None if folder is None else folder.vocabulary()
    if vocabulary is None:
        vocabulary = run_vocabulary(config, corpus)
    return TextSource(config, corpus, vocabulary), vocabulary
