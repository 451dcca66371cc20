"""Arguments of several commands: how messages name them, choices with a hint, names of data, and --force."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from hfrnn.checks import near_hint, nearest
from hfrnn.cli.completion import files
from hfrnn.errors import InputError, Message, MissingExtraError, OfCommand, how_to_install, worded
from hfrnn.option import argument, either, in_toml, listed, option_key

if TYPE_CHECKING:
    from hfrnn.runs.config import TrainConfig
    from hfrnn.runs.outputs import Output

    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # which has no type of its choices before click 8.2


FILE = "hfrnn.file"
"""The key in the `meta` of click's context where the configuration file of the command is, with the options it gave."""
PICTURES = (".svg", ".png", ".pdf")


class NearChoice(_Choice):
    """One of several words; the message about a wrong word has the nearest one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = nearest(str(value), self.choices)
            raise click.BadParameter(error.message + (near and f" Did you mean '{near}'?"), ctx, param) from None


def flag_of(name: str, value: str = "") -> str:
    """Return how users of the command line write an argument of Python, perhaps with a value.

    An argument that the running command calls otherwise has the flag of that command.

    Examples
    --------
    >>> from hfrnn.cli.arguments import flag_of
    >>> flag_of("lambda_"), flag_of("optimizer", "hf"), flag_of("direct_input", "False")
    ('--lambda', '--optimizer hf', '--no-direct-input')
    """
    parameter = _parameters().get(name)
    if isinstance(parameter, click.Argument):
        return parameter.human_readable_name
    if name == "text":
        return "TEXT"
    flag = f"--{name.rstrip('_').replace('_', '-')}"
    if parameter is not None:
        flag = next((each for each in parameter.opts if each.startswith("--")), flag)
    if value == "True":
        return flag
    if value == "False":
        return f"--no-{flag[2:]}"
    return f"{flag} {value}" if value else flag


def told(message: object) -> str:
    """Return a message or an error of the library in the words of the command line, as all commands print it.

    Its arguments are `--window`, or `window in run.toml` if a configuration file gave the option. The file is named
    once in a message. A name that no option has is unchanged.
    """
    ctx = click.get_current_context(silent=True)
    file, keys = ("", ()) if ctx is None else ctx.meta.get(FILE, ("", ()))
    where = [f" in {file}"]

    def write(name: str, value: str) -> str:
        if isinstance(name, OfCommand):
            return flag_of(name, value)
        if option_key(name) in keys:
            return in_toml(name, value) + (where.pop() if where else "")
        return flag_of(name, value) if name in _parameters() or _is_option(name) else name

    return str(worded(message, write))


def name_file(file: str, keys: Iterable[str], flags: Iterable[str]) -> None:
    """Let messages of the running command name a configuration file for the options (`keys`) that it gave.

    Options that the command was given too, `flags`, keep the name of their flag.
    """
    if (ctx := click.get_current_context(silent=True)) is not None:
        ctx.meta[FILE] = file, {_key(each) for each in keys} - {_key(each) for each in flags}


def _key(name: str) -> str:
    return option_key(name.replace("-", "_"))


def _parameters() -> dict[str, click.Parameter]:
    """Return the parameters of the command that runs, or that has just ended with an error, by name."""
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return {}
    root = ctx.find_root()
    command: click.Command | None = root.command
    if isinstance(command, click.Group):
        command = command.commands.get(root.invoked_subcommand or "")
    commands = [*command.commands.values()] if isinstance(command, click.Group) else [command]
    return {each.name: each for found in commands if found is not None for each in found.params if each.name}


def _is_option(name: str) -> bool:
    """Return whether a run or an architecture has an option of that name."""
    from hfrnn.runs.config import arch_declarations
    from hfrnn.runs.options import run_options

    return name in run_options() or name in arch_declarations()


def check_data(text: str | None, data: str | tuple[str, ...] | None) -> None:
    """Raise InputError if `--data` is unknown or cannot be read, or if a file and a name were confused."""
    from hfrnn.data.kinds import kinds, known_names, recognised
    from hfrnn.data.kinds.text import refuse_other_files

    if text is not None and not os.path.exists(text) and any(text in group for group in known_names().values()):
        raise InputError(Message("there is no file {0}: for the data of that name write {data:{0}}", text))
    if text is not None and data is None:
        refuse_other_files(text)
    if data is None:
        return
    kind, files = recognised(data), listed(data)
    if kind is None and len(files) > 1:
        kinds_of = [getattr(recognised(each), "about", "a text or an unknown kind of file") for each in files]
        other = next(n for n, about in enumerate(kinds_of) if about != kinds_of[0] or recognised(files[0]) is None)
        raise InputError(Message(
            "{data} names {0}, which is {1}, and {2}, which is {3}: give files of one kind", files[0], kinds_of[0],
            files[other], kinds_of[other],
        ))  # fmt: skip
    if kind is not None and not kind.in_memory:
        if len(files) > 1 and not kind.several:
            raise InputError(Message(
                "{data} names {0} and {1}, and {2} is read from one file: give one", files[0], files[1], kind.about
            ))  # fmt: skip
        for each in files:
            kind.check(each)
        return
    name: str = files[0]
    if os.path.isfile(name):
        suffixes = ", ".join(f"{kind.about} ends in {either(kind.suffixes)}" for kind in kinds() if kind.suffixes)
        raise InputError(Message(
            "there is no corpus named {0!r}, but a file: to train on it leave out {data}; {1}", name, suffixes
        ))  # fmt: skip
    groups = "; ".join(f"{what} {', '.join(group)}" for what, group in known_names().items())
    near = near_hint(name, [each for group in known_names().values() for each in group])
    raise InputError(f"there is no corpus named {name!r}{near}: give a text file, or one of {groups}")


def checked_outputs(
    config: TrainConfig, paths: dict[str, str | None], force: bool, file: str | None = None
) -> dict[str, Output]:
    """Return the files to write by the option that names them, after checking that they can be written.

    A command calls this before long work. It reads the data of a run, and `file` if one was given.
    """
    from hfrnn.runs.outputs import Output

    inputs = [*config.kind.files(config.values), *([] if file is None else [file])]
    found = {option: Output(option, path, force, inputs) for option, path in paths.items() if path is not None}
    for each in found.values():
        each.check()
    places = {os.path.realpath(each.path).casefold() for each in found.values()}  # macOS and Windows ignore case
    if len(places) < len(found):
        names = " and ".join(argument(option) for option in found)
        raise InputError(Message(f"{names} are both {{0}}: give two files", next(iter(found.values())).path))
    return found


def write_outputs(outputs: dict[str, Output], contents: dict[str, bytes | str]) -> None:
    """Write the contents by option: all of them, or none if one cannot be written."""
    from hfrnn.runs.outputs import Output

    Output.write_all([(outputs[option], content) for option, content in contents.items()])


def force_option(option: str) -> Callable[[Any], Any]:
    """Return the flag `--force` of a command that writes the file which another option names."""
    return click.option("--force", is_flag=True, help=f"Replace the file of {option} if it exists.")


def check_force(force: bool, path: str | None, option: str) -> None:
    """Raise InputError if `--force` was given without the option that it is for."""
    if force and path is None:
        raise InputError(f"--force was given, and it is for {option}: give both, or leave it out")


def check_picture(path: str) -> None:
    """Raise InputError if the picture of `--plot` could not be drawn; called before long work."""
    if not path.lower().endswith(PICTURES):
        raise InputError(f"--plot is {path}: give a file that ends in {', '.join(PICTURES)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(f"--plot needs matplotlib: {how_to_install('plot')}") from error


# ------------------------------------------------------------------ files that register things


def _import(ctx: click.Context, parameter: click.Parameter, paths: tuple[str, ...]) -> None:
    for path in () if ctx.resilient_parsing else paths:
        from hfrnn.kernels import import_kernels

        import_kernels(path)


kernel_option = click.option(
    "--kernel", multiple=True, metavar="FILE", is_eager=True, expose_value=False, callback=_import,
    shell_complete=files, help="Python file that registers your own classes (repeatable).",
)  # fmt: skip
"""The option of all commands but `train`. The files run before other arguments are read."""


def kernel_files(args: Sequence[str]) -> Iterator[str]:
    """The files after `--kernel` among arguments that are not parsed yet."""
    for n, arg in enumerate(args):
        if arg == "--":
            return
        if arg == "--kernel" and n + 1 < len(args):
            yield args[n + 1]
        elif arg.startswith("--kernel="):
            yield arg.removeprefix("--kernel=")
