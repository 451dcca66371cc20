"""The benchmark of small networks compares two builds by their own results."""

from __future__ import annotations

import json
from pathlib import Path

import common
import pytest
import small
from click.testing import CliRunner


@pytest.mark.slow  # starts two processes
def test_a_build_agrees_with_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax")
    monkeypatch.setattr(small, "ROWS", (("lstm", 4, 5, 6),))
    arguments = ["--before", str(common.HERE.parent), "--backend", "numpy", "--rounds", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(small.main, arguments)
    assert result.exit_code == 0, result.output
    (row,) = json.loads((tmp_path / "small-cpu.json").read_text())["rows"]
    assert row["difference"] < 1e-5  # of JAX
    assert set(row["milliseconds"]) == {"floor", "peak", "g0", "g1", "p0", "p1", "s0", "s1", "g_jax", "p_jax"}
    assert min(row["milliseconds"].values()) > 0
