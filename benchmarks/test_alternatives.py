"""The alternatives are compared with each other before they are timed."""

from __future__ import annotations

import json
from pathlib import Path

import alternatives
import click
import numpy as np
import pytest
from click.testing import CliRunner


@pytest.mark.slow
def test_every_alternative_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alternatives, "LOOKUPS", ((3, 4, 10),))
    monkeypatch.setattr(alternatives, "STEPS", ((2, 3, 12),))
    monkeypatch.setattr(alternatives, "WORK", 1.0)
    result = CliRunner().invoke(alternatives.main, ["--rounds", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "alternatives-cpu.json").read_text())
    (lookup,), (step,) = found["lookups"], found["steps"]
    assert set(lookup["seconds"]) == {"one-hot product", "sorted sums", "sparse product"}
    assert {"product", "product and addition"} <= set(step["seconds"])
    assert min(*lookup["seconds"].values(), *step["seconds"].values()) > 0


def test_results_that_differ_are_not_timed() -> None:
    with pytest.raises(click.ClickException, match="sorted sums: the results differ by"):
        alternatives.checked(np.array([1.0, 2.0]), np.array([1.0, 2.1]), "sorted sums")
