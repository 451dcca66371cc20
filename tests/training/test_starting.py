"""What a run starts from and keeps: the weights of another run, further checkpoints, and data that does not change."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.method_runs import Losses
from support.method_runs import run as tiny_method
from support.run_states import assert_same, state
from support.tiny_runs import TEXT, callback, metrics, snapshot, text_file, tiny_train

import hfrnn
from hfrnn.cli import main
from hfrnn.errors import CheckpointError, HfrnnWarning, InputError
from hfrnn.runs.checkpoint import load_checkpoint
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.load import load
from hfrnn.sources.open import open_source
from hfrnn.training.trainer import train

OTHER = "a lazy fox and the quick brown dog, over it again.\n" * 30


def first(found):
    """A callback that keeps the parameters before the first update."""
    return callback(on_start=lambda trainer: found.append(np.array(trainer.theta)))


# ---------------------------------------------------------------------- the weights of another run
@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A run to start from."""
    return tiny_train(tmp_path_factory.mktemp("old")).folder


def test_a_run_starts_from_the_best_weights_and_the_symbols_of_another(tmp_path, monkeypatch):
    old, begun = tiny_train(tmp_path, "old", updates=3, callbacks=(Losses(monkeypatch, 2.0, 1.0, 3.0),)), []
    assert not np.array_equal(load(old.folder, "best").theta, load(old.folder, "last").theta)
    other = text_file(tmp_path, OTHER.replace("a", ""), "other.txt")
    new = tiny_train(tmp_path, "new", text=other, init_from=tmp_path / "old", callbacks=(first(begun),))
    np.testing.assert_array_equal(begun[0], load(old.folder, "best").theta)
    assert new.vocabulary == old.vocabulary
    assert hfrnn.load(new.folder).vocabulary == old.vocabulary
    assert [line["update"] for line in metrics(new.folder)] == [1, 2]
    assert RunFolder(new.folder).config().init_from == str(tmp_path / "old")
    assert not np.array_equal(new.theta, begun[0])


@pytest.mark.parametrize("options", [
    {"arch": "hornn-fofe", "order": 3, "alpha": 0.6, "hidden": (5, 3), "direct_output": False},
    {"arch": "scrn", "context": 2, "hidden": (5,), "embedding": 3, "output_bias": True, "classes": 4},
    {"arch": "rnn", "activation": "logistic", "bias": False, "learn_initial_state": True},
], ids=lambda options: options["arch"])  # fmt: skip
def test_a_run_has_the_network_of_the_other_run(tmp_path, options):
    old, text = tiny_train(tmp_path, "old", updates=1, **options), text_file(tmp_path, OTHER, "other.txt")
    new = hfrnn.train(text=text, init_from=old.folder, out=tmp_path / "new", updates=1, threads=1)
    assert new.net.config == old.net.config
    config = hfrnn.TrainConfig(text=text, updates=1, threads=1)
    other = hfrnn.train(config, init_from=old.folder, out=tmp_path / "by-config")
    assert other.net.config == old.net.config
    with pytest.raises(InputError, match=r"it has hidden=.*, and this run hidden=7"):
        hfrnn.train(text=text, init_from=old.folder, hidden=7, out=tmp_path / "other", updates=1)


@pytest.mark.slow
def test_a_run_started_from_another_resumes_exactly_without_it(tmp_path):
    tiny_train(tmp_path, "old", classes=3)
    options = {"init_from": tmp_path / "old", "text": text_file(tmp_path, OTHER, "other.txt"), "classes": 3}
    options |= {"dtype": "float64", "l2": 0.1}  # float types and the penalty may differ
    whole = tiny_train(tmp_path, "whole", updates=3, **options).folder
    parts = tiny_train(tmp_path, "parts", updates=1, **options).folder
    shutil.rmtree(tmp_path / "old")
    train(resume=parts, updates=3)
    assert_same(whole, parts)


