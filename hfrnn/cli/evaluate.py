"""`hfrnn evaluate` and `hfrnn sample`: score a text with a trained network, and draw text from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from hfrnn.checks import count
from hfrnn.choices import AUTO, BACKENDS, PARTS
from hfrnn.cli.arguments import NearChoice, check_force, checked_outputs, flag_of, force_option, kernel_option
from hfrnn.cli.completion import files, run_folders
from hfrnn.cli.free_runs import columns_of, feedback_option, scores_ahead, steps_of
from hfrnn.cli.output import say, say_data, say_json, say_lines, telling_of_compilation
from hfrnn.errors import InputError, Message
from hfrnn.wording import counted, four_digits, left_out_note, named_part, shell_command, some_of

which_option = click.option(
    "--which", metavar="NAME", default="best", show_default=True, help="Checkpoint: best, last or update-120.",
)  # fmt: skip
backend_option = click.option(
    "--backend", metavar="NAME", type=NearChoice((AUTO, *BACKENDS)), default="numpy", show_default=True,
    help="Backend: auto, numpy, numba or cupy.",
)  # fmt: skip


def part_option(what: str, default: str = "") -> Callable[[Any], Any]:
    """Return the option `--part` of a command that reads a part of the data of a run."""
    shown = f"  [default: {default}]" if default else ""
    return click.option("--part", metavar="NAME", type=NearChoice(PARTS), help=f"{what}: {', '.join(PARTS)}.{shown}")


estimate_option = click.option("--estimate-state", metavar="N", type=int, help="Fit the first state to N targets.")

EVALUATE_EXAMPLES = """\b
Examples:
  hfrnn evaluate runs/book                       its validation part
  hfrnn evaluate runs/book other.txt --dynamic rms
  hfrnn evaluate runs/tanks test.csv --steps-ahead 1,10,all
"""
SAMPLE_EXAMPLES = """\b
Examples:
  hfrnn sample runs/book --prime "The " --temperature 0.7
