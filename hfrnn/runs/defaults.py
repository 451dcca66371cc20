"""Defaults of options that depend on the preset or on the data of a run.

Help texts, messages and the values of a run are derived from the table `DEFAULTS`. To add an option, declare it in
`options.py` with the default None, and add a line to the table.

`hfrnn train --data addition` and `--data ptb --level word` need no further options: defaults that suit the data
replace the general ones, and an option of the user replaces both. The measurements behind them are in
docs/hf-and-first-order.md (long lags) and docs/data.md (words).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from hfrnn.choices import DYNAMICS, FIXED, IN_MEMORY, LENGTH, PRESETS, SHIFTED, TABLES, names_arrays, names_midi
from hfrnn.presets import AS_TEXT, LARGE, STRENGTHS, UPDATE_OPTIONS, ByData

__all__ = [
    "DEFAULTS",
    "ByData",
    "Default",
    "default_text",
    "in_words",
    "kind_of_data",
    "kind_of_defaults",
    "preset_values",
    "renamed",
    "unwritten_values",
    "usual_values",
]

EARLIER = "published"
"""The preset of runs whose config.toml names none: its values were the only defaults then."""
CHARACTERS = 5
"""About how many characters a word of a text has, with the space after it (5.5 in the Penn Treebank)."""
FORMER = {"fast": "tuned"}
"""Former names of presets, in config.toml of earlier runs, and their present names."""
KINDS_OF_ARRAYS = ("a table", "an array file", "arrays in memory")
"""The kinds of data, as `kind_of_data` names them, that are sequences of numbers of one's own."""
OFF_IF_UNWRITTEN = ("average", "first_gradient_symbols")
"""Options that a run does not use if its config.toml lacks them."""
FORMER_VALUES = {"armijo": 0.01, "sequence_starts": FIXED, "preconditioner_relative_shift": 0.0}
"""Values of runs whose config.toml lacks these options, in place of those of their preset."""
LEAST_FACTORS = {"tikhonov": 0.01, "structural+tikhonov": 0.1}
"""Factors of the default of `least_damping`, by kind of damping. They make the least lambda 0.001 for every kind."""
WEAKER = 10
"""How many times weaker than its kind's own the damping of a large text is at first, in the preset tuned."""


class SequenceCount(NamedTuple):
    """A number of symbols, as a number of sequences of a synthetic task."""

    number: int

    def __str__(self) -> str:
        return f"{self.number:,} sequences"


class Default(NamedTuple):
    """The default of an option in each preset."""

    tuned: Any
    published: Any

    def of(self, preset: str, kind: str, length: int) -> Any:
        """Return the value of a preset for a kind of data, a field of `ByData`, and a length of synthetic sequences.

        An option that is off has the value 0.
        """
        value = self[PRESETS.index(preset)]
        value = value.of(kind) if isinstance(value, ByData) else value
        value = value.number * max(length, 1) if isinstance(value, SequenceCount) else value
        return 0.0 if value is None else value

    def __str__(self) -> str:
        first, *others = ((preset, in_words(value)) for preset, value in zip(PRESETS, self, strict=True))
        return "; ".join([first[1], *(f"{text} with --preset {preset}" for preset, text in others if text != first[1])])


DEFAULTS: dict[str, Default] = {
    "gradient_symbols": Default(ByData(text=12_500, music=12_500, task=SequenceCount(125), arrays=25_000), 100_000),
    "first_gradient_symbols": Default(ByData(text=5_000, music=5_000, task=SequenceCount(125), arrays=5_000), 10_000),
    "batch_growth": Default(ByData(text=1.015, music=1.015, task=1.015, arrays=1.05), 1.15),
    "sequence_starts": Default(SHIFTED, FIXED),
    "curvature_fraction": Default(ByData(text=0.4, music=0.4, task=0.4, arrays=1.0, large_text=0.2), 0.2),
    "least_damping": Default(ByData(text=0.1, music=0.1, task=0.0, arrays=0.0, large_text=0.1 * WEAKER), 0.0),
    **{name: Default(*each) for name, each in UPDATE_OPTIONS.items()},
    "average": Default(ByData(text=0.999, music=0.999, task=0.999, arrays=0.0), 0.7),
}
"""The options that a preset decides unless they are given, and their values. An option that is off is None.
A run has the value 0 for it."""


