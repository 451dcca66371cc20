"""`hfrnn train`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import click

from hfrnn.config import TrainConfig, checked_options, option_key, option_name, read_toml
from hfrnn.errors import InputError


class _Grouped(click.Command):
    """A command whose help shows its options in the groups of TrainConfig."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups = {spec.name: spec.metadata["group"] for spec in dataclasses.fields(TrainConfig)}
        rows: dict[str, list[tuple[str, str]]] = {"General": []}
        for parameter in self.get_params(ctx):
            record = None if isinstance(parameter, click.Argument) else parameter.get_help_record(ctx)
            if record is not None:
                rows.setdefault(groups.get(parameter.name or "", "General"), []).append(record)
        for group, records in rows.items():
            with formatter.section(group):
                formatter.write_dl(records)


def _train_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option for every field of TrainConfig; what is not given stays None and comes from --config or the default."""
    for spec in reversed(dataclasses.fields(TrainConfig)):
        if spec.name == "text":
            continue
        kind = str(spec.type)
        arguments: dict[str, Any] = {"default": None, "help": spec.metadata["help"] + _shown_default(spec)}
        name = option_name(spec.name)
        if kind.startswith("bool"):
            name = f"{name}/--no-{name[2:]}"
        elif spec.metadata["choices"]:
            arguments["type"] = click.Choice(spec.metadata["choices"])
        elif kind.startswith("tuple"):
            arguments.update(type=str, metavar="NUMBERS")
        else:
            arguments["type"] = {"str": str, "int": int, "float": float}[kind.split(" | ")[0]]
        command = click.option(name, spec.name, **arguments)(command)
    return command


def _shown_default(spec: dataclasses.Field[Any]) -> str:
    if spec.default is None:
        return ""
    value = ",".join(map(str, spec.default)) if isinstance(spec.default, tuple) else spec.default
    if isinstance(value, bool):
        value = "yes" if value else "no"
    return f"  [default: {value}]"


def _numbers(name: str, text: str) -> tuple[float, ...]:
    """Numbers with commas between them."""
    kind = float if name == "fractions" else int
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option_name(name)} is {text!r}: give numbers with commas between them") from None


@click.command(cls=_Grouped, short_help="Train a network.")
@click.argument("text", required=False)
@click.option("--config", type=str, default=None, help="TOML file with options; flags win.")
@click.option("--resume", type=str, default=None, metavar="RUN", help="Go on with a run from its last update.")
@click.option("--dry-run", is_flag=True, help="Print the plan, its bytes and the seconds of an update; train nothing.")
@click.option("--profile", is_flag=True, help="Print at the end where the time went.")
@_train_options
def train(text: str | None, config: str | None, resume: str | None, dry_run: bool, profile: bool, **flags: Any) -> None:
    """Train on TEXT, on a corpus, a synthetic task or music known by name, or on the built-in corpus.

    Writes a run folder with the configuration, the symbols, a line of metrics for every update, and the last and the
    best state. Ctrl-C stops; what was finished is saved, and --resume goes on.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    if text is not None:
        given["text"] = text
    for name in ("hidden", "periods", "fractions"):
        if name in given:
            given[name] = _numbers(name, given[name])
    values = checked_options(read_toml(config), config) if config is not None else {}
    for name, other in (("text", "data"), ("data", "text")):
        if name in given and other not in given:
            values.pop(other, None)
    values.update(given)
    if dry_run:
        _rehearse(resume, values)
        return

    from rich.console import Console

    from hfrnn.progress import Display, profile_lines, result_lines
    from hfrnn.sampling import beginning
    from hfrnn.sampling import sample as draw
    from hfrnn.training import train as train_network

    display = Display(Console())
    try:
        result = train_network(resume=resume, callbacks=[display], **{option_key(k): v for k, v in values.items()})
    finally:
        display.close()
    for line in ("", *result_lines(result), *(profile_lines(display.records) if profile else ())):
        click.echo(line)
    if result.config.sample_length and result.vocabulary is not None:
        drawn = draw(result.net, result.theta, beginning(result.vocabulary), result.config.sample_length)
        click.echo("\nsample:")
        click.echo(result.vocabulary.decode([step.symbol for step in drawn]))


def _rehearse(resume: str | None, values: dict[str, Any]) -> None:
    """Print what a run would do."""
    from hfrnn.progress import rehearsal_lines
    from hfrnn.rehearsal import rehearse
    from hfrnn.run_folder import RunFolder

    stored = TrainConfig() if resume is None else RunFolder(resume).config()
    config = dataclasses.replace(stored, **values)
    for line in rehearsal_lines(rehearse(config), config):
        click.echo(line)
