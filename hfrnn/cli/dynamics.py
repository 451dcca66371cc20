"""`hfrnn fixed-points` and `hfrnn lyapunov`: the dynamics of a trained network."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from hfrnn.checks import count
from hfrnn.cli.arguments import check_force, check_picture, checked_outputs, force_option, kernel_option, write_outputs
from hfrnn.cli.completion import files, run_folders
from hfrnn.cli.evaluate import part_option, which_option
from hfrnn.cli.free_runs import columns_of, feedback_option
from hfrnn.cli.output import say, say_json
from hfrnn.errors import InputError
from hfrnn.wording import counted

if TYPE_CHECKING:
    from hfrnn.analysis.run_objective import RunSequences
    from hfrnn.dynamics import FixedPoints, Lyapunov, Trajectories
    from hfrnn.runs.folder import RunFolder

POINTS_EXAMPLES = """\b
Examples:
  hfrnn fixed-points runs/flip-flop --plot points.svg
  hfrnn fixed-points runs/trials --input 0,1 -o points.npz
  hfrnn fixed-points runs/book --input e --slow 0.01
"""
LYAPUNOV_EXAMPLES = """\b
Examples:
  hfrnn lyapunov runs/trials
  hfrnn lyapunov runs/lorenz --free-run 5000 --count 3 --step 0.05
