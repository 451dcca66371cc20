"""Read the data that the configuration of a run names."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hfrnn.choices import IN_MEMORY, MIDI_FILES, names_arrays
from hfrnn.data.array_data import ArrayData, load_arrays
from hfrnn.data.corpora import PARTS, Corpus, load_corpus
from hfrnn.data.midi import load_midi
from hfrnn.data.music import Music, load_music
from hfrnn.data.tables import load_table
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.data.windows import WINDOW, Windows
from hfrnn.errors import InputError
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.defaults import kind_of_data
from hfrnn.runs.options import run_options

OF_ONE_KIND = (
    "valid", "test", "fractions", "classes", "inputs", "targets", "window", "stride", "burn_in", "ahead", "time_first",
    "loss", "standardize", "steps_per_beat",
)  # fmt: skip
"""Options that are refused with data of another kind, in Python too."""


def load_run_music(config: TrainConfig) -> Music:
    """Return the music by name, or the MIDI files, that a resolved configuration names.

    Raises
    ------
    InputError
        The files are missing or damaged, or too few for the options.
    MissingExtraError
        MIDI files need mido, which is not installed.
    """
    name = str(config.data)
    if kind_of_data(name) == "MIDI music":
        return load_midi(name, config.steps_per_beat, config.fractions)
    return load_music(name)


def load_run_arrays(config: TrainConfig) -> ArrayData:
    """Return the arrays or the table that a resolved configuration names.

    Raises
    ------
    InputError
        The file cannot be read or does not fit the options, or the arrays were in the memory of another process.
    """
    if config.data is None or config.data in IN_MEMORY:
        raise InputError(
            f"the data of the run were {config.data} in the memory of a Python program: use them there; to resume "
            f"it, hfrnn.train(resume=..., {'batches' if config.data == 'batches' else 'data'}=...)"
        )
    return read_arrays(config.data, config)


def read_arrays(path: str, config: TrainConfig) -> ArrayData:
    """Return the arrays or the table of a file, read as a resolved configuration says."""
    fractions, loss = config.fractions, config.loss
    if kind_of_data(path) == "a table":
        windows = Windows(config.window or WINDOW, config.stride, config.burn_in)
        return load_table(
            path, config.inputs, config.targets, windows, config.ahead, fractions=fractions, loss=loss
        )  # fmt: skip
    targets = None if config.targets is None else ",".join(config.targets)
    return load_arrays(
        path, targets, time_first=config.time_first, fractions=fractions, loss=loss, windows=array_windows(config)
    )  # fmt: skip


def array_windows(config: TrainConfig) -> Windows | None:
    """Return how to cut one recording in an array; None if the array holds sequences."""
    return None if config.window is None else Windows(config.window, config.stride, config.burn_in)


def refuse_foreign_options(config: TrainConfig) -> None:
    """Raise InputError if an option was given that is for another kind of data."""
    kind = kind_of_data(config.data)
    for name in OF_ONE_KIND:
        kinds = [need.allowed for need in run_options()[name].needs if need.option == "data"]
        if any(kind not in allowed for allowed in kinds):
            config.refuse((name,), f"--data {config.data} is {kind}" if config.data else f"the data are {kind}")
    if kind in ("an array file", "arrays in memory") and config.window is None:
        config.refuse(("stride", "burn_in"), "--window was not")


def refuse_arrays_as_text(text: str | None) -> None:
    """Raise InputError if a file to train on as a text is a table, a file of arrays or a MIDI file, by its suffix."""
    if text is None or not (names_arrays(text) or text.lower().endswith(MIDI_FILES)):
        return
    kind = kind_of_data(text)
    more = " --inputs COLUMNS --targets COLUMNS" if kind == "a table" else ""
    raise InputError(f"{text} is {kind}, not a text: train on it with --data {text}{more}, or rename it to train on "
                     "its characters")  # fmt: skip


def load_run_corpus(config: TrainConfig) -> Corpus:
    """Return the text of a resolved configuration."""
    return load_corpus(config.text, config.data, config.level, config.valid, config.test, config.fractions)


def run_vocabulary(config: TrainConfig, corpus: Corpus) -> Vocabulary:
    """Return the symbols of a new run on a text.

    Raises
    ------
    InputError
        The training part holds only one symbol.
    """
    min_count = config.min_count or corpus.min_count
    vocabulary = Vocabulary.build(corpus.train, config.level, min_count, config.max_vocabulary)
    if vocabulary.size == 1:
        raise InputError(
            f"the training part of {corpus.source} holds only one symbol, {vocabulary.decode([0])!r}, so there is "
            "nothing to predict: give another text"
        )
    return vocabulary


def part_name(config: TrainConfig, corpus: Corpus, part: str) -> str:
    """Return what to call a part of the text of a run: the validation and the test part may be files of their own."""
    file = {"valid": config.valid, "test": config.test}.get(part)
    return f"{part} part of {corpus.name}" if file is None else f"{part} part ({Path(file).name})"


def part_checksums(corpus: Corpus) -> dict[str, str]:
    """Return the sha256 of each part of a text, under the names that config.toml uses."""
    texts: dict[str, str | bytes] = {part: getattr(corpus, part) for part in PARTS}
    return {
        f"{part}_sha256": hashlib.sha256(text if isinstance(text, bytes) else text.encode("utf-8")).hexdigest()
        for part, text in texts.items()
    }