"""


@click.command(short_help="Score a trained network on a text or on other data.", epilog=EVALUATE_EXAMPLES)
@click.argument("run", shell_complete=run_folders)
@click.argument("text", required=False, metavar="[FILE]", shell_complete=files)
@kernel_option
@part_option("Part of the data", "valid")
@which_option
@click.option(
    "--washout", metavar="N", type=int,
    help="First steps, not scored.  [default: the burn-in]",
)  # fmt: skip
@click.option("--rows", metavar="A:B", help="Rows of a table or recording to score.")
@click.option("--by", metavar="NAME", help="Column or array of conditions, or: sequence.")
@estimate_option
@click.option(
    "--unknown", metavar="WHAT",
    help="Unknown symbols: error, skip, or a known symbol.",
)  # fmt: skip
@click.option(
    "--dynamic", "rule", metavar="RULE", type=NearChoice(("sgd", "rms")),
    help="Learn from each segment after scoring it: sgd, rms.",
)  # fmt: skip
@click.option("--learning-rate", metavar="X", type=float, help="Learning rate of --dynamic.  [default: 0.02; rms: 0.1]")
@click.option("--stretch", metavar="N", type=int, help="Symbols per segment.  [default: 20]")
@click.option("--decay", metavar="X", type=float, help="Decay to the trained weights.  [default: 0; rms: 0.002]")
@click.option("--positions", metavar="N", type=int, help="Also show the bits of N equal parts of the text.")
@click.option(
    "--per-symbol", metavar="FILE", shell_complete=files, help="Write the bits of each symbol as lines of JSON."
)
@click.option(
    "--steps-ahead", metavar="N",
    help="Score runs on its own outputs, N steps; all: to the end.",
)  # fmt: skip
@feedback_option
@force_option("--per-symbol")
@backend_option
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def evaluate(
    run: str, text: str | None, part: str | None, which: str, washout: int | None, rows: str | None, by: str | None,
    estimate_state: int | None, unknown: str | None, rule: str | None, positions: int | None, per_symbol: str | None,
    steps_ahead: str | None, feedback: str | None, force: bool, backend: str, as_json: bool, **learning: Any,
) -> None:  # fmt: skip
    """Score FILE, or a part of the run's own data, with the network in RUN."""
    from hfrnn.analysis.evaluation import evaluate as score
    from hfrnn.choices import UNITS
    from hfrnn.live_line import working
    from hfrnn.runs.folder import RunFolder
    from hfrnn.runs.load import load_run
    from hfrnn.runs.run_constraints import stored_constraints

    _check_file(text, part, rows)
    learning = {name: value for name, value in learning.items() if value is not None}
    for name in learning:
        if rule is None:
            raise InputError(f"{flag_of(name)} was given, and it is for --dynamic: give both, or leave it out")
    if washout is not None:
        count("--washout", washout, 0)
    count("--estimate-state", estimate_state, 1, or_none=True)
    if positions is not None and positions < 1:
        raise InputError(f"--positions is {positions}: give a whole number, 1 or more")
    check_force(force, per_symbol, "--per-symbol")
    if feedback is not None and steps_ahead is None:
        raise InputError("--feedback was given, and it is for --steps-ahead: give both, or leave it out")
    folder = RunFolder(run)
    config = folder.config()
    outputs = checked_outputs(config, {"per_symbol": per_symbol}, force, text)
    net, theta, vocabulary = load_run(folder, which, backend)
    if vocabulary is None:
        given = {"--unknown": unknown, "--dynamic": rule, "--positions": positions, "--per-symbol": per_symbol}
        wrong = [name for name, value in given.items() if value is not None]
        if steps_ahead is not None and not wrong:
            _leave_out({"--by": by, "--rows": rows}, "--steps-ahead scores free runs")
            more: dict[str, Any] = {"steps_ahead": steps_ahead, "feedback": feedback, "washout": washout}
            evaluate_steps_ahead(folder, net, theta, part, text, estimate=estimate_state, as_json=as_json, **more)
            return
        evaluate_data(folder, net, theta, part, text, wrong, as_json, washout, by, estimate_state, rows)
        return
    others = {
        "--rows": rows,
        "--washout": washout,
        "--by": by,
        "--estimate-state": estimate_state,
        "--steps-ahead": steps_ahead,
    }
    _leave_out(others, f"{run} was trained on a text")
    unknown = _unknown(unknown, vocabulary, "error" if text is not None else config.unknown)
    content, source = text_content(folder, vocabulary.level, text, part or "valid")
    how: dict[str, Any] = {}
    with working() as show, telling_of_compilation(net.backend.name, as_json):
        if rule is not None:
            learning["constraints"] = stored_constraints(net, folder.restore(which)[0], folder.path)
            dynamic = _dynamic(rule, learning, folder, net, theta, vocabulary, partial(show, "statistics"))
            how = {"dynamic": rule} | {name: getattr(dynamic, name) for name in ("stretch", "learning_rate", "decay")}
        score = partial(score, net, theta, vocabulary, content, unknown)
        found = score(progress=partial(show, "scored"))
        figures = {"static": found}
        if rule is not None:
            found = figures["dynamic"] = score(progress=partial(show, "dynamic"), dynamic=dynamic)
    shown = {name: _shown(each, positions) for name, each in figures.items()}
    for output in outputs.values():
        output.write(found.json_lines(vocabulary))
    if as_json:
        last = list(shown.values())[-1]
        say_json(last if rule is None else {**last, **how, "static": shown["static"]})
        return
    unit = UNITS[vocabulary.level]
    say(f"{source}: {counted(found.symbols, unit)} predicted, one unbroken stream")
    if found.unknown:
        treated = f"--unknown {unknown}" if vocabulary.stand_in is None else "scored as <unk>"
        say(f"{counted(found.unknown, unit)} never seen in training: {treated}")
    if how:
        rates = f"learning rate {how['learning_rate']:g}, decay {how['decay']:g}"
        say(f"dynamic: {rule}, an update every {counted(how['stretch'], unit)}, {rates}")
        say(f"{'':20}{'static':<10}dynamic")
    say_lines(_table(unit, list(shown.values())))


