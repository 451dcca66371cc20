"""Estimators with scikit-learn's interface: its own checks, and sequences as arrays, lists and DataFrames."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import hfrnn
from hfrnn.errors import InputError

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_estimator

TINY = {"arch": "rnn", "hidden": 6, "updates": 5, "random_state": 0, "backend": "numpy"}
ORDER = "the rows of X are the steps of one recording: a prediction depends on the rows before it"
EXCLUDED = {"check_methods_sample_order_invariance": ORDER, "check_methods_subset_invariance": ORDER}
"""The checks of scikit-learn that do not hold for sequences, and why."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", [hfrnn.SequenceRegressor, hfrnn.SequenceClassifier])
@pytest.mark.filterwarnings("ignore")
def test_the_estimator_passes_the_checks_of_scikit_learn(kind) -> None:
    found = check_estimator(kind(**TINY), on_fail=None, on_skip=None, expected_failed_checks=EXCLUDED)
    status = {each["check_name"]: each["status"] for each in found}
    assert {name for name, how in status.items() if how == "xfail"} == set(EXCLUDED)
    assert [name for name, how in status.items() if how == "failed"] == []
    assert sum(how == "passed" for how in status.values()) > 40


def sums(rng, steps):
    x = rng.normal(size=(steps, 2))
    return x, np.cumsum(x, axis=0) / 3


@pytest.fixture(scope="module")
def trials():
    rng = np.random.default_rng(0)
    return [list(each) for each in zip(*(sums(rng, steps) for steps in (9, 12, 7, 12, 10)), strict=True)]


def test_lists_arrays_and_frames_of_the_same_numbers_give_the_same_predictions(trials) -> None:
    X, y = trials
    model = hfrnn.SequenceRegressor(**TINY).fit(X, y)
    found = model.predict(X)
    assert [each.shape for each in found] == [each.shape for each in y]
    frames = [pd.DataFrame(each) for each in X], [pd.DataFrame(each) for each in y]
    again = clone(model).fit(*frames).predict(frames[0])
    assert all(map(np.array_equal, found, again))
    assert all(np.allclose(model.predict(one), each, atol=1e-5) for one, each in zip(X, found, strict=True))
    assert np.allclose(model.predict(np.stack([X[1], X[3]])), [found[1], found[3]], atol=1e-5)
    assert model.score(X, y) == pytest.approx(r2_score(np.concatenate(y), np.concatenate(found)))
    assert (model.n_features_in_, model.n_iter_, len(model.log_)) == (2, 5, 5)
    assert all(map(np.array_equal, pickle.loads(pickle.dumps(model)).predict(X), found))


def test_targets_of_a_list_may_be_an_array_with_three_axes(trials) -> None:
    X, y = ([each[1], each[3]] for each in trials)  # of one length
    found = [hfrnn.SequenceRegressor(**TINY).fit(X, targets) for targets in (y, np.stack(y))]
    assert all(map(np.array_equal, *(model.predict(X) for model in found)))
    assert found[0].score(X, y) == found[1].score(X, np.stack(y))


def test_one_target_for_each_sequence_is_that_of_its_last_step(trials) -> None:
    X, y = trials
    last = np.array([each[-1, 0] for each in y])
    model = hfrnn.SequenceRegressor(**{**TINY, "updates": 15}).fit(X, last)
    found = model.predict(X)
    assert found.shape == (5,)
    assert model.score(X, last) == pytest.approx(r2_score(last, found))
    assert model.score(X, last) > 0.2
    labels = np.where(last > 0, "up", "down")
    named = hfrnn.SequenceClassifier(**TINY).fit(X, labels)
    assert list(named.classes_) == ["down", "up"]
    assert np.allclose(named.predict_proba(X).sum(axis=1), 1)
    assert named.score(X, labels) == accuracy_score(labels, named.predict(X))
    steps = [np.where(each[:, 0] > 0, "up", "down") for each in y]
    each = hfrnn.SequenceClassifier(**TINY).fit(X, steps).predict(X)
    assert [one.shape for one in each] == [(9,), (12,), (7,), (12,), (10,)]
    with pytest.raises(InputError, match="X is one recording, and SequenceRegressor was fitted to one target"):
        model.predict(X[0])