"""
EXPONENTS = 10
"""Most exponents that are computed by default."""

symbols_option = click.option(
    "--symbols", metavar="N", default=5000, show_default=True, type=int,
    help="Approximate number of steps that the network reads.",
)  # fmt: skip
seed_option = click.option("--seed", metavar="N", default=0, show_default=True, type=int, help="Seed of all choices.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
plot_option = click.option("--plot", metavar="FILE", shell_complete=files, help="Draw a .svg, .png or .pdf file.")


@click.command(short_help="Find the fixed points of a trained network.", epilog=POINTS_EXAMPLES)
@click.argument("run", shell_complete=run_folders)
@kernel_option
@click.option(
    "--input", "given", metavar="X,..",
    help="Constant inputs, in units of the data, or a symbol.  [default: 0, or the mean if the run scales; of a text "
    "the most frequent symbol]",
)  # fmt: skip
@click.option("--starts", metavar="N", default=1000, show_default=True, type=int, help="Visited states to start from.")
@click.option(
    "--tolerance", metavar="X", default=1e-8, show_default=True, type=float, help="Largest speed of a fixed point."
)
@click.option("--slow", metavar="X", type=float, help="Show also slow points, up to this speed.")
@click.option(
    "--distance", metavar="X", default=1e-3, show_default=True, type=float, help="Closer points are one point."
)
@symbols_option
@part_option("Part of the data", "train")
@click.option("-o", "--output", metavar="FILE", shell_complete=files, help="File to write: .npz.")
@plot_option
@force_option("--output or --plot")
@which_option
@seed_option
@json_option
def fixed_points(
    run: str, given: str | None, starts: int, symbols: int, part: str | None, output: str | None, plot: str | None,
    force: bool, which: str, seed: int, as_json: bool, **numbers: Any,
) -> None:  # fmt: skip
    """Find states that the network in the run folder RUN does not change while its inputs are constant, from states
    that it visits on random sequences of its data.
    """
    import numpy as np

    from hfrnn import dynamics
    from hfrnn.live_line import working
    from hfrnn.runs.folder import RunFolder

    check_force(force, output or plot, "--output or --plot")
    if output is not None and not output.lower().endswith(".npz"):
        raise InputError(f"--output is {output}: give a file that ends in .npz")
    if starts < 1:
        raise InputError(f"--starts is {starts}: give a whole number, 1 or more")
    folder = RunFolder(run)
    outputs = checked_outputs(folder.config(), {"output": output, "plot": plot}, force)
    if plot is not None:
        check_picture(plot)
    drawn = _sequences(folder, which, part, symbols, seed)
    net, theta, batch = drawn.net, drawn.theta, drawn.batch.padded()
    inputs, shown = _constant_inputs(folder, net, batch, given)
    with working("left at most") as show:
        paths = dynamics.trajectories(net, theta, batch)
        visited = paths.visited()
        begin = visited[np.random.default_rng(seed).permutation(len(visited))[:starts]]
        begun = time.perf_counter()
        found = dynamics.fixed_points(
            net, theta, inputs, begin, **numbers, progress=partial(show, "starts")
        )  # fmt: skip
        seconds = time.perf_counter() - begun
    contents: dict[str, bytes | str] = {}
    if output is not None:
        contents["output"] = _archive(found, paths)
    if plot is not None:
        from hfrnn.cli.dynamics_plots import points_picture

        kind = plot.rpartition(".")[2].lower()
        contents["plot"] = points_picture(found, paths, kind, f"{net.describe()}\ninputs {shown}")
    write_outputs(outputs, contents)
    if as_json:
        about = {"network": net.describe(), "data": drawn.about, "inputs": shown, "seconds": seconds}
        say_json({**about, **_points(found)})
        return
    say(f"{net.describe()}\n{drawn.about}; inputs {shown}\n")
    say(f"{counted(len(found), 'point')} from {counted(len(begin), 'start')} in {seconds:.1f} s")
    say("\n".join(_lines(found)))


def _points(found: FixedPoints) -> dict[str, Any]:
    """Return fixed points as lists."""
    return {
        "speed": found.speed.tolist(), "stable": found.stable.tolist(), "unstable": found.unstable.tolist(),
        "hits": found.hits.tolist(), "eigenvalues": [abs(row).tolist() for row in found.eigenvalues],
        "states": found.states.tolist(),
    }  # fmt: skip


def _lines(found: FixedPoints) -> list[str]:
    """Return a line for each number of unstable directions."""
    if not len(found):
        return ["none was reached: give more --starts, another --input, or --slow for slow points"]
    lines = [f"{'unstable directions':>20}{'points':>8}{'starts':>8}{'largest speed':>15}{'|eigenvalues|':>18}"]
    for number in sorted(set(found.unstable.tolist())):
        of = found.unstable == number
        largest = abs(found.eigenvalues[of, 0])
        extent = f"{largest.min():.4f} to {largest.max():.4f}"
        lines.append(f"{number:>20}{of.sum():>8}{found.hits[of].sum():>8}{found.speed[of].max():>15.1e}{extent:>18}")
    return [*lines, "|eigenvalues|: smallest and largest value of the largest modulus at a point"]


def _archive(found: FixedPoints, paths: Trajectories) -> bytes:
    """Return the arrays of fixed points as a file .npz."""
    import numpy as np

    from hfrnn.arrays.stored import npz_bytes

    names = ("states", "speed", "eigenvalues", "stable", "unstable", "inputs", "hits", "time_constants")
    return npz_bytes({"names": np.array(paths.names), **{name: getattr(found, name) for name in names}})


def _sequences(folder: RunFolder, which: str, part: str | None, symbols: int, seed: int) -> RunSequences:
    """Return the network of a run in float64, its weights, and random sequences of its data as it reads them."""
    from hfrnn.analysis.run_objective import random_sequences

    return random_sequences(folder, which, part, count("symbols", symbols, 1), count("seed", seed))


def _constant_inputs(folder: Any, net: Any, batch: Any, given: str | None) -> tuple[Any, str]:
    """Return the constant inputs as the network reads them, and as a person reads them."""
    import numpy as np

    from hfrnn.arrays.backend import get_backend

    if batch.symbols:
        vocabulary = folder.vocabulary()
        if given is None:
            exists, read = batch.exists(get_backend("numpy")), np.asarray(batch.inputs)
            symbol = int(np.bincount(read.reshape(-1) if exists is None else read[exists]).argmax())
        elif vocabulary is None:
            if not given.isdecimal():
                raise InputError(f"--input is {given}: give the number of a symbol, 0 to {net.n_in - 1}")
            symbol = int(given)
        else:
            text = given.encode() if vocabulary.level == "byte" else given
            known, unknown = vocabulary.count(text)
            if known != 1 or unknown:
                raise InputError(f"--input is {given!r}: give one symbol that the network knows")
            symbol = int(vocabulary.encode(text)[0])
        return symbol, str(symbol) if vocabulary is None else repr(vocabulary.decode([symbol]))
    scaling = folder.scaling()
    if given is None:
        scaled = scaling is not None and scaling.input_mean is not None
        return np.zeros(net.n_in), "at their means" if scaled else "0"
    try:
        values = np.array([float(each) for each in given.split(",")])
    except ValueError:
        raise InputError(f"--input is {given}: give numbers, separated by commas") from None
    if values.size != net.n_in or not np.isfinite(values).all():
        raise InputError(f"--input is {given}: the network has {counted(net.n_in, 'input')}, give a number for each")
    return values if scaling is None else scaling.scale_inputs(values), given


@click.command(short_help="Compute Lyapunov exponents of a trained network.", epilog=LYAPUNOV_EXAMPLES)
@click.argument("run", shell_complete=run_folders)
@kernel_option
@click.option(
    "--free-run", metavar="N", type=int, help="Read the sequences, then run N steps on its own outputs, which count."
)
@feedback_option
@click.option(
    "--count", "most", metavar="N", type=int,
    help=f"Number of exponents.  [default: {EXPONENTS}, or all if there are fewer]",
)  # fmt: skip
@click.option("--sequences", metavar="N", default=5, show_default=True, type=int, help="Largest number of sequences.")
@click.option("--washout", metavar="N", type=int, help="First steps, which do not count.  [default: a tenth]")
@click.option(
    "--step", metavar="X", type=float, help="Time of a step, to show exponents per time.  [default: that of --time]"
)
@symbols_option
@part_option("Part of the data", "train")
@plot_option
@force_option("--plot")
@which_option
@seed_option
@json_option
def lyapunov(
    run: str, free_run: int | None, feedback: str | None, most: int | None, sequences: int, washout: int | None,
    step: float | None, symbols: int, part: str | None, plot: str | None, force: bool, which: str, seed: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Compute how fast small differences between states grow (above 0) or shrink (below 0) in the network in the run
    folder RUN: along random sequences of its data, or in a free run after them.
    """
    from hfrnn import dynamics
    from hfrnn.live_line import working
    from hfrnn.runs.folder import RunFolder

    check_force(force, plot, "--plot")
    if sequences < 1:
        raise InputError(f"--sequences is {sequences}: give a whole number, 1 or more")
    if step is not None and not 0 < step < float("inf"):
        raise InputError(f"--step is {step:g}: give a time above 0")
    if free_run is not None and free_run < 1:
        raise InputError(f"--free-run is {free_run}: give a whole number of steps, 1 or more")
    if feedback is not None and free_run is None:
        raise InputError("--feedback was given, and --free-run was not: it is for a network that runs on its outputs")
    folder = RunFolder(run)
    outputs = checked_outputs(folder.config(), {"plot": plot}, force)
    if plot is not None:
        check_picture(plot)
    drawn = _sequences(folder, which, part, symbols, seed)
    net, theta, batch = drawn.net, drawn.theta, drawn.batch.padded().columns(0, min(sequences, drawn.batch.B))
    length = batch.T if batch.lengths is None else int(batch.lengths.min())
    scaling, inputs = folder.scaling(), batch.inputs[:length]
    if scaling is not None and not batch.symbols and scaling.input_mean is not None:
        inputs = inputs * scaling.input_deviation + scaling.input_mean
    size = dynamics.to_vectors(net, net.zero_state(1)).shape[1]
    if most is not None and not 1 <= most <= size:
        entries = f"the state of the network has {size} entries, which is the number of exponents"
        raise InputError(f"--count is {most}, and {entries}: give 1 to {size}")
    columns = None if free_run is None else columns_of(folder, drawn.source, net, feedback)
    with working() as show:
        found = dynamics.lyapunov(
            net, theta, inputs, batch.initial_state, min(EXPONENTS, size) if most is None else most,
            free_steps=free_run, scaling=scaling, washout=washout, seed=seed, progress=partial(show, "steps"),
            feedback=columns,
        )  # fmt: skip
    if step is None and "step" in folder.versions():
        step = float(folder.versions()["step"])
    if plot is not None:
        from hfrnn.cli.dynamics_plots import exponents_picture

        paths = dynamics.trajectories(net, theta, batch)
        kind = plot.rpartition(".")[2].lower()
        outputs["plot"].write(exponents_picture(found, paths, step, kind, net.describe()))
    about = f"{counted(found.sequences, 'sequence')} of the {drawn.name}, "
    about += f"{counted(found.steps, 'free step' if free_run else 'step')} each"
    if as_json:
        figures = {"exponents": found.exponents.tolist(), "errors": found.errors.tolist(), "step": step}
        say_json({"network": net.describe(), "data": about, **figures, "dimension": found.dimension})
        return
    say(f"{net.describe()}\n{about}\n")
    say("\n".join(_exponent_lines(found, step)))


def _exponent_lines(found: Lyapunov, step: float | None) -> list[str]:
    """Return a line for each exponent, and the dimension if it is known."""
    per_time = "" if step is None else f"{'per time':>14}"
    lines = [f"{'exponent':>10}{'per step':>14}{'error':>12}{per_time}"]
    for number, (value, error) in enumerate(zip(found.exponents, found.errors, strict=True), 1):
        more = "" if step is None else f"{value / step:>14.5g}"
        lines.append(f"{number:>10}{value:>14.5g}{error:>12.1e}{more}")
    if found.exponents[0] > 0 and found.dimension == found.dimension:  # not NaN
        lines.append(f"Kaplan-Yorke dimension {found.dimension:.3f}")
    return lines
