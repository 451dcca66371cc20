"""The options of a run: their types, ranges, TOML form and names."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas
import pytest

import hfrnn
from hfrnn.errors import InputError
from hfrnn.runs.config import TrainConfig, checked_options, parse_bytes, read_toml, stored_config
from hfrnn.runs.options import run_options


def test_a_configuration_comes_back_from_toml_as_it_was(tmp_path: Path) -> None:
    given = {"text": "a.txt", "hidden": (7, 5), "fractions": (0.5, 0.25, 0.25), "lambda_": 0.5, "bias": False}
    config = TrainConfig(**given, updates=3, memory="2GiB")
    path = tmp_path / "config.toml"
    path.write_text(config.resolved().to_toml({"hfrnn": "9"}))
    tables = read_toml(path)
    resolved = config.replace(text=str(tmp_path.cwd() / "a.txt"))
    assert TrainConfig(**checked_options(tables.given, "file")) == resolved
    assert set(tables.given) == {"lambda" if name == "lambda_" else name for name in config.given}
    every = checked_options({**tables.followed, **tables.given}, "file")
    stored = stored_config(checked_options(tables.given, "file"), every)
    for name in filter(stored.uses, run_options()):
        assert getattr(stored, name) == getattr(config.resolved(), name)
    assert "lambda = 0.5" in path.read_text().partition("[followed]")[0]


@pytest.mark.parametrize("given", [float, np.float64, np.dtype("float64"), "float64"], ids=str)
def test_a_data_type_may_be_one_of_numpy_in_a_run_and_where_it_is_loaded(tmp_path: Path, given: object) -> None:
    assert TrainConfig(data="sine", dtype=given).dtype == "float64"
    net = hfrnn.Network("rnn", 2, 3, 2)
    hfrnn.save(net, net.init(), tmp_path / "net")
    assert hfrnn.load(tmp_path / "net", dtype=given).net.dtype == np.float64  # type: ignore[arg-type]
    hfrnn.export(tmp_path / "net", tmp_path / "programs", dtype=given)  # type: ignore[arg-type]
    assert np.load(tmp_path / "programs" / "weights.npz")["layer0.W_h"].dtype == np.float64


def test_several_values_may_be_an_array_or_columns_of_a_table() -> None:
    columns = pandas.DataFrame({"u": [1.0], "v": [2.0], "y": [3.0]}).columns
    config = TrainConfig(hidden=np.array([3, 2]), fractions=np.array([0.5, 0.25, 0.25]), inputs=columns[:2])
    assert (config.hidden, config.fractions, config.inputs) == ((3, 2), (0.5, 0.25, 0.25), ("u", "v"))
    for wrong in (np.array([3.5]), np.zeros((1, 2), int), np.zeros(0, int)):
        with pytest.raises(InputError, match=r"^hidden= is "):
            TrainConfig(hidden=wrong)


def test_what_followed_has_only_options_with_an_effect() -> None:
    followed = TrainConfig(data="sine", optimizer="adam").resolved().followed
    assert followed["learning_rate"] == 0.002
    assert not {"cg_iterations", "level", "steps_per_beat", "data", "optimizer"} & followed.keys()


def test_a_configuration_is_copied_with_changes() -> None:
    config = TrainConfig(data="sine", mu=0.5, updates=3)
    assert config.replace(mu=None).given == {"data": "sine", "updates": 3}
    resolved = config.resolved()
    assert (resolved.replace(mu=0.25).mu, resolved.replace(mu=0.25).cg_iterations) == (0.25, 30)
    assert pickle.loads(pickle.dumps(resolved)) == resolved
    assert pickle.loads(pickle.dumps(config)).given == config.given
    with pytest.raises(AttributeError, match=r"replace\(mu="):
        config.mu = 0.1


def test_values_of_numpy_and_paths_are_taken_as_plain_ones() -> None:
    given = {"seed": np.int64(3), "l2": np.float32(0.5), "hidden": (np.int32(4),), "text": Path("a.txt"), "minutes": 2}
    values = checked_options(given, "train()")
    assert values == {"seed": 3, "l2": 0.5, "hidden": (4,), "text": "a.txt", "minutes": 2.0}
    assert [type(values[name]) for name in ("seed", "l2", "text", "minutes")] == [int, float, str, float]
    assert type(values["hidden"][0]) is int


def test_one_string_of_columns_is_split_at_its_commas() -> None:
    assert checked_options({"targets": "angle,speed"}, "train()")["targets"] == ("angle", "speed")
    assert TrainConfig(data="a.csv", inputs="u", targets="angle,speed").targets == ("angle", "speed")
    assert TrainConfig(data="a.csv", inputs=["force, N"]).inputs == ("force, N",)


def test_dashes_and_lambda_are_understood_and_the_nearest_name_of_an_unknown_option_is_told() -> None:
    found = checked_options({"sequence-length": 5, "lambda": 1, "lambda_": 2.0}, "x")
    assert found == {"sequence_length": 5, "lambda_": 2.0}
    with pytest.raises(InputError, match=r"'hiden'.*did you mean hidden\?"):
        checked_options({"hiden": 3}, "x.toml")


def test_a_number_of_bytes_is_read_with_its_unit() -> None:
    known = {"1000000": 10**6, "4GiB": 2**32, "500MB": 5 * 10**8, "1.5 kib": 1536, " 2 gb ": 2 * 10**9, "7b": 7}
    assert {text: parse_bytes(text) for text in known} == known
    for text in ("", "GiB", "-1GiB", "0", "4 TiB", "nan", "inf"):
        with pytest.raises(InputError, match="memory="):
            parse_bytes(text)


def test_checkpoint_and_memory_are_read() -> None:
    assert (TrainConfig().checkpoint_argument, TrainConfig().memory_bytes) == ("auto", 4 * 2**30)
    assert TrainConfig(checkpoint="all").checkpoint_argument is None
    assert TrainConfig(memory="1kb").memory_bytes == 1000
    assert TrainConfig(checkpoint="12").checkpoint_argument == 12
    for wrong in ("0", "-3", "some", "1.5", ""):
        with pytest.raises(InputError, match="checkpoint="):
            _ = TrainConfig(checkpoint=wrong).checkpoint_argument


def test_a_resolved_configuration_does_not_depend_on_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    resolved = TrainConfig(text="a.txt", valid="b.txt", updates=1).resolved()
    assert (resolved.text, resolved.valid) == (str(tmp_path / "a.txt"), str(tmp_path / "b.txt"))
    assert resolved.resolved() == resolved
    assert (TrainConfig().resolved().data, TrainConfig().resolved().minutes) == ("python-manual", 4.0)


def test_a_configuration_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(b"\xff\xfe=")
    with pytest.raises(InputError, match="not TOML"):
        read_toml(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_toml(tmp_path / "none.toml")


def test_defaults_that_follow_from_other_options() -> None:
    assert TrainConfig(preset="published").resolved().warm_start == 0.95
    assert TrainConfig(preset="published", damping="line-search").resolved().warm_start == 0.0
    assert TrainConfig(damping="line-search", warm_start=0.5).resolved().warm_start == 0.5
    assert TrainConfig(epochs=2).time_limit is TrainConfig(epochs=2).resolved().minutes is None
    assert (TrainConfig(epochs=2, minutes=0.5).time_limit, TrainConfig(patience=2).time_limit) == (30, 240)


@pytest.mark.parametrize(
    ("optimizer", "rate", "momentum"), [("hf", None, 0.0), ("sgd", 0.5, 0.9), ("adam", 0.002, None),
    ("soap", 0.005, None), ("muon", 0.01, None), ("online", 0.1, 0.0)],
)  # fmt: skip
def test_every_optimizer_has_a_rate_and_a_momentum_of_its_own(optimizer, rate, momentum) -> None:
    resolved = TrainConfig(optimizer=optimizer).resolved()
    assert (resolved.learning_rate, resolved.momentum) == (rate, momentum)
    given = TrainConfig(optimizer=optimizer, learning_rate=0.25, momentum=0.5).resolved()
    assert (given.learning_rate, given.momentum) == (0.25, 0.5)
    assert resolved.resolved() == resolved
