"""`hfrnn evaluate` and `hfrnn sample`: what is done with a trained network."""

from __future__ import annotations

import json
from typing import Any

import click

from hfrnn.cli.completion import files, run_folders
from hfrnn.cli.options import NearChoice
from hfrnn.errors import InputError

_which = click.option(
    "--which", default="best", show_default=True, help="Checkpoint: best, last, or one that --keep kept: update-120."
)
_backend = click.option(
    "--backend",
    type=NearChoice(("numpy", "numba", "cupy")),
    default="numpy",
    show_default=True,
    help="Where to compute, and with what.",
)


EVALUATE_EXAMPLES = """\b
Examples:
  hfrnn evaluate runs/book                       what it was validated on
  hfrnn evaluate runs/book other.txt --unknown skip
"""
SAMPLE_EXAMPLES = """\b
Examples:
  hfrnn sample runs/book --prime "The " --temperature 0.7
"""


@click.command(short_help="Score a text with a trained network.", epilog=EVALUATE_EXAMPLES)
@click.argument("run", shell_complete=run_folders)
@click.argument("text", required=False, shell_complete=files)
@click.option("--part", type=NearChoice(("train", "valid", "test")), help="Part of the run's own data, without TEXT.")
@_which
@click.option(
    "--unknown", metavar="WHAT",
    help="Symbols never seen in training: error, skip, or a known symbol to map them to.  [default: error]",
)  # fmt: skip
@_backend
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def evaluate(
    run: str, text: str | None, part: str | None, which: str, unknown: str | None, backend: str, as_json: bool
) -> None:
    """Score TEXT, a file, with the network in the run folder RUN; without TEXT, the validation part of its own data.

    A text is one unbroken stream: its first symbol is given, all others are predicted, each from all before it.
    """
    from hfrnn.evaluation import evaluate as score
    from hfrnn.progress import UNITS, live_bar
    from hfrnn.run_folder import RunFolder, load

    if text is not None and part is not None:
        raise InputError("give either a TEXT or --part, not both")
    net, theta, vocabulary = load(run, which, backend)
    if vocabulary is None:
        _evaluate_sequences(run, net, theta, text, part, unknown, as_json)
        return
    unknown = _unknown(unknown, vocabulary)
    content, source = _content(RunFolder(run), vocabulary.level, text, part or "valid")
    with live_bar() as show:
        found = score(net, theta, vocabulary, content, unknown, progress=lambda n, N: show(f"{n:,} of {N:,}", n, N))
    if as_json:
        click.echo(json.dumps(found.to_json()))
        return
    unit = UNITS[vocabulary.level]
    click.echo(f"{source}: {_counted(found.symbols, unit)} predicted, one unbroken stream")
    if found.unknown:
        treated = f"--unknown {unknown}" if vocabulary.stand_in is None else "scored as <unk>"
        click.echo(f"{_counted(found.unknown, unit)} never seen in training: {treated}")
    figures = {f"bits per {unit}": found.bits_per_symbol, "bits per byte": found.bits_per_byte}
    figures |= {"perplexity": found.perplexity, f"nats per {unit}": found.nats_per_symbol}
    for name, value in figures.items():
        click.echo(f"{name:<20}{value:.4f}")


