"""The prototypes of fused passes agree with the engine before they are timed, and the account of an update adds up."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("numba")

import fused_passes
import update_account

pytestmark = pytest.mark.slow  # compiles loops of many kinds


def test_every_prototype_is_compared_and_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_passes, "CASES", (("lstm", 4, 6, 8, 5), ("mlstm", 3, 6, 8, 5)))
    monkeypatch.setattr(fused_passes, "WHOLE", (("rnn", 4, 6, 8, 5), ("mlstm", 3, 6, 8, 5)))
    result = CliRunner().invoke(fused_passes.main, ["--rounds", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "fused-passes-cpu.json").read_text())
    assert [set(case["seconds"]) for case in found["calls"]] == [{"engine", "one call"}] * 2
    assert all({"engine", "1", "all steps"} <= set(case["seconds"]) for case in found["gradients"])


def test_a_weight_gradient_is_added_to_what_is_there() -> None:
    import fused_loops

    rng = np.random.default_rng(0)
    x, da, grad = (rng.standard_normal(shape, dtype=np.float32) for shape in ((7, 3), (7, 5), (3, 5)))
    expected = grad + x.T @ da
    fused_loops.add_outer(x, da, grad, *fused_loops.blas_arguments())
    np.testing.assert_allclose(grad, expected, rtol=1e-5)


def test_a_prototype_that_differs_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    import fused_loops

    monkeypatch.setattr(fused_loops, "rnn_product", lambda *arguments: None)
    with pytest.raises(click.ClickException, match="the product in one call: the results differ"):
        fused_passes.calls(fused_passes.Case("rnn", 4, 6, 8, 5, whole=True), 1)


def test_the_parts_of_an_update_are_sums_over_its_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = [dataclasses.replace(each, hidden=3, gradient=16, curvature=16) for each in update_account.NETWORKS]
    monkeypatch.setattr(update_account, "NETWORKS", tuple(small))
    monkeypatch.setattr(update_account, "HANDOVERS", 10)
    result = CliRunner().invoke(update_account.main, ["--rounds", "2", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for found in json.loads((tmp_path / "update-account-cpu.json").read_text())["networks"]:
        rows = found["operations"]
        assert rows["product"]["calls"] == found["products"]
        for part in update_account.SUMMED:
            assert found["update"][part] == pytest.approx(sum(row["calls"] * row[part] for row in rows.values()))
