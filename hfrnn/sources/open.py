"""Open the data of a run, new or resumed."""

from __future__ import annotations

from hfrnn.data.corpora import PARTS, Corpus
from hfrnn.data.midi import midi_files
from hfrnn.data.music import load_rolls
from hfrnn.data.tasks import make_task
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.errors import CheckpointError, InputError
from hfrnn.runs.config import TrainConfig, is_arrays, is_music, is_text
from hfrnn.runs.defaults import kind_of_data
from hfrnn.runs.folder import RunFolder
from hfrnn.sources.array_source import drawn_source, open_arrays
from hfrnn.sources.given import Memory
from hfrnn.sources.read import (
    load_run_corpus,
    load_run_music,
    part_checksums,
    refuse_arrays_as_text,
    refuse_foreign_options,
    run_vocabulary,
)
from hfrnn.sources.source import MusicSource, Source, TaskSource, TextSource, as_before

OF_SEQUENCES = ("fractions", "targets", "window", "stride", "burn_in", "time_first", "loss", "standardize")
"""Options of array files that do nothing for piano rolls."""


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
    MissingExtraError
        The data need a package that is not installed.
    InputError
        There are no such data, an option does not apply to them, or the run of `init_from` has data of another kind.
    """
    begins = folder is None or not folder.begun
    known = None if begins else folder
    if begins and config.init_from is not None:
        known = RunFolder(config.init_from)
        _check_first_run(config, known)
    if folder is None and kind_of_data(config.data) == "MIDI music":
        midi_files(str(config.data))  # a folder without music has a message of its own
    refuse_foreign_options(config)
    if is_text(config):
        if folder is None:
            refuse_arrays_as_text(config.text)
        return _open_text(config, folder, known)
    if is_arrays(config):
        if (rolls := _open_rolls(config, folder)) is not None:
            return rolls, None
        if memory is not None and memory.batches is not None:
            return drawn_source(config, folder, known, memory), None
        return open_arrays(config, folder, known, memory), None
    if is_music(config):
        with as_before(folder):
            music = load_run_music(config)
        if folder is not None:
            folder.check_data(music.sha256, music.source)
        return MusicSource(music), None
    assert config.data is not None
    task = make_task(config.data, config.length)
    if begins and task.fixed_count:
        config.refuse(("sequences",), f"the task {task.name} has {task.fixed_count} sequences, all in every epoch")
    return TaskSource(config, task), None


def _open_rolls(config: TrainConfig, folder: RunFolder | None) -> MusicSource | None:
    """Open a file of arrays that holds piano rolls, checked against that of `folder`; None if it holds others."""
    if kind_of_data(config.data) != "an array file":
        return None
    with as_before(folder):
        rolls = load_rolls(str(config.data))
    if rolls is None:
        return None
    config.refuse(OF_SEQUENCES, f"{config.data} holds piano rolls")
    if folder is not None:
        folder.check_data(rolls.sha256, rolls.source)
    return MusicSource(rolls)


def _open_text(config: TrainConfig, folder: RunFolder | None, known: RunFolder | None) -> tuple[TextSource, Vocabulary]:
    """Open a text, checked against that of `folder`, with the vocabulary and the classes of `known`."""
    with as_before(folder):
        corpus = load_run_corpus(config)
    if folder is not None:
        check_corpus(folder, corpus)
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


def run_corpus(folder: RunFolder) -> Corpus:
    """Return the text that a run was started with.

    Raises
    ------
    CheckpointError
        The text has changed since then.
    InputError
        The text is no longer there, or the run was not trained on a text.
    """
    config = folder.config()
    if not is_text(config):
        raise InputError(f"{folder.path} was trained on {config.data}, which is not a text")
    with as_before(folder):
        corpus = load_run_corpus(config)
    check_corpus(folder, corpus)
    return corpus


def check_corpus(folder: RunFolder, corpus: Corpus) -> None:
    """Check that a text is the one that a run was started with.

    Raises
    ------
    CheckpointError
        It is another text. The message names the files that have changed.
    """
    config, stored, found = folder.config(), folder.versions(), part_checksums(corpus)
    files = {"train": corpus.source, "valid": config.valid or corpus.source, "test": config.test or corpus.source}
    changed = [files[part] for part in PARTS if stored.get(f"{part}_sha256") not in (None, found[f"{part}_sha256"])]
    folder.check_data(corpus.sha256, ", ".join(dict.fromkeys(changed)) or corpus.source)
