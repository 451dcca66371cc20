"""A kind of data of one's own works like a built-in one, in Python and on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import call
from support.imported import imported
from support.run_states import assert_same

import hfrnn
import hfrnn.data.kinds as known
from hfrnn.analysis.sequences import evaluate_sequences, file_sequences, own_sequences
from hfrnn.entries import Entries
from hfrnn.report import make_page
from hfrnn.runs.folder import RunFolder
from hfrnn.sources.open import open_source

FILE = Path(__file__).resolve().parents[2] / "examples" / "own_data.py"
OPTIONS: dict[str, Any] = {"arch": "rnn", "hidden": 3, "updates": 2, "backend": "numpy", "threads": 1}
LOG = "".join(f"{n / 9} {k / 3} {n - k}\n" + "\n" * (k == 4 - n % 2) for n in range(12) for k in range(5 - n % 2))


@pytest.fixture
def registered() -> Iterator[Entries[hfrnn.DataKind]]:
    """The registry, which forgets what a test registers."""
    before = known.KINDS.of_users()
    yield known.KINDS
    for name in set(known.KINDS.of_users()) - set(before):
        known.KINDS.forget(name)


@pytest.fixture
def example(registered: Entries[hfrnn.DataKind]) -> Any:
    """The module of the example, which has registered its kind."""
    return imported(FILE)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of 12 trials with 5 or 4 steps, of two inputs and a target."""
    (tmp_path / "a.trials").write_text(LOG)
    return tmp_path / "a.trials"


def test_a_log_is_read_as_trials_side_by_side(example: Any, log: Path) -> None:
    config = hfrnn.TrainConfig(data=log).resolved()
    source = open_source(config)
    assert isinstance(source.data, example.Trials)
    assert config.data == str(log)
    pool = source.pool(0)
    assert pool.inputs.shape == (5, 11, 2)
    assert pool.lengths.tolist() == [5, 4] * 5 + [5]
    np.testing.assert_allclose(pool.inputs[2, 3], [3 / 9, 2 / 3], rtol=1e-6)
    np.testing.assert_array_equal(pool.targets[:, 3, 0], [3, 2, 1, 0, 0])
    np.testing.assert_array_equal(pool.weights[:, 3], [1, 1, 1, 1, 0])
    assert source.validation.B == 1
    assert source.lines() == ["trials    a.trials: 11 to train on, 1 to validate"]


@pytest.mark.parametrize("optimizer", ["hf", "adam"])
def test_a_run_resumes_to_the_same_bits(example: Any, log: Path, tmp_path: Path, optimizer: str) -> None:
    options = {**OPTIONS, "data": log, "optimizer": optimizer}
    hfrnn.train(**{**options, "updates": 4}, out=tmp_path / "whole")
    hfrnn.train(**options, out=tmp_path / "halves")
    hfrnn.train(resume=tmp_path / "halves", updates=4)
    assert_same(tmp_path / "whole", tmp_path / "halves")
    log.write_text(LOG.replace("0.0", "0.5"))
    with pytest.raises(hfrnn.CheckpointError, match=r"has changed since the run was started \(.*a\.trials\)"):
        hfrnn.train(resume=tmp_path / "halves", updates=6)
    log.unlink()
    with pytest.raises(hfrnn.InputError, match=r"there is no file .*a\.trials .*; put it back there"):
        hfrnn.train(resume=tmp_path / "halves", updates=6)


