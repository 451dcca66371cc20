"""What a run trains on: the sequences, symbols and validation batches of texts, tasks and music, and lost files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import refused
from support.data_runs import make_data_runs
from support.music_files import pieces_of, stored
from support.tiny_runs import TEXT, text_file, tiny_train

import hfrnn
from hfrnn.data.kinds.data_kind import DataKind, Pool
from hfrnn.data.kinds.music import Music
from hfrnn.data.kinds.task import VALIDATION_SEQUENCES, SyntheticTask
from hfrnn.data.kinds.text import Text
from hfrnn.data.tasks import tasks
from hfrnn.errors import CheckpointError, InputError
from hfrnn.runs.config import TrainConfig
from hfrnn.sources.open import Source, open_source
from hfrnn.training.methods.method import SequenceSubsets
from hfrnn.training.trainer import train


def source(folder: Path, **options: Any) -> Source:
    if "data" not in options:
        options = {"text": str(text_file(folder)), **options}
    return open_source(TrainConfig(**options).resolved())


@pytest.fixture
def music(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A collection of few pieces, and its file."""
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    (tmp_path / "jsb").mkdir()
    return text_file(tmp_path, stored(), "jsb/jsb.npz")


def test_a_text_s_pool_and_symbols_are_those_of_its_training_part(tmp_path: Path) -> None:
    text = source(tmp_path, sequence_length=10, sequence_starts="fixed")
    vocabulary, part = text.vocabulary, TEXT[: round(0.9 * len(TEXT))]
    assert isinstance(text.data, Text)
    assert vocabulary.decode(text.text()) == part
    inputs, targets, weights, lengths = text.pool(0)
    count = (len(part) - 1) // 10
    assert inputs.shape == targets.shape == (10, count)
    assert (weights, lengths) == (None, None)
    assert vocabulary.decode(inputs.T.ravel()) == part[: 10 * count]
    assert vocabulary.decode(targets.T.ravel()) == part[1 : 10 * count + 1]
    assert text.pool(5) is text.pool(0)
    facts = (text.name, text.unit, text.in_bits, text.fresh, text.counts_errors)
    assert facts == ("text.txt", "character", True, False, False)
    assert text.network == {"n_in": vocabulary.size, "n_out": vocabulary.size, "loss": "softmax"}
    assert text.sha256


def test_a_text_is_cut_at_other_symbols_in_every_epoch(tmp_path: Path) -> None:
    config = TrainConfig(text=str(text_file(tmp_path)), sequence_length=10)
    text = open_source(config.resolved())
    vocabulary = text.vocabulary
    part, pools = TEXT[: round(0.9 * len(TEXT))], [text.pool(epoch) for epoch in range(40)]
    starts = []
    for epoch, pool in enumerate(pools):
        assert pool.inputs.shape == pools[0].inputs.shape
        starts.append(part.index(vocabulary.decode(pool.inputs[:, :-1].T.ravel())))
        np.testing.assert_array_equal(pool.inputs, text.pool(epoch).inputs)
    assert set(starts) == set(range(10))
    other = open_source(config.replace(seed=1).resolved())
    assert any((other.pool(epoch).inputs != pool.inputs).any() for epoch, pool in enumerate(pools))
    assert not open_source(config.replace(preset="published").resolved()).fresh


def test_a_text_is_validated_on_every_symbol_of_its_part_once(tmp_path: Path) -> None:
    assert source(tmp_path).validation.weights.sum() == len(TEXT) - round(0.9 * len(TEXT)) - 1
    assert source(tmp_path, fractions=(1, 0, 0)).validation is None


def test_classes_of_a_text_go_by_training_frequency(tmp_path: Path) -> None:
    found = source(tmp_path, classes=4)
    classes, counts = np.array(found.network["classes"]), np.bincount(found.text())
    assert found.network["loss"] == "class-softmax"
    assert set(classes) == {0, 1, 2, 3}
    for low in range(3):
        assert counts[classes == low].min() >= counts[classes == low + 1].max()
    assert source(tmp_path, classes=0).network["loss"] == "softmax"


def test_rare_words_are_left_out_of_a_new_run_s_vocabulary(tmp_path: Path) -> None:
    words = "one two one three one two\n" * 20 + "four five\n" * 2 + "one two\n" * 20
    options = {"text": str(text_file(tmp_path, words, "w.txt")), "level": "word", "sequence_length": 5}
    limits = ({}, {"min_count": 3}, {"max_vocabulary": 4})
    every, frequent, few = (source(tmp_path, **options, **more).network["n_in"] for more in limits)
    assert every > frequent > 3
    assert few == 4


