"""`hfrnn train`."""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import TYPE_CHECKING, Any

import click

from hfrnn.cli.arguments import check_data, name_file
from hfrnn.cli.completion import files, run_folders
from hfrnn.cli.flags import TrainCommand, parsed, show_all
from hfrnn.cli.output import make_console, say, say_document, say_json, say_lines, say_path, telling_of_compilation
from hfrnn.cli.under_mpi import has_to_start, launched_together, start_ranks
from hfrnn.data.kinds import kind_of
from hfrnn.errors import EnvironmentWarning, HfrnnWarning, InputError, Message
from hfrnn.option import argument
from hfrnn.runs.config import ONE_OF, TrainConfig, all_options, checked_options, read_toml, stored_config, useless
from hfrnn.training.signals import handle_signals

if TYPE_CHECKING:
    from hfrnn.cli.progress import Display
    from hfrnn.ranks.one import Ranks

EXAMPLES = """\b
Examples:
  hfrnn train                            the built-in corpus, four minutes
  hfrnn train book.txt --hidden 128 --minutes 30 --out runs/book
  hfrnn train --data drive.csv --inputs force --targets position
"""


@click.command(cls=TrainCommand, short_help="Train a network.", epilog=EXAMPLES)
@click.argument("text", required=False, shell_complete=files)
@click.option("--config", metavar="FILE", shell_complete=files, help="TOML file with options; flags win.")
@click.option(
    "--kernel", metavar="FILE", multiple=True, expose_value=False, shell_complete=files,
    help="Python file that registers your own classes; their options become flags (repeatable).",
)  # fmt: skip
@click.option("--resume", metavar="RUN", shell_complete=run_folders, help="Continue a run after its last update.")
@click.option(
    "--ranks", type=click.IntRange(1), help="Number of MPI ranks to start on this machine (extra mpi).  [default: 1]"
)
@click.option(
    "--dry-run", is_flag=True, help="Print the plan, its memory and the time of an update, and stop without training."
)
@click.option("--print-config", is_flag=True, help="Print all options as TOML for --config, and stop without training.")
@click.option(
    "--tensorboard", is_flag=True, help="Also write event files for TensorBoard to the run folder (extra tensorboard)."
)
@click.option("--quiet", is_flag=True, help="Print only the run folder, at the end.")
@click.option(
    "--json", "as_json", is_flag=True,
    help="Print every record of the log as a line of JSON, and last the summary with the run folder.",
)  # fmt: skip
@click.option(
    "--help-all", is_flag=True, is_eager=True, expose_value=False, callback=show_all, help="Show all options and exit."
)
def train(
    text: str | None, config: str | None, resume: str | None, ranks: int | None, dry_run: bool, print_config: bool,
    tensorboard: bool, quiet: bool, as_json: bool, **flags: Any,
) -> None:  # fmt: skip
    """Train on the file TEXT or on --data NAME (default: a built-in corpus), and write a run folder. Ctrl-C stops;
    --resume continues.
    """
    _check_modes(dry_run, print_config, tensorboard, quiet, as_json)
    if ranks is not None and has_to_start(ranks):
        raise SystemExit(start_ranks(ranks, sys.argv[1:]))
    with launched_together() as started:
        modes = (dry_run, print_config, tensorboard, quiet, as_json)
        _run(config, resume, {**flags, "text": text}, modes, started)


def _run(config: str | None, resume: str | None, flags: dict[str, Any], modes: tuple[bool, ...], ranks: Ranks) -> None:
    """Do what the flags of the command ask for."""
    dry_run, print_config, tensorboard, quiet, as_json = modes
    declared = all_options()
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    given |= {
        name: parsed(declared[name], given[name]) for name in given if declared[name].many or declared[name].named
    }
    stored = None
    if resume is not None:
        from hfrnn.training.restarts import folder_to_resume
        from hfrnn.training.run_state import before_next_update

        folder = folder_to_resume(resume)
        with handle_signals() as interruption:
            interruption.saved = None if print_config or dry_run else before_next_update(folder, resume)
            stored = folder.config()
    values, full = merged(given, config, stored)
    if print_config:
        say_document(full.to_toml())
    elif dry_run:
        from hfrnn.cli.run_tables import dry_run_lines
        from hfrnn.training.dry_run import dry_run as dry_run_of

        with telling_of_compilation(full.backend):
            say_lines(dry_run_lines(dry_run_of(full, resume and folder.path), full))
    else:
        from hfrnn.cli.progress import Display

        display = None if quiet or as_json else Display(make_console())
        tell = None if display is None else display.print
        with telling_of_compilation(full.backend, display is None, tell):
            _train(resume, values if resume else full, tensorboard, display, as_json, ranks)