def test_a_run_is_scored_predicted_and_shown(example: Any, log: Path, tmp_path: Path) -> None:
    result = hfrnn.train(**OPTIONS, data=log, out=tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    net, theta, vocabulary = hfrnn.load(folder.path)
    assert vocabulary is None
    found = evaluate_sequences(net, theta, folder.config(), "valid", folder)
    assert (found["data"], found["sequences"]) == (str(log), 1)
    assert found["loss"] == pytest.approx(result.summary["best"]["valid_loss"], rel=1e-6)
    assert own_sequences(folder, "train").batch.B == 11
    assert "train part of a.trials" in hfrnn.load_objective(str(folder.path)).data
    assert str(log) in make_page([folder.path])
    with pytest.raises(hfrnn.InputError, match="has no test part"):
        own_sequences(folder, "test")
    with pytest.raises(hfrnn.InputError, match="which has no such files"):
        file_sequences(folder, net, str(log))


def test_its_options_are_checked_and_are_for_such_data_only(example: Any, log: Path, tmp_path: Path) -> None:
    assert hfrnn.TrainConfig(data=log, log_targets=2).log_targets == 2
    with pytest.raises(hfrnn.InputError, match="log_targets= is 0: give a whole number, 1 or more"):
        hfrnn.TrainConfig(data=log, log_targets=0)
    not_for = r"was given, and .* is a .*: it is for a .*: leave it out"
    for options, message in (
        ({"data": "sine", "log_targets": 2}, not_for), ({"data": log, "sequence_length": 5}, not_for),
        ({"text": log}, "not a text: give it as data="), ({"data": log, "log_targets": 3}, "has too few trials"),
    ):  # fmt: skip
        with pytest.raises(hfrnn.InputError, match=message):
            hfrnn.train(**OPTIONS, **options, out=tmp_path / "run")


def test_a_value_with_a_prefix_can_name_generated_data(registered: Entries[hfrnn.DataKind], tmp_path: Path) -> None:
    @hfrnn.register_data("mine")
    class Mine(hfrnn.DataKind):
        about = "data of mine"
        has_parts, fresh = False, True
        suits, defaults = "data of mine", {"arch": "rnn", "hidden": (3,)}

        def __init__(self, steps: int) -> None:
            self.name = self.source = f"mine:{steps}"
            self.length, self.network = steps, {"n_in": 1, "n_out": 1, "loss": "squared"}
            self.validation = self.drawn(5, np.random.default_rng(0))

        @classmethod
        def recognises(cls, data: str) -> bool:
            return data.startswith("mine:")

        resolved = classmethod(lambda cls, options: {})
        files = classmethod(lambda cls, options: [])

        @classmethod
        def open(cls, options: Mapping[str, Any], given: Any = None) -> Mine:
            return cls(int(options["data"].removeprefix("mine:")))

        def drawn(self, count: int, rng: np.random.Generator) -> hfrnn.Pool:
            x = rng.normal(size=(self.length, count, 1))
            return hfrnn.Pool(x, x.cumsum(axis=0))

        def pool(self, epoch: int) -> hfrnn.Pool:
            return self.drawn(20, np.random.default_rng([1, epoch]))

    result = hfrnn.train(data="mine:7", updates=2, out=tmp_path / "run")
    assert (result.config.arch, result.config.hidden, result.config.data) == ("rnn", (3,), "mine:7")
    folder = RunFolder(result.folder)
    found = evaluate_sequences(result.net, result.theta, result.config, None, folder)
    assert found["sequences"] == 10_000
    assert {"loss", "mse", "r2"} <= found.keys()
    assert "wrong" not in found
    with pytest.raises(hfrnn.InputError, match="mine:7 has no parts"):
        own_sequences(folder, "train")
    assert hfrnn.load_objective(str(folder.path), symbols=70).objective.batch.B == 10


def test_a_name_is_registered_once_and_a_run_of_an_unknown_kind_is_refused_in_one_sentence(example, log, tmp_path):
    with pytest.raises(hfrnn.InputError, match="the kind of data named 'trials' is registered already"):
        hfrnn.register_data("trials", type("Other", (hfrnn.DataKind,), {}))
    with pytest.raises(hfrnn.InputError, match=r"give a subclass of hfrnn\.DataKind"):
        hfrnn.register_data("others", int)  # type: ignore[arg-type]
    hfrnn.train(**OPTIONS, data=log, log_targets=1, out=tmp_path / "run")
    known.KINDS.forget("trials")
    assert call("evaluate", tmp_path / "run", code=2).output.count("\n") <= 3


@pytest.mark.slow
def test_the_example_trains(example: Any, tmp_path: Path) -> None:
    assert 0 < example.main(0.03, str(tmp_path / "run"), str(tmp_path / "swing.trials")) < 10


def test_commands_train_resume_and_evaluate(registered: Entries[hfrnn.DataKind], log: Path, tmp_path: Path) -> None:
    def command(name: str, *arguments: object) -> str:
        found = call(name, "--kernel", FILE, *arguments).stdout
        registered.forget("trials")  # as a new process would
        return found

    run = tmp_path / "run"
    flags = ["--arch", "rnn", "--hidden", "3", "--backend", "numpy", "--optimizer", "adam", "--updates", "2"]
    shown = command("train", "--data", log, "--log-targets", "2", *flags, "--out", run)
    assert "a.trials: 11 to train on, 1 to validate" in shown
    command("train", "--resume", run, "--updates", "3")
    found = json.loads(command("evaluate", run, "--json"))
    assert (found["sequences"], list(found["outputs"])) == (1, ["0", "1"])
    assert "--log-targets" in command("train", "--help-all")
