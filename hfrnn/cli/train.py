"""`hfrnn train`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import click

from hfrnn.cli.completion import architectures, data_names, files, folders, run_folders
from hfrnn.cli.options import NearChoice, merged
from hfrnn.errors import InputError
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.options import option_key, option_name

MAIN = {
    "data": ("NAME", "Corpus, task or music by name (hfrnn info lists them)."),
    "level": ("LEVEL", "What a symbol is: char, byte or word."),
    "arch": ("NAME", "Architecture (see hfrnn info)."),
    "hidden": ("NUMBERS", "Units; with commas, of a stack."),
    "optimizer": ("NAME", "hf, sgd, adam or online."),
    "damping": ("KIND", "Of hf (all: --help-all)."),
    "learning_rate": ("RATE", "Of the other optimizers (default: their own)."),
    "updates": ("NUMBER", "Stop after so many updates."),
    "minutes": ("NUMBER", "Stop after so many minutes (default: 4)."),
    "out": ("FOLDER", "Run folder to make (default: a new one under runs/)."),
    "resume": ("RUN", "Go on with a run from its last update."),
    "config": ("FILE", "TOML file with options; flags win."),
    "dry_run": ("", "Print the plan and an update's seconds; train nothing."),
    "help_all": ("", "Show all options."),
}
"""The options that `--help` shows: what each takes, and what it is in a few words."""

EXAMPLES = """\b
Examples:
  hfrnn train                            the built-in corpus, four minutes
  hfrnn train book.txt --hidden 128 --minutes 30 --out runs/book
  hfrnn train --resume runs/book --minutes 30
  hfrnn train --data addition --arch rnn --optimizer sgd --learning-rate 0.01
"""

COMPLETIONS = {
    "data": data_names, "arch": architectures, "valid": files, "test": files, "out": folders, "init_from": run_folders,
}  # fmt: skip


class _Train(click.Command):
    """A command whose help shows the main options, or all of them in the groups of TrainConfig."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not ctx.meta.get("help_all"):
            specs = {spec.name: spec for spec in dataclasses.fields(TrainConfig)}
            with formatter.section("Options"):
                formatter.write_dl(
                    [
                        (f"{option_name(name)} {kind}", text + (_shown_default(specs[name]) if name in specs else ""))
                        for name, (kind, text) in MAIN.items()
                    ]
                )
            return
        groups = {spec.name: spec.metadata["group"] for spec in dataclasses.fields(TrainConfig)}
        rows: dict[str, list[tuple[str, str]]] = {"General": []}
        for parameter in self.get_params(ctx):
            record = None if isinstance(parameter, click.Argument) else parameter.get_help_record(ctx)
            if record is not None:
                rows.setdefault(groups.get(parameter.name or "", "General"), []).append(record)
        for group, records in rows.items():
            with formatter.section(group):
                formatter.write_dl(records)


