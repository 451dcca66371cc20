"""`hfrnn predict`: write what a trained network predicts, and the states behind it."""

from __future__ import annotations

from typing import Any

import click

from hfrnn.checks import count
from hfrnn.cli.arguments import (
    check_force,
    check_picture,
    checked_outputs,
    force_option,
    kernel_option,
    told,
    write_outputs,
)
from hfrnn.cli.completion import files, run_folders
from hfrnn.cli.evaluate import backend_option, estimate_option, or_another_file, part_option, state_words, which_option
from hfrnn.cli.free_runs import columns_of, feedback_option, steps_of
from hfrnn.cli.output import say, telling_of_compilation
from hfrnn.errors import InputError
from hfrnn.wording import counted

EXAMPLES = """\b
Examples:
  hfrnn predict runs/pendulum other.csv -o out.csv --plot out.svg
  hfrnn predict runs/trials new.npz -o out.npz --plot out.svg --sequence 7
  hfrnn predict runs/lorenz start.csv --free-run 500 -o future.csv
  hfrnn predict runs/tanks test.csv --free-run all --warm-up 9 -o out.csv
"""


@click.command(short_help="Write the predictions and states of a trained network.", epilog=EXAMPLES)
@click.argument("run", shell_complete=run_folders)
@click.argument("file", required=False, shell_complete=files)
@kernel_option
@click.option(
    "-o", "--output", metavar="FILE", shell_complete=files, help="File to write: .npz; .csv for the outputs of a table."
)
@click.option("--plot", metavar="FILE", shell_complete=files, help="Plot targets and predictions: .svg, .png or .pdf.")
@click.option("--sequence", metavar="N", type=int, help="The sequence for --plot, from 0.  [default: the first 3]")
@part_option("Part of the own data", "valid")
@click.option("--free-run", metavar="N", help="Then run N steps on its own outputs; all: to the end.")
@click.option("--warm-up", metavar="N", type=int, help="Steps to read before --free-run.  [default: all]")
@feedback_option
@estimate_option
@click.option("--no-states", is_flag=True, help="Write no states, only outputs.")
@force_option("--output or --plot")
@which_option
@backend_option
def predict(
    run: str, file: str | None, output: str | None, plot: str | None, sequence: int | None, part: str | None,
    free_run: str | None, warm_up: int | None, feedback: str | None, estimate_state: int | None, no_states: bool,
    force: bool, which: str, backend: str,
) -> None:  # fmt: skip
    """Predict the data in FILE, or a part of the run's own data, with the network in the run folder RUN. Outputs are
    in the units of the data, or probabilities. A table is one recording. FILE needs no targets.
    """
    from hfrnn.analysis.prediction_files import FORMATS, free_given
    from hfrnn.analysis.sequences import file_sequences, own_sequences, with_estimates
    from hfrnn.runs.folder import RunFolder
    from hfrnn.runs.load import load_run

    steps = None if free_run is None else steps_of(free_run, "--free-run")
    free = {"--warm-up": warm_up, "--feedback": feedback}
    _check(file, part, output, plot, free_run, free, no_states)
    count("--estimate-state", estimate_state, 1, or_none=True)
    if sequence is not None and plot is None:
        raise InputError("--sequence was given, and it is for --plot: give both, or leave it out")
    if output is not None and not output.lower().endswith(FORMATS):
        raise InputError(f"--output is {output}: give a file that ends in {' or '.join(FORMATS)}")
    check_force(force, output or plot, "--output or --plot")
    folder = RunFolder(run)
    outputs = checked_outputs(folder.config(), {"output": output, "plot": plot}, force, file)
    if plot is not None:
        check_picture(plot)
    net, theta, _ = load_run(folder, which, backend)
    with or_another_file(folder):
        cut = None if estimate_state is None else 0
        given = own_sequences(folder, part, cut) if file is None else file_sequences(folder, net, file, cut)
        if estimate_state is not None:
            given = with_estimates(net, theta, given, estimate_state)
    if sequence is not None:
        count("--sequence", sequence, 0, given.batch.B - 1)
    known, run_on = given, None
    if free_run is not None:
        known = free_given(given, warm_up)
        run_on = {"steps": steps, "feedback": columns_of(folder, given, net, feedback), "warm_up": warm_up}
    if output is not None and output.lower().endswith(".csv") and not given.recording:
        raise InputError(f"--output is {output}, and {given.name} holds sequences: give a file that ends in .npz")
    with telling_of_compilation(net.backend.name, False):
        lines, contents = _predicted(
            net,
            theta,
            given,
            known,
            folder,
            run_on=run_on,
            states=not no_states,
            paths=(output, plot),
            sequence=sequence,
        )
    write_outputs(outputs, contents)
    for line in lines:
        say(line)


