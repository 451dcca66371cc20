"""The command `hfrnn`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import click

from hfrnn._version import __version__
from hfrnn.checks import nearest
from hfrnn.cli.arguments import told
from hfrnn.cli.completion import completion
from hfrnn.cli.data import data
from hfrnn.cli.dynamics import fixed_points, lyapunov
from hfrnn.cli.evaluate import evaluate, sample
from hfrnn.cli.export import export
from hfrnn.cli.gradcheck import gradcheck
from hfrnn.cli.info import info
from hfrnn.cli.output import (
    finish_streams,
    is_lost_output,
    prepare_streams,
    say,
    show_failure,
    show_lost_output,
    show_warning,
)
from hfrnn.cli.predict import predict
from hfrnn.cli.probe import probe
from hfrnn.cli.report import report
from hfrnn.cli.spectrum import spectrum
from hfrnn.cli.train import train
from hfrnn.cli.under_mpi import refuse_ranks, silence_followers, wait_for_report
from hfrnn.errors import HfrnnError
from hfrnn.ranks.one import launched
from hfrnn.training.signals import Interrupted, Response, handle_signals, is_closed_output
from hfrnn.wording import one_line

EXAMPLES = """\b
Examples:
  hfrnn train                            the built-in corpus, four minutes
  hfrnn train book.txt --hidden 128 --out runs/book
  hfrnn evaluate runs/book
  hfrnn sample runs/book --prime "The "
"""


class _Failure(click.ClickException):
    """Shows an error of the library as one sentence, and exits with the exit code of the error."""

    def __init__(self, error: HfrnnError) -> None:
        super().__init__(one_line(told(error)))
        self.exit_code = error.exit_code  # type: ignore[misc]

    def show(self, file: Any = None) -> None:
        if self.exit_code == 130:
            click.echo(self.message, file)
        else:
            super().show(file)


class _Commands(click.Group):
    """Prints errors of the library as one sentence, and suggests the nearest name for a wrong command."""

    def main(self, *args: Any, standalone_mode: bool = True, **more: Any) -> Any:
        """Run the command. Every error, also one of the output, becomes a sentence and an exit status."""
        run: Callable[..., Any] = super().main
        more.setdefault("windows_expand_args", False)  # which would replace patterns and %NAME% also in quotes
        if not standalone_mode:
            return run(*args, standalone_mode=False, **more)
        silence_followers()
        prepare_streams()
        try:
            with warnings.catch_warnings():
                warnings.showwarning = show_warning  # type: ignore[assignment]
                status = run(*args, standalone_mode=False, **more) or 0
        except click.ClickException as error:
            status = show_failure(error)
        except click.Abort:
            say("Aborted!", err=True)
            status = 1
        except OSError as error:  # of the output: `invoke` handles those of other files
            status = show_lost_output(error)
        wait_for_report(status)
        sys.exit(finish_streams(status, wait=status != Interrupted.exit_code))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and not name.startswith("-"):
            near = nearest(name, self.list_commands(ctx))
            ctx.fail(f"No such command '{name}'." + (near and f" Did you mean '{near}'?"))
        return super().resolve_command(ctx, args)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **options)
        except KeyboardInterrupt:
            raise click.ClickException("interrupted") from None

    def invoke(self, ctx: click.Context) -> Any:
        with handle_signals() as interruption:
            try:
                result = self._invoke(ctx)
                interruption.response = Response.NOTED  # the command is done, and its exit code is decided
                return result
            except (KeyboardInterrupt, OSError) as error:
                interruption.response = Response.NOTED
                stopped = isinstance(error, KeyboardInterrupt) or is_closed_output(error)
                if stopped and interruption.saved is not None:
                    raise _Failure(Interrupted(interruption.saved)) from None
                if isinstance(error, KeyboardInterrupt):
                    raise click.ClickException("interrupted") from None
                if is_lost_output(error):
                    raise
                raise click.ClickException(": ".join(str(part) for part in error.args[1:] or [error])) from error

    def _invoke(self, ctx: click.Context) -> Any:
        """Run the command, and turn errors of the library into messages."""
        try:
            return super().invoke(ctx)
        except HfrnnError as error:
            raise _Failure(error) from error
        except MemoryError as error:
            raise click.ClickException(
                "there is not enough memory: use a smaller --gradient-symbols, --hidden or --checkpoint sqrt"
            ) from error


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80}, epilog=EXAMPLES
)
@click.version_option(__version__, prog_name="hfrnn")
def main() -> None:
    """Train recurrent networks with second-order (Hessian-free) optimization."""
    if launched()[0] > 1:
        refuse_ranks(click.get_current_context().invoked_subcommand)


for command in (
    train, evaluate, predict, sample, probe, report, spectrum, fixed_points, lyapunov, export, data, gradcheck, info,
    completion,
):  # fmt: skip
    main.add_command(command)
