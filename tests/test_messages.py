"""Messages name arguments for their reader: `window=` for users of Python, `--window` for those of the command line."""

import ast
import itertools
import pickle
import re
import string
from pathlib import Path

import click
import pandas
import pytest
from support.parsed import FILES, nodes

import hfrnn
from hfrnn.checks import count
from hfrnn.cli import main
from hfrnn.cli.arguments import flag_of, told
from hfrnn.errors import InputError, Message, PerReader, keyword, worded
from hfrnn.kernels.registry import architectures, kernel_options
from hfrnn.runs.options import run_options
from tests.support.command_line import call, file, refused

SOURCES = [path for path in FILES if "cli" not in path.parts]
OF_PYTHON = {"dtype", "mirrors"}
"""Arguments that templates name although no run, architecture or command has them under this name."""


def flag(name: str, value: str) -> str:
    return f"--{name} {value}".strip()


# ------------------------------------------------------------------ templates


def test_each_reader_has_words_for_the_arguments_of_a_message():
    message = Message("{window} is {0}, and {data} holds {1:,} steps: use {arch:rnn} or {average:False}", 300, 1200)
    assert str(message) == "window= is 300, and data= holds 1,200 steps: use arch='rnn' or average=False"
    assert message.worded(flag) == "--window is 300, and --data holds 1,200 steps: use --arch rnn or --average False"


def test_a_message_in_a_message_is_written_for_the_same_reader_and_values_unchanged():
    inner = InputError(Message("{window} is {0}", "{data} }{"))
    message = Message("{0}, and {1}", inner, Message("{data} is empty"))
    assert str(message) == "window= is {data} }{, and data= is empty"
    assert message.worded(flag) == "--window is {data} }{, and --data is empty"


def test_words_that_differ_between_readers():
    message = Message("{0} is not known: {1}", "x", PerReader("import {0}", "give {kernel:{0}}", "my.py"))
    assert str(message) == "x is not known: import my.py"
    assert message.worded(flag) == "x is not known: give --kernel my.py"


def test_values_of_arguments_in_python():
    texts = {"": "x=", "hf": "x='hf'", "0.5": "x=0.5", "False": "x=False", "...": "x=...", "7,5": "x=7,5"}
    texts["sgd, adam or online"] = "x='sgd', 'adam' or 'online'"
    assert {value: keyword("x", value) for value in texts} == texts


def test_an_error_keeps_its_message_when_it_is_pickled():
    error = pickle.loads(pickle.dumps(InputError(Message("{window} is {0}", 3))))
    assert (str(error), worded(error, flag)) == ("window= is 3", "--window is 3")


def test_checks_name_an_argument_for_every_reader_and_other_values_in_words():
    with pytest.raises(InputError) as found:
        count("threads", 0, 1)
    assert str(found.value) == "threads is 0: give a whole number, 1 or more"
    assert worded(found.value, flag) == "--threads is 0: give a whole number, 1 or more"
    with pytest.raises(InputError) as found:
        count("each value of {x}", 0, 1)
    assert worded(found.value, flag) == "each value of {x} is 0: give a whole number, 1 or more"


# ------------------------------------------------------------------ the flags of the command line


def test_flags_of_arguments():
    given = [("lambda_", ""), ("sequence_length", ""), ("optimizer", "hf"), ("direct_input", "False"), ("text", "")]
    flags = ["--lambda", "--sequence-length", "--optimizer hf", "--no-direct-input", "TEXT"]
    assert [flag_of(*argument) for argument in given] == flags
    with click.Context(main.commands["train"]):
        assert told(Message("{text} and {lambda_}, {no_option}")) == "TEXT and --lambda, no_option"
    with click.Context(main) as ctx:
        ctx.invoked_subcommand = "data"
        assert told(Message("{mirrors:URL}")) == "--mirror URL"


# ------------------------------------------------------------------ from end to end


def test_messages_about_an_option_of_a_file_name_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text, line in (
        ("window = 0", "Error: window in run.toml is 0: give a whole number, 1 or more"),
        (
            'optimizer = "adam"\nmomentum = 0.5',
            'Error: momentum in run.toml was given, and optimizer is adam: it is for optimizer = "hf", "sgd"',
        ),
    ):
        file(tmp_path, text, "run.toml")
        assert refused("train", "--config", "run.toml", "--data", "sine").startswith(line)
    assert refused("train", "--config", "run.toml", "--momentum", "-3").startswith("Error: --momentum is -3: ")


def test_a_message_of_the_library_that_tells_a_command_has_its_flags(tmp_path):
    out = tmp_path / "run"
    call("train", "--data", "sine", "--length", 20, "--hidden", 2, "--updates", 1, "--backend", "numpy", "--out", out,
         "--quiet")  # fmt: skip
    line = refused("train", "--data", "sine", "--out", out)
    assert line.endswith(f": give another --out, or resume the run in it with --resume {out}")
    with pytest.raises(InputError, match=re.escape(f"give another out=, or resume the run in it with resume='{out}'")):
        hfrnn.train(data="sine", out=out)


# ------------------------------------------------------------------ the whole library


def strings(path: Path) -> list[ast.Constant]:
    alone = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
    return [
        node for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone
    ]  # fmt: skip


def test_no_text_outside_the_command_line_holds_a_flag():
    found = {f"{path}:{node.lineno}": node.value for path in SOURCES for node in strings(path)}
    assert [place for place, text in found.items() if re.search(r"--[a-z]", text)] == []


def templates(path: Path) -> list[tuple[int, str]]:
    """Return the templates of `Message` and `PerReader` in a module that are written out, with their lines."""
    return [
        (node.lineno, argument.value) for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Message", "PerReader")
        for argument in node.args[: 1 + (node.func.id == "PerReader")]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]  # fmt: skip


def names(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name and not name.isdigit()}


def known_names() -> set[str]:
    commands = [*main.commands.values(), *(each for group in main.commands.values() if isinstance(group, click.Group)
                                            for each in group.commands.values())]  # fmt: skip
    parameters = {each.name for command in commands for each in command.params}
    return {*run_options(), *parameters, *itertools.chain(*map(kernel_options, architectures())), "kernel", *OF_PYTHON}


def test_templates_name_only_arguments_that_exist():
    known = known_names()
    wrong = [
        f"{path.name}:{line}: {', '.join(unknown)}" for path in SOURCES if path.name != "errors.py"
        for line, text in templates(path) if (unknown := names(text) - known)
    ]  # fmt: skip
    assert wrong == []


def test_help_texts_name_only_options_that_exist():
    known = known_names()
    declared = [*run_options().values(), *(each for arch in architectures() for each in kernel_options(arch).values())]
    for each in declared:
        assert names(each.text.template) | names(each.otherwise) | names(each.zero) <= known, each.name


@pytest.mark.parametrize(("wrong", "message"), [
    (lambda: hfrnn.Network("rnn", 2, "3,4", 2), "hidden is '3,4': give a whole number of units, or a list"),
    (lambda: hfrnn.Network("rnn", 2, 4.0, 2), "hidden is 4.0: give a whole number of units"),
    (lambda: hfrnn.TrainConfig(init_from=3), "init_from= is 3: give a path"),
    (lambda: hfrnn.train(data=pandas.Series([1.0]), inputs="u", targets="y"), "the data hold a Series: give a"),
])  # fmt: skip
def test_a_plausible_wrong_value_is_answered_with_what_to_give(wrong, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        wrong()
