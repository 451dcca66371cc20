"""`hfrnn gradcheck`: check the derivatives of every architecture."""

from __future__ import annotations

import dataclasses

import click

from hfrnn.cli.arguments import kernel_option
from hfrnn.cli.completion import architectures as architecture_names
from hfrnn.cli.output import say, say_json
from hfrnn.errors import InputError

EXAMPLES = """\b
Examples:
  hfrnn gradcheck mlstm
  hfrnn gradcheck --kernel mine.py mine
"""


@click.command(short_help="Check every derivative against an independent one.", epilog=EXAMPLES)
@click.argument("archs", nargs=-1, metavar="[ARCH]...", shell_complete=architecture_names)
@click.option(
    "--arch", "more", metavar="ARCH", multiple=True, shell_complete=architecture_names,
    help="The same as ARCH (repeatable).",
)  # fmt: skip
@kernel_option
@click.option("--seed", default=0, show_default=True, type=int, help="Seed of the random networks and batches.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def gradcheck(archs: tuple[str, ...], more: tuple[str, ...], seed: int, as_json: bool) -> None:
    """Check gradient, Jacobian, Gauss-Newton product, Hessian and structural damping of each ARCH (default: all).

    The reference is the complex step of the forward pass alone, in float64, on small random networks. Prints the
    worst relative error of each check; exits with 1 if one is above its tolerance.
    """
    from hfrnn.cli.progress import live_bar
    from hfrnn.gradcheck import gradcheck as run_checks
    from hfrnn.gradcheck import table
    from hfrnn.kernels import architectures
    from hfrnn.kernels.registry import first_name, kernel_class

    names = list(dict.fromkeys(map(first_name, [*archs, *more] or architectures())))
    for name in names:
        kernel_class(name)  # raises InputError for an unknown name
    if seed < 0:
        raise InputError(f"--seed is {seed}: give a whole number, 0 or more")
    with live_bar() as show:
        outcomes = run_checks(names, seed, lambda arch, case: show(f"{arch}: {case}", names.index(arch), len(names)))
    if as_json:
        say_json([{**dataclasses.asdict(outcome), "passed": outcome.passed} for outcome in outcomes])
    else:
        say(table(outcomes))
    if not all(outcome.passed for outcome in outcomes):
        click.get_current_context().exit(1)
