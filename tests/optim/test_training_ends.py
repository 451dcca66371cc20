"""A training run whose updates all fail ends and says why."""

from pathlib import Path

import pytest

import hfrnn
from hfrnn.engine.objective import Objective


def test_ten_failed_updates_in_a_row_end_a_run_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.txt").write_text("abcdefgh" * 400)
    monkeypatch.setattr(Objective, "loss", lambda self, theta: 1e9)
    options = {"arch": "rnn", "hidden": (4,), "gradient_symbols": 1000, "seed": 3}
    result = hfrnn.train(text=str(tmp_path / "text.txt"), out=str(tmp_path / "run"), updates=50, **options)
    last = result.summary["last"]
    assert (result.summary["stopped"], result.summary["updates"]) == ("no progress", 10)
    assert (last["failed"], last["failures"], last["step_size"]) == ("no_decrease", 10, 0.0)
    assert last["train_loss"] == last["loss_before"]
    again = hfrnn.train(resume=tmp_path / "run", updates=60)
    assert (again.summary["stopped"], again.summary["updates"]) == ("no progress", 10)
