"""The scaling of inputs and targets: what is measured, what is left as it is, and what is stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hfrnn.data.array_data import from_memory
from hfrnn.data.scaling import Scaling
from hfrnn.data.tasks import TaskSequences
from hfrnn.errors import CheckpointError

FIELDS = ("input_mean", "input_deviation", "target_mean", "target_deviation")
RNG = np.random.default_rng(3)
X = RNG.normal(size=(20, 30, 3)) * [2, 0.1, 30] + [5, 0, -70]
Y = RNG.normal(size=(20, 30, 2)) * [3, 0.5] + [1, 9]


def sequences(**changes: Any) -> TaskSequences:
    return from_memory({"x": X, "y": Y, **changes}, fractions=(1.0, 0.0, 0.0)).train


def test_scaled_values_have_mean_0_and_deviation_1_and_outputs_are_unscaled() -> None:
    scaling = Scaling.measure(sequences())
    scaled = scaling.scale(sequences())
    for values in (scaled.inputs, scaled.targets):
        np.testing.assert_allclose(values.mean(axis=(0, 1)), 0, atol=1e-12)
        np.testing.assert_allclose(values.std(axis=(0, 1)), 1, rtol=1e-12)
    np.testing.assert_allclose(scaling.unscale_outputs(scaling.scale_targets(Y)), Y, rtol=1e-12)
    np.testing.assert_array_equal(scaling.scale_inputs(X).swapaxes(0, 1), scaled.inputs)


def test_the_padding_and_what_is_not_scored_do_not_count() -> None:
    lengths = RNG.integers(2, 31, size=20)
    exists = np.arange(30) < lengths[:, None]
    mask = (RNG.random((20, 30, 2)) < 0.5) | (np.arange(30) == 0)[:, None]
    found = Scaling.measure(part := sequences(lengths=lengths, mask=mask))
    np.testing.assert_allclose(found.input_mean, X[exists].mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.input_deviation, X[exists].std(axis=0), rtol=1e-12)
    counted = [Y[:, :, k][exists & mask[:, :, k]] for k in range(2)]
    np.testing.assert_allclose(found.target_mean, [values.mean() for values in counted], rtol=1e-12)
    np.testing.assert_allclose(found.target_deviation, [values.std() for values in counted], rtol=1e-12)
    scaled = found.scale(part)
    assert not scaled.inputs[~exists.T[: len(scaled.inputs)]].any()
    assert not scaled.targets[~exists.T[: len(scaled.inputs)]].any()
    assert scaled.inputs[exists.T[: len(scaled.inputs)]].all()


def test_inputs_of_0_and_1_are_left_as_they_are_and_a_constant_is_shifted_only() -> None:
    x = np.stack([RNG.integers(0, 2, size=(20, 30)), np.full((20, 30), 0.1), X[:, :, 0]], axis=2)
    found = Scaling.measure(sequences(x=x))
    np.testing.assert_allclose(found.input_mean, [0, 0.1, X[:, :, 0].mean()])
    np.testing.assert_allclose(found.input_deviation, [1, 1, X[:, :, 0].std()])


def test_symbols_classes_and_what_is_not_asked_for_are_not_scaled() -> None:
    part = sequences(x=np.ones((20, 30), dtype=int), y=np.ones((20, 30), dtype=int))
    assert Scaling.measure(part).to_json() == dict.fromkeys(FIELDS)
    for a, b in zip(Scaling.measure(part).scale(part), part, strict=True):
        np.testing.assert_array_equal(a, b)
    assert Scaling.measure(sequences(), targets=False).target_mean is None
    assert Scaling.measure(sequences(), inputs=False).input_mean is None
    np.testing.assert_array_equal(Scaling().unscale_outputs(Y), Y)


def test_a_stored_scaling_is_the_same_to_the_bit(tmp_path: Path) -> None:
    scaling = Scaling.measure(sequences())
    scaling.save(tmp_path / "scaling.json")
    again = Scaling.load(tmp_path / "scaling.json")
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(again, name), getattr(scaling, name))
    assert again.sha256 == scaling.sha256


CHANGES: tuple[dict[str, Any], ...] = (
    {"input_mean": None}, {"input_deviation": [1.0]}, {"input_deviation": [1.0, 0.0, 1.0]},
    {"target_mean": [1.0, "a"]}, {"target_mean": [1.0, float("nan")]}, {"target_deviation": 1.0},
    {"more": 1}, {"target_mean": [[1.0], [2.0]]},
)  # fmt: skip
WHOLE = Scaling.measure(sequences()).to_json()
DAMAGED = [b"", b"{}", b"[1]", b"null", b"\xff", b"[" * 10**5, b'{"input_mean": [0.0]}']


@pytest.mark.parametrize("content", [*DAMAGED, *(json.dumps({**WHOLE, **each}).encode() for each in CHANGES)])
def test_a_damaged_scaling_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(CheckpointError, match="cannot read the scaling"):
        Scaling.load(tmp_path / "scaling.json")
    (tmp_path / "scaling.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"scaling.json is damaged"):
        Scaling.load(tmp_path / "scaling.json")