def default_text(name: str) -> str:
    """Return the default of an option in words: `12,500; 100,000 with --preset published`."""
    return str(DEFAULTS[name])


def preset_values(chosen: Any) -> dict[str, Any]:
    """Return the options of the table: those that were given, and the defaults of the others.

    Parameters
    ----------
    chosen : object
        Holds the options of a run as attributes.

    Returns
    -------
    dict
        Values by name, with the strengths `mu` and `lambda_` of the damping; None if its kind has no such strength.
        Four other defaults depend on other options too: line-search damping has no warm start, the first gradient
        batch is not larger than the others, the least damping depends on the kind (`LEAST_FACTORS`) and on whether a
        strength is given, and without a preconditioner there is no limit of the noise.
    """
    kind = kind_of_defaults(chosen.data, chosen.text, chosen.level)
    found = {name: default.of(chosen.preset, kind, chosen.length) for name, default in DEFAULTS.items()}
    weaker = WEAKER if chosen.preset == "tuned" and kind == "large_text" else 1
    if chosen.mu is not None or chosen.lambda_ is not None:  # their least share is then that of other texts
        found["least_damping"], weaker = found["least_damping"] / weaker, 1
    found |= _strengths(chosen.damping, weaker)
    given = {name: value for name in found if (value := getattr(chosen, name)) is not None}
    if given.get("preconditioner", found["preconditioner"]) == "none":
        found["noise_limit"] = 0.0
    if chosen.damping == "line-search":
        found["warm_start"] = 0.0
    found["least_damping"] *= LEAST_FACTORS.get(chosen.damping, 1.0)
    largest = given.get("gradient_symbols", found["gradient_symbols"])
    found["first_gradient_symbols"] = min(found["first_gradient_symbols"], largest)
    return {**found, **given}


def _strengths(damping: str, weaker: int = 1) -> dict[str, float | None]:
    """Return the initial strengths of a kind of damping, so many times weaker than its own; None for one it lacks."""
    return {name: own / weaker or None for name, own in zip(("mu", "lambda_"), STRENGTHS[damping], strict=True)}


def usual_values(name: str, chosen: Any) -> tuple[Any, ...]:
    """Return the values that an option of a resolved run can have from its preset.

    For a text these are two, because its file may have changed, or be gone, since its size chose the value.

    Parameters
    ----------
    name : str
    chosen : object
        Holds the options of a run as attributes.
    """
    kind = kind_of_defaults(chosen.data)
    kinds = (kind, "large_text") if kind == "text" else (kind,)
    return tuple(DEFAULTS[name].of(chosen.preset, each, chosen.length) for each in kinds)


