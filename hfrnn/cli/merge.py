"""The options of one training run, merged from flags, a configuration file and the run that is resumed."""

from __future__ import annotations

from typing import Any

from hfrnn.cli.arguments import check_architecture, check_data, name_file
from hfrnn.data.kinds.known import kind_of
from hfrnn.errors import InputError, Message
from hfrnn.option import argument
from hfrnn.runs.config import ONE_OF, TrainConfig, checked_options, read_toml, unpaired_config, useless


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
        out. An option that had no effect in the file itself is refused.
    stored : TrainConfig, optional
        Configuration of the run that is resumed; nothing is left out then.

    Returns
    -------
    dict, TrainConfig
        The options that were given, and the resolved configuration that they give.

    Raises
    ------
    InputError
        An option is not known, has a wrong value or would have no effect.
    """
    from hfrnn.runs.resume import resumed_config

    given = checked_options(given, "hfrnn train")
    values = {}
    if config is not None:
        values = read_toml(config).given
        name_file(config, values, ())
        values = checked_options(values, config)
        name_file(config, values, given)
    of_file = values
    if stored is None:
        values = _without_counterparts(values, given)
    check_data(*({**values, **given}.get(name) for name in ("text", "data")))
    for one, other in ONE_OF[1:]:
        if one in given and other in given:
            raise InputError(Message(f"{argument(one)} and {argument(other)} were given: give one of them"))
    if "arch" in {**values, **given}:
        check_architecture({**values, **given}["arch"])
    if stored is not None:
        full = resumed_config(stored, {**values, **given})
    else:
        full = TrainConfig(**{**values, **given}).resolved()
    for name in given:
        if why := useless(name, full):
            raise InputError(Message(f"{argument(name, _off(given[name]))} was given, and {{0}}; leave it out", why))
    if stored is not None or not (idle := [name for name in values if name not in given and useless(name, full)]):
        return {**values, **given}, full
    alone = unpaired_config(of_file).resolved()
    for name in idle:
        if useless(name, alone):
            why = useless(name, full)
            raise InputError(Message(f"{argument(name, _off(values[name]))} was given, and {{0}}; leave it out", why))
        del values[name]
    if config is not None:
        name_file(config, values, given)
    return {**values, **given}, TrainConfig(**{**values, **given}).resolved()


def _off(value: Any) -> str:
    """Return the value of a flag that turns something off, as a part of a template; nothing for all others."""
    return "False" if value is False else ""


def _without_counterparts(values: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the options in a file without those that a flag replaces by its other option: a text by `--data`."""
    kept = dict(values)
    for pair in ONE_OF:
        for name, other in (pair, pair[::-1]):
            if name in given and other not in given:
                kept.pop(other, None)
    if (
        "data" in given
        and "targets" not in given
        and not (kind_of(given).names_columns and kind_of(values).names_columns)
    ):
        kept.pop("targets", None)
    return kept
