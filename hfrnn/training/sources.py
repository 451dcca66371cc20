"""What a run trains on and is validated on: a text, a synthetic task, or music, as sequences of one shape."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hfrnn.data.corpora import PARTS, Corpus
from hfrnn.data.music import FILES as MUSIC
from hfrnn.data.music import Music, load_music, music_batch
from hfrnn.data.streams import evaluation_streams, training_sequences
from hfrnn.data.synthetic import Task, make_task, tasks
from hfrnn.data.vocabulary import Vocabulary, frequency_classes
from hfrnn.engine.batch import Batch
from hfrnn.errors import CheckpointError, InputError
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.options import option_name
from hfrnn.runs.run_folder import RunFolder, is_text, load, load_run_corpus, part_checksums, run_vocabulary

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


def chosen_part(config: TrainConfig, part: str | None, default: str) -> str:
    """The part of a run's data that was asked for, or the default one; a synthetic task has none to ask for.

    Raises
    ------
    InputError
        A part of a task, or one that is not known.
    """
    if config.data in tasks() and part is not None:
        raise InputError(f"{config.data} has no parts, its sequences are made afresh: leave {part!r} out")
    part = part or default
    if part not in PARTS:
        raise InputError(f"part {part!r} is not known: use {', '.join(PARTS)}")
    return part


class Source:
    """The data of a run.

    name : what it is called
    unit : what one prediction is: a character, a byte, a word, an answer, a time step
    network : n_in, n_out and loss of the network, and the classes of a class softmax
    validation : the batch that a run is validated on, or None
    sha256 : of the data, "" where it is made by the seed
    checksums : of the data and its parts, under the names that a run keeps them by
    first : parameters that a new run starts from, None for random ones
    """

    name: str
    unit: str
    network: dict[str, Any]
    validation: Batch | None
    sha256 = ""
    first: HostArray | None = None
    fresh = False
    """Whether every epoch brings new sequences."""
    counts_errors = False
    """Whether answers are right or wrong."""
    in_bits = False
    """Whether the loss is that of a symbol, which is shown in bits."""

    @property
    def checksums(self) -> dict[str, str]:
        return {"data_sha256": self.sha256}

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

    def __init__(
        self, config: TrainConfig, corpus: Corpus, vocabulary: Vocabulary, network: dict[str, Any] | None = None
    ) -> None:
        self.sha256, self.corpus = corpus.sha256, corpus
        self.name, self.unit = corpus.name, {"char": "character"}.get(config.level, config.level)
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
            lines.append(f"          {self.foreign:,} more to train on are not among the symbols and are skipped")
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
    """The data of a configuration that is `resolved`, and the symbols of a text.

    Symbols and classes are those of `folder`, a run that goes on; of the run that `init_from` names, for one that
    begins; else they are made from the text.

    Raises
    ------
    CheckpointError
        The data has changed since the run was started.
    InputError
        There is no such data, it has no use for an option, or the weights to start from do not fit it.
    """
    begins = folder is None or not folder.begun
    known = None if begins else folder
    if begins and config.init_from is not None:
        known = RunFolder(config.init_from)
        config.refuse(
            ("initializer", "spectral_radius", "init_scale", "input_scale"), "--init-from gives the first weights"
        )
        config.refuse(("min_count", "max_vocabulary"), "--init-from gives the symbols")
        if is_text(known.config()) != is_text(config) or known.config().level != config.level:
            raise InputError(
                f"the weights of {known.path} are for {_kind(known.config())}, and this run is on {_kind(config)}: "
                "give data of that kind, or another run"
            )
    source, vocabulary = _open(config, folder, known)
    if begins and known is not None:
        source.first = _first(config, source)
    return source, vocabulary


def _open(config: TrainConfig, folder: RunFolder | None, known: RunFolder | None) -> tuple[Source, Vocabulary | None]:
    """The data; checked against that of `folder`, and with the symbols of `known`."""
    if not is_text(config):
        config.refuse(("valid", "test", "fractions", "classes"), f"--data {config.data} is no text")
    if config.data in tasks():
        return TaskSource(config, make_task(config.data, config.length)), None
    if config.data in MUSIC:
        music = load_music(config.data)
        if folder is not None:
            folder.check_data(music.sha256, music.source)
        return MusicSource(music), None
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


def _kind(config: TrainConfig) -> str:
    """What a network for that data reads, in words."""
    return f"a text of --level {config.level}" if is_text(config) else f"--data {config.data}"


SHAPING = (
    "arch", "hidden", "embedding", "bias", "output_bias", "direct_input", "direct_output", "activation", "order",
    "alpha", "learn_alpha", "context", "periods", "classes",
)  # fmt: skip
"""Options that say what network weights are for."""


def _first(config: TrainConfig, source: Source) -> HostArray:
    """The best parameters of the run that `init_from` names, if they are for the same network."""
    stored, config = RunFolder(str(config.init_from)).config(), replace(config, classes=config.classes or None)
    stored = replace(stored, classes=stored.classes or None)
    differing = [name for name in SHAPING if getattr(stored, name) != getattr(config, name)]
    if differing:
        theirs, ours = (", ".join(_flag(name, getattr(each, name)) for name in differing) for each in (stored, config))
        raise InputError(
            f"the weights of {config.init_from} are for another network: it has {theirs}, and this run {ours}; give "
            "the options of that run"
        )
    net, theta, _ = load(str(config.init_from))
    for name, own in (("n_in", net.n_in), ("n_out", net.n_out), ("loss", net.loss_name)):
        if own != source.network[name]:
            raise InputError(
                f"the weights of {config.init_from} have {name} {own}, and {source.name} needs {source.network[name]}: "
                "give data of that kind, or another run"
            )
    return np.asarray(theta)


def _flag(name: str, value: Any) -> str:
    """An option as it is written on the command line."""
    flag = option_name(name)
    if value is None:
        return f"no {flag}"
    if isinstance(value, bool):
        return flag if value else f"--no-{flag[2:]}"
    return f"{flag} {','.join(map(str, value)) if isinstance(value, tuple) else value}"