def _counted(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def _unknown(given: str | None, vocabulary: Any) -> str:
    """What becomes of unknown symbols; refused where they are <unk>, whatever is given."""
    if given is not None and vocabulary.stand_in is not None:
        raise InputError("--unknown was given, and this network knows unknown words as <unk>: leave it out")
    return given or "error"


def _evaluate_sequences(
    run: str, net: Any, theta: Any, text: str | None, part: str | None, unknown: str | None, as_json: bool
) -> None:
    """Score a network that was trained on a synthetic task or on music."""
    from hfrnn.data.synthetic import tasks
    from hfrnn.evaluation import evaluate_sequences
    from hfrnn.run_folder import RunFolder

    config = RunFolder(run).config()
    for given, name in ((text, text), (unknown, "--unknown")):
        if given is not None:
            raise InputError(f"{run} was trained on {config.data}, which is no text: leave {name} out")
    if part is not None and config.data in tasks():
        raise InputError(f"{run} was trained on {config.data}, whose sequences are made afresh: leave --part out")
    found = evaluate_sequences(net, theta, config, part)
    if as_json:
        click.echo(json.dumps(found))
        return
    for name, value in found.items():
        click.echo(f"{name.replace('_', ' '):<20}{value if isinstance(value, str | int) else format(value, '.4f')}")


def _content(folder: Any, level: str, text: str | None, part: str) -> tuple[Any, str]:
    """What to score, and what to call it."""
    from hfrnn.data.corpora import read_text

    if text is not None:
        return read_text(text, level), text
    corpus = folder.corpus()
    content = getattr(corpus, part)
    if not content:
        raise InputError(f"the run's data has no {part} part: give a TEXT, or another --part")
    return content, f"{part} part of {corpus.name}"


@click.command(short_help="Draw text from a trained network.", epilog=SAMPLE_EXAMPLES)
@click.argument("run", shell_complete=run_folders)
@click.option("--prime", default=None, help="Text to go on from (default: a newline).")
@click.option("--length", default=500, show_default=True, type=int, help="Symbols to draw.")
@click.option(
    "--temperature", default=1.0, show_default=True, type=float,
    help="Below 1 likely symbols get likelier; 0 always takes the likeliest.",
)  # fmt: skip
@click.option("--top-k", default=None, type=int, help="Draw from so many of the likeliest symbols only.")
@click.option("--seed", default=0, show_default=True, type=int, help="Of the draws.")
@click.option("--allowed", default=None, help="Characters (words) that may be drawn (default: all).")
@click.option(
    "--unknown", metavar="WHAT",
    help="Symbols of --prime never seen in training: error, skip, or a known symbol to map them to.  [default: error]",
)  # fmt: skip
@_which
@_backend
@click.option("--json", "as_json", is_flag=True, help="Print the text and all probabilities as JSON.")
def sample(
    run: str, prime: str | None, length: int, temperature: float, top_k: int | None, seed: int, allowed: str | None,
    unknown: str | None, which: str, backend: str, as_json: bool,
) -> None:  # fmt: skip
    """Draw text from the network in the run folder RUN, and print it behind its beginning."""
    from hfrnn.run_folder import load
    from hfrnn.sampling import beginning
    from hfrnn.sampling import sample as draw

    net, theta, vocabulary = load(run, which, backend)
    if vocabulary is None:
        raise InputError(f"{run} was not trained on a text: there is nothing to sample")
    if unknown is not None and not prime:
        raise InputError("--unknown was given, and it is for the symbols of --prime: give one, or leave it out")
    unknown = _unknown(unknown, vocabulary)
    start = vocabulary.encode(_as_text(prime, vocabulary.level), unknown) if prime else beginning(vocabulary)
    symbols = None
    if allowed is not None:
        content = _as_text(allowed, vocabulary.level)
        symbols = sorted(set(vocabulary.encode(content, "skip").tolist()))
        if vocabulary.count(content)[1]:
            raise InputError(f"--allowed is {allowed!r}, and the network does not know all of it: leave out the rest")
    drawn = list(draw(net, theta, start, length, temperature, top_k, seed, symbols))
    ids = [step.symbol for step in drawn]
    if as_json:
        steps = [
            {"symbol": vocabulary.decode([i]), "probability": float(s.probabilities[i])}
            for i, s in zip(ids, drawn, strict=True)
        ]
        click.echo(json.dumps({"prime": prime, "text": vocabulary.decode(ids), "steps": steps}))
    else:
        click.echo(vocabulary.decode([*(start.tolist() if prime else []), *ids]))


def _as_text(text: str, level: str) -> str | bytes:
    """An argument as a text of that level, byte for byte as it was typed."""
    return text.encode("utf-8", errors="surrogateescape") if level == "byte" else text