def _check_modes(dry_run: bool, print_config: bool, tensorboard: bool, quiet: bool, as_json: bool) -> None:
    """Raise InputError for flags that exclude each other."""
    modes = {"--dry-run": dry_run, "--print-config": print_config, "--quiet": quiet, "--json": as_json}
    names = [name for name, wanted in modes.items() if wanted]
    if len(names) > 1:
        raise InputError(f"{' and '.join(names)} were given: give one of them")
    if tensorboard and (dry_run or print_config):
        raise InputError(f"--tensorboard was given, and {names[0]} trains nothing: leave one of them out")


def _train(
    resume: str | None, options: dict[str, Any] | TrainConfig, tensorboard: bool, display: Display | None,
    as_json: bool, ranks: Ranks,
) -> None:  # fmt: skip
    """Train a new run with its configuration, or a resumed one with changes, and print the run as the flags ask."""
    from hfrnn.cli.progress import LogLines
    from hfrnn.cli.run_tables import result_lines
    from hfrnn.training.callbacks import Callback
    from hfrnn.training.trainer import train as train_network

    callbacks: list[Callback] = [display] if display is not None else [LogLines()] if as_json else []
    board = None
    if tensorboard:
        from hfrnn.tensorboard import TensorBoard

        callbacks.append(board := TensorBoard())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HfrnnWarning)  # what they say stands among the lines of the run
            warnings.simplefilter("always", EnvironmentWarning)
            if isinstance(options, dict):
                result = train_network(resume=resume, callbacks=callbacks, progress=False, comm=ranks, **options)
            else:
                result = train_network(options, callbacks=callbacks, progress=False, comm=ranks)
    finally:
        with contextlib.suppress(OSError):  # the terminal may be closed
            if display is not None:
                display.close()
        if board is not None:
            board.close()
    if as_json:
        say_json({"folder": str(result.folder), **result.summary})
    elif display is None:
        say_path(result.folder)
    else:
        say_lines(["", *result_lines(result)])
        if result.summary["sample"] is not None:
            say(f"\nsample:\n{result.summary['sample']}")


# ------------------------------------------------------------------ options from flags, a file and a resumed run


def merged(
    given: dict[str, Any], config: str | None, stored: TrainConfig | None = None
) -> tuple[dict[str, Any], TrainConfig]:
    """Return the options that were given, by flags or by the file `config`, and the resolved configuration of them.

    Flags win over the file, and a flag without effect is refused. An option in the file that a flag makes useless
    (`learning_rate` by `--optimizer hf`) is left out, and one that had no effect in the file itself is refused. Nothing
    is left out in a run that is resumed, whose configuration is `stored`.
    """
    from hfrnn.kernels.registry import kernel_class
    from hfrnn.runs.first_weights import with_network
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
    chosen = {**values, **given}
    check_data(chosen.get("text"), chosen.get("data"))
    for one, other in ONE_OF[1:]:
        if one in given and other in given:
            raise InputError(Message(f"{argument(one)} and {argument(other)} were given: give one of them"))
    if "arch" in chosen:
        kernel_class(chosen["arch"])
    if stored is None:
        chosen = with_network(chosen)
    full = TrainConfig(**chosen).resolved() if stored is None else resumed_config(stored, chosen)
    for name in given:
        if why := useless(name, full):
            raise InputError(Message(f"{argument(name, _off(given[name]))} was given, and {{0}}; leave it out", why))
    if stored is not None or not (idle := [name for name in values if name not in given and useless(name, full)]):
        return chosen, full
    alone = stored_config(of_file).resolved()
    for name in idle:
        if useless(name, alone):
            why = useless(name, full)
            raise InputError(Message(f"{argument(name, _off(values[name]))} was given, and {{0}}; leave it out", why))
        del chosen[name]
    if config is not None:
        name_file(config, chosen, given)
    return chosen, TrainConfig(**chosen).resolved()


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
    names = all(kind_of(each).names_columns for each in (given, values))
    own_file = str((list(kept.get("targets") or ()) or [""])[-1]).lower().endswith(".npy")
    if "data" in given and "targets" not in given and (own_file or not names):
        kept.pop("targets", None)
    return kept
