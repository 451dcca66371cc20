"""Data in memory: parts given by themselves, several recordings in a list, and an xarray Dataset."""

import numpy as np
import pytest
from support.run_states import assert_same

import hfrnn
from hfrnn.data.array_data import from_memory
from hfrnn.data.windows import Windows
from hfrnn.errors import InputError

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(8, 6, 2)), RNG.normal(size=(8, 6, 1))
OPTIONS = {"arch": "rnn", "hidden": 3, "updates": 2, "backend": "numpy"}


def test_parts_beside_arrays_are_the_arrays_by_their_names(tmp_path):
    one = {"x": X[:4], "y": Y[:4]}
    parts = {"valid": {"x": X[4:6], "y": Y[4:6]}, "test": {"x": X[6:], "y": Y[6:]}}
    names = {f"{part}_{name}": each for part, held in parts.items() for name, each in held.items()}
    hfrnn.train(data=one, **parts, out=tmp_path / "apart", **{**OPTIONS, "updates": 1})
    hfrnn.train(data={**one, **names}, out=tmp_path / "named", **OPTIONS)
    hfrnn.train(resume=tmp_path / "apart", data=one, **parts, updates=2)
    assert_same(tmp_path / "apart", tmp_path / "named")
    for valid, message in (
        (parts["valid"], "valid was given, and data has valid_x itself"), (3, "valid is 3, and data holds arrays"),
        ({"z": X}, "valid_z"), ({1: X}, "table of arrays by name"),
    ):  # fmt: skip
        data = {**one, **names} if "itself" in message else one
        with pytest.raises(InputError, match=message):
            hfrnn.train(data=data, valid=valid, out=tmp_path / "none", **OPTIONS)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("steps", [(30, 41, 25), (30, 30, 30)])
def test_a_list_with_window_holds_recordings_and_no_window_crosses_a_border(steps):
    x = [n * 1000.0 + np.arange(T)[:, None] for n, T in enumerate(steps)]
    mask = [np.ones(T) for T in steps]
    mask[1][3] = 0
    how = {"windows": Windows(10, 5, 2), "fractions": (0.8, 0.2, 0.0)}
    data = from_memory({"x": x, "y": [-each for each in x], "mask": mask}, **how)
    train = data.train
    for start, length in zip(train.starts, train.lengths, strict=True):
        assert len(np.unique(train.x[start : start + length] // 1000)) == 1
    assert np.array_equal(train.x[train.w > 0], -train.y[train.w > 0])
    assert 1003 not in train.x[train.w > 0]  # which the mask leaves out
    assert {int(each) // 1000 for each in data.valid.x[:, 0]} == {0, 1, 2}
    alone = [from_memory({"x": one, "y": -one}, **how).train.lengths.size for one in x]
    assert train.lengths.size == sum(alone)
    with pytest.raises(InputError, match="x of data holds 3 recordings and y 2: give as many"):
        from_memory({"x": x, "y": x[:2]}, **how)


def test_an_xarray_dataset_trains_as_its_dataframe_does(tmp_path):
    xarray = pytest.importorskip("xarray")
    signals = {name: ("time", RNG.normal(size=60)) for name in ("force", "position")}
    given = xarray.Dataset(signals, coords={"time": np.arange(60) * 0.1})
    options = {"inputs": ["force"], "targets": ["position"], "window": 10, **OPTIONS}
    hfrnn.train(data=given, out=tmp_path / "dataset", **options)
    hfrnn.train(data=given.to_dataframe(), out=tmp_path / "frame", **options)
    assert_same(tmp_path / "dataset", tmp_path / "frame")


TIMES = [[[0.0, 0.1, 0.1], [0.29]], [[], [0.05, 0.3]], [[0.399], []], [[0.2], [0.2]]]
COUNTS = [[[1, 0], [2, 0], [0, 1], [0, 0]], [[0, 1], [0, 0], [0, 0], [0, 1]]]


def spikes(times):
    return [[np.array(unit) for unit in trial] for trial in times]


def test_times_of_each_trial_and_unit_are_counted_in_bins(tmp_path):
    y = [np.ones((4, 1)) * n for n in range(4)]
    data = from_memory({"x": spikes(TIMES), "y": y}, bin=0.1, fractions=(0.5, 0.5, 0.0))
    assert data.train.x.reshape(2, 4, 2).tolist() == COUNTS
    assert data.train.x.sum() + data.valid.x.sum() == sum(len(unit) for trial in TIMES for unit in trial)
    for last in (np.arange(4) % 2, np.ones((4, 3))):
        assert from_memory({"x": spikes(TIMES), "y": last}, bin=0.1).train.longest == 4
    both = from_memory({"x": spikes(TIMES), "y": spikes(TIMES)}, bin=0.1, fractions=(1.0, 0.0, 0.0))
    assert np.array_equal(both.train.x, both.train.y)
    hfrnn.train(data={"x": spikes(TIMES), "y": y}, bin=0.1, out=tmp_path / "run", **{**OPTIONS, "updates": 1})
    short = [np.ones((3, 1))] * 4
    for wrong, message in (
        ({"x": spikes(TIMES), "y": short}, r"trial 1 .* has an event at 0.3 s, and its 3 bins end at 0.3 s"),
        ({"x": [*spikes(TIMES[:3]), [np.array([0.1])]], "y": y}, "x of data holds trials of 1 to 2 units"),
        ({"x": [[np.array([-0.1])]] * 4, "y": y}, "holds other values than times"),
        ({"x": X, "y": Y}, "bin= counts events, and x of data holds none"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            from_memory(wrong, bin=0.1)


@pytest.mark.parametrize("give", [dict, hfrnn.Batch], ids=["dict", "batch"])
def test_a_function_may_overwrite_the_arrays_that_it_gave_before(tmp_path, give):
    kept = {"x": np.zeros((8, 6, 2), np.float32), "y": np.zeros((8, 6, 1), np.float32)}

    def draw(rng, live):
        x = rng.normal(size=(8, 6, 2)).astype(np.float32)
        drawn = {"x": x, "y": x.sum(axis=2, keepdims=True)}
        if live:  # as neurogym.Dataset does
            drawn = {name: np.copyto(kept[name], each) or kept[name] for name, each in drawn.items()}
        return give(**drawn) if give is dict else give(drawn["x"], drawn["y"])

    for live in (False, True):
        hfrnn.train(batches=lambda rng, live=live: draw(rng, live), out=tmp_path / str(live), **OPTIONS)
    assert_same(tmp_path / "False", tmp_path / "True")
