"""Files that a run was started with and that are gone: every command says where to put them, or to give another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import refused
from support.data_runs import make_data_runs
from support.tiny_runs import tiny_train


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """A run on each kind of data, and its file, which is gone."""
    folder = tmp_path_factory.mktemp("data")
    made = make_data_runs(folder, "drive", "real")
    text = tiny_train(folder, optimizer="adam").folder
    found = {"text": (text, folder / "text.txt"), "table": (made["drive"], folder / "drive.csv")}
    found["arrays"] = (made["real"], folder / "real.npz")
    for _, file in found.values():
        file.unlink()
    return found


@pytest.mark.parametrize("data", ["text", "table", "arrays"])
@pytest.mark.parametrize("command", ["train --updates 9 --resume", "spectrum"])
def test_a_command_for_the_own_data_only_asks_to_put_it_back(runs, command: str, data: str):
    run, file = runs[data]
    begin = f"Error: the data of {run} is not as it was when the run was started: there is no file {file}"
    assert refused(*command.split(), run) == f"{begin}; put it back there"


@pytest.mark.parametrize(
    ("command", "data"), [("evaluate", "text"), ("evaluate", "table"), ("evaluate", "arrays"), ("predict", "table")]
)
def test_a_command_that_takes_a_file_says_how_to_give_another_one(runs, tmp_path: Path, command: str, data: str):
    run, file = runs[data]
    output = ["--output", tmp_path / "out.npz"] if command == "predict" else []
    found = refused(command, run, *output)
    assert f"there is no file {file}; put it back there, or give another one: " in found
    assert found.endswith(f" {command} {run} FILE")
