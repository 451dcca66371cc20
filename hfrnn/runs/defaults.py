"""Every default of a run that depends on something: on the data, on the preset, on the optimizer.

The kinds of data, the options of an update and the optimizers declare them; this file puts them together.
`python -m hfrnn.runs.defaults` prints the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from hfrnn.choices import PRESETS
from hfrnn.data.kinds import KINDS, kind_of
from hfrnn.errors import Message
from hfrnn.optim.hf_options import LEAST_FACTORS, SHIFT, STRENGTHS, WEAKER
from hfrnn.option import AS_TEXT, ByData, Option, either
from hfrnn.runs.optimizers import OPTIMIZERS
from hfrnn.runs.options import run_options

PARTS = (("text", "texts"), ("music", "music"), ("task", "tasks"), ("arrays", "arrays"))
"""The fields of `ByData` and their names in a sentence."""
FIRST_WORDS = 5_000
"""Least number of words of the first gradient batch: a step on fewer words fits mostly noise."""


class InSequences(NamedTuple):
    """A number of symbols, as a number of sequences of a synthetic task."""

    number: int

    def __str__(self) -> str:
        return f"{self.number:,} sequences"


def suited(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that suit the data and the optimizer of a run, by name, where the general defaults do not.

    An option of an optimizer that was given keeps the general optimizer, if that has the option.
    """
    found = kind_of(given).suited(given)
    usual = run_options()["optimizer"].default
    if "optimizer" in found and "optimizer" not in given:
        asked = [users for name in given if (users := OPTIMIZERS.takers(name))]
        if any(usual in users and found["optimizer"] not in users for users in asked):
            del found["optimizer"]
    if given.get("optimizer") in OPTIMIZERS.names() and (arch := OPTIMIZERS[given["optimizer"]].defaults.get("arch")):
        found["arch"] = arch
    return found


def dependent(chosen: Any) -> dict[str, Any]:
    """Return the defaults that depend on the preset, the data and the optimizer, with the given values among them.

    The options of `chosen`, a TrainConfig, that were not given are None where their default depends on others. The
    strengths `mu` and `lambda_` are None if the kind of damping has no such strength. An option that is off is 0.
    """
    data = chosen.kind.preset_for(chosen.values)
    found = preset_defaults(chosen.preset, data, chosen.length)
    weaker = WEAKER if chosen.preset == "tuned" and data == "large_text" else 1
    if chosen.mu is not None or chosen.lambda_ is not None:  # their least share is then that of other texts
        found["least_damping"], weaker = found["least_damping"] / weaker, 1
    tuned = chosen.preset == "tuned" and chosen.optimizer in OPTIMIZERS.takers("preset")
    found["l2"] = chosen.kind.penalty(chosen.values) if tuned else 0.0
    strengths = zip(("mu", "lambda_"), STRENGTHS[chosen.damping], strict=True)
    found |= {name: own / weaker or None for name, own in strengths}
    given = {name: value for name in found if (value := getattr(chosen, name)) is not None}
    if given.get("preconditioner", found["preconditioner"]) == "none":
        found["noise_limit"] = 0.0
    if chosen.damping == "line-search":
        found["warm_start"] = 0.0
    found["least_damping"] *= LEAST_FACTORS.get(chosen.damping, 1.0)
    if chosen.kind.level(chosen.values) == "word":
        found["first_gradient_symbols"] = max(found["first_gradient_symbols"], FIRST_WORDS)
    largest = given.get("gradient_symbols", found["gradient_symbols"])
    found["first_gradient_symbols"] = min(found["first_gradient_symbols"], largest)
    found |= given
    if found["preconditioner"] != "none" and not (found["preconditioner_relative_shift"] or found["lambda_"]):
        found["preconditioner_shift"] = SHIFT
    if chosen.optimizer not in OPTIMIZERS.takers("preset"):
        found |= {name: None for name in ("average", "momentum", "mu", "lambda_") if name not in given}
    of_optimizer = OPTIMIZERS[chosen.optimizer].defaults
    return {**found, **{name: value for name, value in of_optimizer.items() if getattr(chosen, name) is None}}


def preset_defaults(preset: str, data: str, length: int = 0) -> dict[str, Any]:
    """Return the options that a preset decides, for a field of `ByData` and a length of synthetic sequences."""
    place = PRESETS.index(preset)
    declared = {name: option.presets for name, option in run_options().items() if option.presets is not None}
    return {name: _value(presets[place], data, length) for name, presets in declared.items()}


