"""`hfrnn spectrum`: the eigenvalues of the curvature at a run's weights."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from hfrnn.choices import MATRICES
from hfrnn.cli.arguments import NearChoice, check_force, check_picture, checked_outputs, force_option, kernel_option
from hfrnn.cli.completion import files, run_folders
from hfrnn.cli.evaluate import backend_option, part_option, which_option
from hfrnn.cli.output import say, say_json, telling_of_compilation
from hfrnn.errors import InputError
from hfrnn.live_line import Told
from hfrnn.wording import counted

if TYPE_CHECKING:
    from hfrnn.analysis.spectrum import Spectrum

EXAMPLES = """\b
Examples:
  hfrnn spectrum runs/book
  hfrnn spectrum runs/book --matrix both --count 20 --vectors 0
  hfrnn spectrum runs/book --symbols 20000 --steps 80 --plot spectrum.svg
"""


@click.command(short_help="Show the eigenvalues of a trained network's curvature.", epilog=EXAMPLES)
@click.argument("run", shell_complete=run_folders)
@kernel_option
@click.option(
    "--matrix", metavar="NAME", type=NearChoice(("gauss-newton", "hessian", "both")), default="gauss-newton",
    show_default=True, help="gauss-newton, hessian (takes 5 to 10 times as long) or both.",
)  # fmt: skip
@click.option(
    "--count", metavar="N", default=5, show_default=True, type=int, help="Number of eigenvalues (hessian: per end)."
)
@click.option(
    "--symbols", metavar="N", default=5000, show_default=True, type=int,
    help="Approximate number of steps in the batch.",
)  # fmt: skip
@part_option("Part of the data", "train")
@click.option(
    "--vectors", metavar="N", default=2, show_default=True, type=int, help="Random vectors for the density; 0: none."
)
@click.option("--steps", metavar="N", default=40, show_default=True, type=int, help="Lanczos steps per vector.")
@click.option(
    "--tolerance", metavar="X", default=1e-6, show_default=True, type=float, help="Largest relative residual."
)
@click.option("--plot", metavar="FILE", shell_complete=files, help="Plot the density to a .svg, .png or .pdf file.")
@force_option("--plot")
@which_option
@click.option("--seed", metavar="N", default=0, show_default=True, type=int, help="Seed of the batch and vectors.")
@backend_option
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
def spectrum(
    run: str, matrix: str, symbols: int, part: str | None, plot: str | None, force: bool, which: str, seed: int,
    backend: str, as_json: bool, **numbers: Any,
) -> None:  # fmt: skip
    """Find the extreme eigenvalues of the undamped curvature, and the density of all eigenvalues, at the weights in the
    run folder RUN, on random sequences of its data.
    """
    from hfrnn.analysis.run_objective import load_objective
    from hfrnn.analysis.spectrum import spectrum as find
    from hfrnn.live_line import working
    from hfrnn.runs.folder import RunFolder

    check_force(force, plot, "--plot")
    if numbers["count"] == numbers["vectors"] == 0:
        raise InputError("--count and --vectors are 0, so nothing would be computed: give 1 or more for one of them")
    outputs = {}
    if plot is not None:
        outputs = checked_outputs(RunFolder(run).config(), {"plot": plot}, force)
        check_picture(plot)
        if numbers["vectors"] == 0:
            raise InputError("--plot draws the density, and --vectors is 0: give 1 or more, or leave --plot out")
    found, seconds = [], []
    with telling_of_compilation(backend, as_json), working("left at most") as show:
        objective, theta, data = load_objective(run, which, part, symbols, seed, backend)
        if numbers["count"] > theta.size:
            most = f"the network has {counted(theta.size, 'weight')}, which is the number of eigenvalues"
            raise InputError(f"--count is {numbers['count']:,}, and {most}: give at most {theta.size:,}")
        for name in MATRICES if matrix == "both" else (matrix,):
            begun = time.perf_counter()
            tell = partial(_tell, show, name)
            found.append(find(objective, theta, name, seed=seed, progress=tell, **numbers))
            seconds.append(time.perf_counter() - begun)
    for output in outputs.values():
        from hfrnn.cli.plots import spectrum_picture

        about = f"{objective.net.describe()}\n{data}"
        output.write(spectrum_picture(found, output.path.rpartition(".")[2].lower(), about))
    if as_json:
        matrices = [{**each.to_json(), "seconds": taken} for each, taken in zip(found, seconds, strict=True)]
        say_json({"network": objective.net.describe(), "data": data, "matrices": matrices})
        return
    say(f"{objective.net.describe()}\n{data}")
    for each, taken in zip(found, seconds, strict=True):
        say(f"\n{each.matrix}: {counted(each.products, 'product')} in {taken:.1f} s")
        say("\n".join(_lines(each, numbers["count"])))


def _tell(show: Told, matrix: str, what: str, done: int, most: int) -> None:
    show(f"{matrix}, {what}", done, most)


def _lines(found: Spectrum, count: int) -> list[str]:
    """Return the figures of one matrix as lines for the screen."""
    ends = {"largest": (found.largest, found.largest_residuals)}
    if found.matrix == "hessian":
        ends["smallest"] = (found.smallest, found.smallest_residuals)
    lines = []
    if count:
        lines = ["".join(f"{end:>14}{'residual':>10}" for end in ends)]
        for k in range(max(values.size for values, _ in ends.values())):
            cells = (f"{v[k]:>14.6g}{r[k]:>10.1e}" if k < v.size else f"{'':24}" for v, r in ends.values())
            lines.append("".join(cells).rstrip())
        missing = sum(min(count, found.size) - values.size for values, _ in ends.values())
        if missing:
            lines.append(f"{missing} more were not found in time: give a larger --tolerance or a smaller --count")
    if found.trace is not None:
        error = "" if found.trace_error is None else f" (standard error {found.trace_error:.2g})"
        lines.append(f"trace {found.trace:.4g}{error}, Frobenius norm {found.frobenius:.4g}")
        ranks = [10**k for k in range(1, 10) if 10**k <= found.size]
        if ranks:
            lines.append(f"{'about the':>14}{'largest':>12}{'smallest' if len(ends) > 1 else '':>12}".rstrip())
        for rank in ranks:
            values = found.ranked(rank)[: len(ends)]
            lines.append(f"{f'{rank:,}th':>14}" + "".join(f"{value:>12.3g}" for value in values))
    return lines
