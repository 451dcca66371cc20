"""The command `hfrnn`, thin over the library.

Exit codes: 0 done; 2 wrong arguments, configuration or input; 130 interrupted with a checkpoint written; 1 anything
else.
"""

from __future__ import annotations

import errno
import sys
from typing import Any

import click

from hfrnn._version import __version__
from hfrnn.cli.checks import gradcheck, info
from hfrnn.cli.runs import evaluate, sample
from hfrnn.cli.train import train
from hfrnn.errors import HfrnnError


class _Failure(click.ClickException):
    """An error of the library as click shows it: one sentence, its own exit code."""

    def __init__(self, error: HfrnnError) -> None:
        super().__init__(" ".join(str(error).split()))
        self.exit_code = error.exit_code  # type: ignore[misc]

    def show(self, file: Any = None) -> None:
        if self.exit_code == 130:
            click.echo(self.message, err=True)
        else:
            super().show(file)


class _Commands(click.Group):
    """Turns the library's errors into one sentence and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HfrnnError as error:
            raise _Failure(error) from error
        except MemoryError as error:
            raise click.ClickException(
                "the machine's memory is used up: use a smaller --gradient-symbols, --hidden or --checkpoint sqrt"
            ) from error
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            raise click.ClickException(": ".join(str(part) for part in error.args[1:] or [error])) from error
        except KeyboardInterrupt:
            raise click.ClickException("interrupted") from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--kernel", "kernels", multiple=True, metavar="FILE", help="Python file that registers architectures (repeatable)."
)
@click.version_option(__version__, prog_name="hfrnn")
def main(kernels: tuple[str, ...]) -> None:
    """Train recurrent networks by their curvature: Hessian-free optimization with exact Gauss-Newton products.

    \b
    hfrnn train --arch mlstm --damping structural      the built-in corpus
    hfrnn train book.txt --hidden 128 --minutes 10     your own text
    hfrnn sample runs/book --prime "The "
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a character gets its number
            stream.reconfigure(errors="backslashreplace")
    for file in kernels:
        from hfrnn.kernels import import_kernels

        import_kernels(file)


for command in (train, evaluate, sample, gradcheck, info):
    main.add_command(command)
