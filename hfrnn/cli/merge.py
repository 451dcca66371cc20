"""The options of one training run, merged from flags, a configuration file and the run that is resumed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from hfrnn.choices import holds_targets
from hfrnn.cli.arguments import check_architecture, check_data
from hfrnn.errors import InputError
from hfrnn.option import flag_given
from hfrnn.presets import STRENGTHS
from hfrnn.runs.config import (
    TrainConfig,
    arch_declarations,
    check_values,
    checked_options,
    chosen_arch,
    read_toml,
    suited,
)
from hfrnn.runs.defaults import DEFAULTS, kind_of_data, preset_values, renamed, unwritten_values
from hfrnn.runs.options import default_schedule, either, option_key, option_name, run_options

RESOLVED = (
    "average", "learning_rate", "momentum", "mu", "lambda_", "preconditioner_shift", "schedule", *DEFAULTS,
)  # fmt: skip
"""Options whose default depends on another option, beside those of the architectures."""

DECIDING = (
    "optimizer", "preset", "damping", "data", "text", "level", "mu", "lambda_", "gradient_symbols", "preconditioner",
)  # fmt: skip
"""Options that decide the defaults of others."""


EITHER = (("text", "data"), ("curvature_fraction", "curvature_symbols"), ("density", "connectivity"))
"""Pairs of options of which a run has one at most: one as a flag replaces the other one in a file."""


def merged(
    given: dict[str, Any], config: str | None, stored: TrainConfig | None = None
) -> tuple[dict[str, Any], TrainConfig]:
    """Merge the options of a run: flags win over a file, and options without effect are refused.

    Parameters
    ----------
    given : dict
        Flags. A flag without effect in this run is refused.
    config : path, optional
        A configuration file. An option in it that a flag makes useless (`learning_rate` by `--optimizer hf`) is left
        out, as is a default that depends on another option. An option that had no effect in the file itself is
        refused, unless it has its default value or a run wrote the file, which then holds every option.
    stored : TrainConfig, optional
        Configuration of the run that is resumed; nothing is left out then.

    Returns
    -------
    dict, TrainConfig
        The options to train with, and the configuration that they give.

    Raises
    ------
    InputError
        An option is not known, has a wrong value or would have no effect.
    """
    from hfrnn.runs.resume import resumed_config

    values, of_run = ({}, False) if config is None else _from_file(config)
    fresh = stored is None and config is not None
    kept = _without_counterparts(values, given) if fresh else values
    check_data(*({**kept, **given}.get(name) for name in ("text", "data")))
    if fresh:
        kept = _useful(values, kept, given, str(config), of_run)
    kept = {**kept, **given}
    for one, other in EITHER[1:]:
        if one in given and other in given:
            raise InputError(f"{option_name(one)} and {option_name(other)} were given: give one of them")
    if "arch" in kept:
        check_architecture(kept["arch"])
    with naming_the_file(config, kept.keys() - given.keys()):
        full = TrainConfig(**kept) if stored is None else resumed_config(stored, kept)
        chosen = _choices({name: getattr(full, name) for name in run_options()})
        for name in given:
            if why := useless(name, chosen):
                raise InputError(f"{flag_given(name, given[name])} was given, and {why}; leave it out")
    return kept, full


@contextlib.contextmanager
def naming_the_file(config: str | None, names: Iterable[str]) -> Iterator[None]:
    """Let errors about options of a file name the file, not flags that nobody gave.

    Parameters
    ----------
    config : path or None
        The file; None without one.
    names : iterable of str
        The options whose values it gave.
    """
    try:
        yield
    except InputError as error:
        if config is not None and type(error) is InputError:
            error.args = (_of_file(str(error), config, names),)
        raise


def _of_file(message: str, config: str, names: Iterable[str]) -> str:
    """Return a message about a flag, or a Python argument, as one about the option of a file."""
    flags = {option_name(name): option_key(name) for name in names if name != "text"}
    subjects = {**flags, **{key: key for key in flags.values()}}
    if not flags:
        return message
    pattern, flag = ("|".join(sorted(each, key=len, reverse=True)) for each in (subjects, flags))
    found = re.sub(rf"^({pattern})_?(?= (?:is|holds) )", lambda each: f"{config}: {subjects[each[1]]}", message)
    found = re.sub(rf"^({pattern}) was (?:given|asked for)", lambda each: f"{config} gives {subjects[each[1]]}", found)
    where = "" if found != message else f" in {config}"
    return re.sub(rf"(?<=, and )({flag})(?= is )", lambda each: flags[each[1]] + where, found)


def _from_file(path: str) -> tuple[dict[str, Any], bool]:
    """The options in a TOML file, each checked by itself, and whether a run wrote the file."""
    options, versions = read_toml(path)
    values = checked_options(renamed(options) if versions else options, path)
    check_values(values, path, chosen_arch(values))
    return {**values, **(unwritten_values(values) if versions else {})}, bool(versions)


def _without_counterparts(values: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The options in a file without those that a flag replaces by its other option: a text by `--data`."""
    kept = dict(values)
    for pair in EITHER:
        for name, other in (pair, pair[::-1]):
            if name in given and other not in given:
                kept.pop(other, None)
    if "data" in given and "targets" not in given and holds_targets(given["data"]):
        kept.pop("targets", None)
    return kept


