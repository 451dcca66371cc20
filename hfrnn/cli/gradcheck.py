"""`hfrnn gradcheck` and `hfrnn info`: whether it is right, and what it runs on."""

from __future__ import annotations

import dataclasses
import json
import sys
import textwrap

import click

from hfrnn.cli.completion import architectures as architecture_names
from hfrnn.errors import InputError

CHECK_EXAMPLES = """\b
Examples:
  hfrnn gradcheck mlstm
  hfrnn --kernel mine.py gradcheck mine
"""


@click.command(short_help="Check every derivative against an independent one.", epilog=CHECK_EXAMPLES)
@click.argument("archs", nargs=-1, metavar="[ARCH]...", shell_complete=architecture_names)
@click.option(
    "--arch", "more", metavar="ARCH", multiple=True, shell_complete=architecture_names,
    help="The same as ARCH (may be repeated).",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=int, help="Of the random networks and batches.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcomes as JSON.")
def gradcheck(archs: tuple[str, ...], more: tuple[str, ...], seed: int, as_json: bool) -> None:
    """Check gradient, Jacobian, Gauss-Newton product, Hessian and structural damping of each ARCH (default: all).

    The reference is the complex step of the forward pass alone, in float64, on small random networks. Prints the
    worst relative error of each check; exits with 1 if one is above its tolerance.
    """
    from hfrnn.cli.options import check_architecture
    from hfrnn.cli.progress import live_bar
    from hfrnn.gradcheck import gradcheck as run_checks
    from hfrnn.gradcheck import table
    from hfrnn.kernels import architectures

    names = list(dict.fromkeys([*archs, *more] or architectures()))
    for name in names:
        check_architecture(name)
    if seed < 0:
        raise InputError(f"--seed is {seed}: give a whole number, 0 or more")
    with live_bar() as show:
        outcomes = run_checks(names, seed, lambda arch, case: show(f"{arch}: {case}", names.index(arch), len(names)))
    if as_json:
        click.echo(json.dumps([{**dataclasses.asdict(outcome), "passed": outcome.passed} for outcome in outcomes]))
    else:
        click.echo(table(outcomes))
    if not all(outcome.passed for outcome in outcomes):
        sys.exit(1)


@click.command(short_help="Show versions, processors, and what there is to choose from.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def info(as_json: bool) -> None:
    """Show versions, processors, the BLAS library and its speed, which optional packages are there, and the names of
    architectures (--arch) and of corpora, tasks and music (--data).
    """
    from hfrnn.cli.machine import describe
    from hfrnn.cli.options import known_data

    table = {**describe(), **{kind: list(names) for kind, names in known_data().items()}}
    if as_json:
        click.echo(json.dumps(table))
        return
    for name, value in table.items():
        text = value if isinstance(value, str) else ", ".join(value) if isinstance(value, list) else str(value)
        for n, line in enumerate(textwrap.wrap(text, 65) or [""]):
            click.echo(f"{name if n == 0 else '':<14} {line}")