def _check_file(path: str | None, part: str | None, rows: str | None) -> None:
    """Raise InputError for a file beside a part of the run's own data, and for rows of no file."""
    if path is not None and part is not None:
        raise InputError("give either a FILE or --part, not both")
    if rows is not None and path is None:
        raise InputError("--rows was given, and no FILE: rows are those of a table, or of a recording in a file")


def _leave_out(given: Mapping[str, object], why: str) -> None:
    """Raise InputError if one of some options was given."""
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{why}: leave {name} out")


def _table(unit: str, columns: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a table: the figures of one or more evaluations, and of the parts of the text."""
    rows = {
        f"bits per {unit}": "bits_per_symbol", "bits per byte": "bits_per_byte", "perplexity": "perplexity",
        f"nats per {unit}": "nats_per_symbol",
    }  # fmt: skip
    lines = [_row(name, (each[key] for each in columns)) for name, key in rows.items()]
    if "positions" in columns[0]:
        lines.append(f"bits per {unit}, by {unit}s:")
        for part in zip(*(each["positions"] for each in columns), strict=True):
            lines.append(_row(f"{part[0]['first']:,} to {part[0]['last']:,}", (each["bits"] for each in part)))
    return lines


def _row(name: str, values: Iterable[float]) -> str:
    return f"{name:<20}{''.join(f'{value:<10.4f}' for value in values).rstrip()}"


def _dynamic(
    rule: str, learning: dict[str, Any], folder: Any, net: Any, theta: Any, vocabulary: Any, progress: Any
) -> Any:
    """Return the rule of dynamic evaluation; for RMS, with statistics of the run's own training part."""
    from hfrnn.analysis.dynamic_evaluation import Dynamic, mean_square_gradient
    from hfrnn.sources.open import run_text

    plain = Dynamic(**learning)  # checked before anything is computed
    if rule == "sgd":
        return plain
    try:
        train = vocabulary.encode(run_text(folder, "train"), folder.config().unknown)
    except InputError as error:
        raise InputError(Message("--dynamic rms needs the training part: {0}", error)) from error
    return Dynamic(**learning, mean_square=mean_square_gradient(net, theta, train, plain.stretch, progress=progress))


def _shown(found: Any, positions: int | None) -> dict[str, Any]:
    """Return the figures of an evaluation by name, with the figures of its parts if they are wanted."""
    shown: dict[str, Any] = found.to_json()
    if positions is not None:
        shown["positions"] = [{"first": a, "last": b, "bits": bits} for a, b, bits in found.positions(positions)]
    return shown


def _unknown(given: str | None, vocabulary: Any, otherwise: str = "error") -> str:
    """Return what to do with unknown symbols, `otherwise` by default. A vocabulary with <unk> takes no --unknown."""
    if given is not None and vocabulary.stand_in is not None:
        raise InputError("--unknown was given, and this network reads unknown words as <unk>: leave it out")
    return given or otherwise


def text_content(folder: Any, level: str, text: str | None, part: str) -> tuple[Any, str]:
    """Return what to score, and its name."""
    from hfrnn.data.corpora import read_text
    from hfrnn.sources.open import opened

    if text is not None:
        return read_text(text, level), text
    with or_another_file(folder):
        data = opened(folder.config(), folder)
    content = data.content(part)
    if not content:
        raise InputError(f"the run's data has no {part} part: give a FILE, or another --part")
    return content, data.part_name(part)


@click.command(short_help="Draw text from a trained network.", epilog=SAMPLE_EXAMPLES)
@click.argument("run", shell_complete=run_folders)
@kernel_option
@click.option(
    "--prime", default=None, help="Text to continue (default: a newline; without one, the network's first symbol)."
)
@click.option("--length", default=500, show_default=True, type=int, help="Symbols to draw.")
@click.option(
    "--temperature", default=1.0, show_default=True, type=float,
    help="Temperature of the draws: below 1, likely symbols become likelier; 0 takes the likeliest.",
)  # fmt: skip
@click.option("--top-k", default=None, type=int, help="Draw only from this many of the likeliest symbols.")
@click.option("--seed", default=0, show_default=True, type=int, help="Seed of the random draws.")
@click.option("--allowed", default=None, help="Characters or words that may be drawn (default: all).")
@click.option(
    "--unknown", metavar="WHAT",
    help="Symbols of --prime never seen in training: error, skip, or a known symbol to map them to.  [default: error]",
)  # fmt: skip
@which_option
@backend_option
@click.option(
    "--json", "as_json", is_flag=True, help="Print the text and the probability of each symbol drawn, as JSON."
)
def sample(
    run: str, prime: str | None, length: int, temperature: float, top_k: int | None, seed: int, allowed: str | None,
    unknown: str | None, which: str, backend: str, as_json: bool,
) -> None:  # fmt: skip
    """Draw text from the network in the run folder RUN, and print it after the text of --prime."""
    from hfrnn.engine.sampling import beginning
    from hfrnn.engine.sampling import sample as draw
    from hfrnn.runs.load import load

    net, theta, vocabulary = load(run, which, backend)
    if vocabulary is None:
        raise InputError(f"{run} was not trained on a text: there is nothing to sample")
    if unknown is not None and not prime:
        raise InputError("--unknown was given, and it is for the symbols of --prime: give both, or leave it out")
    if top_k is not None:
        count("--top-k", top_k, 1)
    unknown = _unknown(unknown, vocabulary)
    start = vocabulary.encode(as_text(prime, vocabulary.level), unknown) if prime else beginning(vocabulary)
    symbols = None
    if allowed is not None:
        content = as_text(allowed, vocabulary.level)
        symbols = sorted(set(vocabulary.encode(content, "skip").tolist()))
        if vocabulary.count(content)[1]:
            unknown = "the network does not know every symbol of it"
            raise InputError(f"--allowed is {allowed!r}, and {unknown}: leave out the others")
    with telling_of_compilation(net.backend.name, as_json):
        drawn = list(draw(net, theta, start, length, temperature, top_k, seed, symbols))
    ids = [step.symbol for step in drawn]
    if as_json:
        likely = [float(step.probabilities[step.symbol]) for step in drawn]
        steps = [{"symbol": vocabulary.decode([i]), "probability": p} for i, p in zip(ids, likely, strict=True)]
        say_json({"prime": prime, "text": vocabulary.decode(ids), "steps": steps})
    else:
        say_data(vocabulary.decode([*(start.tolist() if prime else []), *ids]))


def as_text(text: str, level: str) -> str | bytes:
    """Return an argument as a text of a level, byte for byte as it was typed."""
    return text.encode("utf-8", errors="surrogateescape") if level == "byte" else text


# ------------------------------------------------------------------ scores of tasks, music, arrays and tables


FIGURES = {
    "mse": "MSE", "rmse": "RMSE", "r2": "R2", "nrmse": "NRMSE", "fit": "fit%", "cross_entropy": "cross-entropy",
    "accuracy": "accuracy",
}  # fmt: skip
"""Names of figures on the screen."""
MOST_ROWS = 20
"""Most outputs that get a line."""
_WIDTH = 12


def evaluate_data(
    folder: Any, net: Any, theta: Any, part: str | None, path: str | None, wrong: list[str], as_json: bool,
    washout: int | None = None, by: str | None = None, estimate_state: int | None = None, rows: str | None = None,
) -> None:  # fmt: skip
    """Score a network that was trained on sequences, on a part of its data or on the file `path`; print the figures.

    `wrong` are the options that were given although they are for texts.
    """
    from hfrnn.analysis.sequences import evaluate_sequences
    from hfrnn.data.kinds.data_kind import own_files

    config = folder.config()
    if path is not None and not config.kind.reads:
        wrong = [path, *wrong]
    if wrong:
        raise InputError(f"{folder.path} was trained on {config.data}, which is not a text: leave {wrong[0]} out")
    if part is not None and not config.kind.has_parts:
        data = f"{config.data}, whose sequences are generated again"
        raise InputError(f"{folder.path} was trained on {data}: leave --part out")
    with telling_of_compilation(net.backend.name, as_json), or_another_file(folder):
        found = evaluate_sequences(net, theta, config, part, folder, path, washout, by, estimate_state, rows)
    if as_json:
        say_json(found)
    elif "outputs" in found:
        own = own_files(config.values, found.get("part", "train"))
        say_lines(score_lines(found, "class" if net.head.integer_targets else "output", own))
    else:
        for name, value in found.items():
            text = value if isinstance(value, str | int) else _figure(value)
            say(f"{FIGURES.get(name, name.replace('_', ' ')):<20}{text}")


@contextmanager
def or_another_file(folder: Any) -> Iterator[None]:
    """Let the message that a file of a run's own data is gone add how to give the command another file."""
    from hfrnn.sources.open import LostFileError

    try:
        yield
    except LostFileError as error:
        kind = folder.config().kind
        if not (kind.in_bits or kind.reads):
            raise
        command = shell_command([*click.get_current_context().command_path.split(), str(folder.path)])
        raise InputError(Message("{0}, or give another one: {1} FILE", error, command)) from error


def score_lines(found: Mapping[str, Any], what: str, own: Sequence[str] = ()) -> list[str]:
    """Return the lines that show the figures of `evaluate_sequences`: a head, and a line for each output or class.

    `own` are the files of a part that has files of its own.
    """
    data = some_of(found["data"], 2) if isinstance(found["data"], list | tuple) else found["data"]
    where = data if "part" not in found else named_part(found["part"], own, data)
    sizes = f"{counted(found['sequences'], 'sequence')}, {counted(found['steps'], 'scored step')}"
    names, rows = [name for name in FIGURES if name in found], found["outputs"]
    width = max(len(what), len("overall"), *(min(len(name), 24) for name in rows)) + 1
    lines = [f"{where}: {sizes}, loss {four_digits(found['loss'])}"]
    lines.append(f"{what:<{width}}" + "".join(f"{FIGURES[name]:>{_wide(name)}}" for name in names))
    shown = list(rows.items())[:MOST_ROWS] if len(rows) > 1 or what == "class" else []
    for label, row in [*shown, ("overall", found)] if shown else [*rows.items()]:
        figures = "".join(f"{_figure(row[name]):>{_wide(name)}}" for name in names)
        lines.append(f"{label[:24]:<{width}}{figures}")
    if len(rows) > len(shown) > 0:
        lines.insert(-1, f"... and {len(rows) - len(shown)} more, which --json shows")
    linear = found.get("baseline", {})
    if linear.get("model"):
        lines.append(f"{'linear':<{width}}" + "".join(f"{_figure(linear[name]):>{_wide(name)}}" for name in names))
    scored = sum(any(value is not None for value in row.values()) for row in rows.values())
    if scored < len(rows):
        lines.append(f"overall covers {scored:,} of {counted(len(rows), 'output')}: the others have no scored target.")
    if found.get("trial_accuracy") is not None:
        lines.append(f"{four_digits(found['trial_accuracy'])} of the sequences are right at their last scored step.")
    if "conditions" in found:
        lines += _condition_lines(found, names)
    if found.get("left_out"):
        lines.append(f"{left_out_note(found['left_out'])}.")
    lines += [f"{note}." for note in found.get("notes", ())]
    if "washout" in found:
        begun = counted(found["washout"], "step")
        left_out = f"the first {begun} of each not scored" if found["washout"] else "no washout"
        lines.append(f"each sequence begins with {state_words(found)}, {left_out}.")
    if linear:
        begun = " from a state estimated from the same steps" if found.get("estimated_from") else ""
        lines.append(f"linear: {linear['model']}, simulated{begun}." if linear["model"] else
                     f"no linear baseline: {linear['reason']}.")  # fmt: skip
    if "nrmse" in found:
        lines.append("NRMSE is the RMSE divided by the standard deviation of the targets; fit% is 100 (1 - NRMSE).")
    return lines


def _condition_lines(found: Mapping[str, Any], names: list[str]) -> list[str]:
    """Return a table of conditions: trials, steps and figures."""
    last = {"trial_accuracy": "at the end"} if "trial_accuracy" in found else {}
    width = max(len(name[:24]) for name in (found["by"], *found["conditions"])) + 1
    heads = {"trials": "trials", "steps": "steps", **{name: FIGURES[name] for name in names}, **last}
    lines = [f"{found['by'][:24]:<{width}}" + "".join(f"{head:>{_WIDTH + 2}}" for head in heads.values())]
    for name, row in found["conditions"].items():
        cells = [f"{row[key]:,}" if key in ("trials", "steps") else _figure(row[key]) for key in heads]
        lines.append(f"{name[:24]:<{width}}" + "".join(f"{cell:>{_WIDTH + 2}}" for cell in cells))
    return lines


def state_words(found: Mapping[str, Any]) -> str:
    """Return where the states of sequences begin, given `initial_state` and `estimated_from` of their figures."""
    if found["initial_state"] == "estimated":
        return f"a state estimated from its first {counted(found['estimated_from'], 'step')}"
    words = {"zeros": "a state of zeros", "learned": "the learned state", "given": "the state in the data"}
    return words[found["initial_state"]]


def _wide(name: str) -> int:
    return max(_WIDTH, len(FIGURES[name]) + 2)


def _figure(value: float | None) -> str:
    return "-" if value is None else four_digits(value)


# ------------------------------------------------------------------ scores of free runs


def evaluate_steps_ahead(
    folder: Any, net: Any, theta: Any, part: str | None, path: str | None, *, steps_ahead: str, feedback: str | None,
    washout: int | None, estimate: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Score predictions some steps ahead, and free runs to the end of the data for "all"; print the figures.

    States are estimated from the first `estimate` targets if that is given, and then no burn-in is left out.
    """
    from hfrnn.analysis.sequences import file_sequences, own_sequences, with_estimates

    ahead = [steps_of(each.strip(), "--steps-ahead") for each in steps_ahead.split(",")]
    with or_another_file(folder):
        washout = folder.config().values.get("washout") if washout is None else washout
        cut = washout if estimate is None else 0
        given = own_sequences(folder, part, cut) if path is None else file_sequences(folder, net, path, cut)
    if given.batch.targets is None:
        raise InputError(f"{given.name} has no targets to score: give them, or use hfrnn predict --free-run")
    columns = columns_of(folder, given, net, feedback)
    given = given if estimate is None else with_estimates(net, theta, given, estimate, washout or 0)
    with telling_of_compilation(net.backend.name, as_json):
        found = scores_ahead(net, theta, given, ahead, columns)
    if as_json:
        shown = {label: each.to_json() for label, each in found.items()}
        sizes = {"data": given.name, "sequences": given.batch.B, "washout": given.washout}
        say_json({**sizes, **({"notes": list(given.notes)} if given.notes else {}), "steps_ahead": shown})
        return
    begun = f"the first {counted(given.washout, 'step')} of each not scored" if given.washout else "every step scored"
    say(f"{given.name}: {counted(given.batch.B, 'sequence')}, {begun}")
    say_lines([f"{note}." for note in given.notes])
    say_lines(ahead_lines(found))


def ahead_lines(found: dict[str, Any]) -> list[str]:
    """Return a table: a line for each number of steps ahead, and for each output if there are several."""
    first = next(iter(found.values()))
    names = [name for name in FIGURES if name in first.overall]
    several, labels = len(first.outputs) > 1, list(first.outputs)[:MOST_ROWS]
    wide = max(len("overall"), *(min(len(label), 24) for label in labels)) + 2
    head = "steps ahead  " + (f"{'output':<{wide}}" if several else "")
    lines = [head + "".join(f"{FIGURES[name]:>{_wide(name)}}" for name in names)]
    for k, each in found.items():
        rows = [*((label, each.outputs[label]) for label in labels if several), ("overall", each.overall)]
        for n, (label, row) in enumerate(rows):
            begin = f"{k if n == 0 else '':<13}" + (f"{label[:24]:<{wide}}" if several else "")
            lines.append(begin + "".join(f"{_figure(row[name]):>{_wide(name)}}" for name in names))
    return lines
