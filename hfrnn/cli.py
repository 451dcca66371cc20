"""The command `hfrnn`, thin over the library.

Exit codes: 0 done; 2 wrong arguments, configuration or input; 130 interrupted with a checkpoint written; 1 anything
else.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import click

from hfrnn._version import __version__
from hfrnn.config import TrainConfig, checked_options, option_key, option_name, read_toml
from hfrnn.errors import HfrnnError, InputError


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


class _Grouped(click.Command):
    """A command whose help shows its options in the groups of TrainConfig."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups = {spec.name: spec.metadata["group"] for spec in dataclasses.fields(TrainConfig)}
        rows: dict[str, list[tuple[str, str]]] = {"General": []}
        for parameter in self.get_params(ctx):
            record = None if isinstance(parameter, click.Argument) else parameter.get_help_record(ctx)
            if record is not None:
                rows.setdefault(groups.get(parameter.name or "", "General"), []).append(record)
        for group, records in rows.items():
            with formatter.section(group):
                formatter.write_dl(records)


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


# ---------------------------------------------------------------------- train


def _train_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option for every field of TrainConfig; what is not given stays None and comes from --config or the default."""
    for spec in reversed(dataclasses.fields(TrainConfig)):
        if spec.name == "text":
            continue
        kind = str(spec.type)
        arguments: dict[str, Any] = {"default": None, "help": spec.metadata["help"] + _shown_default(spec)}
        name = option_name(spec.name)
        if kind.startswith("bool"):
            name = f"{name}/--no-{name[2:]}"
        elif spec.metadata["choices"]:
            arguments["type"] = click.Choice(spec.metadata["choices"])
        elif kind.startswith("tuple"):
            arguments.update(type=str, metavar="NUMBERS")
        else:
            arguments["type"] = {"str": str, "int": int, "float": float}[kind.split(" | ")[0]]
        command = click.option(name, spec.name, **arguments)(command)
    return command


def _shown_default(spec: dataclasses.Field[Any]) -> str:
    if spec.default is None:
        return ""
    value = ",".join(map(str, spec.default)) if isinstance(spec.default, tuple) else spec.default
    if isinstance(value, bool):
        value = "yes" if value else "no"
    return f"  [default: {value}]"


def _numbers(name: str, text: str) -> tuple[float, ...]:
    """Numbers with commas between them."""
    kind = float if name == "fractions" else int
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option_name(name)} is {text!r}: give numbers with commas between them") from None


@main.command(cls=_Grouped, short_help="Train a network.")
@click.argument("text", required=False)
@click.option("--config", type=str, default=None, help="TOML file with options; flags win.")
@click.option("--resume", type=str, default=None, metavar="RUN", help="Go on with a run from its last update.")
@click.option("--dry-run", is_flag=True, help="Print the plan, its bytes and the seconds of an update; train nothing.")
@click.option("--profile", is_flag=True, help="Print at the end where the time went.")
@_train_options
def train(text: str | None, config: str | None, resume: str | None, dry_run: bool, profile: bool, **flags: Any) -> None:
    """Train on TEXT, on a corpus, a synthetic task or music known by name, or on the built-in corpus.

    Writes a run folder with the configuration, the symbols, a line of metrics for every update, and the last and the
    best state. Ctrl-C stops; what was finished is saved, and --resume goes on.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    if text is not None:
        given["text"] = text
    for name in ("hidden", "periods", "fractions"):
        if name in given:
            given[name] = _numbers(name, given[name])
    values = checked_options(read_toml(config), config) if config is not None else {}
    for name, other in (("text", "data"), ("data", "text")):
        if name in given and other not in given:
            values.pop(other, None)
    values.update(given)
    if dry_run:
        _rehearse(resume, values)
        return

    from rich.console import Console

    from hfrnn.progress import Display, profile_lines, result_lines
    from hfrnn.sampling import beginning
    from hfrnn.sampling import sample as draw
    from hfrnn.training import train as train_network

    display = Display(Console())
    try:
        result = train_network(resume=resume, callbacks=[display], **{option_key(k): v for k, v in values.items()})
    finally:
        display.close()
    for line in ("", *result_lines(result), *(profile_lines(display.records) if profile else ())):
        click.echo(line)
    if result.config.sample_length and result.vocabulary is not None:
        drawn = draw(result.net, result.theta, beginning(result.vocabulary), result.config.sample_length)
        click.echo("\nsample:")
        click.echo(result.vocabulary.decode([step.symbol for step in drawn]))


def _rehearse(resume: str | None, values: dict[str, Any]) -> None:
    """Print what a run would do."""
    from hfrnn.progress import rehearsal_lines
    from hfrnn.rehearsal import rehearse
    from hfrnn.run_folder import RunFolder

    stored = TrainConfig() if resume is None else RunFolder(resume).config()
    config = dataclasses.replace(stored, **values)
    for line in rehearsal_lines(rehearse(config), config):
        click.echo(line)


# ---------------------------------------------------------------------- evaluate, sample

_which = click.option(
    "--which", type=click.Choice(("best", "last")), default="best", show_default=True, help="Checkpoint to take."
)
_backend = click.option(
    "--backend",
    type=click.Choice(("numpy", "numba", "cupy")),
    default="numpy",
    show_default=True,
    help="Where to compute, and with what.",
)


