"""`hfrnn report`."""

from __future__ import annotations

import click

from hfrnn.cli.arguments import force_option, kernel_option
from hfrnn.cli.completion import files, run_folders
from hfrnn.cli.output import say_path

EXAMPLES = """\b
Examples:
  hfrnn report runs/book
  hfrnn report runs/hf runs/adam -o comparison.html
"""


@click.command(short_help="Write a page on one run or several.", epilog=EXAMPLES)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=run_folders)
@kernel_option
@click.option(
    "-o", "--output", metavar="FILE", shell_complete=files,
    help="File to write.  [default: report.html, which replaces an older report of that name]",
)  # fmt: skip
@force_option("--output")
def report(runs: tuple[str, ...], output: str | None, force: bool) -> None:
    """Write a page on the run folders RUN, finished or still running: one HTML file with curves, times, samples and
    options side by side. The file needs no connection to the internet.
    """
    from hfrnn.report import write_report

    say_path(write_report(runs, output, force))