def _check(
    file: str | None, part: str | None, output: str | None, plot: str | None, free_run: str | None,
    free: dict[str, Any], no_states: bool,
) -> None:  # fmt: skip
    """Raise InputError for options that do not go together."""
    if file is not None and part is not None:
        raise InputError("give either a FILE or --part, not both")
    if output is None and plot is None:
        raise InputError("nothing would be written: give --output FILE, --plot FILE or both")
    if free_run is None and (other := next((name for name, value in free.items() if value is not None), None)):
        raise InputError(f"{other} was given, and it is for --free-run: give both, or leave it out")
    if no_states and (output is None or output.lower().endswith(".csv")):
        raise InputError("--no-states was given, and only a file .npz has states: leave it out")
    if no_states and free_run is not None:
        raise InputError("--no-states was given, and a free run writes no states: leave it out")


def _predicted(
    net: Any, theta: Any, given: Any, known: Any, folder: Any, *, run_on: dict[str, Any] | None, states: bool,
    paths: tuple[str | None, str | None], sequence: int | None,
) -> tuple[list[str], dict[str, str | bytes]]:  # fmt: skip
    """Return lines for the screen, and the contents of the files by option; `run_on` are arguments of a free run."""
    from hfrnn.analysis import prediction_files as to_file
    from hfrnn.analysis.free_runs import free_lengths, free_run
    from hfrnn.analysis.prediction import Prediction, predict
    from hfrnn.arrays.stored import npz_bytes
    from hfrnn.engine.feedback import make_feedback

    (output, plot), loop, lengths = paths, None, None
    if run_on is None:
        found = predict(net, theta, given.batch, states and str(output).lower().endswith(".npz"), given.scaling)
    else:
        found = Prediction(free_run(net, theta, given.batch, scaling=given.scaling, **run_on), None)
        loop = make_feedback(net, run_on["feedback"])
        lengths = free_lengths(given.batch, loop, known.batch.T, len(found.outputs))
    arrays = to_file.file_arrays(known, found, folder.config().time_first, lengths)
    contents: dict[str, str | bytes] = {}
    of = "of at most" if "lengths" in arrays else "of"
    lines = [f"{given.name}: {counted(known.batch.B, 'sequence')} {of} {counted(len(found.outputs), 'step')}"]
    if run_on is not None:
        lines[0] += f" on their own after {counted(known.batch.T, 'step')} of the data"
    begun = {"initial_state": given.state, "estimated_from": given.estimated_from}
    lines += [f"each sequence begins with {state_words(begun)}", *given.notes]
    if given.note:
        lines.append(f"without targets: {told(given.note)}")
    if output is not None:
        table = output.lower().endswith(".csv")
        contents["output"] = to_file.csv_text(arrays, given.output_names) if table else npz_bytes(arrays)
        held = ", ".join(f"{name} {value.shape}" for name, value in arrays.items())
        lines.append(f"{output}: {held}" if not table else f"{output}: {counted(len(arrays['y']), 'row')}")
    if plot is not None:
        from hfrnn.cli.plots import prediction_picture

        kind = plot.rpartition(".")[2].lower()
        contents["plot"] = prediction_picture(net, given, known, found, kind, loop, sequence)
        lines.append(plot)
    return lines, contents