@pytest.mark.slow
def test_the_classes_of_a_softmax_are_those_of_the_other_run(tmp_path):
    tiny_train(tmp_path, "old", classes=3)
    other = text_file(tmp_path, OTHER + "z" * 500, "other.txt")
    new = tiny_train(tmp_path, "new", text=other, classes=3, init_from=tmp_path / "old", updates=1)
    fresh = tiny_train(tmp_path, "fresh", text=other, classes=3, updates=1)
    networks = [load_checkpoint(folder / "last.safetensors")[1]["network"]
                for folder in (tmp_path / "old", new.folder, fresh.folder)]  # fmt: skip
    assert networks[1] == networks[0] != networks[2]


def test_unknown_symbols_of_the_new_text_follow_the_rule_of_unknown(tmp_path, old):
    other = text_file(tmp_path, OTHER.replace("lazy", "läzy"), "other.txt")
    options = {"text": other, "init_from": old, "updates": 1}
    trained = round(0.9 * len(OTHER))
    text = OTHER.replace("lazy", "läzy")[:trained]
    lost = f"{text.count('ä')} characters of the training part are skipped, because the vocabulary of "
    with pytest.warns(HfrnnWarning, match=rf"^{lost}init_from lacks them$"):
        skipped = tiny_train(tmp_path, "skip", **options)
    mapped = tiny_train(tmp_path, "map", unknown="x", **options)
    sources = [open_source(each.config) for each in (skipped, mapped)]
    assert [source.text().size for source in sources] == [trained - text.count("ä"), trained]
    assert f"hint      {lost}init_from lacks them" in [*map(str, sources[0].lines())]
    assert len(sources[1].lines()) == 1
    with pytest.raises(InputError, match=r"'ä' \(27 times\)"):
        tiny_train(tmp_path, "error", unknown="error", **options)
    assert not (tmp_path / "error").exists()


@pytest.mark.parametrize(("options", "sentence"), [
    ({"arch": "lstm"}, "it has arch='mlstm', and this run arch='lstm'; give the options of that run"),
    ({"learn_initial_state": True}, "it has learn_initial_state=False, and this run learn_initial_state=True"),
    ({"hidden": (5,)}, "it has hidden=4, and this run hidden=5"),
    ({"hidden": (4, 3), "embedding": 7}, "it has hidden=4, no embedding=, and this run hidden=4,3, embedd"),
    ({"output_bias": True}, "it has no output_bias=, and this run output_bias=True"),
    ({"classes": 3}, "it has no classes=, and this run classes=3"),
    ({"level": "byte"}, "for a text of level='char', and this run is on a text of level='byte'"),
    ({"text": None, "data": "addition"}, "for a text of level='char', and this run is on addition, which is a"),
    ({"input_scale": 0.1}, "input_scale= was given, and init_from= gives the first weights"),
    ({"initializer": "sutskever"}, "initializer= was given, and init_from= gives the first weights"),
    ({"init_from": "nowhere"}, "nowhere is not a run folder"),
    ({"init_from": 3}, "init_from is 3: give the folder of a run, a file of hfrnn.save, or a network"),
], ids=lambda value: next(iter(value)) if isinstance(value, dict) else "")  # fmt: skip
def test_weights_for_another_network_are_refused(tmp_path, old, options, sentence):
    text_file(tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match=sentence):
        tiny_train(tmp_path, "new", **{"init_from": old, **options})
    assert snapshot(tmp_path) == before


def test_weights_in_memory_have_the_name_of_the_argument_in_messages(tmp_path):
    net = hfrnn.Network("rnn", 5, 4, 5)
    with pytest.raises(InputError, match=r"^the weights of init_from are for another network: it has hidden=4, and"):
        tiny_train(tmp_path, "new", init_from=(net, net.init(seed=0)), hidden=(5,))


