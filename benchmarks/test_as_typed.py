"""The benchmark of commands without options."""

from __future__ import annotations

import shlex

import as_typed
import pytest

from hfrnn.cli import main
from hfrnn.cli.train import merged


@pytest.mark.parametrize("command", as_typed.COMMANDS)
def test_the_options_are_those_of_the_command(command: str) -> None:
    words = shlex.split(command)
    train = main.commands["train"]
    context = train.make_context("train", words[2:], resilient_parsing=True)
    given = {name: value for name, value in context.params.items() if value is not None}
    known = {name: given[name] for name in as_typed.COMMANDS[command]}
    assert merged(as_typed.COMMANDS[command], None)[1] == merged(known, None)[1]
    assert len(words[2:]) == 2 * len(known)