def test_a_resumed_run_s_text_keeps_the_symbols_that_it_was_started_with(tmp_path: Path) -> None:
    result = tiny_train(tmp_path, optimizer="adam", updates=1)
    folder = hfrnn.runs.folder.RunFolder(tmp_path / "run")
    again = open_source(result.config, folder)
    assert again.network["n_in"] == again.vocabulary.size == result.net.n_in
    text_file(tmp_path, TEXT + "x")
    with pytest.raises(CheckpointError, match="has changed since the run was started"):
        open_source(result.config, folder)


@pytest.mark.parametrize("name", tasks())
def test_a_task_says_its_network_and_makes_batches_that_fit_it(tmp_path: Path, name: str) -> None:
    few = {} if name == "memorization-5bit" else {"sequences": 7}
    task = source(tmp_path, data=name, length=25, **few)
    assert isinstance(task.data, SyntheticTask)
    net = hfrnn.Network("rnn", hidden=4, **task.network)
    theta, pool = net.init(0), task.pool(0)
    assert pool.inputs.shape[1] == (task.task.fixed_count or 7)
    for batch in (task.batch(pool, slice(0, 3)), task.validation):
        assert np.isfinite(net.loss(theta, batch))
    assert 0 <= task.errors(net.run(theta, task.validation)[0]) <= 1
    assert (task.in_bits, task.fresh, task.counts_errors, task.text()) == (False, True, True, None)


def test_every_epoch_and_every_seed_of_a_task_has_sequences_of_its_own(tmp_path: Path) -> None:
    def drawn(epoch: int, seed: int = 0) -> bytes:
        return source(tmp_path, data="addition", seed=seed, sequences=50).pool(epoch).inputs.tobytes()

    assert drawn(0) == drawn(0)
    assert drawn(3) == drawn(3)
    assert len({drawn(0), drawn(1), drawn(2), drawn(0, 1), drawn(1, 1)}) == 5


def test_a_task_is_validated_on_the_same_sequences_whatever_the_seed(tmp_path: Path) -> None:
    one, other = (source(tmp_path, data="addition", seed=seed, sequences=200) for seed in (0, 1))
    np.testing.assert_array_equal(one.validation.inputs, other.validation.inputs)
    assert one.validation.B == VALIDATION_SEQUENCES
    held_out = {column.tobytes() for column in np.swapaxes(one.validation.inputs, 0, 1)}
    for epoch in range(3):  # which no epoch has
        trained = {column.tobytes() for column in np.swapaxes(one.pool(epoch).inputs, 0, 1)}
        assert len(trained) == 200
        assert not trained & held_out


def test_a_task_of_few_sequences_has_all_of_them_in_every_epoch_and_says_so(tmp_path: Path) -> None:
    task = source(tmp_path, data="memorization-5bit", length=20)
    for epoch in range(2):
        np.testing.assert_array_equal(task.pool(epoch).inputs, task.validation.inputs)
    assert task.lines()[0] == "task      memorization-5bit, length 20: all 32 sequences in every epoch"
    with pytest.raises(InputError, match=r"^sequences= was given, and the task memorization-5bit has 32 sequences"):
        source(tmp_path, data="memorization-5bit", length=20, sequences=10)
    with pytest.raises(InputError, match=r"^shortest= was given, and the task memorization-5bit has 32 sequences"):
        source(tmp_path, data="memorization-5bit", length=20, shortest=10)
    others = source(tmp_path, data="addition", length=30, sequences=10).lines()
    assert others == ["task      addition, length 30: 10 new sequences an epoch", "          1,000 others to validate"]


def test_a_task_with_shorter_sequences_trains_on_them_and_validates_on_none(tmp_path: Path) -> None:
    task = source(tmp_path, data="temporal-order", length=60, shortest=10, sequences=300)
    assert task.lines()[0] == "task      temporal-order, length 60: 300 new sequences an epoch, of lengths from 10"
    pools = [task.pool(0), task.pool(0), task.pool(1)]
    shown = [np.asarray(pool.lengths) for pool in pools]
    assert shown[0].min() < 15
    assert shown[0].max() >= 60
    assert [(pool.inputs == pools[0].inputs).all() for pool in pools] == [True, True, False]
    assert np.asarray(task.validation.lengths).min() >= 60
    rising = source(tmp_path, data="temporal-order", length=60, shortest=10, length_rise=10, sequences=300)
    for epoch, least, most in ((0, 14, 16), (4, 31, 38), (9, 60, 65), (20, 60, 65)):  # from 10 to 15, 35, 60 and 60
        assert least <= np.asarray(rising.pool(epoch).lengths).max() <= most
    with pytest.raises(InputError, match=r"length_rise= was given, and shortest= was not"):
        source(tmp_path, data="temporal-order", length_rise=10)
    for shortest, sentence in ((61, r"shortest= is 61 with a length= of 60"), (9, r"length of at least 10, not 9")):
        with pytest.raises(InputError, match=sentence):
            source(tmp_path, data="temporal-order", length=60, shortest=shortest)