def renamed(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in a run's config.toml, with the present name of their preset."""
    preset = written.get("preset")
    return {**written, **({"preset": FORMER[preset]} if isinstance(preset, str) and preset in FORMER else {})}


def unwritten_values(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the preset and the options of the table that a run's config.toml lacks, with the values that the run has.

    Parameters
    ----------
    written : mapping
        The options in the file, by name. Runs that lack some are older than the defaults of large texts.
    """
    of = written.get("preset", EARLIER), kind_of_defaults(written.get("data")), written.get("length", LENGTH)
    found = {name: default.of(*of) for name, default in DEFAULTS.items() if name not in OFF_IF_UNWRITTEN}
    found |= {"preset": of[0], **FORMER_VALUES}
    if written.get("optimizer", "hf") == "hf":
        found |= _strengths(written.get("damping", "structural"))
    return {name: value for name, value in found.items() if name not in written}


def kind_of_data(data: str | None) -> str:
    """Return the kind of the data of that name.

    Parameters
    ----------
    data : str or None
        The option `data`; None for a text file.

    Returns
    -------
    {"a text", "music", "a synthetic task", "a table", "an array file", "arrays in memory", "MIDI music"}
    """
    from hfrnn.data.corpora import CORPORA
    from hfrnn.data.music import COLLECTIONS
    from hfrnn.data.tasks import tasks

    if data in IN_MEMORY:
        return "arrays in memory"
    if names_arrays(data):
        return "a table" if str(data).lower().endswith(TABLES) else "an array file"
    if data in tasks() or data in COLLECTIONS:
        return "a synthetic task" if data in tasks() else "music"
    return "MIDI music" if data not in CORPORA and names_midi(data) else "a text"


def kind_of_defaults(data: str | None, text: str | os.PathLike[str] | None = None, level: str = "") -> str:
    """Return the kind of data as presets tell them apart: a field of `ByData`.

    Tasks with a target at every step, `flip-flop` and `sine`, have the defaults of arrays.

    Parameters
    ----------
    data, text : str or None
        The options of a run: the name of the data, or the path of a text.
    level : {"char", "byte", "word", ""}
        What the symbols of a text are. With "" no text is large.
    """
    kind = "arrays" if data in DYNAMICS else kind_of_data(data)
    if kind == "a text":
        return "large_text" if level and _symbols(data, text, level) >= LARGE else "text"
    return {"music": "music", "MIDI music": "music", "a synthetic task": "task"}.get(kind, "arrays")


def _symbols(data: str | None, text: str | os.PathLike[str] | None, level: str) -> int:
    """Estimate how many symbols a text has from the size of its file; 0 if the file is not there."""
    from hfrnn.data.corpora import CORPORA

    if text is None:
        size = CORPORA[data].size if data in CORPORA else 0
    else:
        size = os.path.getsize(text) if os.path.isfile(text) else 0
    return size // CHARACTERS if level == "word" else size


def in_words(value: Any) -> str:
    """Return the default of an option in one preset in words: `12,500`, or `0.2 for texts and music, ...`."""
    if isinstance(value, ByData):
        names: dict[str, list[str]] = {}
        for kind, name in (("text", "texts"), ("music", "music"), ("task", "tasks"), ("arrays", "arrays")):
            names.setdefault(in_words(value.of(kind)), []).append(name)
        usual = ", ".join(f"{text} for {_listed(each)}" for text, each in names.items())
        usual = usual if len(names) > 1 else next(iter(names))
        return usual if value.large_text is AS_TEXT else f"{usual}, but {in_words(value.large_text)} for large texts"
    if value is None:
        return "0"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _listed(names: list[str]) -> str:
    """Return names in a sentence: `texts, music and tasks`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


# ------------------------------------------------------------------ defaults that suit the data


TASK_NETWORK = {"arch": "rnn", "hidden": (100,)}
"""Network of all synthetic tasks."""
ARRAY_NETWORK = {"hidden": (96,)}
"""Size of a network for sequences of numbers of one's own."""
TASK_WEIGHTS = {"initializer": "sutskever", "spectral_radius": 1.0, "input_scale": 0.1}
"""First weights of an `rnn` for tasks with long time lags. It does not learn these tasks from the general ones."""
WORD_NETWORK = {"arch": "lstm", "hidden": (128,), "embedding": 64, "classes": 100, "optimizer": "adam"}
"""Network and optimizer of a known corpus in words."""


def suited_text(name: str) -> str:
    """Return the defaults of an option that depend on the data, in words: `rnn for tasks`; "" if there are none."""
    places = (
        (TASK_NETWORK, "tasks"), (ARRAY_NETWORK, "arrays and tables"), (TASK_WEIGHTS, "an rnn on long lags"),
        (WORD_NETWORK, "corpora in words"),
    )  # fmt: skip
    return ", ".join(f"{_shown(values[name])} for {place}" for values, place in places if name in values)


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