def _useful(
    values: dict[str, Any], left: dict[str, Any], given: dict[str, Any], config: str, of_run: bool
) -> dict[str, Any]:
    """The options in a file, of those `left`, that have an effect with the flags, without computed defaults."""
    kept = dict(left)
    own, chosen = _choices(values), _choices({**kept, **given})
    computed = {*RESOLVED, *arch_declarations()}
    for name, value in values.items():
        if name in given or name not in kept:
            continue
        default = value in _defaults(name, own)
        if not default and not of_run and useless(name, own) and (why := useless(name, chosen)):
            raise InputError(f"{config} gives {option_key(name)}, and {why}; leave it out")
        if (default and name in computed) or useless(name, chosen):
            del kept[name]
    return kept


def _choices(values: Mapping[str, Any]) -> SimpleNamespace:
    """The options that decide whether others have an effect, and the kind of data as `kind`."""
    defaults = {name: declared.default for name, declared in run_options().items()}
    chosen = SimpleNamespace(**{**defaults, **suited(values), **values})
    chosen.kind = kind_of_data(chosen.data)
    if _has_usual_strengths(chosen):
        chosen.mu = chosen.lambda_ = None
    found = preset_values(chosen)
    vars(chosen).update({name: found[name] for name in DEFAULTS})
    return chosen


def _has_usual_strengths(chosen: SimpleNamespace) -> bool:
    """Whether both strengths of the damping are those of its kind, or of the preset."""
    preset = preset_values(SimpleNamespace(**{**vars(chosen), "mu": None, "lambda_": None}))
    usual = (preset["mu"], preset["lambda_"]), STRENGTHS[chosen.damping]
    given = (chosen.mu, chosen.lambda_)
    return any(all(value in (None, own) for value, own in zip(given, each, strict=True)) for each in usual)


def _defaults(name: str, chosen: SimpleNamespace) -> tuple[Any, ...]:
    """The values that an option in a file may have although nobody asked for them."""
    if name not in run_options():
        return tuple(declared.default for declared in arch_declarations().get(name, {}).values())
    resolved = TrainConfig(**{each: getattr(chosen, each) for each in DECIDING if each != name}).resolved()
    found = (run_options()[name].default, getattr(resolved, name))
    if name == "schedule":
        return (*found, default_schedule(chosen.optimizer, chosen.kind == "a text"))
    return (*found, STRENGTHS[chosen.damping][name == "lambda_"]) if name in ("mu", "lambda_") else found


def useless(name: str, chosen: SimpleNamespace) -> str:
    """Why an option has no effect with what was chosen, and what it is for; "" where it has one."""
    from hfrnn.kernels.registry import architectures

    if name in run_options():
        return next((why for need in run_options()[name].needs if (why := need.unmet(chosen))), "")
    takers = arch_declarations().get(name, {})
    if not takers or chosen.arch in takers or chosen.arch not in architectures():
        return ""
    return f"--arch is {chosen.arch}: it is for --arch {either(takers)}"
