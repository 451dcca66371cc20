"""A text: a file, or a corpus known by name. The network predicts the next character, byte or word."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from hfrnn.choices import LEVELS, PARTS, SHIFTED, UNITS
from hfrnn.data.kinds import kind_of_file
from hfrnn.data.kinds.data_kind import DataKind, Earlier, Pool, epoch_generator, own_files
from hfrnn.data.kinds.number_sequences import FRACTIONS, OTHER_PARTS, TEST, VALID
from hfrnn.errors import InputError, Message
from hfrnn.option import Need, Option, argument, listed
from hfrnn.wording import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hfrnn.data.corpora import Corpus
    from hfrnn.data.text import Text as Content

BUILT_IN = "python-manual"
"""The corpus of a run that names no data."""
VALIDATION_STREAMS = 64
"""Number of pieces into which the validation part of a text is cut, side by side."""
VALIDATION_WARM_UP = 100
"""Symbols that each piece but the first reads before it is scored, so that it starts with a state."""
LARGE = 1_000_000
"""The least number of symbols of a large text. Its validation and test parts count too."""
CHARACTERS = 5
"""About how many characters a word of a text has, with the space after it (5.5 in the Penn Treebank)."""
PENALTY = 13.0
"""The penalty of a large text is this number divided by its symbols."""
MANY_SYMBOLS = 20_000
"""The least number of different symbols with which a softmax over all of them is worth a hint."""
WORDS = Need("level", ("word",))


class Text(DataKind):
    """A corpus, cut into sequences: at the same symbols in every epoch, or shifted by a random number of symbols."""

    about = "a text"
    named = "corpora"
    options = (
        Option("text", str, None, "Text file to train on.", path=True, group="Data"),
        Option("level", str, "char", "What a symbol of the text is.", choices=LEVELS, group="Data"),
        Option(
            "min_count", int, None, "Words that occur fewer times become <unk>, at level word.", needs=(WORDS,),
            least=1, otherwise="the corpus's own: 11 for text8, else 1", group="Data",
        ),
        Option(
            "max_vocabulary", int, None,
            "Largest number of symbols, at level word; the rarest words become <unk>.", needs=(WORDS,), least=2,
            group="Data",
        ),
        VALID,
        TEST,
        FRACTIONS,
        Option("sequence_length", int, 50, "Steps of a training sequence.", least=1, group="Data"),
        Option(
            "unknown", str, "skip",
            "What to do with symbols that are not in the vocabulary: error, skip, or a known symbol to replace them "
            "with. Words become <unk> where the vocabulary has it.",
            digits=True, group="Data",
        ),
    )  # fmt: skip
    takes = ("classes", "target_bits", "sample_length", "sequence_starts", "update_every")
    preset = "text"
    defaults: ClassVar[Mapping[str, Any]] = {
        "arch": "lstm", "hidden": (128,), "embedding": 64, "classes": 100, "optimizer": "adam",
    }  # fmt: skip
    suits = "corpora in words"
    in_bits = True

    def __init__(self, options: Mapping[str, Any], corpus: Corpus) -> None:
        self.name, self.source, self.sha256, self.corpus = corpus.name, corpus.source, corpus.sha256, corpus
        self.unit, self._options = UNITS[options["level"]], options
        self.own_files = {part: own_files(options, part) for part in OTHER_PARTS}

    # ------------------------------------------------------------------ what the kind is

    @classmethod
    def names(cls) -> tuple[str, ...]:
        from hfrnn.data.corpora import CORPORA

        return tuple(CORPORA)

    @classmethod
    def suited(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a network of words for a corpus in words that has a name, unless another network is given."""
        named = "text" not in given and given.get("data", BUILT_IN) in cls.names()
        return dict(cls.defaults) if given.get("level") == "word" and "arch" not in given and named else {}

    @classmethod
    def preset_for(cls, options: Mapping[str, Any]) -> str:
        """Return "large_text" for a text that the size of its file shows to be large."""
        return "large_text" if _size(options) >= LARGE else cls.preset

    @classmethod
    def penalty(cls, options: Mapping[str, Any]) -> float:
        size = _size(options)
        return float(f"{PENALTY / size:.3g}") if size >= LARGE else 0.0

    @classmethod
    def resolved(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"data": options["data"] or (None if options["text"] else BUILT_IN)}

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[str | os.PathLike[str]]:
        from hfrnn.data.corpora import CORPORA, located

        known = CORPORA.get(options["data"])
        given = [path for name in ("text", "valid", "test") if (path := options[name]) is not None]
        return given if known is None else [*given, *located([*known.files])]

    @classmethod
    def level(cls, options: Mapping[str, Any]) -> str:
        return str(options["level"])

    @classmethod
    def loss_name(cls, options: Mapping[str, Any]) -> str:
        return f"nats per {UNITS[options['level']]}"

    @classmethod
    def open(cls, options: Mapping[str, Any], given: Any = None) -> Text:
        from hfrnn.data.corpora import load_corpus

        refuse_other_files(options["text"])
        for part in OTHER_PARTS:
            if (files := len(listed(options[part]))) > 1:
                raise InputError(Message(
                    f"{argument(part)} names {{0}}, and a text has one for each part: give one text file",
                    counted(files, "file"),
                ))  # fmt: skip
        given = (options[name] for name in ("text", "data", "level", "valid", "test", "fractions"))
        return cls(options, load_corpus(*given))

    # ------------------------------------------------------------------ the data of a run

    def prepare(self, earlier: Earlier | None = None) -> None:
        import numpy as np

        from hfrnn.data.streams import evaluation_streams, sequence_count
        from hfrnn.data.vocabulary import frequency_classes

        options, corpus = self._options, self.corpus
        known = None if earlier is None else earlier.vocabulary
        vocabulary = self.vocabulary = self._new_vocabulary() if known is None else known
        self.symbols = vocabulary.encode(corpus.train, options["unknown"])
        self.foreign = vocabulary.count(corpus.train)[0] - self.symbols.size
        self.network = {"n_in": vocabulary.size, "n_out": vocabulary.size, "loss": "softmax"}
        if options["classes"] and earlier is not None and known is not None:
            self.network = earlier.network()
        elif options["classes"]:
            counts = np.bincount(self.symbols, minlength=vocabulary.size)
            classes = frequency_classes(counts, options["classes"]).tolist()
            self.network = {**self.network, "loss": "class-softmax", "classes": classes}
        self.fresh = options["sequence_starts"] == SHIFTED
        self._length, self._seed = options["sequence_length"], options["seed"]
        sequence_count(self.symbols.size, self._length)  # a text that is too short is refused at once
        valid = vocabulary.encode(corpus.valid, options["unknown"])
        self.valid_symbols, self.skipped = valid.size, vocabulary.count(corpus.valid)[0] - valid.size
        if valid.size >= 2 or options["valid"] is not None:
            self.validation = evaluation_streams(valid, VALIDATION_STREAMS, VALIDATION_WARM_UP)

    @property
    def checksums(self) -> dict[str, str]:
        return {**super().checksums, **self._parts}

    def changed(self, stored: Mapping[str, Any]) -> str:
        if stored.get("data_sha256") == self.sha256:
            return ""
        own = {"train": None, "valid": self._options["valid"], "test": self._options["test"]}
        changed = [file or self.source for part, file in own.items()
                   if stored.get(f"{part}_sha256") not in (None, self._parts[f"{part}_sha256"])]  # fmt: skip
        return ", ".join(dict.fromkeys(changed)) or self.source

    def pool(self, epoch: int) -> Pool:
        if not self.fresh:
            return self._fixed_pool
        return self._shifted(int(epoch_generator(self._seed, epoch).integers(self._length)))

    def part(self, name: str) -> Pool:
        """Return a part, cut into sequences like those of training."""
        from hfrnn.data.streams import training_sequences

        assert self.vocabulary is not None
        row = self.vocabulary.encode(self.content(name), self._options["unknown"])
        if row.size < 2:
            raise InputError(f"the {self.part_name(name)} has fewer than two symbols: give another part")
        return Pool(*training_sequences(row, min(self._length, row.size - 1)))

    def text(self) -> NDArray[np.int32]:
        return self.symbols

    def content(self, part: str) -> Content:
        found: Content = getattr(self.corpus, part)
        return found

    def hints(self) -> list[Message]:
        n, classes = self.network["n_out"], round(math.sqrt(self.network["n_out"]))
        found = []
        if self.foreign:
            skipped = f"{counted(self.foreign, self.unit)} of the training part {'is' if self.foreign == 1 else 'are'}"
            found.append(Message(f"{skipped} skipped, because the vocabulary of {{init_from!s}} lacks them"))
        if n >= MANY_SYMBOLS and not self._options["classes"]:
            found.append(Message(
                f"there are {n:,} different {self.unit}s, and each step computes an output for all of them: "
                f"{{classes:{classes}}} computes about {2 * classes:,}"
            ))  # fmt: skip
        return found

    def lines(self) -> list[str | Message]:
        lines: list[str | Message] = [
            f"text      {self.name}: {self.symbols.size:,} {self.unit}s to train on, "
            f"{self.valid_symbols + self.skipped:,} to validate"
        ]
        if self.skipped:
            lines.append(f"          {self.skipped:,} of the latter were never seen in training and are skipped")
        return [*lines, *(Message("hint      {0}", hint) for hint in self.hints())]

    @cached_property
    def _fixed_pool(self) -> Pool:
        return self._shifted(0)

    def _shifted(self, shift: int) -> Pool:
        from hfrnn.data.streams import training_sequences

        return Pool(*training_sequences(self.symbols, self._length, shift))

    @cached_property
    def _parts(self) -> dict[str, str]:
        """The sha256 of each part, under the names that config.toml uses."""
        texts = {part: self.content(part) for part in PARTS}
        contents = {part: text.encode() if isinstance(text, str) else text for part, text in texts.items()}
        return {f"{part}_sha256": hashlib.sha256(content).hexdigest() for part, content in contents.items()}

    def _new_vocabulary(self) -> Any:
        """Return the symbols of the training part; raise InputError if there is only one."""
        from hfrnn.data.vocabulary import Vocabulary

        options, corpus = self._options, self.corpus
        min_count = options["min_count"] or corpus.min_count
        vocabulary = Vocabulary.build(corpus.train, options["level"], min_count, options["max_vocabulary"])
        if vocabulary.size == 1:
            raise InputError(
                f"the training part of {corpus.source} holds only one symbol, {vocabulary.decode([0])!r}, so there is "
                "nothing to predict: give another text"
            )
        return vocabulary


def refuse_other_files(text: str | None) -> None:
    """Raise InputError if a file to train on as a text holds other data, by its suffix."""
    if kind := kind_of_file(text):
        needed = " and ".join(map(argument, kind.needed))
        raise InputError(Message(
            f"{{0}} is {{1}}, not a text: give it as {{data}}{needed and f', with {needed}'}, or rename it to train on "
            "its characters", text, kind.about,
        ))  # fmt: skip


def _size(options: Mapping[str, Any]) -> int:
    """Estimate how many symbols a text has from the size of its file; 0 if the file is not there."""
    from hfrnn.data.corpora import CORPORA

    data, text = options["data"], options["text"]
    if text is not None:
        size = os.path.getsize(text) if os.path.isfile(text) else 0
    else:
        size = CORPORA[data].size if data in CORPORA else 0
    return size // CHARACTERS if options["level"] == "word" else size