def test_the_errors_of_a_task_are_the_share_of_wrong_answers(tmp_path: Path) -> None:
    task = source(tmp_path, data="addition", length=30)
    answers = np.array(task.validation.targets)
    assert task.errors(answers) == 0
    answers[:, :250] += 0.1
    assert task.errors(answers) == 0.25


def test_updates_of_a_task_draw_from_their_own_epoch(tmp_path: Path) -> None:
    task = source(tmp_path, data="addition", sequences=10)
    sequences = SequenceSubsets(task, None, 5, 0)
    for epoch in (0, 0, 1, 1, 2, 2):
        columns = sequences.sampler.draw()
        np.testing.assert_array_equal(sequences.pool.inputs[:, columns], task.pool(epoch).inputs[:, columns])
        assert sequences.sampler.epoch == epoch
    assert sequences.epoch == 3


def test_music_is_its_pieces_side_by_side(tmp_path: Path, music: Path) -> None:
    found = source(tmp_path, data="jsb")
    assert isinstance(found.data, Music)
    assert found.network == {"n_in": 88, "n_out": 88, "loss": "logistic"}
    inputs, targets, weights, lengths = found.pool(0)
    assert lengths.tolist() == [3, 5]
    np.testing.assert_array_equal(targets[:3, 0], pieces_of(3, 5)[0])
    np.testing.assert_array_equal(inputs[1:3, 0], pieces_of(3, 5)[0][:2])
    assert weights.sum() == 8
    np.testing.assert_array_equal(found.validation.targets[:6, 1], pieces_of(3, 6, seed=1)[1])
    assert (found.in_bits, found.fresh, found.counts_errors, found.text()) == (False, False, False, None)


def test_music_that_has_changed_is_not_resumed(tmp_path: Path, music: Path) -> None:
    options = {"data": "jsb", "arch": "rnn", "hidden": 3, "optimizer": "adam", "streams": 2, "log_interval": 1}
    train(**options, updates=1, out=tmp_path / "run")
    assert train(resume=tmp_path / "run", updates=2).summary["updates"] == 2
    music.write_bytes(stored(valid_lengths=np.array([4, 5])))
    with pytest.raises(CheckpointError, match="has changed since the run was started"):
        train(resume=tmp_path / "run", updates=3)


def test_some_columns_of_a_pool_take_their_weights_and_lengths_along() -> None:
    rng = np.random.default_rng(0)
    pool = Pool(rng.random((4, 6, 2)), rng.random((4, 6, 1)), rng.random((4, 6)), rng.integers(1, 5, 6))
    columns = np.array([1, 4])
    batch = Source(DataKind()).batch(pool, columns)
    for part, whole in zip((batch.inputs, batch.targets, batch.weights), pool[:3], strict=True):
        np.testing.assert_array_equal(part, whole[:, columns])
    np.testing.assert_array_equal(batch.lengths, pool.lengths[columns])


@pytest.mark.parametrize("data", ["addition", "jsb"])
def test_options_of_a_text_are_refused_without_one(tmp_path: Path, music: Path, data: str) -> None:
    for option in ({"valid": "x.txt"}, {"test": "x.txt"}, {"fractions": (0.5, 0.5, 0)}, {"classes": 5}):
        told = f"{next(iter(option))}= was given, and {data} is (a synthetic task|music): it is for .*: leave it out"
        with pytest.raises(InputError, match=told):
            source(tmp_path, data=data, **option)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """A run on each kind of data, and its file, which is gone."""
    folder = tmp_path_factory.mktemp("data")
    made = make_data_runs(folder, "drive", "real")
    text = tiny_train(folder, optimizer="adam").folder
    found = {"text": (text, folder / "text.txt"), "table": (made["drive"], folder / "drive.csv")}
    found["arrays"] = (made["real"], folder / "real.npz")
    for _, file in found.values():
        file.unlink()
    return found


@pytest.mark.parametrize("data", ["text", "table", "arrays"])
@pytest.mark.parametrize("command", ["train --updates 9 --resume", "spectrum"])
def test_a_command_for_the_own_data_only_asks_to_put_it_back(runs, command: str, data: str):
    run, file = runs[data]
    begin = f"Error: the data of {run} is not as it was when the run was started: there is no file {file}"
    assert refused(*command.split(), run).startswith(begin)


@pytest.mark.parametrize(
    ("command", "data"), [("evaluate", "text"), ("evaluate", "table"), ("evaluate", "arrays"), ("predict", "table")]
)
def test_a_command_that_takes_a_file_says_how_to_give_another_one(runs, tmp_path: Path, command: str, data: str):
    run, file = runs[data]
    output = ["--output", tmp_path / "out.npz"] if command == "predict" else []
    found = refused(command, run, *output)
    assert f"there is no file {file} (sha256 " in found
    assert ", or give another one: " in found
    assert found.endswith(f" {command} {run} FILE")