def test_weights_of_a_task_go_to_a_task_of_the_same_shape_only(tmp_path):
    task = {"data": "addition", "length": 21, "arch": "rnn", "sequences": 9, "optimizer": "adam", "updates": 1}
    old = tiny_method(tmp_path, "old", **task)
    begun = []
    tiny_method(tmp_path, "longer", **{**task, "length": 25}, init_from=old.folder, callbacks=(first(begun),))
    np.testing.assert_array_equal(begun[0], load(old.folder).theta)
    with pytest.raises(InputError, match=r"weights of .*old have n_in 2, and temporal-order needs 8"):
        tiny_method(tmp_path, "other", **{**task, "data": "temporal-order"}, init_from=old.folder)


# ---------------------------------------------------------------------- further checkpoints
def listing(run, found):
    """A callback that notes the kept checkpoints after every line."""
    return callback(on_update=lambda record: found.append(sorted(path.name for path in run.glob("update-*"))))


def names(*updates):
    return [f"update-{update:06d}.safetensors" for update in updates]


def test_the_newest_checkpoints_are_kept_and_older_ones_go(tmp_path):
    lines, found = [], []
    tiny_method(tmp_path, "lines", updates=25, keep=1, callbacks=(listing(tmp_path / "lines", lines),))
    assert lines == [names(10), names(20), names(25)]  # a line of many updates under its last
    run = tiny_train(tmp_path, updates=4, keep=2, callbacks=(listing(tmp_path / "run", found),)).folder
    assert found == [names(1), names(1, 2), names(2, 3), names(3, 4)]
    assert state(run, "update-000004") == state(run)
    assert_same(run, tiny_train(tmp_path, "none", updates=4).folder)


def test_an_older_checkpoint_goes_only_when_the_new_one_is_on_the_disk(tmp_path, monkeypatch):
    write, seen = hfrnn.runs.folder.write_atomic, []

    def watched(path, content):
        seen.append((Path(path).stem, sorted(each.name for each in Path(path).parent.glob("update-*"))))
        write(path, content)

    monkeypatch.setattr(hfrnn.runs.folder, "write_atomic", watched)
    tiny_train(tmp_path, updates=2, keep=1)
    assert ("update-000002", names(1)) in seen
    assert ("last", names(1, 2)) in seen


def test_a_kept_checkpoint_is_loaded_by_its_name(tmp_path):
    run = tiny_train(tmp_path, updates=3, keep=3).folder
    one = tiny_train(tmp_path, "one", updates=2).folder
    for name in ("update-000002", "update-2"):
        np.testing.assert_array_equal(load(run, name).theta, load(one, "last").theta)
    with pytest.raises(InputError, match=r"'update-000007' is not known: use best or last, or one that keep= has kept"):
        load(run, "update-000007")
    with pytest.raises(InputError, match="'update-2' is not known: use best or last; training with keep= stores"):
        load(one, "update-2")
    for wrong in ("update-", "update-x", "../last", "update-000002.safetensors"):
        with pytest.raises(InputError, match="is not known"):
            load(run, wrong)


def test_another_number_may_be_kept_when_a_run_goes_on(tmp_path):
    run = tiny_train(tmp_path, updates=3, keep=3).folder
    train(resume=run, updates=4, keep=2)
    assert list(RunFolder(run).kept()) == [3, 4]
    train(resume=run, updates=5)
    assert list(RunFolder(run).kept()) == [3, 4, 5]
    assert RunFolder(run).kept()[5].read_bytes() == (run / "last.safetensors").read_bytes()  # last is one of them
    train(resume=run, updates=6, keep=0)
    assert not RunFolder(run).kept()