@main.command(short_help="Score a text with a trained network.")
@click.argument("run")
@click.argument("text", required=False)
@click.option("--part", type=click.Choice(("train", "valid", "test")), default=None, help="Part of the run's own data.")
@_which
@click.option(
    "--unknown", default="error", show_default=True,
    help="Symbols never seen in training: error, skip, or a known symbol to map them to.",
)  # fmt: skip
@_backend
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def evaluate(
    run: str, text: str | None, part: str | None, which: str, unknown: str, backend: str, as_json: bool
) -> None:
    """Score TEXT, or a part of the run's own data, with the network of RUN, as one unbroken stream.

    The state is carried from the first symbol to the last. The first symbol is given, all others are predicted.
    Without TEXT and --part the run's validation part is scored.
    """
    from hfrnn.evaluation import evaluate as score
    from hfrnn.progress import UNITS, live_bar
    from hfrnn.run_folder import RunFolder, load

    if text is not None and part is not None:
        raise InputError("give either a TEXT or --part, not both")
    net, theta, vocabulary = load(run, which, backend)
    if vocabulary is None:
        _evaluate_sequences(run, net, theta, text, part or "valid", as_json)
        return
    content, source = _content(RunFolder(run), vocabulary.level, text, part or "valid")
    with live_bar() as show:
        found = score(net, theta, vocabulary, content, unknown, progress=lambda n, N: show(f"{n:,} of {N:,}", n, N))
    if as_json:
        click.echo(json.dumps(found.to_json()))
        return
    unit = UNITS[vocabulary.level]
    click.echo(f"{source}: {found.symbols:,} {unit}s predicted, one unbroken stream")
    if found.unknown:
        treated = f"--unknown {unknown}" if vocabulary.stand_in is None else "scored as <unk>"
        click.echo(f"{found.unknown:,} {unit}s were never seen in training: {treated}")
    figures = {f"bits per {unit}": found.bits_per_symbol, "bits per byte": found.bits_per_byte}
    figures |= {"perplexity": found.perplexity, f"nats per {unit}": found.nats_per_symbol}
    for name, value in figures.items():
        click.echo(f"{name:<20}{value:.4f}")


def _evaluate_sequences(run: str, net: Any, theta: Any, text: str | None, part: str, as_json: bool) -> None:
    """Score a network that was trained on a synthetic task or on music."""
    from hfrnn.evaluation import evaluate_sequences
    from hfrnn.run_folder import RunFolder

    config = RunFolder(run).config()
    if text is not None:
        raise InputError(f"{run} was trained on {config.data}, which is no text: leave {text} out")
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


@main.command(short_help="Draw text from a trained network.")
@click.argument("run")
@click.option("--prime", default=None, help="Text to go on from (default: a newline).")
@click.option("--length", default=500, show_default=True, type=int, help="Symbols to draw.")
@click.option("--temperature", default=1.0, show_default=True, type=float, help="0 takes the likeliest symbol always.")
@click.option("--top-k", default=None, type=int, help="Draw from the so many likeliest symbols only.")
@click.option("--seed", default=0, show_default=True, type=int, help="Of the draws.")
@click.option("--allowed", default=None, help="Characters (words) that may be drawn (default: all).")
@click.option(
    "--unknown", default="error", show_default=True,
    help="Symbols of --prime never seen in training: error, skip, or a known symbol to map them to.",
)  # fmt: skip
@_which
@_backend
@click.option("--json", "as_json", is_flag=True, help="Print the text, and the probability of every symbol, as JSON.")
def sample(
    run: str, prime: str | None, length: int, temperature: float, top_k: int | None, seed: int, allowed: str | None,
    unknown: str, which: str, backend: str, as_json: bool,
) -> None:  # fmt: skip
    """Draw text from the network of RUN, one symbol after another, and print it behind its beginning."""
    from hfrnn.run_folder import load
    from hfrnn.sampling import beginning
    from hfrnn.sampling import sample as draw

    net, theta, vocabulary = load(run, which, backend)
    if vocabulary is None:
        raise InputError(f"{run} was not trained on a text: there is nothing to sample")
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


# ---------------------------------------------------------------------- gradcheck, info


@main.command(short_help="Check every derivative against an independent one.")
@click.argument("archs", nargs=-1, metavar="[ARCH]...")
@click.option("--arch", "more", multiple=True, help="Architecture to check (may be repeated; default: all).")
@click.option("--seed", default=0, show_default=True, type=int, help="Of the random networks and batches.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcomes as JSON.")
def gradcheck(archs: tuple[str, ...], more: tuple[str, ...], seed: int, as_json: bool) -> None:
    """Check gradient, Jacobian, Gauss-Newton product, Hessian and structural damping of each ARCH (default: all).

    The reference is the complex step of the forward pass alone, in float64, on small random networks. Prints the
    worst relative error of each check; exits with 1 if one is above its tolerance.
    """
    from hfrnn.gradcheck import gradcheck as run_checks
    from hfrnn.gradcheck import table
    from hfrnn.kernels import architectures
    from hfrnn.progress import live_bar

    names = list(dict.fromkeys([*archs, *more] or architectures()))
    with live_bar() as show:
        outcomes = run_checks(names, seed, lambda arch, case: show(f"{arch}: {case}", names.index(arch), len(names)))
    if as_json:
        click.echo(json.dumps([{**dataclasses.asdict(outcome), "passed": outcome.passed} for outcome in outcomes]))
    else:
        click.echo(table(outcomes))
    if not all(outcome.passed for outcome in outcomes):
        sys.exit(1)


@main.command(short_help="Show versions, processors and what is installed.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def info(as_json: bool) -> None:
    """Show versions, architectures, processors, the BLAS library and which optional packages are there."""
    from hfrnn.machine import describe

    table = describe()
    if as_json:
        click.echo(json.dumps(table))
        return
    for name, value in table.items():
        text = value if isinstance(value, str) else ", ".join(value) if isinstance(value, list) else str(value)
        for n, line in enumerate(textwrap.wrap(text, 65) or [""]):
            click.echo(f"{name if n == 0 else '':<14} {line}")
