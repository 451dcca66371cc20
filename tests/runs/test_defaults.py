"""Defaults that depend on the data: tasks and words learn without further options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hfrnn.choices import DYNAMICS
from hfrnn.cli.train import merged
from hfrnn.data.kinds import KINDS
from hfrnn.data.tasks import tasks
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.defaults import default_text, rows
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.options import run_options
from hfrnn.training.trainer import train

TASK_NETWORK, TASK_WEIGHTS = KINDS["task"].defaults, KINDS["task"].first_weights
WORD_NETWORK = KINDS["text"].defaults


def of(config: TrainConfig, names: Any) -> dict[str, Any]:
    return {name: getattr(config, name) for name in names}


GENERAL = {name: run_options()[name].default for name in {**TASK_NETWORK, **TASK_WEIGHTS, **WORD_NETWORK}}


@pytest.mark.parametrize("task", tasks())
def test_tasks_have_a_network_and_first_weights_of_their_own(task: str) -> None:
    config = TrainConfig(data=task)
    assert of(config, TASK_NETWORK) == TASK_NETWORK
    assert of(config, TASK_WEIGHTS) == (of(TrainConfig(), TASK_WEIGHTS) if task in DYNAMICS else TASK_WEIGHTS)
    assert config.resolved().resolved() == config.resolved()


def test_arrays_and_known_corpora_in_words_have_a_network_of_their_own() -> None:
    assert TrainConfig(data="a.npz", arch="gru").hidden == (96,)
    for table in (TrainConfig(data="a.csv"), TrainConfig(data="a.npz", window=50)):
        assert (table.arch, table.hidden) == ("gru", (16,))
    for data in ("ptb", "text8", "wikitext-2", None):
        assert of(TrainConfig(data=data, level="word"), WORD_NETWORK) == WORD_NETWORK


def test_given_options_win_over_those_that_suit_the_data() -> None:
    assert TrainConfig(data="a.csv", hidden=7).hidden == (7,)
    assert TrainConfig(data="addition", hidden=7, input_scale=0.5).hidden == (7,)
    assert of(TrainConfig(data="addition", arch="rnn"), TASK_WEIGHTS) == TASK_WEIGHTS
    for given in ({"arch": "lstm"}, {"initializer": "papers"}, {"init_scale": 0.2}):
        assert of(TrainConfig(data="addition", **given), TASK_WEIGHTS) == of(TrainConfig(), TASK_WEIGHTS)
    for given in ({"optimizer": "hf"}, {"damping": "tikhonov"}):
        assert of(TrainConfig(data="ptb", level="word", **given), WORD_NETWORK) == {**WORD_NETWORK, "optimizer": "hf"}


def test_other_data_and_networks_have_the_general_defaults() -> None:
    words = {"level": "word"}
    for options in ({}, {"data": "ptb"}, {"text": "book.txt", **words}, {"data": "ptb", "arch": "mlstm", **words}):
        assert of(TrainConfig(**options), GENERAL) == GENERAL


def test_flags_and_calls_get_the_same_defaults(tmp_path: Path) -> None:
    config = merged({"data": "addition", "activation": "tanh"}, None)[1]  # an option that rnn has and mlstm has not
    assert of(config, TASK_NETWORK) == TASK_NETWORK
    train(data="addition", length=21, sequences=4, updates=1, threads=1, backend="numpy", out=tmp_path / "run")
    own = {**TASK_NETWORK, **TASK_WEIGHTS}
    assert of(RunFolder(tmp_path / "run").config(), own) == own


def test_help_and_the_table_of_defaults_show_those_that_suit_the_data() -> None:
    found = {(row.option, row.value, row.where) for row in rows()}
    assert {("arch", "rnn", "tasks"), ("spectral_radius", "1", "an rnn on long lags")} <= found
    assert [where for option, _, where in found if option == "hidden"].count("tables and other recordings") == 1
    shown = {name: str(default_text(run_options()[name])) for name in ("arch", "hidden", "optimizer", "input_scale")}
    assert shown == {
        "arch": "mlstm; lstm-krause for online; lstm for corpora in words, rnn for tasks, gru for tables and other "
        "recordings",
        "hidden": "128; 128 for corpora in words, 100 for tasks, 16 for tables and other recordings, 96 for arrays of "
        "sequences",
        "optimizer": "hf; adam for corpora in words",
        "input_scale": "init_scale=, else the initializer's own; 0.1 for an rnn on long lags",
    }
