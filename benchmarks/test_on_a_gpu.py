"""The script of the first minutes on a GPU, on the CPU: its bounds, its record, and that its commands are right."""

from __future__ import annotations

import json
import time

import cooperative
import on_a_gpu
import products
import pytest
from click.testing import CliRunner

from hfrnn.cli import main as hfrnn_command

SCRIPTS = {"benchmarks/cooperative.py": cooperative.main, "benchmarks/products.py": products.main}


def test_each_step_has_its_bound_and_none_stops_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(on_a_gpu, "STEPS", {
        "fails": on_a_gpu.Step(60, "benchmarks/nothing.py {out}"), "hangs": on_a_gpu.Step(0.5, "-m http.server 0"),
        "works": on_a_gpu.Step(60, "-c print(1)"),
    })  # fmt: skip
    begin = time.monotonic()
    done = CliRunner().invoke(on_a_gpu.main, ["--out", str(tmp_path)])
    assert time.monotonic() - begin < 30
    steps = json.loads((tmp_path / "on-a-gpu.json").read_text())["steps"]
    assert [step["status"] for step in steps.values()] == ["failed with 2", "ended after 0 seconds", "done"]
    assert steps["works"]["output"] == "1\n"
    assert done.exit_code == 1
    CliRunner().invoke(on_a_gpu.main, ["--out", str(tmp_path), "--minutes", "0"])
    late = json.loads((tmp_path / "on-a-gpu.json").read_text())["steps"]
    assert {step["status"] for step in late.values()} == {"left out for lack of time"}


@pytest.mark.parametrize("name", on_a_gpu.STEPS)
def test_the_command_of_a_step_can_be_entered(name):
    words = on_a_gpu.STEPS[name].command.format(out="out", scratch="scratch").split()
    if words[:2] == ["-m", "pytest"]:
        assert (on_a_gpu.ROOT / words[-1]).is_file()
    elif words[:2] == ["-m", "hfrnn"]:
        hfrnn_command.commands[words[2]].make_context(words[2], words[3:])
    else:
        SCRIPTS[words[0]].make_context(words[0], words[1:])


def test_all_steps_fit_a_quarter_of_an_hour():
    assert sum(step.seconds for step in on_a_gpu.STEPS.values()) <= 14 * 60
