"""The option `--kernel` of the commands: Python files that register architectures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from hfrnn.cli.completion import files


def _import(ctx: click.Context, parameter: click.Parameter, paths: tuple[str, ...]) -> None:
    for path in () if ctx.resilient_parsing else paths:
        from hfrnn.kernels import import_kernels

        import_kernels(path)


kernel_option = click.option(
    "--kernel", multiple=True, metavar="FILE", is_eager=True, expose_value=False, callback=_import,
    shell_complete=files, help="Python file that registers architectures (repeatable).",
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