def test_a_sequence_of_as_many_steps_as_targets_is_validated_at_its_last_step() -> None:
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(3, 2)) for _ in range(12)], rng.normal(size=(12, 3))
    X[0] = np.concatenate([X[0], X[0]])
    model = hfrnn.SequenceRegressor(**TINY).fit(X, y)
    assert model.last_step_
    assert model.predict(X).shape == (12, 3)


def test_windows_leave_out_their_burn_in_but_not_the_beginning_of_a_sequence() -> None:
    model = hfrnn.SequenceRegressor(window=10, burn_in=3, validation_fraction=0.2)
    model.last_step_ = False
    x = np.arange(30.0)[:, None]
    parts = model._parts(hfrnn.interop.estimators.Sequences(x, [30], "recording"), x, np.random.default_rng(0))["data"]
    assert [each[0, 0] for each in parts["x"]] == [0, 7, 14]
    assert [each.tolist() for each in parts["mask"][:2]] == [[1.0] * 10, [0.0] * 3 + [1.0] * 7]
    assert [each[0, 0] for each in parts["valid_x"]] == [24]
    assert parts["valid_mask"][0].tolist() == [0, 0, 0, 1, 1, 1]


def test_each_class_has_a_probability_even_if_only_a_burn_in_has_it() -> None:
    x = np.random.default_rng(0).normal(size=(100, 1))
    y = np.where(x[:, 0] > 0, "a", "b").astype(object)
    y[90:92] = "c"  # the burn-in of the steps that validate
    model = hfrnn.SequenceClassifier(window=30, **TINY).fit(x, y)
    found = model.predict_proba(x)
    assert found.shape == (100, 3)
    assert (found[:, 2] == 0).all()
    assert np.allclose(found.sum(axis=1), 1)


def test_a_recording_is_cut_by_its_memory_unless_a_window_is_given(tmp_path) -> None:
    u = np.random.default_rng(0).normal(size=(400, 1))
    y = np.convolve(u[:, 0], 0.9 ** np.arange(60))[:400]
    windows = {}
    for name, how in (("memory", {}), ("given", {"window": 50})):
        hfrnn.SequenceRegressor(**TINY, **how, options={"out": tmp_path / name}).fit(u, y)
        config = hfrnn.runs.folder.RunFolder(tmp_path / name).config()
        windows[name] = (config.window, config.l2)
    assert windows == {"memory": (360, 0.00075), "given": (None, 0.0)}  # 40 rows validate


def test_a_grid_search_chooses_among_options() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 8, 1))
    search = GridSearchCV(hfrnn.SequenceRegressor(**TINY), {"updates": [1, 5]}, cv=2)
    search.fit(X, np.cumsum(X, axis=1))
    assert search.best_params_ == {"updates": 5}


@pytest.mark.parametrize(("change", "y", "message"), [
    ({}, None, "requires y to be passed"),
    ({}, [0.0] * 4, "y has shape .4,., and X holds 5 sequences"),
    ({}, [np.zeros((9, 1))] * 5, "y holds 5 sequences"),
    ({"validation_fraction": 1.0}, [0.0] * 5, "validation_fraction is 1"),
    ({"arch": "none"}, [0.0] * 5, "arch= is 'none'|none"),
    ({"options": {"hiden": 3}}, [0.0] * 5, "did you mean hidden"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(change, y, message, trials) -> None:
    with pytest.raises(InputError, match=message):
        hfrnn.SequenceRegressor(**{**TINY, **change}).fit(trials[0], y)
    with pytest.raises(InputError, match=r"give .steps, n., one step or more"):
        hfrnn.SequenceRegressor(**TINY).fit([np.zeros((3, 2)), np.zeros((3, 1))], [0.0, 1.0])


def test_without_scikit_learn_the_message_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import hfrnn\ntry: hfrnn.SequenceRegressor()\nexcept hfrnn.MissingExtraError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "scikit-learn is not installed: install the extra sklearn (pip install '.[sklearn]'" in done.stdout
