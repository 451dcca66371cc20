"""The validation sequences of a report: what is computed, and what the page draws of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.report_pages import in_browser

import hfrnn
from hfrnn.analysis.prediction import predict
from hfrnn.analysis.sequences import own_sequences
from hfrnn.report import make_page
from hfrnn.report.examples import read_examples
from hfrnn.runs.folder import RunFolder


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on scaled arrays of several lengths with a mask, 40 sequences of at most 12 steps."""
    folder, rng = tmp_path_factory.mktemp("arrays"), np.random.default_rng(0)
    x = rng.standard_normal((40, 12, 2))
    y = np.stack([50 + 10 * x.cumsum(axis=1)[:, :, 0], 3 * x[:, :, 1], 0 * x[:, :, 0], -x[:, :, 0]], axis=2)
    mask = rng.random((40, 12)) < 0.8
    mask[:, 0] = True
    np.savez(folder / "data.npz", x=x, y=y, mask=mask * 1.0, lengths=rng.integers(6, 13, 40))
    hfrnn.train(
        data=folder / "data.npz", arch="lstm", hidden=(5, 4), optimizer="adam", updates=5, standardize=True,
        out=folder / "run", threads=1, backend="numpy",
    )  # fmt: skip
    return folder / "run"


def test_examples_of_scaled_arrays_are_in_the_units_of_the_data(arrays: Path) -> None:
    found = read_examples(RunFolder(arrays))
    given = own_sequences(RunFolder(arrays))
    net, theta, _ = hfrnn.load(arrays)
    outputs = predict(net, theta, given.batch, scaling=given.scaling).outputs
    assert found is not None
    assert found["outputs"] == ["output 0", "output 1", "output 3"]  # output 2 does not vary
    score = hfrnn.score(net, theta, given.batch, scaling=given.scaling)
    errors = [f"{score.outputs[str(k)]['rmse']:#.4g}" for k in range(3)]
    assert found["score"] == f"RMSE {', '.join(errors)} and 1 more, fit {score.overall['fit']:.1f}%"
    assert len(found["sequences"]) == 3
    for b, each in enumerate(found["sequences"]):
        length = int(given.batch.lengths[b])
        for n, k in enumerate((0, 1, 3)):
            np.testing.assert_allclose(each["predictions"][n], outputs[:length, b, k], rtol=1e-4)
            scored = given.batch.weights[:length, b] > 0
            assert [value is not None for value in each["targets"][n]] == scored.tolist()
            known = np.array(each["targets"][n], float)[scored]
            np.testing.assert_allclose(known, given.batch.targets[:length, b, k][scored], rtol=1e-4)


def test_examples_begin_in_the_given_states_and_leave_out_the_washout(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, state = rng.standard_normal((20, 12, 1)), 3 * rng.standard_normal((20, 4))
    np.savez(tmp_path / "data.npz", x=x, y=x.cumsum(axis=1), initial_state=state)
    hfrnn.train(
        data=tmp_path / "data.npz", arch="rnn", hidden=4, optimizer="adam", updates=1, washout=5,
        out=tmp_path / "run", threads=1, backend="numpy",
    )  # fmt: skip
    given = own_sequences(RunFolder(tmp_path / "run"), washout=5)
    net, theta, _ = hfrnn.load(tmp_path / "run")
    found = read_examples(RunFolder(tmp_path / "run"))
    assert found is not None
    assert found["score"].startswith(f"RMSE {hfrnn.score(net, theta, given.batch).overall['rmse']:#.4g}")
    outputs = predict(net, theta, given.batch).outputs
    for b, each in enumerate(found["sequences"]):
        np.testing.assert_allclose(each["predictions"][0], outputs[:, b, 0], rtol=1e-4)
        assert [value is None for value in each["targets"][0]] == [True] * 5 + [False] * 7


def test_a_task_of_real_values_has_examples_and_a_text_has_none(runs: dict[str, Path]) -> None:
    found = read_examples(RunFolder(runs["task"]))
    assert found is not None
    for each in found["sequences"]:
        assert [value is None for value in each["targets"][0]] == [True] * (len(each["targets"][0]) - 1) + [False]
    assert read_examples(RunFolder(runs["hf"])) is None


def test_lost_data_are_said_and_the_rest_is_shown(arrays: Path, tmp_path: Path) -> None:
    shutil.copytree(arrays, tmp_path / "run")
    config = (tmp_path / "run" / "config.toml").read_text()
    (tmp_path / "run" / "config.toml").write_text(config.replace("data.npz", "nowhere.npz"))
    found = read_examples(RunFolder(tmp_path / "run"))
    assert found is not None
    assert found.keys() == {"why"}
    assert "nowhere.npz" in found["why"]
    assert "nowhere.npz" in make_page([tmp_path / "run"])


@in_browser
def test_every_sequence_is_drawn_with_its_targets_and_predictions(shown, arrays, runs) -> None:
    page = shown(arrays, runs["task"], runs["hf"])
    found = page.run(
        "[...document.querySelectorAll('path.trace')].map((path) =>"
        "[path.closest('figure').querySelector('h3').innerText, path.dataset.series, Number(path.dataset.points)])"
    )
    counts = {(title, series): points for title, series, points in found}
    example = read_examples(RunFolder(arrays))
    assert example is not None
    for number, each in enumerate(example["sequences"], 1):
        title = f"Sequence {number} run A"
        for n, name in enumerate(example["outputs"]):
            assert counts[title, f"{name}, prediction"] == len(each["predictions"][n])
            assert counts[title, f"{name}, target"] == sum(value is not None for value in each["targets"][n])
    assert counts["Sequence 1 run B", "output 0, target"] == 1  # the answer, at the last step
    assert len(page.run("[...document.querySelectorAll('.trace')].map((path) => path.dataset.run)")) == 3 * 6 + 3 * 2
    page.run("document.querySelector('#legend button').click()")
    assert "run A" not in page.run("document.querySelector('main').innerText")


@in_browser
def test_the_cursor_reads_targets_and_predictions(shown: Any, arrays: Path) -> None:
    page = shown(arrays)
    example = read_examples(RunFolder(arrays))
    assert example is not None
    page.run("document.querySelector('path.trace').closest('svg').focus()")
    for key in ("Home", "ArrowRight"):
        page.press(key)
    text = page.run("document.querySelector('.tip:not([hidden])').innerText")
    target = example["sequences"][0]["targets"][0][1]
    assert "step 2" in text
    assert ("target \u2013" if target is None else f"target {target:g}") in text
    assert f"prediction {example['sequences'][0]['predictions'][0][1]:g}" in text


@in_browser
def test_runs_on_the_same_sequences_are_side_by_side_in_one_range(shown: Any, arrays: Path, runs: dict) -> None:
    other = arrays.with_name("other")
    if not other.exists():
        options = {"optimizer": "adam", "updates": 1, "learning_rate": 5.0, "seed": 0}
        hfrnn.train(
            data=arrays.with_name("data.npz"), arch="rnn", hidden=3, out=other, threads=1, backend="numpy", **options
        )
    page = shown(arrays, runs["task"], other)
    figures = page.run(
        "[...document.querySelectorAll('.panels.whole > figure')].map((each) => [each.querySelector('h3').innerText,"
        "[...each.querySelectorAll('text[text-anchor=end]')].map((label) => label.textContent)])"
    )
    assert [title for title, _ in figures] == [f"Sequence {n} run {run}" for n in (1, 2, 3) for run in "AC"]
    assert figures[0][1]
    assert all(labels == figures[0][1] for _, labels in figures)