# ---------------------------------------------------------------------- the data of a run
@pytest.mark.parametrize(("changed", "same"), [("text.txt", "valid.txt"), ("valid.txt", "text.txt")])
def test_the_file_that_has_changed_is_named(tmp_path, changed, same):
    run = tiny_train(tmp_path, valid=text_file(tmp_path, OTHER, "valid.txt")).folder
    text_file(tmp_path, "x" + (tmp_path / changed).read_text(), changed)
    before = snapshot(run)
    with pytest.raises(CheckpointError, match="has changed since the run was started") as caught:
        train(resume=run, updates=3)
    assert str(tmp_path / changed) in str(caught.value)
    assert str(tmp_path / same) not in str(caught.value)
    assert snapshot(run) == before
    result = CliRunner().invoke(main, ["evaluate", str(run)])
    assert (result.exit_code, changed in result.stderr) == (2, True)


def test_a_run_of_before_the_parts_had_checksums_names_its_text(tmp_path):
    run = tiny_train(tmp_path).folder
    config = run / "config.toml"
    kept = [line for line in config.read_text().splitlines() if not line.startswith(("train_", "valid_s", "test_s"))]
    config.write_text("\n".join(kept) + "\n")
    assert train(resume=run, updates=3).summary["updates"] == 3
    text_file(tmp_path, TEXT + "x")
    with pytest.raises(CheckpointError, match=r"has changed since the run was started \(.*text\.txt\)"):
        train(resume=run, updates=4)


@pytest.mark.parametrize("form", ["file", "pair"])
def test_a_run_starts_from_a_saved_network_and_takes_its_options(tmp_path, form):
    net = hfrnn.Network("leaky", 2, (4, 3), 1, "squared", "float64", leak=0.5, direct_input=False, learn_leak=True)
    theta, file = net.init(seed=5), tmp_path / "net.safetensors"
    hfrnn.save(net, theta, file)
    x = np.random.default_rng(0).normal(size=(10, 8, 2))
    data, starts = {"x": x, "y": x.sum(axis=2, keepdims=True)}, []
    result = hfrnn.train(
        data=data, init_from=file if form == "file" else (net, theta), updates=1, backend="numpy",
        out=tmp_path / "run", callbacks=[first(starts)], seed=7,
    )  # fmt: skip
    np.testing.assert_array_equal(starts[0], theta)
    assert (result.net.parameters.blocks, result.net.options) == (net.parameters.blocks, net.options)
    assert result.net.dtype == "float64"
    assert hfrnn.load_scaling(tmp_path / "run") is None
    with pytest.raises(InputError, match=r"it has leak=0.5, and this run leak=0.2"):
        hfrnn.train(data=data, init_from=file, leak=0.2, updates=1, out=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_file_gives_its_symbols_and_classes(tmp_path, old):
    net, theta, vocabulary = hfrnn.load(old)
    hfrnn.save(net, theta, tmp_path / "net.safetensors", vocabulary)
    new = tiny_train(tmp_path, "new", init_from=tmp_path / "net.safetensors", text=text_file(tmp_path, OTHER, "o.txt"))
    assert hfrnn.load(new.folder).vocabulary.to_json() == vocabulary.to_json()
    with pytest.raises(InputError, match="are for a text of level='char'"):
        tiny_train(tmp_path, "bytes", init_from=tmp_path / "net.safetensors", level="byte")


# ---------------------------------------------------------------------- wrong arguments
WRONG = {
    "out": ({}, "exists already"),
    "a place of out": ({"out": "text.txt/run"}, "cannot be made"),
    "Dale's law": ({"arch": "rate", "excitatory": 0.8}, "needs hidden units that are never negative"),
    "connectivity": ({"connectivity": "nowhere.npz"}, "nowhere.npz"),
    "first weights": ({"init_scale": 1e300}, "overflow"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_arguments_are_refused_before_a_plan_is_measured_which_compiles_loops(tmp_path, monkeypatch, wrong):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    text_file(tmp_path)
    monkeypatch.setattr("hfrnn.training.methods.hessian_free.make_plan", None)
    options, message = WRONG[wrong]
    with pytest.raises(InputError, match=message):
        train(**{"text": "text.txt", "arch": "rnn", "hidden": 4, "out": "full" if wrong == "out" else "run", **options})
    assert not (tmp_path / "run").exists()