def _value(default: Any, data: str, length: int) -> Any:
    """Return the value of a default for a field of `ByData` and for synthetic sequences of a length."""
    value = default.of(data) if isinstance(default, ByData) else default
    value = value.number * max(length, 1) if isinstance(value, InSequences) else value
    return 0.0 if value is None else value


# ---------------------------------------------------------------------- in words


class Row(NamedTuple):
    """A default that depends on something."""

    option: str
    value: str
    where: str


def rows() -> Iterator[Row]:
    """Return all defaults that depend on something, as the declarations have them."""
    for name, option in run_options().items():
        if option.presets is not None:
            for preset, value in zip(PRESETS, option.presets, strict=True):
                for text, data in _by_data(value):
                    yield Row(name, text, f"preset {preset}" + (f", {data}" if data else ""))
        for value, optimizer in _of_optimizers(name):
            yield Row(name, shown_default(value), f"optimizer {optimizer}")
        for value, data in _of_data(name):
            yield Row(name, shown_default(value), data)


def default_text(option: Option) -> Message:
    """Return the default of an option in words, with those of presets, optimizers and data."""
    parts: list[Any] = [] if option.presets is None else [_of_presets(option)]
    parts += [option.own_default] if str(option.own_default) else []
    parts += [_joined(_of_optimizers(option.name), "or"), _joined(_of_data(option.name), "and")]
    parts = [part for part in parts if part != ""]
    return Message("; ".join(f"{{{n}}}" for n in range(len(parts))), *parts)


def _grouped(values: Iterable[tuple[Any, str]]) -> dict[str, list[str]]:
    """Return what has each of some values, by the value as text."""
    found: dict[str, list[str]] = {}
    for value, owner in values:
        found.setdefault(shown_default(value), []).append(owner)
    return found


def _joined(values: Iterable[tuple[Any, str]], word: str) -> str:
    """Return values with what has them in words: `0.9 for sgd or muon, 0 for online`."""
    return ", ".join(f"{text} for {either(owners, word)}" for text, owners in _grouped(values).items())


def _of_presets(option: Option) -> Message:
    """Return the defaults of the presets in words: `12,500; 100,000 with --preset published`."""
    texts = [in_preset(option, preset) for preset in PRESETS]
    more = [f"{text} with {{preset:{preset}}}" for preset, text in zip(PRESETS[1:], texts[1:], strict=True)
            if text != texts[0]]  # fmt: skip
    return Message("; ".join([texts[0], *more]))


def in_preset(option: Option, preset: str) -> str:
    """Return the default of an option in a preset in words: `0.4 for texts, 1 for arrays`, `1, but 5 for ...`."""
    pairs = _by_data(getattr(option.presets, preset))
    return (", " if pairs[0][1] else ", but ").join(text + (f" for {data}" if data else "") for text, data in pairs)


def _by_data(value: Any) -> list[tuple[str, str]]:
    """Return a default as pairs of its text and its data: `0.2`, `texts and music`, or "" for all others."""
    if not isinstance(value, ByData):
        return [(shown_default(value), "")]
    names = _grouped((value.of(field), name) for field, name in PARTS)
    if len(names) == 1:
        names = {next(iter(names)): [""]}
    if value.large_text is not AS_TEXT and (large := shown_default(value.large_text)) != next(iter(names)):
        names.setdefault(large, []).append("large texts")
    return [(text, either(each, "and")) for text, each in names.items()]


def _of_optimizers(name: str) -> list[tuple[Any, str]]:
    """Return the defaults of an option that optimizers declare, each with the optimizer."""
    declared = ((OPTIMIZERS[optimizer].defaults, optimizer) for optimizer in OPTIMIZERS.names())
    return [(defaults[name], optimizer) for defaults, optimizer in declared if name in defaults]


def _of_data(name: str) -> list[tuple[Any, str]]:
    """Return the values of an option that suit some data, each with these data in words."""
    kinds = map(KINDS.__getitem__, KINDS.names())
    declared = [
        pair for kind in kinds for pair in ((kind.defaults, kind.suits), (kind.first_weights, kind.weights_suit))
    ]
    return list(dict.fromkeys((values[name], data) for values, data in declared if name in values))


def shown_default(value: Any) -> str:
    """Return a default as text: `12,500`, `0.1`, `yes`."""
    if value is None:
        return "0"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple) and not isinstance(value, InSequences):
        return ",".join(map(str, value))
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Print the table of all defaults that depend on something."""
    found = [Row("option", "default", "where"), *rows()]
    widths = [max(len(row[n]) for row in found) for n in range(2)]
    for row in found:
        print(f"{row.option:<{widths[0]}}  {row.value:<{widths[1]}}  {row.where}")


if __name__ == "__main__":
    main()
