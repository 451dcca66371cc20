"""The flags and help pages of `hfrnn train`, derived from the declarations of its options."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from hfrnn.cli.arguments import NearChoice, flag_of, kernel_files
from hfrnn.cli.completion import architectures, data_names, files, folders, run_folders
from hfrnn.cli.output import say
from hfrnn.data.kinds import recognised
from hfrnn.errors import InputError
from hfrnn.option import Option
from hfrnn.runs.defaults import default_text
from hfrnn.runs.options import run_options

MAIN = {
    "data": ("DATA", "Name (see hfrnn info), file of arrays, or table."),
    "inputs": ("NAMES", "Columns that the network reads."),
    "targets": ("NAMES", "Columns to predict."),
    "window": ("NUMBER", "Steps of a window (default: from the data)."),
    "burn_in": ("NUMBER", "First steps of a window that are not scored."),
    "level": ("LEVEL", "What a symbol is: char, byte or word."),
    "arch": ("NAME", "Architecture (see hfrnn info)."),
    "hidden": ("NUMBERS", "Hidden units; commas make a stack."),
    "optimizer": ("NAME", "hf, sgd, adam, soap, muon or online."),
    "learning_rate": ("RATE", "Learning rate of the other optimizers."),
    "updates": ("NUMBER", "Stop after this many updates."),
    "minutes": ("NUMBER", "Stop after this many minutes (default: 4)."),
    "out": ("FOLDER", "Run folder to create (default: in runs/)."),
    "resume": ("RUN", "Continue a run: --minutes more, or --updates in all."),
    "config": ("FILE", "TOML file with options; flags win."),
    "dry_run": ("", "Print the plan and the time of an update, and stop."),
    "help": ("", "Show this page; --help-all shows all options."),
}
"""The options that `--help` shows: the value that each takes, and a short explanation."""

COMPLETIONS = {
    "data": data_names, "arch": architectures, "valid": files, "test": files, "out": folders, "init_from": run_folders,
    "connectivity": files,
}  # fmt: skip
ONCE = ("inputs", "targets", "config", "resume")
"""Options that may not be repeated, because all values would seem to be read. The last value of another one counts."""
OF_ARCHITECTURES = "Options of an architecture"
ORDER = ("General", "Data", "Network", OF_ARCHITECTURES)
"""The first headings of `--help-all`."""


class TrainCommand(click.Command):
    """A command whose flags are the options of a run and of all registered architectures.

    Its help page shows the main options; with `--help-all` it shows all of them, under headings.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        if ctx.meta.get("hfrnn.help"):  # the short page needs no other flags
            return own
        if "hfrnn.flags" not in ctx.meta:  # after the files of --kernel, which may register options
            flags = _run_flags(tuple(each for name, each in run_options().items() if name != "text"))
            taken = {flag for parameter in (*own, *flags) for flag in (*parameter.opts, *parameter.secondary_opts)}
            ctx.meta["hfrnn.flags"] = [*flags, *architecture_flags(taken)]
        return [*own, *ctx.meta["hfrnn.flags"]]

    def make_parser(self, ctx: click.Context) -> Any:
        if "hfrnn.parser" not in ctx.meta:
            ctx.meta["hfrnn.parser"] = super().make_parser(ctx)
        return ctx.meta["hfrnn.parser"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            for file in kernel_files(args):
                from hfrnn.kernels import import_kernels

                import_kernels(file)
            args = [*_each_file_by_itself(args)]
            if set(ctx.help_option_names) & set(args):
                ctx.meta["hfrnn.help"] = True
                say(ctx.get_help())
                ctx.exit()
            self._refuse_repetition(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_repetition(self, ctx: click.Context, args: list[str]) -> None:
        """Raise InputError for an option of `ONCE` that is given again, of which click would silently use the last."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        for option, times in Counter(order).items():
            if times > 1 and option.name in ONCE:
                raise InputError(f"{flag_of(option.name)} was given {times} times: give it once")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = _main_rows() if ctx.meta.get("hfrnn.help") else _all_rows(self.get_params(ctx), ctx)
        for heading, records in rows.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def _each_file_by_itself(args: Sequence[str]) -> Iterator[str]:
    """Return arguments where each further file of recordings after `--data FILE` has the flag `--data` too."""
    taken = ""  # the last file of `--data`, while no other flag was seen
    expected = False
    for arg in args:
        if expected:
            taken, expected = arg, False
        elif arg.startswith("-"):
            taken, expected = arg.partition("--data=")[2], arg == "--data"
        elif taken and recognised(taken) is not None and recognised(arg) is recognised(taken):
            yield "--data"
        yield arg


@functools.lru_cache(maxsize=2)
def _run_flags(options: tuple[Option, ...]) -> tuple[click.Option, ...]:
    """Return the flags of the options that every run has."""
    return tuple(make_flag({each.name: each}) for each in options)


def show_all(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    """Print all options and exit (`--help-all`)."""
    if wanted and not ctx.resilient_parsing:
        say(ctx.get_help())
        ctx.exit()


def architecture_flags(taken: Iterable[str]) -> Iterator[click.Option]:
    """A flag for every option of the registered architectures, which may declare none of those that are taken."""
    from hfrnn.runs.config import arch_declarations

    for name, declarations in arch_declarations().items():
        if flag_of(name) in taken:
            arch = f"the architecture {next(iter(declarations))} declares an option named {name}"
            raise InputError(f"{arch}, and hfrnn train has a flag of that name: rename it")
        yield make_flag(declarations, named=True)


class _Flag(click.Option):
    """A flag whose help text is made when it is shown, from its declarations; `named` says what has each of them."""

    def __init__(self, words: list[str], declarations: Mapping[str, Option], named: bool, **arguments: Any) -> None:
        super().__init__(words, **arguments)
        self._declarations, self._named = declarations, named

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        texts: dict[str, list[str]] = {}
        for name, declared in self._declarations.items():
            texts.setdefault(_help(declared), []).append(name)
        self.help = " ".join(f"{', '.join(names)}: {text}" if self._named else text for text, names in texts.items())
        return super().get_help_record(ctx)


def make_flag(declarations: Mapping[str, Option], named: bool = False) -> click.Option:
    """Return the flag of an option, given its declarations by what has them; they differ in choices and help only."""
    declared = next(iter(declarations.values()))
    arguments: dict[str, Any] = {"default": None}
    flag = flag_of(declared.name)
    if declared.name in COMPLETIONS:
        arguments["shell_complete"] = COMPLETIONS[declared.name]
    if declared.several:
        arguments.update(type=str, multiple=True, default=())
    elif declared.kind is bool:
        flag = f"{flag}/--no-{flag[2:]}"
    elif declared.named:
        arguments.update(type=str, metavar="NUMBER")
    elif declared.many:
        arguments.update(type=str, metavar="NAMES" if declared.kind is str else "NUMBERS")
    elif choices := dict.fromkeys(choice for each in declarations.values() for choice in each.choices):
        arguments["type"] = NearChoice(tuple(choices))
    else:
        arguments["type"] = declared.kind
    return _Flag([flag, declared.name], declarations, named, **arguments)


def parsed(declared: Option, text: str) -> Any:
    """Return the values in the text of an option that takes several values, or numbers by name."""
    if declared.named:
        with contextlib.suppress(ValueError):
            return declared.kind(text)
        return text
    try:
        return tuple(declared.kind(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{flag_of(declared.name)} is {text!r}: give numbers with commas between them") from None


def _help(declared: Option) -> str:
    """Return the help text of an option with its default."""
    default = default_text(declared).worded(flag_of)
    return declared.text.worded(flag_of) + (f"  [default: {default}]" if default else "")


def _main_rows() -> dict[str, list[tuple[str, str]]]:
    """The main options, and those of the architectures that a user registered, by heading."""
    own = run_options()
    defaults = {name: f"  [default: {own[name].own_default}]" for name in MAIN
                if name in own and own[name].default is not None}  # fmt: skip
    flags = {**{name: flag_of(name) for name in MAIN}, "help": "-h, --help"}
    rows = {"Options": [(f"{flags[name]} {kind}", text + defaults.get(name, "")) for name, (kind, text) in
                        MAIN.items()]}  # fmt: skip
    if "hfrnn.kernels.registry" in sys.modules:  # else there is no such architecture
        from hfrnn.kernels.registry import kernel_options, user_architectures

        for arch in user_architectures():
            rows[f"Options of {arch}"] = [
                (f"{flag_of(declared.name)} {_metavar(declared)}".rstrip(), _help(declared))
                for declared in kernel_options(arch).values()
            ]
    return rows


def _all_rows(parameters: Sequence[click.Parameter], ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
    """All options by heading."""
    from hfrnn.kernels.registry import user_architectures
    from hfrnn.runs.config import arch_declarations

    headings = {name: declared.group for name, declared in run_options().items()}
    users = set(user_architectures())
    for name, declarations in arch_declarations().items():
        own = set(declarations) <= users
        headings[name] = f"Options of {', '.join(declarations)}" if own else OF_ARCHITECTURES
    rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ORDER}
    for parameter in parameters:
        record = None if isinstance(parameter, click.Argument) else parameter.get_help_record(ctx)
        if record is not None:
            rows.setdefault(headings.get(parameter.name or "", "General"), []).append(record)
    return rows


def _metavar(declared: Option) -> str:
    """What a flag's value is called on the short page."""
    if declared.kind is bool:
        return ""
    if declared.choices:
        return "NAME"
    if declared.many:
        return "NAMES" if declared.kind is str else "NUMBERS"
    return "TEXT" if declared.kind is str else "NUMBER"
