"""Networks of hornn_norms.py in dynamic evaluation: a network learns from the text while it is scored.

[S] has no such figures. The rule and its rate are chosen on the beginning of the validation part, with `rnn` alone.
Then every network is scored once on the test part. The run folders of hornn_norms.py must be there. The results go to
`results/papers/hornn_dynamic/`: `trials.json`, and one file for each network.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from hornn_norms import FALLING, NETWORKS, TABLE
from trials import machine_facts

# isort: split
import common

from hfrnn.analysis.dynamic_evaluation import Dynamic, mean_square_gradient
from hfrnn.analysis.evaluation import evaluate
from hfrnn.errors import InputError
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.load import load
from hfrnn.sources.open import run_text

JUDGE = "rnn"
"""The network that the rule and the rate are chosen with."""
TRIALS = {f"{rule}-{rate:g}": (rule, rate) for rule, rates in
          {"sgd": (0.1, 0.5, 2.0), "rms": (0.1, 0.3, 1.0, 3.0)}.items() for rate in rates}  # fmt: skip
BEGINNING = 110_000
"""Characters of the validation part that trials are judged on, up to the end of a sentence: 20,000 words."""
FOLDER = "hornn_dynamic"
COMMAND = "python benchmarks/papers/hornn_dynamic.py"


def run_of(name: str, runs: Path) -> Path:
    """Return the run folder of a network."""
    return runs / TABLE.name / f"{name}-{FALLING}" / FALLING


class Trained:
    """A network of hornn_norms.py with its best weights, and the ways to score it."""

    def __init__(self, name: str, runs: Path, backend: str) -> None:
        run = run_of(name, runs)
        if not run.is_dir():
            raise InputError(f"there is no run {run}: train it with benchmarks/papers/hornn_norms.py {name}-{FALLING}")
        self._folder = RunFolder(run)
        net, theta, vocabulary = load(run, "best", backend)
        assert vocabulary is not None
        self.net, self.theta, self.vocabulary = net, theta, vocabulary
        self._squares: Any = None

    def text(self, part: str) -> str:
        """Return a part of the words of the Penn Treebank."""
        return str(run_text(self._folder, part))

    def perplexity(self, text: str, trial: str | None = None) -> float:
        """Return the perplexity of a text, with the weights as they are if no trial is named."""
        dynamic = None if trial is None else self._dynamic(trial)
        unknown = self._folder.config().unknown
        return evaluate(self.net, self.theta, self.vocabulary, text, unknown, dynamic=dynamic).perplexity

    def _dynamic(self, trial: str) -> Dynamic:
        rule, rate = TRIALS[trial]
        if rule == "rms" and self._squares is None:
            training = self.vocabulary.encode(self.text("train"))
            self._squares = mean_square_gradient(self.net, self.theta, training)
        return Dynamic(rate, mean_square=self._squares if rule == "rms" else None)


def beginning(text: str) -> str:
    """Return the sentences at the beginning of a text."""
    return text[: text.rindex("\n", 0, BEGINNING) + 1] if len(text) > BEGINNING else text


def chosen_trial(runs: Path, out: Path, backend: str) -> str:
    """Return the trial with which `JUDGE` is best on the beginning of the validation part."""
    path = out / FOLDER / "trials.json"
    found: dict[str, float] = json.loads(path.read_text("utf-8"))["valid_beginning"] if path.is_file() else {}
    if left := [trial for trial in ("static", *TRIALS) if trial not in found]:
        judge = Trained(JUDGE, runs, backend)
        text = beginning(judge.text("valid"))
        for trial in left:
            found[trial] = judge.perplexity(text, None if trial == "static" else trial)
            click.echo(f"{JUDGE}, {trial}: {found[trial]:.2f}")
            common.write_result(path, {"machine": machine_facts(backend, 1), "valid_beginning": found})
    return min(TRIALS, key=lambda trial: found[trial])


def score(names: Sequence[str], runs: Path, out: Path, backend: str) -> None:
    """Score networks on the test part, with fixed weights and with the trial that was chosen."""
    trial = chosen_trial(runs, out, backend)
    for name in names:
        network = Trained(name, runs, backend)
        text = network.text("test")
        found = {"static": network.perplexity(text), "dynamic": network.perplexity(text, trial)}
        click.echo(f"{name}, {trial}: {found['dynamic']:.2f}, static {found['static']:.2f}")
        facts = {
            "machine": machine_facts(backend, 1),
            "network": name,
            "recipe": FALLING,
            "trial": trial,
            "test": found,
        }
        common.write_result(out / FOLDER / f"{name}.json", facts)


@click.command(cls=common.Command)
@click.argument("names", metavar="[NETWORK]...", nargs=-1, type=click.Choice(list(NETWORKS)))
@click.option("--backend", type=click.Choice(("numpy", "numba", "cupy")), default="numpy", help="Where to compute.")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs/papers"), help="The folder of the runs.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS / "papers", help="Folder of the JSON.")
def main(names: tuple[str, ...], backend: str, runs: Path, out: Path) -> None:
    """Choose the rule and the rate, and score the networks, by default all that were trained."""
    score(names or [name for name in NETWORKS if run_of(name, runs).is_dir()], runs, out, backend)


if __name__ == "__main__":
    main()
