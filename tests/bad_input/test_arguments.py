"""Wrong arguments of every command, and wrong kernel files, are refused in one sentence."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.damage import a_folder
from support.refusals import STEPS, refused, replaced, sentence_of
from support.tiny_runs import snapshot

KERNELS: dict[str, tuple[bytes | Callable[[Path], object] | None, str]] = {
    "missing": (None, "FileNotFoundError"),
    "a folder": (a_folder, "IsADirectoryError"),
    "a syntax error": (b"def", "SyntaxError"),
    "a NUL byte": (b"a = 1\0", "cannot be run"),
    "an exception of two lines": (b"raise ValueError('one\\ntwo')", "one two"),
    "a name that is taken": (b"import hfrnn\nhfrnn.register_kernel('rnn', hfrnn.Kernel)", "registered already"),
    "recursion": (b"def f():\n    f()\nf()", "RecursionError"),
}


@pytest.mark.parametrize("case", KERNELS)
def test_a_kernel_file_that_does_not_register_an_architecture_is_refused(case: str) -> None:
    content, words = KERNELS[case]
    with replaced("mine.py", content):
        for arguments in (["train", "text.txt", *STEPS], ["info"]):
            found = refused(arguments[0], "--kernel", "mine.py", *arguments[1:])
            assert "mine.py" in found
            assert words in found


def test_a_kernel_file_that_is_not_python_is_refused() -> None:
    assert "name ends in .py" in refused("info", "--kernel", "text.txt")
    assert "folder" in refused("info", "--kernel", "folder")


OTHERS: dict[str, tuple[list[str], str]] = {
    "no command": (["dance"], "dance"),
    "large seed": (["train", "text.txt", "--seed", str(2**64 - 1)], f"give a number of at most {2**63 - 1}"),
    "activation": (["train", "text.txt", "--activation", "relu"], "and --arch is mlstm: it is for --arch rnn"),
    "lambda": (["train", "text.txt", "--damping", "none", "--lambda", "1"], "lambda"),
    "schedule without validation": (
        ["train", "text.txt", "--optimizer", "sgd", "--schedule", "halve", "--fractions", "1,0,0"], "watches the valid",
    ),
    "adam nesterov": (["train", "text.txt", "--optimizer", "adam", "--nesterov"], "--nesterov was given"),
    "online task": (
        ["train", "--data", "addition", "--optimizer", "online", "--arch", "lstm-krause"], "addition is not a text",
    ),
    "two sizes of a batch": (
        ["train", "text.txt", "--curvature-fraction", "0.5", "--curvature-symbols", "100"], "were given: give one of",
    ),
    "a file for a name": (["train", "--data", "text.txt"], "to train on its text leave out --data"),
    "text and corpus": (["train", "text.txt", "--data", "python-manual"], "give one of them"),
    "resume another text": (["train", "other.txt", "--resume", "run"], "has changed since the run was started"),
    "resume another network": (["train", "--resume", "run", "--hidden", "5"], "keeps its --hidden"),
    "resume without memory": (["train", "--resume", "run", "--memory", "10kB"], "the budget is"),
    "report into a folder": (["report", "run", "-o", "folder"], "--output is folder, which is a folder"),
    "report over a text": (["report", "run", "-o", "text.txt"], "text.txt, which is a file that the command reads"),
    "a part that is not known": (["evaluate", "run", "--part", "middle"], "'middle' is not one of"),
    "a part that is empty": (["evaluate", "run", "--part", "test"], "no test part"),
    "a part and a text": (["evaluate", "run", "text.txt", "--part", "valid"], "not both"),
    "a part of a task": (["evaluate", "task", "--part", "test"], "leave --part out"),
    "unknown symbols become two": (["evaluate", "run", "foreign.txt", "--unknown", "ab"], "cannot become 'ab'"),
    "unknown symbols become unknown": (["evaluate", "run", "foreign.txt", "--unknown", "é"], "cannot become 'é'"),
    "a state that is not known": (["evaluate", "run", "--which", "first"], "first"),
    "temperature is infinite": (["sample", "run", "--temperature", "inf"], "temperature is inf"),
    "prime": (["sample", "run", "--prime", "The é"], "1 symbol .*'é' (1 time)"),
    "prime not UTF-8": (["sample", "run", "--prime", "\udce9"], r"'\udce9'"),
    "nothing allowed": (["sample", "run", "--allowed", ""], "give at least one symbol"),
    "unknown allowed": (["sample", "run", "--allowed", "abé"], "does not know every symbol of it"),
    "gradcheck": (["gradcheck", "tnn"], "'tnn' is not known"),
    "gradcheck seed": (["gradcheck", "rnn", "--seed", "-1"], "--seed is -1"),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
def test_wrong_arguments_are_refused(case: str) -> None:
    arguments, words = OTHERS[case]
    command, *rest = arguments
    flags = STEPS if command == "train" and not {"--resume", "--data", "online"} & {*rest} else []
    found = refused(command, *flags, *rest)
    assert all(part in found for part in words.split(" .*")), found


def test_a_process_ends_with_one_sentence_and_its_exit_code() -> None:
    before = snapshot(Path())
    command = [sys.executable, "-m", "hfrnn", "train", "latin1.txt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "byte 0xe9" in sentence_of(done.stderr)
    assert snapshot(Path()) == before
