"""The data of a run: what its configuration says about its text and its symbols."""

from __future__ import annotations

import hashlib

from hfrnn.data.corpora import PARTS, Corpus, load_corpus
from hfrnn.data.music import FILES as MUSIC
from hfrnn.data.synthetic import tasks
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.errors import InputError
from hfrnn.runs.config import TrainConfig


def is_text(config: TrainConfig) -> bool:
    """Return whether a configuration trains on a text, not on a synthetic task or music."""
    return config.data not in (*tasks(), *MUSIC)


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


def part_checksums(corpus: Corpus) -> dict[str, str]:
    """Return the sha256 of each part of a text, under the names that config.toml uses."""
    texts: dict[str, str | bytes] = {part: getattr(corpus, part) for part in PARTS}
    return {
        f"{part}_sha256": hashlib.sha256(text if isinstance(text, bytes) else text.encode("utf-8")).hexdigest()
        for part, text in texts.items()
    }