def _help_all(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta["help_all"] = True
        click.echo(ctx.get_help())
        ctx.exit()


def _train_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option for every field of TrainConfig; what is not given stays None and comes from --config or the default."""
    for spec in reversed(dataclasses.fields(TrainConfig)):
        if spec.name == "text":
            continue
        kind = str(spec.type)
        arguments: dict[str, Any] = {"default": None, "help": spec.metadata["help"] + _shown_default(spec)}
        if spec.name in COMPLETIONS:
            arguments["shell_complete"] = COMPLETIONS[spec.name]
        name = option_name(spec.name)
        if kind.startswith("bool"):
            name = f"{name}/--no-{name[2:]}"
        elif spec.metadata["choices"]:
            arguments["type"] = NearChoice(spec.metadata["choices"])
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


@click.command(cls=_Train, short_help="Train a network.", epilog=EXAMPLES)
@click.argument("text", required=False, shell_complete=files)
@click.option("--config", metavar="FILE", shell_complete=files, help="TOML file with options; flags win.")
@click.option("--resume", metavar="RUN", shell_complete=run_folders, help="Go on with a run from its last update.")
@click.option("--dry-run", is_flag=True, help="Print the plan, its bytes and the seconds of an update; train nothing.")
@click.option("--print-config", is_flag=True, help="Print all options as TOML for --config; train nothing.")
@click.option(
    "--tensorboard", is_flag=True,
    help="Write event files for TensorBoard into the run folder too (extra tensorboard).",
)  # fmt: skip
@click.option("--profile", is_flag=True, help="Print at the end where the time went.")
@click.option("--quiet", is_flag=True, help="Print nothing but the run folder, at the end.")
@click.option(
    "--json", "as_json", is_flag=True,
    help="Print every line of the log as JSON, and the summary with the run folder as the last line.",
)  # fmt: skip
@click.option(
    "--help-all", is_flag=True, is_eager=True, expose_value=False, callback=_help_all, help="Show all options and exit."
)
@_train_options
def train(
    text: str | None, config: str | None, resume: str | None, dry_run: bool, print_config: bool, tensorboard: bool,
    profile: bool, quiet: bool, as_json: bool, **flags: Any,
) -> None:  # fmt: skip
    """Train on TEXT, a file, or on --data NAME (default: a built-in corpus), and write a run folder. Ctrl-C stops, and
    --resume goes on.
    """
    modes = {"--dry-run": dry_run, "--print-config": print_config, "--quiet": quiet, "--json": as_json}
    names = [name for name, wanted in modes.items() if wanted]
    if len(names) > 1 or (names and profile):
        raise InputError(f"{' and '.join([*names, *['--profile'] * profile])} were given: give one of them")
    if tensorboard and (dry_run or print_config):
        raise InputError(f"--tensorboard was given, and {names[0]} trains nothing: leave one of them out")
    given = {name: value for name, value in flags.items() if value is not None}
    if text is not None:
        given["text"] = text
    for name in ("hidden", "periods", "fractions"):
        if name in given:
            given[name] = _numbers(name, given[name])
    stored = None
    if resume is not None:
        from hfrnn.runs.run_folder import RunFolder

        stored = RunFolder(resume).config()
    values, full = merged(given, config, stored)
    if print_config:
        _print_config(full)
    elif dry_run:
        _dry_run(full, resume)
    else:
        _train(resume, values, tensorboard, profile, quiet, as_json)


def _train(
    resume: str | None, values: dict[str, Any], tensorboard: bool, profile: bool, quiet: bool, as_json: bool
) -> None:
    """Train, and print what was asked for."""
    from hfrnn.cli.progress import Display, LogLines, make_console, profile_lines, result_lines
    from hfrnn.training.trainer import Callback
    from hfrnn.training.trainer import train as train_network

    display = None if quiet or as_json else Display(make_console())
    callbacks: list[Callback] = [display] if display is not None else [LogLines(click.echo)] if as_json else []
    board = None
    if tensorboard:
        from hfrnn.tensorboard import TensorBoard

        callbacks.append(board := TensorBoard())
    try:
        result = train_network(resume=resume, callbacks=callbacks, **{option_key(k): v for k, v in values.items()})
    finally:
        if display is not None:
            display.close()
        if board is not None:
            board.close()
    if display is None:
        click.echo(json.dumps({"folder": str(result.folder), **result.summary}) if as_json else str(result.folder))
        return
    for line in ("", *result_lines(result), *(profile_lines(display.records) if profile else ())):
        click.echo(line)
    if result.summary["sample"] is not None:
        click.echo("\nsample:")
        click.echo(result.summary["sample"])


def _print_config(config: TrainConfig) -> None:
    """Print the configuration as a run's config.toml would hold it, without the versions."""
    import tomli_w

    from hfrnn.optim.damping import Damping

    config = config.resolved()
    if config.optimizer == "hf":
        damping = Damping(config.damping, config.mu, config.lambda_, config.metric)
        config = dataclasses.replace(config, mu=damping.mu, lambda_=damping.lambda_)
    click.echo(tomli_w.dumps(config.to_toml()), nl=False)


def _dry_run(config: TrainConfig, resume: str | None) -> None:
    """Print what a run would do."""
    from hfrnn.cli.progress import dry_run_lines
    from hfrnn.training.dry_run import dry_run

    for line in dry_run_lines(dry_run(config, resume), config):
        click.echo(line)
