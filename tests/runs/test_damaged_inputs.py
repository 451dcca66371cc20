"""Wrong and damaged inputs of every kind through the command line: one sentence, the right exit code, nothing written.

Everything happens in one folder that holds a text, a run on it and a run on a task. A test damages a file of it, calls
commands, and puts the file back; what a command refuses, it leaves byte for byte as it was, damage included.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save as safetensors_bytes
from support.damage import DAMAGE, a_folder, a_loop
from support.music_files import stored
from support.tiny_runs import FLAGS, TEXT, snapshot, text_file, tiny_train

from hfrnn.analysis.evaluation import evaluate_sequences
from hfrnn.cli import main
from hfrnn.engine.batch import Batch
from hfrnn.engine.network import Network
from hfrnn.engine.objective import Objective
from hfrnn.errors import InputError
from hfrnn.runs.checkpoint import checkpoint_bytes, load_checkpoint
from hfrnn.runs.load import load
from hfrnn.runs.options import option_key, option_name
from hfrnn.runs.run_folder import RunFolder

FIELDS = all_options()
STEPS = ["--hidden", "4", "--sequence-length", "10", "--updates", "1"]
RESUME = ["train", "--resume", "run", "--updates", "3", "--sample-length", "0"]
HUGE = "0x" + "f" * 5000  # more digits than Python prints

TEXTS: dict[str, bytes] = {
    "text.txt": TEXT.encode(),
    "empty.txt": b"",
    "one.txt": b"T",
    "short.txt": b"0123456789",
    "same.txt": b"a" * 500,
    "newlines.txt": b"\n" * 500,
    "blanks.txt": b" \t \n" * 200,
    "latin1.txt": b"caf\xe9 bar",
    "cut.txt": "Thé".encode()[:-1],
    "utf16.txt": TEXT.encode("utf-16"),
    "surrogate.txt": b"a\xed\xa0\x80b" * 50,
    "foreign.txt": "The é and ö é.".encode(),
    "nul.txt": TEXT.replace("fox", "f\0x").encode(),
    "crlf.txt": TEXT.replace("\n", "\r\n").encode(),
    "bom.txt": TEXT.encode("utf-8-sig"),
    "line.txt": TEXT.replace("\n", " ").encode(),
    "other.txt": TEXT.replace("brown", "green").encode(),
}


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that all commands run in."""
    folder = tmp_path_factory.mktemp("home")
    for name, content in TEXTS.items():
        text_file(folder, content, name)
    (folder / "folder").mkdir()
    (folder / "folder" / "diary.txt").write_text("dear")
    (folder / "void").mkdir()
    os.symlink("loop", folder / "loop")
    tiny_train(folder)
    tiny_train(folder, "task", text=None, data="addition", length=21, arch="rnn", optimizer="adam", sequences=9)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("HFRNN_DATA", raising=False)
        yield folder


# ------------------------------------------------------------------ what every case is held to


def call(*arguments: str) -> Result:
    """A command in this process; no exception comes out of it, and no warning goes to the screen."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        result = CliRunner().invoke(main, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        pytest.fail(f"{arguments}:\n" + "".join(traceback.format_exception(result.exception)))
    assert not heard, (arguments, [str(warning.message) for warning in heard])
    return result


def sentence_of(stderr: str) -> str:
    """The one sentence of an error; before it there may be click's lines on the usage."""
    *usage, last = stderr.splitlines()
    assert all(line == "" or line.startswith(("Usage: ", "Try '", "  ")) for line in usage), stderr
    assert last.startswith("Error: "), stderr
    assert not re.search(r"\b1 \w*(symbols|streams|steps|times|parameters|sequences)\b", last), last
    assert not re.search(r"\w+Error\(|<class|object at 0x", last), last
    return last.removeprefix("Error: ")


def refused(*arguments: str, code: int = 2) -> str:
    """The sentence with which a command refuses, after it has changed nothing."""
    before = snapshot(Path())
    result = call(*arguments)
    assert result.exit_code == code, (arguments, result.exit_code, result.output)
    assert result.stdout == ""
    assert snapshot(Path()) == before, "something was written"
    return sentence_of(result.stderr)


@contextlib.contextmanager
def replaced(path: str | Path, content: bytes | Callable[[Path], object] | None) -> Iterator[None]:
    """A file of the run with other content (or what a callable puts there; nothing for None), for a while."""
    path, pristine = Path(path), snapshot(Path("run"))
    old = path.read_bytes() if path.exists() else None
    path.unlink(missing_ok=True)
    if callable(content):
        content(path)
    elif content is not None:
        path.write_bytes(content)
    try:
        yield
    finally:
        if path.is_dir():
            path.rmdir()
        path.unlink(missing_ok=True)
        if old is not None:
            path.write_bytes(old)
        assert snapshot(Path("run")) == pristine


def goes_on() -> None:
    """A copy of the run takes another update."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree("run", Path(folder, "run"))
        assert call("train", "--resume", str(copy), "--updates", "3", "--sample-length", "0").exit_code == 0
        assert len((copy / "metrics.jsonl").read_text().splitlines()) == 3


# ------------------------------------------------------------------ configuration files

CONFIGS: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "cannot be read"),
    "no value": (b"arch = ", "is not TOML"),
    "no quotes": (b"arch = mlstm", "is not TOML"),
    "no equals sign": (b"hidden 4", "is not TOML"),
    "a bracket open": (b"hidden = [4", "is not TOML"),
    "a quote open": (b'arch = "mlstm', "is not TOML"),
    "twice": (b"seed = 1\nseed = 2", "is not TOML"),
    "latin-1": (b'text = "caf\xe9"', "is not TOML"),
    "utf-16": ("seed = 1".encode("utf-16"), "is not TOML"),
    "a NUL byte": (b"seed = 1\0", "is not TOML"),
    "rubbish": (bytes(range(256)), "is not TOML"),
    "nested too deeply": (b"seed = " + b"[" * 100_000, "is not TOML"),
    "an endless number": (b"seed = " + b"9" * 5000, "is not TOML"),
    "an unknown option": (b"hiden = 3", "did you mean hidden?"),
    "an option like no other": (b"zzz = 3", "'zzz' that is not known"),
    "an option with a line break": (b'"hid\\nden" = 3', "not known"),
    "a table": (b"[hidden]\nsize = 3", "hidden"),
    "a table of tables": (b"[[hidden]]\nsize = 3", "hidden"),
    "a date": (b"seed = 2020-01-01", "seed"),
    "a text and a corpus": (b'text = "text.txt"\ndata = "ptb"', "give one of them"),
    "JSON": (b'{"seed": 1}', "is not TOML"),
}  # fmt: skip


@pytest.mark.parametrize("command", [[], ["--dry-run"]], ids=["train", "dry-run"])
@pytest.mark.parametrize("case", CONFIGS)
def test_a_damaged_configuration_is_refused(case: str, command: list[str]) -> None:
    content, words = CONFIGS[case]
    with replaced("options.toml", content):
        found = refused("train", *command, "--config", "options.toml")
    assert "options.toml" in found or "both a text" in found
    assert words in found


@pytest.mark.parametrize("path", ["folder", "loop", "text.txt/x", "x" * 300, "a\0b", ""])
def test_a_configuration_that_is_no_file_is_refused(path: str) -> None:
    assert "cannot be read" in refused("train", "--config", path)


def test_an_empty_configuration_asks_for_nothing() -> None:
    with replaced("options.toml", b""):
        assert call("train", "text.txt", *FLAGS, "--dry-run", "--config", "options.toml").exit_code == 0


# ------------------------------------------------------------------ every option

WRONG_TYPES: dict[str, tuple[str, ...]] = {  # as TOML writes them
    "str": ("true", "1.5", "[]", '["a"]', "{a = 1}", "1979-05-27", HUGE),
    "int": ('"three"', "2.5", "true", "nan", "[1]", "{a = 1}", "1" + "0" * 30, "-1" + "0" * 400, HUGE),
    "float": ('"three"', "true", "nan", "inf", "-inf", "[1.0]", "{a = 1}", "1" + "0" * 400, HUGE),
    "bool": ("1", "0", '"yes"', "[]", "{a = 1}", "nan"),
    "tuple": ("[]", '"a"', "true", '["a"]', "[true]", "[[1]]", "{a = 1}", f"[{HUGE}]", HUGE),
}  # fmt: skip

RANGES: dict[str, tuple[str, ...]] = {  # as the command line takes them
    "text": ("nowhere.txt", "folder", "empty.txt", "latin1.txt", "loop", ""),
    "data": ("encyclopedia", ""),
    "level": ("verse", ""),
    "min_count": ("0", "-1"),
    "max_vocabulary": ("1", "-5"),
    "valid": ("nowhere.txt", "folder", "empty.txt", "latin1.txt", "loop", ""),
    "test": ("nowhere.txt", "folder", "empty.txt", "latin1.txt", "loop", ""),
    "fractions": ("0.5,0.5,0.5", "1,0", "-1,1,1", "0,1,0", "nan,0.5,0.5", "1e999,0,0", "a,b"),
    "length": ("20", "0", "-1"),
    "sequences": ("0", "-1"),
    "sequence_length": ("0", "-3", "999999"),
    "unknown": ("zz", "é", ""),
    "arch": ("tnn", ""),
    "hidden": ("0", "-5", "4,0", "big", "2.5", ",", ""),
    "embedding": ("0", "-1"),
    "bias": (),
    "output_bias": (),
    "direct_input": (),
    "direct_output": (),
    "activation": ("cube", ""),
    "order": ("0", "-1"),
    "alpha": ("-0.1", "1.5"),
    "learn_alpha": (),
    "context": ("-1",),
    "periods": ("0", "-1", "1,0", "1,2,4", "a"),
    "classes": ("-1", "29"),
    "l2": ("-1",),
    "initializer": ("zeros",),
    "spectral_radius": ("0", "-1"),
    "input_scale": ("0", "-1"),
    "init_scale": ("0", "-1"),
    "init_from": ("nowhere", "folder", "text.txt", "task", "loop"),
    "dtype": ("float16",),
    "optimizer": ("magic",),
    "damping": ("heavy",),
    "mu": ("-1", "1e9"),
    "lambda_": ("-1", "1e9"),
    "metric": ("cubic",),
    "gradient_symbols": ("-1",),
    "first_gradient_symbols": ("-1",),
    "batch_growth": ("0.9", "-1"),
    "average": ("-0.1", "1", "1.5"),
    "curvature_fraction": ("0", "2", "-1"),
    "curvature_symbols": ("0", "-1"),
    "cg_iterations": ("0", "-1"),
    "cg_epsilon": ("-1",),
    "warm_start": ("-0.1", "2"),
    "mu_growth": ("1", "0.5", "-1"),
    "rho_model": ("flat",),
    "rho_objective": ("train",),
    "line_search": ("exact",),
    "rho_low": ("1.1",),
    "rho_high": ("0.4",),
    "adapt": ("all", ""),
    "preconditioner": ("full",),
    "preconditioner_exponent": ("-0.1", "1.1"),
    "preconditioner_shift": ("0", "-1"),
    "residual_every": ("-1",),
    "max_failures": ("-1",),
    "learning_rate": ("0", "-1"),
    "momentum": ("-0.1", "1"),
    "nesterov": (),
    "weight_decay": ("-1",),
    "clip_norm": ("-1",),
    "clip_value": ("0", "-1"),
    "max_norm": ("0", "-1"),
    "streams": ("0", "-1", "999"),
    "update_every": ("0", "3", "20"),
    "schedule": ("cosine",),
    "constant_epochs": ("0", "-1"),
    "epochs": ("0", "-1"),
    "patience": ("0", "-1"),
    "log_interval": ("0", "-1"),
    "validate_every": ("0", "-1"),
    "out": ("folder", "run", "text.txt", "text.txt/run", "loop", "a\0b", "x" * 300),
    "updates": ("0", "-1"),
    "minutes": ("0", "-1"),
    "target_bits": ("0", "-1"),
    "keep": ("-1",),
    "seed": ("-1",),
    "backend": ("abacus",),
    "threads": ("0", "-1"),
    "checkpoint": ("some", "0", "-1", "1.5", "²", "", "9" * 5000),
    "memory": ("lots", "0", "-1GiB", "nan", "1e999", "1 XB", "20kB", "1e30", ""),
    "sample_length": ("-1",),
}  # fmt: skip
"""Values out of range of every option."""

SIZES = ("hidden", "embedding", "order", "context", "length", "sequences", "streams", "sequence_length", "classes")
"""Options that something grows with."""

NEEDED: dict[str, list[str]] = {  # what an option is of use with
    **{name: ["--data", "addition", "--arch", "rnn"] for name in ("length", "sequences")},
    **{name: ["--level", "word"] for name in ("min_count", "max_vocabulary")},
    **{name: ["--hidden", "4,4"] for name in ("direct_input", "direct_output")},
    **{name: ["--arch", "scrn"] for name in ("alpha", "learn_alpha", "context")},
    "activation": ["--arch", "rnn"],
    "order": ["--arch", "hornn"],
    "periods": ["--arch", "clockwork"],
    "lambda_": ["--damping", "tikhonov"],
    **{name: ["--optimizer", "sgd"] for name, spec in FIELDS.items() if getattr(spec, "group", "").startswith("SGD")},
}


def base_kind(name: str) -> str:
    return "tuple" if FIELDS[name].many else FIELDS[name].kind.__name__


def flags_for(name: str) -> list[str]:
    """A command line on which the option is of use, without the option."""
    found = [*NEEDED.get(name, [])]
    if "--data" not in found and name not in ("text", "data"):
        found.insert(0, "text.txt")
    for flag, value in (("--hidden", "4"), ("--sequence-length", "10")):
        if flag not in found and option_name(name) != flag and not (flag == "--sequence-length" and "--data" in found):
            found += [flag, value]
    return [*found, *([] if name == "updates" else ["--updates", "1"])]


def in_toml(name: str, value: str) -> str:
    """A value of the command line as TOML."""
    if base_kind(name) == "str":
        return json.dumps(value)
    if base_kind(name) == "tuple":
        parts = [part if re.fullmatch(r"-?[\d.]+|nan", part) else json.dumps(part) for part in value.split(",")]
        return f"[{', '.join(parts)}]"
    return value


def names_the_option(found: str, name: str, value: str = "") -> bool:
    """Whether a sentence is about that option, and not about its being of no use."""
    words = {option_name(name), option_key(name), option_key(name).replace("_", " ")}
    words |= {"lambda"} if name == "lambda_" else set()
    words |= {"sequences of"} if name == "sequence_length" else set()
    words |= {"architecture"} if name == "arch" else set()
    words |= {"unknown symbols"} if name == "unknown" else set()
    words |= {"share of"} if name == "fractions" else set()
    words |= {"streams"} if name == "streams" else set()
    words |= {"is a folder"} if name in ("text", "valid", "test") else set()
    words |= {repr(value), value or "''"} if base_kind(name) == "str" else set()
    return any(word in found for word in words) and "was given, and" not in found


def test_every_option_has_values_out_of_its_range() -> None:
    assert set(RANGES) == set(FIELDS)
    bare = {name for name, values in RANGES.items() if not values}
    assert bare == {name for name in FIELDS if base_kind(name) == "bool"}  # of these there are none
    assert {base_kind(name) for name in FIELDS} == set(WRONG_TYPES)


@pytest.mark.parametrize("name", FIELDS)
def test_an_option_of_the_wrong_type_is_refused(name: str) -> None:
    for value in WRONG_TYPES[base_kind(name)]:
        with replaced("options.toml", f"{option_key(name)} = {value}\n".encode()):
            found = refused("train", "--config", "options.toml", *flags_for(name))
            assert names_the_option(found, name), (value, found)


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "text"])
def test_a_flag_of_the_wrong_type_is_refused(name: str) -> None:
    kind = base_kind(name)
    wrong = {
        "str": (), "bool": ("maybe",), "int": ("three", "2.5", "", "nan", "1" + "0" * 30, "9" * 5000),
        "float": ("three", "", "nan", "inf", "1e999", "9" * 5000),
        "tuple": ("a", "", "1,,2", "9" * 5000, "1" + "0" * 30),
    }[kind]  # fmt: skip
    for value in wrong:
        found = refused("train", *flags_for(name), f"{option_name(name)}={value}")
        assert names_the_option(found, name), (value[:40], found)


@pytest.mark.parametrize("name", [name for name, values in RANGES.items() if values])
def test_an_option_out_of_range_is_refused(name: str) -> None:
    for value in RANGES[name]:
        flag = [value] if name == "text" else [f"{option_name(name)}={value}"]
        commands = [["train", *flags_for(name), *flag], ["train", "--dry-run", *flags_for(name), *flag]]
        if name == "out":
            commands.pop()  # a rehearsal makes no folder
        with replaced("options.toml", f"{option_key(name)} = {in_toml(name, value)}\n".encode()):
            for arguments in [*commands, ["train", "--config", "options.toml", *flags_for(name)]]:
                found = refused(*arguments)
                assert names_the_option(found, name, value), (arguments, found)


@pytest.mark.parametrize("name", SIZES)
def test_a_size_beyond_all_memory_is_refused(name: str) -> None:
    for value in (2**31 - 1, 10**15, 2**63 - 1):
        for command in (["train"], ["train", "--dry-run"]):
            refused(*command, *flags_for(name), option_name(name), str(value))


def test_a_network_beyond_all_memory_is_refused_whatever_is_kept() -> None:
    network = ["--hidden", str(10**9), "--sequence-length", "10"]
    for checkpoint in ("all", "sqrt", "3"):
        for memory in ("4GiB", "1000000000GB"):
            found = refused("train", "text.txt", *network, "--checkpoint", checkpoint, "--memory", memory)
            assert f"--memory is {memory}" in found


# ------------------------------------------------------------------ texts

BAD_TEXTS: dict[str, str] = {
    "nowhere.txt": "there is no file",
    "folder": "folder is a folder",
    "empty.txt": "empty.txt is empty",
    "latin1.txt": "byte 0xe9 at offset 3",
    "cut.txt": "byte 0xc3 at offset 2",
    "utf16.txt": "offset 0",
    "surrogate.txt": "offset 1",
    "loop": "loop' cannot be read",
    "text.txt/x": "cannot be read",
    "x" * 300: "cannot be read",
    "a\0b": "cannot be read",
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_a_text_that_cannot_be_read_is_refused(name: str) -> None:
    words = BAD_TEXTS[name]
    for arguments in (
        ["train", name, *STEPS],
        ["train", name, *STEPS, "--dry-run"],
        ["train", name, *STEPS, "--level", "word"],
        ["train", "text.txt", *STEPS, "--valid", name],
        ["train", "text.txt", *STEPS, "--test", name],
        ["train", "text.txt", *STEPS, "--valid", name, "--dry-run"],
        ["evaluate", "run", name],
    ):
        assert words in refused(*arguments), arguments


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("one.txt", "leaves none to train on|1 symbol; sequences of 10 need"),
        ("short.txt", "sequences of 10 need at least 11"),
        ("same.txt", "'a'"),
        ("newlines.txt", "one symbol"),
    ],
)
def test_a_text_that_holds_too_little_is_refused(name: str, words: str) -> None:
    for more in ([], ["--dry-run"], ["--optimizer", "sgd", "--streams", "2"], ["--level", "byte"]):
        assert re.search(words + "|at least|one symbol", refused("train", name, *STEPS, *more))


def test_a_text_of_one_symbol_is_refused_at_every_level_and_by_every_method() -> None:
    for name, level in (("same.txt", "char"), ("same.txt", "byte"), ("newlines.txt", "word"), ("blanks.txt", "word")):
        for more in (["--optimizer", "sgd", "--streams", "2"], ["--optimizer", "adam", "--streams", "2"], []):
            found = refused("train", name, *STEPS, "--level", level, *more)
            assert "one symbol" in found
            assert name in found


@pytest.mark.parametrize(
    ("name", "symbol"), [("nul.txt", "\0"), ("crlf.txt", "\r"), ("bom.txt", "\ufeff"), ("line.txt", " ")]
)
def test_a_text_is_learned_as_it_is(name: str, symbol: str) -> None:
    out = Path("trained")
    assert call("train", name, *FLAGS, "--updates", "1", "--out", str(out), "--sample-length", "0").exit_code == 0
    assert symbol in json.loads((out / "vocabulary.json").read_text())["symbols"]
    shutil.rmtree(out)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("one.txt", "1 known symbol: at least 2"),
        ("foreign.txt", "3 symbols .*: 'é' \\(2 times\\), 'ö' \\(1 time\\)"),
        ("nul.txt", r"'\\x00'"),
        ("crlf.txt", r"'\\r'"),
        ("bom.txt", r"1 symbol .*'\\ufeff' \(1 time\)"),
    ],
)
def test_a_text_that_cannot_be_scored_is_refused(name: str, words: str) -> None:
    assert re.search(words, refused("evaluate", "run", name))


def test_unknown_symbols_of_a_validation_file_are_refused_where_that_is_asked_for() -> None:
    assert "'é'" in refused("train", "text.txt", *STEPS, "--valid", "foreign.txt", "--unknown", "error")
    with replaced("valid.txt", "éöéöé".encode()):
        assert "0 symbols" in refused("train", "text.txt", *STEPS, "--valid", "valid.txt")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="everything may be read by root")
def test_a_file_without_permission_is_refused() -> None:
    for path, arguments in (("other.txt", ["train", "other.txt", *STEPS]), ("run/last.safetensors", RESUME)):
        mode = os.stat(path).st_mode
        os.chmod(path, 0)
        try:
            result = call(*arguments)
        finally:
            os.chmod(path, mode)
        assert result.exit_code == 2
        sentence_of(result.stderr)


@pytest.mark.parametrize("path", ["t\udce9xt.txt"])
def test_a_file_name_that_is_not_utf_8_is_refused_before_anything_is_written(path: str) -> None:
    shutil.copy("text.txt", path)
    try:
        assert "UTF-8" in refused("train", path, *FLAGS, "--out", "new")
        assert "UTF-8" in refused("train", "text.txt", *FLAGS, "--valid", path, "--out", "new")
        assert "UTF-8" in refused("train", "text.txt", *FLAGS, "--out", "n\udce9w")
    finally:
        os.unlink(path)


# ------------------------------------------------------------------ the files of a run


COMMANDS: dict[str, list[str]] = {
    "resume": RESUME,
    "rehearse": [*RESUME[:-2], "--dry-run"],
    "evaluate": ["evaluate", "run"],
    "evaluate last": ["evaluate", "run", "--which", "last"],
    "sample": ["sample", "run", "--length", "3"],
    "sample last": ["sample", "run", "--length", "3", "--which", "last"],
}
READ: dict[str, tuple[str, ...]] = {
    "config.toml": tuple(COMMANDS),
    "vocabulary.json": tuple(COMMANDS),
    "metrics.jsonl": ("resume", "rehearse"),
    "last.safetensors": ("resume", "rehearse", "evaluate last", "sample last"),
    "best.safetensors": ("resume", "rehearse", "evaluate", "sample"),
    "summary.json": (),
}
"""Which command needs which file of a run."""


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("name", READ)
def test_a_damaged_file_of_a_run_is_refused_by_those_who_read_it_and_by_no_other(name: str, kind: str) -> None:
    path = Path("run", name)
    with replaced(path, DAMAGE[kind](path.read_bytes())):
        for command, arguments in COMMANDS.items():
            if command in READ[name]:
                found = refused(*arguments)
                assert "run" in found
                assert name in found or name.partition(".")[0] in found, found
            elif command != "resume" and kind in ("missing", "rubbish", "a folder"):
                assert call(*arguments).exit_code == 0
    goes_on()


@pytest.mark.parametrize("kind", [kind for kind in DAMAGE if kind != "a folder"])
def test_a_run_goes_on_without_its_summary_and_writes_another(kind: str, tmp_path: Path) -> None:
    shutil.copytree("run", tmp_path / "run")
    path = tmp_path / "run" / "summary.json"
    damage = DAMAGE[kind](path.read_bytes())
    path.unlink()
    if callable(damage):
        damage(path)
    elif damage is not None:
        path.write_bytes(damage)
    assert call("train", "--resume", str(tmp_path / "run"), *RESUME[3:]).exit_code == 0
    assert json.loads(path.read_text())["updates"] == 3


def test_a_run_whose_summary_is_a_folder_does_not_begin_to_go_on() -> None:
    with replaced("run/summary.json", a_folder):
        assert "summary.json is a folder" in refused(*RESUME)


@pytest.mark.parametrize(
    "run", ["nowhere", "text.txt", "void", "folder", "loop", "run/config.toml", "x" * 300, "a\0b", ""]
)
def test_a_folder_that_is_no_run_is_refused(run: str) -> None:
    for arguments in (
        ["train", "--resume", run], ["train", "--dry-run", "--resume", run], ["evaluate", run], ["sample", run],
        ["train", "text.txt", *STEPS, "--init-from", run], ["report", run], ["report", "run", run],
    ):  # fmt: skip
        if run or "--init-from" not in arguments:
            assert "is not a run folder" in refused(*arguments)


@pytest.mark.parametrize("name", [name for name in READ if name != "summary.json"])
def test_a_run_that_was_made_of_two_is_refused(name: str, tmp_path: Path) -> None:
    """Every file of a run of another network, on another text."""
    tiny_train(tmp_path, "other", text=Path("foreign.txt"), hidden=3, sequence_length=5, updates=1, dtype="float64")
    with replaced(Path("run", name), (tmp_path / "other" / name).read_bytes()):
        refused(*RESUME)
        for arguments in ([], ["--which", "last"]):
            if name in ("config.toml", "vocabulary.json"):
                refused("evaluate", "run", "text.txt", *arguments)
                refused("sample", "run", *arguments)


def test_the_vocabulary_of_another_text_with_as_many_symbols_is_refused(tmp_path: Path) -> None:
    swapped = TEXT.replace("q", "Q")
    assert len(set(swapped)) == len(set(TEXT))
    tiny_train(tmp_path, "other", text=text_file(tmp_path, swapped))
    with replaced("run/vocabulary.json", (tmp_path / "other" / "vocabulary.json").read_bytes()):
        for arguments in COMMANDS.values():
            assert "vocabulary" in refused(*arguments)


def test_the_checkpoint_of_a_run_of_the_same_network_on_other_sequences_is_refused(tmp_path: Path) -> None:
    tiny_train(tmp_path, "other", text=Path("text.txt").absolute(), sequence_length=12)
    with replaced("run/last.safetensors", (tmp_path / "other" / "last.safetensors").read_bytes()):
        refused(*RESUME)


@pytest.mark.parametrize("change", ["missing", "longer", "other", "empty", "folder"])
def test_a_text_that_has_changed_is_refused(change: str, tmp_path: Path) -> None:
    tiny_train(tmp_path)
    content = {"longer": TEXT + "!", "other": TEXT.replace("fox", "dog"), "empty": ""}.get(change)
    (tmp_path / "text.txt").unlink()
    if content is not None:
        text_file(tmp_path, content)
    elif change == "folder":
        (tmp_path / "text.txt").mkdir()
    for arguments in (["train", "--resume", str(tmp_path / "run"), *RESUME[3:]], ["evaluate", str(tmp_path / "run")]):
        before = snapshot(tmp_path)
        assert "text.txt" in refused(*arguments)
        assert snapshot(tmp_path) == before


# ------------------------------------------------------------------ checkpoints


def test_a_checkpoint_that_is_cut_anywhere_is_refused() -> None:
    for name, arguments in (("last", RESUME), ("best", ["evaluate", "run"])):
        content = Path(f"run/{name}.safetensors").read_bytes()
        header = 8 + int.from_bytes(content[:8], "little")
        places = {1, 4, 7, 8, 9, 40, header - 1, header, header + 1, len(content) - 1}
        places |= set(range(100, len(content), len(content) // 12))
        for place in sorted(places):
            with replaced(f"run/{name}.safetensors", content[:place]):
                assert f"{name}.safetensors" in refused(*arguments)
    goes_on()


def test_a_checkpoint_with_a_flipped_bit_is_refused_or_means_the_same() -> None:
    content = Path("run/best.safetensors").read_bytes()
    expected = call("evaluate", "run", "--json").stdout
    places = [*range(12), *range(12, len(content), len(content) // 60), len(content) - 1]
    bits = itertools.cycle(range(8))
    refusals = 0
    for place, bit in zip(places, bits, strict=False):
        damaged = bytearray(content)
        damaged[place] ^= 1 << bit
        with replaced("run/best.safetensors", bytes(damaged)):
            result = call("evaluate", "run", "--json")
            assert result.exit_code == 2 or result.stdout == expected, place
            refusals += result.exit_code == 2
    assert refusals >= len(places) - 2


def sealed(version: str, meta: str, arrays: dict[str, Any], form: str = "hfrnn-checkpoint") -> bytes:
    """A file whose checksum is right, whatever it says."""
    digest = hashlib.sha256(json.dumps(["hfrnn-checkpoint", version, meta]).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.name, array.shape]).encode())
        digest.update(array.reshape(-1).data)
    metadata = {"format": form, "version": version, "meta": meta, "sha256": digest.hexdigest()}
    return bytes(safetensors_bytes(arrays, metadata=metadata))


def with_theta(
    change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]], name: str = "theta"
) -> Callable[[Any, Any], bytes]:
    return lambda arrays, meta: checkpoint_bytes({**arrays, name: change(arrays[name])}, meta)


def with_meta(**changes: Any) -> Callable[[Any, Any], bytes]:
    return lambda arrays, meta: checkpoint_bytes(arrays, {**meta, **changes})


def without(*names: str) -> Callable[[Any, Any], bytes]:
    return lambda arrays, meta: checkpoint_bytes(
        {key: value for key, value in arrays.items() if key not in names},
        {key: value for key, value in meta.items() if key not in names},
    )


def with_entry(value: float) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    def change(theta: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        theta = theta.copy()
        theta[5] = value
        return theta

    return change


def header_of(length: int, text: bytes) -> bytes:
    return length.to_bytes(8, "little") + text


FORGED: dict[str, Callable[[Any, Any], bytes]] = {  # refused by whoever reads them
    "foreign safetensors": lambda arrays, meta: safetensors_bytes(arrays),
    "foreign metadata": lambda arrays, meta: safetensors_bytes(arrays, metadata={"format": "pt"}),
    "another format": lambda arrays, meta: sealed("1", json.dumps(meta), arrays, "other"),
    "a newer version": lambda arrays, meta: sealed("2", json.dumps(meta), arrays),
    "no version": lambda arrays, meta: sealed("", json.dumps(meta), arrays),
    "meta is no JSON": lambda arrays, meta: sealed("1", "{", arrays),
    "meta is a list": lambda arrays, meta: sealed("1", "[]", arrays),
    "meta is null": lambda arrays, meta: sealed("1", "null", arrays),
    "meta is nested too deeply": lambda arrays, meta: sealed("1", "[" * 100_000, arrays),
    "a header longer than the file": lambda arrays, meta: header_of(10**6, b"{}"),
    "a header of 2^64 bytes": lambda arrays, meta: header_of(2**64 - 1, b"{}"),
    "a header that is empty": lambda arrays, meta: header_of(0, b""),
    "a header that is no JSON": lambda arrays, meta: header_of(5, b"{abc}"),
    "a header that is a list": lambda arrays, meta: header_of(2, b"[]"),
    "a header that is a number": lambda arrays, meta: header_of(1, b"7"),
    "a header with a list of metadata": lambda arrays, meta: header_of(19, b'{"__metadata__":[]}'),
    "a header nested too deeply": lambda arrays, meta: header_of(100_000, b"[" * 100_000),
    "no parameters": without("theta"),
    "no arrays": lambda arrays, meta: sealed("1", json.dumps(meta), {}),
    "a parameter less": with_theta(lambda theta: theta[:-1]),
    "a parameter more": with_theta(lambda theta: np.append(theta, theta[:1])),
    "parameters as a column": with_theta(lambda theta: theta[:, None]),
    "parameters as a number": with_theta(lambda theta: theta[0]),
    "parameters in double precision": with_theta(lambda theta: theta.astype(np.float64)),
    "parameters in half precision": with_theta(lambda theta: theta.astype(np.float16)),
    "whole parameters": with_theta(lambda theta: theta.astype(np.int32)),
    "Boolean parameters": with_theta(lambda theta: theta > 0),
    "a parameter that is NaN": with_theta(with_entry(np.nan)),
    "an infinite parameter": with_theta(with_entry(-np.inf)),
    "a parameter less in the average": with_theta(lambda theta: theta[:-1], "method.average"),
    "an average in double precision": with_theta(lambda theta: theta.astype(np.float64), "method.average"),
    "an average that is NaN": with_theta(with_entry(np.nan), "method.average"),
}
FORGED_NETWORKS: dict[str, Callable[[Any, Any], bytes]] = {  # read by evaluate and sample
    "no network": without("network"),
    "a network that is a list": with_meta(network=[1]),
    "a network without sizes": with_meta(network={}),
    "a network of another size": with_meta(network={"n_in": 3, "n_out": 3, "loss": "softmax"}),
    "a network of a size that is none": with_meta(network={"n_in": "many", "n_out": None, "loss": "softmax"}),
    "a network of a boundless size": with_meta(network={"n_in": 10**30, "n_out": 10**30, "loss": "softmax"}),
    "a network with another loss": with_meta(network={"n_in": 28, "n_out": 28, "loss": "hinge"}),
    "a network with classes that are none": with_meta(
        network={"n_in": 28, "n_out": 28, "loss": "class-softmax", "classes": ["a"] * 28}
    ),
    "a network with a class that is empty": with_meta(
        network={"n_in": 28, "n_out": 28, "loss": "class-softmax", "classes": [0] * 27 + [2]}
    ),
    "a network with too few classes": with_meta(
        network={"n_in": 28, "n_out": 28, "loss": "class-softmax", "classes": [0, 1]}
    ),
    "a network with an unknown option": with_meta(network={"n_in": 28, "n_out": 28, "loss": "softmax", "colour": 1}),
}
FORGED_STATES: dict[str, Callable[[Any, Any], bytes]] = {  # read by --resume
    **{f"no {name}": without(name) for name in ("update", "seconds", "symbols", "method", "best", "last", "plans")},
    "an update that is text": with_meta(update="two"),
    "an update that is infinite": with_meta(update=float("inf")),
    "an update that is NaN": with_meta(update=float("nan")),
    "an update below 0": with_meta(update=-1),
    "another update": with_meta(update=1),
    "a later update": with_meta(update=7),
    "an update that is null": with_meta(update=None),
    "seconds that are a list": with_meta(seconds=[]),
    "symbols that are an object": with_meta(symbols={}),
    "a method that is a list": with_meta(method=[]),
    "a method that is null": with_meta(method=None),
    "a method that is empty": with_meta(method={}),
    "a best that is a number": with_meta(best=3),
    "a best that is empty": with_meta(best={}),
    "a best that is a list": with_meta(best=[1]),
    "a last that is text": with_meta(last="x"),
    "plans that are a list": with_meta(plans=[]),
    "plans that are empty": with_meta(plans={}),
    "plans that are null": with_meta(plans=None),
    "plans without shards": with_meta(plans={"gradient": {}, "curvature": {}}),
    "plans of another batch": with_meta(
        plans={role: {"shards": [0, 3], "stretch": 10, "keep": "all", "slots": 1} for role in ("gradient", "curvature")}
    ),
    "plans that are text": with_meta(plans={"gradient": "fast", "curvature": "fast"}),
}
METHOD_STATES: dict[str, tuple[str, Any]] = {
    "a kind": ("kind", "heavy"),
    "a kind that is a number": ("kind", 3),
    "a mu that is text": ("mu", "x"),
    "a mu that is NaN": ("mu", float("nan")),
    "a mu below 0": ("mu", -1.0),
    "a mu that is a list": ("mu", [1]),
    "a sampler that is null": ("sampler", None),
    "a sampler that is a list": ("sampler", [1, 2]),
    "a sampler that is empty": ("sampler", {}),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_foreign_checkpoint_is_refused_though_its_checksum_is_right(case: str) -> None:
    arrays, meta = load_checkpoint("run/last.safetensors")
    for name in ("last.safetensors", "best.safetensors"):
        with replaced(f"run/{name}", FORGED[case](arrays, meta)):
            for command in READ[name]:
                assert "run" in refused(*COMMANDS[command])
    goes_on()


@pytest.mark.parametrize("case", FORGED_NETWORKS)
def test_a_checkpoint_with_another_network_is_refused_though_its_checksum_is_right(case: str) -> None:
    content = FORGED_NETWORKS[case](*load_checkpoint("run/best.safetensors"))
    with replaced("run/best.safetensors", content):
        assert re.search("checkpoint|class|loss", refused("evaluate", "run"))
        assert re.search("checkpoint|class|loss", refused("sample", "run"))


@pytest.mark.parametrize("case", FORGED_STATES)
def test_a_checkpoint_with_another_state_is_refused_though_its_checksum_is_right(case: str) -> None:
    content = FORGED_STATES[case](*load_checkpoint("run/last.safetensors"))
    with replaced("run/last.safetensors", content):
        assert "last.safetensors" in refused(*RESUME)


@pytest.mark.parametrize("case", METHOD_STATES)
def test_a_checkpoint_with_another_state_of_the_method_is_refused(case: str) -> None:
    arrays, meta = load_checkpoint("run/last.safetensors")
    key, value = METHOD_STATES[case]
    with replaced("run/last.safetensors", checkpoint_bytes(arrays, {**meta, "method": {**meta["method"], key: value}})):
        refused(*RESUME)


@pytest.mark.parametrize("change", ["missing", "short", "double", "column", "nan"])
def test_a_checkpoint_with_another_vector_of_the_method_is_refused(change: str) -> None:
    arrays, meta = load_checkpoint("run/last.safetensors")
    key = "method.cg_solution"
    vector = arrays.pop(key)
    if change != "missing":
        arrays[key] = {
            "short": vector[:-1], "double": vector.astype(np.float64), "column": vector[:, None],
            "nan": np.full_like(vector, np.nan),
        }[change]  # fmt: skip
    with replaced("run/last.safetensors", checkpoint_bytes(arrays, meta)):
        refused(*RESUME)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("sgd", {"arch": "rnn", "streams": 4}),
        ("adam", {"arch": "lstm", "streams": 4}),
        ("online", {"arch": "lstm-krause", "streams": 2, "sequence_length": 50}),
    ],
)
def test_every_array_of_a_method_is_needed_as_it_was(method: str, options: dict[str, Any], tmp_path: Path) -> None:
    tiny_train(tmp_path, optimizer=method, gradient_symbols=100_000, **options)
    path = tmp_path / "run" / "last.safetensors"
    whole, (arrays, meta) = path.read_bytes(), load_checkpoint(path)
    resume = ["train", "--resume", str(tmp_path / "run"), *RESUME[3:]]
    names = [name for name in arrays if name.startswith("method.")]
    assert names
    for name in names:
        value = arrays[name]
        for damaged in (None, value[:-1], value[None], value.astype(np.float64), np.full_like(value, np.nan)):
            others = {key: array for key, array in arrays.items() if key != name}
            path.write_bytes(checkpoint_bytes(others if damaged is None else {**others, name: damaged}, meta))
            before = snapshot(tmp_path)
            assert "last.safetensors" in refused(*resume)
            assert snapshot(tmp_path) == before
    path.write_bytes(whole)
    assert call(*resume).exit_code == 0


@pytest.mark.parametrize("name", ["config.toml", "last.safetensors", "best.safetensors"])
def test_a_damaged_run_on_a_task_is_refused(name: str, tmp_path: Path) -> None:
    run = shutil.copytree("task", tmp_path / "task")
    content = (run / name).read_bytes()
    which = ["--which", "last"] if name.startswith("last") else []
    for damaged in (b"", content[:50], content[:-9], content.replace(b"a", b"b"), None):
        (run / name).unlink()
        if damaged is not None:
            (run / name).write_bytes(damaged)
        before = snapshot(run)
        for arguments in (["evaluate", str(run), *which], ["train", "--resume", str(run), "--updates", "3"]):
            refused(*arguments)
        assert snapshot(run) == before
        (run / name).write_bytes(content)
    assert call("train", "--resume", str(run), "--updates", "3").exit_code == 0


def test_a_network_whose_weights_make_it_overflow_says_so() -> None:
    arrays, meta = load_checkpoint("run/best.safetensors")
    huge = with_theta(lambda theta: np.full_like(theta, 3e38), "method.average")
    with replaced("run/best.safetensors", huge(arrays, meta)):
        assert "not finite" in refused("evaluate", "run", code=1)
        assert "not finite" in refused("sample", "run", code=1)


# ------------------------------------------------------------------ vocabularies


def sealed_vocabulary(**changes: Any) -> bytes:
    """The run's vocabulary with changes and a checksum that is right."""
    content = {**json.loads(Path("run/vocabulary.json").read_bytes()), **changes}
    content = {key: value for key, value in content.items() if key != "sha256" and value != "leave out"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return json.dumps({**content, "sha256": digest}).encode()


def symbols_of_run() -> list[str]:
    found: list[str] = json.loads(Path("run/vocabulary.json").read_bytes())["symbols"]
    return found


VOCABULARIES: dict[str, Callable[[], bytes]] = {
    "a symbol less": lambda: sealed_vocabulary(symbols=symbols_of_run()[:-1], size=27),
    "a symbol more": lambda: sealed_vocabulary(symbols=[*symbols_of_run(), "é"], size=29),
    "another symbol": lambda: sealed_vocabulary(symbols=[*symbols_of_run()[:-1], "é"]),
    "another size": lambda: sealed_vocabulary(size=5),
    "a symbol twice": lambda: sealed_vocabulary(symbols=[*symbols_of_run()[:-1], symbols_of_run()[-2]]),
    "symbols out of order": lambda: sealed_vocabulary(symbols=symbols_of_run()[::-1]),
    "no symbols": lambda: sealed_vocabulary(symbols=[], size=0),
    "symbols of two characters": lambda: sealed_vocabulary(symbols=["ab"] * 28),
    "symbols that are numbers": lambda: sealed_vocabulary(symbols=list(range(28))),
    "symbols that are null": lambda: sealed_vocabulary(symbols=None),
    "symbols that are text": lambda: sealed_vocabulary(symbols="".join(symbols_of_run())),
    "symbols that are an object": lambda: sealed_vocabulary(symbols=dict.fromkeys(symbols_of_run(), 1)),
    "symbols that are left out": lambda: sealed_vocabulary(symbols="leave out"),
    "bytes": lambda: sealed_vocabulary(level="byte", symbols=list(range(28))),
    "bytes that are fractions": lambda: sealed_vocabulary(level="byte", symbols=[n + 0.5 for n in range(28)]),
    "bytes that are Booleans": lambda: sealed_vocabulary(level="byte", symbols=[False, True], size=2),
    "bytes above 255": lambda: sealed_vocabulary(level="byte", symbols=list(range(240, 268))),
    "words": lambda: sealed_vocabulary(level="word", symbols=[f"w{n}" for n in range(28)]),
    "words that are numbers": lambda: sealed_vocabulary(level="word", symbols=list(range(28))),
    "words with blanks": lambda: sealed_vocabulary(level="word", symbols=[f"w {n}" for n in range(28)]),
    "a word twice": lambda: sealed_vocabulary(level="word", symbols=["w"] * 28),
    "a level that is not known": lambda: sealed_vocabulary(level="verse"),
    "a level that is a list": lambda: sealed_vocabulary(level=["char"]),
    "a level that is left out": lambda: sealed_vocabulary(level="leave out"),
    "another version": lambda: sealed_vocabulary(version=2),
    "a version that is left out": lambda: sealed_vocabulary(version="leave out"),
    "another format": lambda: sealed_vocabulary(format="other"),
    "a wrong checksum": lambda: sealed_vocabulary().replace(b'"T"', b'"U"'),
    "a number without end": lambda: sealed_vocabulary().replace(b'"size": 28', b'"size": ' + b"9" * 5000),
}  # fmt: skip


@pytest.mark.parametrize("case", VOCABULARIES)
def test_a_foreign_vocabulary_is_refused_though_its_checksum_is_right(case: str) -> None:
    with replaced("run/vocabulary.json", VOCABULARIES[case]()):
        for arguments in (*COMMANDS.values(), ["evaluate", "run", "text.txt"]):
            assert "vocabulary" in refused(*arguments)
    goes_on()


# ------------------------------------------------------------------ logs


def log_of_run() -> list[bytes]:
    return Path("run/metrics.jsonl").read_bytes().splitlines(keepends=True)


LOGS: dict[str, Callable[[], list[bytes]]] = {
    "a line less": lambda: log_of_run()[:1],
    "only the last line": lambda: log_of_run()[1:] * 2,
    "lines out of order": lambda: log_of_run()[::-1],
    "a line twice": lambda: [log_of_run()[0], *log_of_run()],
    "an empty line between": lambda: [log_of_run()[0], b"\n", log_of_run()[1]],
    "rubbish between": lambda: [log_of_run()[0], b"\xff\x00rubbish\n", log_of_run()[1]],
    "rubbish behind": lambda: [*log_of_run(), b"rubbish\n"],
    "half a line between": lambda: [log_of_run()[0][:40] + b"\n", log_of_run()[1]],
    "a line cut off": lambda: [log_of_run()[0], log_of_run()[1][:-20]],
    "an update that is text": lambda: [b'{"update": "1"}\n', log_of_run()[1]],
    "an update that is null": lambda: [b'{"update": null}\n', log_of_run()[1]],
    "an update that is a list": lambda: [b'{"update": [1]}\n', log_of_run()[1]],
    "an update that is NaN": lambda: [b'{"update": NaN}\n', log_of_run()[1]],
    "an update that is a fraction": lambda: [b'{"update": 1.5}\n', log_of_run()[1]],
    "an update that is true": lambda: [b'{"update": true}\n', log_of_run()[1]],
    "an update below 0": lambda: [b'{"update": -1}\n', log_of_run()[1]],
    "an update without end": lambda: [b'{"update": ' + b"9" * 5000 + b"}\n", log_of_run()[1]],
    "no update": lambda: [b'{"seconds": 1}\n', log_of_run()[1]],
    "a list": lambda: [b"[1]\n", log_of_run()[1]],
    "text": lambda: [b'"update"\n', log_of_run()[1]],
    "nested too deeply": lambda: [b"[" * 100_000 + b"\n", log_of_run()[1]],
}


@pytest.mark.parametrize("case", LOGS)
def test_a_damaged_log_is_refused(case: str) -> None:
    with replaced("run/metrics.jsonl", b"".join(LOGS[case]())):
        assert "run/metrics.jsonl is damaged" in refused(*RESUME)
    goes_on()


def test_what_a_killed_process_wrote_behind_the_log_is_cut_off(tmp_path: Path) -> None:
    for n, more in enumerate((b'{"upd', b'{"update": 3}\n', b'{"update": 3}\n{"upd', b"\xff")):
        copy = shutil.copytree("run", tmp_path / str(n))
        with (copy / "metrics.jsonl").open("ab") as file:
            file.write(more)
        assert call("train", "--resume", str(copy), *RESUME[3:]).exit_code == 0
        assert [json.loads(line)["update"] for line in (copy / "metrics.jsonl").read_text().splitlines()] == [1, 2, 3]


# ------------------------------------------------------------------ music, tasks, kernels, and the other commands


def music(**changes: Any) -> bytes:
    """A small collection of music with some arrays changed, or left out for None."""
    arrays: dict[str, Any] = {}
    for part in ("train", "valid", "test"):
        arrays |= {f"{part}_packed": np.ones((6, 11), np.uint8), f"{part}_lengths": np.array([4, 2])}
    return stored(**{name: value for name, value in {**arrays, **changes}.items() if value is not None})


def not_an_array() -> bytes:
    """An archive of the right names, one of which holds something else."""
    import zipfile

    file = io.BytesIO(music())
    names = [name for name in zipfile.ZipFile(file).namelist() if name.startswith("train_packed")]
    out = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            new.writestr(name, b"not an array" if name in names else old.read(name))
    return out.getvalue()


MUSIC: dict[str, Callable[[], bytes | Callable[[Path], object] | None]] = {
    "missing": lambda: None,
    "a folder": lambda: a_folder,
    "a loop": lambda: a_loop,
    "empty": lambda: b"",
    "rubbish": lambda: b"rubbish",
    "half of it": lambda: music()[:500],
    "all but the end": lambda: music()[:-30],
    "a flipped bit": lambda: bytes(byte ^ (index == 200) for index, byte in enumerate(music())),
    "a single array": lambda: _saved(np.zeros(3)),
    "objects": lambda: music(train_lengths=np.array([4, 2], object)),
    "no training part": lambda: music(train_packed=None),
    "no lengths": lambda: music(valid_lengths=None),
    "something that is no array": not_an_array,
    "other keys": lambda: music(test_packed=np.ones((6, 10), np.uint8)),
    "flat": lambda: music(train_packed=np.ones(66, np.uint8)),
    "a dimension more": lambda: music(train_packed=np.ones((6, 11, 1), np.uint8)),
    "keys as numbers": lambda: music(train_packed=np.ones((6, 11), np.float32)),
    "lengths that are fractions": lambda: music(train_lengths=np.array([4.0, 2.0])),
    "lengths that are text": lambda: music(train_lengths=np.array(["4", "2"])),
    "lengths as a table": lambda: music(train_lengths=np.array([[4, 2]])),
    "a length of 0": lambda: music(train_lengths=np.array([6, 0])),
    "a length below 0": lambda: music(train_lengths=np.array([8, -2])),
    "no pieces": lambda: music(valid_packed=np.ones((0, 11), np.uint8), valid_lengths=np.array([], int)),
    "lengths that do not add up": lambda: music(train_lengths=np.array([4, 3])),
    "lengths that overflow": lambda: music(train_lengths=np.array([2**63 + 4, 2**63 + 2], np.uint64)),
}


def _saved(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("case", MUSIC)
def test_damaged_music_is_refused(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HFRNN_DATA", "music")
    Path("music/jsb").mkdir(parents=True, exist_ok=True)
    with replaced("music/jsb/jsb.npz", MUSIC[case]()):
        for command in (["train"], ["train", "--dry-run"]):
            assert "jsb" in refused(*command, "--data", "jsb", "--hidden", "4", "--arch", "rnn")


def test_a_run_on_music_that_has_changed_or_gone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HFRNN_DATA", "music")
    Path("music/jsb").mkdir(parents=True, exist_ok=True)
    with replaced("music/jsb/jsb.npz", music()):
        tiny_train(tmp_path, text=None, data="jsb", arch="rnn", sequence_length=50, gradient_symbols=100_000)
        resume = ["train", "--resume", str(tmp_path / "run"), "--updates", "3"]
        assert call("evaluate", str(tmp_path / "run"), "--part", "test").exit_code == 0
    before = snapshot(tmp_path)
    for content in (None, b"rubbish", music(test_packed=np.zeros((6, 11), np.uint8))):
        with replaced("music/jsb/jsb.npz", content):
            refused(*resume)
            if content is None or len(content) < 10:
                refused("evaluate", str(tmp_path / "run"))
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "task", ["addition", "multiplication", "xor", "marked-addition", "temporal-order", "temporal-order-3bit",
             "random-permutation", "memorization-5bit", "memorization-20bit"],
)  # fmt: skip
def test_a_task_that_is_too_short_or_too_long_is_refused(task: str) -> None:
    for length in ("0", "-7", str(10**12)):
        found = refused("train", "--data", task, "--length", length, "--hidden", "4", "--arch", "rnn")
        assert "length" in found


KERNELS: dict[str, tuple[bytes | Callable[[Path], object] | None, str]] = {
    "missing": (None, "FileNotFoundError"),
    "a folder": (a_folder, "IsADirectoryError"),
    "a loop": (a_loop, "OSError"),
    "empty": (b"", "registers no architecture"),
    "a syntax error": (b"def", "SyntaxError"),
    "a NUL byte": (b"a = 1\0", "cannot be run"),
    "not UTF-8": (b"a = '\xe9'", "SyntaxError"),
    "an exception": (b"1/0", "ZeroDivisionError"),
    "an exception of two lines": (b"raise ValueError('one\\ntwo')", "one two"),
    "an import that fails": (b"import nothing_of_that_name", "ModuleNotFoundError"),
    "a name that is taken": (b"import hfrnn\nhfrnn.register_kernel('rnn', int)", "registered already"),
    "recursion": (b"def f():\n    f()\nf()", "RecursionError"),
}


@pytest.mark.parametrize("case", KERNELS)
def test_a_kernel_file_that_does_not_register_an_architecture_is_refused(case: str) -> None:
    content, words = KERNELS[case]
    with replaced("mine.py", content):
        for arguments in (["train", "text.txt", *STEPS], ["gradcheck", "rnn"], ["info"], ["evaluate", "run"]):
            found = refused("--kernel", "mine.py", *arguments)
            assert "mine.py" in found
            assert words in found


def test_a_kernel_file_that_is_no_python_is_refused() -> None:
    assert "name ends in .py" in refused("--kernel", "text.txt", "info")
    assert "folder" in refused("--kernel", "folder", "info")


OTHERS: dict[str, tuple[list[str], str]] = {
    "no command": (["dance"], "dance"),
    "no such flag": (["train", "text.txt", "--hiden", "3"], "--hiden"),
    "two texts": (["train", "text.txt", "other.txt"], "other.txt"),
    "a name for a file": (["train", "addition"], "--data addition"),
    "a file for a name": (["train", "--data", "text.txt"], "write it without --data"),
    "text and corpus": (["train", "text.txt", "--data", "python-manual"], "give one of them"),
    "text and task": (["train", "text.txt", "--data", "addition"], "give one of them"),
    "no HFRNN_DATA": (["train", "--data", "jsb"], "jsb is not there"),
    "resume another text": (["train", "other.txt", "--resume", "run"], "keeps its text"),
    "resume another network": (["train", "--resume", "run", "--hidden", "5"], "keeps its hidden"),
    "rehearse another network": (["train", "--resume", "run", "--hidden", "5", "--dry-run"], "keeps its hidden"),
    "resume elsewhere": (["train", "--resume", "run", "--out", "new"], "keeps its out"),
    "resume without threads": (["train", "--resume", "run", "--threads", "0"], "--threads is 0"),
    "resume with a bad plan": (["train", "--resume", "run", "--checkpoint", "some"], "--checkpoint is 'some'"),
    "resume without memory": (["train", "--resume", "run", "--memory", "10kB"], "the budget is"),
    "evaluate nothing": (["evaluate"], "RUN"),
    "report nothing": (["report"], "RUN"),
    "report into a folder": (["report", "run", "-o", "folder"], "folder is a folder"),
    "report over a text": (["report", "run", "-o", "text.txt"], "text.txt exists and is not an .html file"),
    "report a run twice": (["report", "run", "task", "./run"], "./run was given twice"),
    "evaluate too much": (["evaluate", "run", "text.txt", "other.txt"], "other.txt"),
    "a part that is not known": (["evaluate", "run", "--part", "middle"], "'middle' is not one of"),
    "a part that is empty": (["evaluate", "run", "--part", "test"], "no test part"),
    "a part and a text": (["evaluate", "run", "text.txt", "--part", "valid"], "not both"),
    "a part of a task": (["evaluate", "task", "--part", "test"], "leave --part out"),
    "unknown symbols of a task": (["evaluate", "task", "--unknown", "skip"], "leave --unknown out"),
    "a text for a task": (["evaluate", "task", "text.txt"], "leave text.txt out"),
    "unknown symbols become two": (["evaluate", "run", "foreign.txt", "--unknown", "ab"], "cannot become 'ab'"),
    "unknown symbols become unknown": (["evaluate", "run", "foreign.txt", "--unknown", "é"], "cannot become 'é'"),
    "a state that is not known": (["evaluate", "run", "--which", "first"], "first"),
    "another state that is not known": (["evaluate", "run", "--which", "update-7"], "update-7"),
    "a state that is a path": (["evaluate", "run", "--which", "../run/best"], "../run/best"),
    "a backend that is not known": (["evaluate", "run", "--backend", "abacus"], "abacus"),
    "a sample of a task": (["sample", "task"], "not trained on a text"),
    "length": (["sample", "run", "--length", "-1"], "length is -1"),
    "length is text": (["sample", "run", "--length", "long"], "long"),
    "temperature": (["sample", "run", "--temperature", "-1"], "temperature is -1"),
    "temperature is NaN": (["sample", "run", "--temperature", "nan"], "temperature is nan"),
    "temperature is infinite": (["sample", "run", "--temperature", "inf"], "temperature is inf"),
    "temperature overflows": (["sample", "run", "--temperature", "1e999"], "temperature is inf"),
    "temperature is text": (["sample", "run", "--temperature", "hot"], "hot"),
    "top-k": (["sample", "run", "--top-k", "0"], "top-k is 0"),
    "top-k below 0": (["sample", "run", "--top-k", "-2"], "top-k is -2"),
    "seed": (["sample", "run", "--seed", "-1"], "seed is -1"),
    "seed is a fraction": (["sample", "run", "--seed", "1.5"], "1.5"),
    "prime": (["sample", "run", "--prime", "The é"], "1 symbol .*'é' (1 time)"),
    "prime not UTF-8": (["sample", "run", "--prime", "\udce9"], r"'\udce9'"),
    "prime skipped": (["sample", "run", "--prime", "é", "--unknown", "skip"], "empty"),
    "prime becomes two": (["sample", "run", "--prime", "é", "--unknown", "ab"], "cannot become 'ab'"),
    "nothing allowed": (["sample", "run", "--allowed", ""], "allow at least one"),
    "unknown allowed": (["sample", "run", "--allowed", "abé"], "does not know every symbol of it"),
    "gradcheck": (["gradcheck", "tnn"], "'tnn' is not known"),
    "gradcheck nothing": (["gradcheck", ""], "'' is not known"),
    "gradcheck seed": (["gradcheck", "rnn", "--seed", "-1"], "--seed is -1"),
    "gradcheck seed is text": (["gradcheck", "rnn", "--seed", "x"], "'x'"),
    "info": (["info", "everything"], "everything"),
    "info flag": (["info", "--yaml"], "--yaml"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_wrong_arguments_are_refused(case: str) -> None:
    arguments, words = OTHERS[case]
    flags = STEPS if arguments[0] == "train" and "--resume" not in arguments and "--data" not in arguments else []
    found = refused(*arguments, *flags)
    assert all(part in found for part in words.split(" .*")), found


@pytest.mark.parametrize("folder", ["nowhere", "text.txt", "void", "loop", "music"])
def test_a_data_folder_without_the_corpus_is_refused(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HFRNN_DATA", folder)
    for name in ("jsb", "ptb", "text8", "tinyshakespeare", "wikitext-2"):
        assert name in refused("train", "--data", name)


def test_a_damaged_corpus_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    for number, content in enumerate((b"", b"caf\xe9" * 9, None)):
        file = tmp_path / "tinyshakespeare" / "tinyshakespeare.txt"
        shutil.rmtree(file.parent, ignore_errors=True)
        file.parent.mkdir()
        file.mkdir() if content is None else file.write_bytes(content)
        words = ("is empty", "byte 0xe9", "is a folder")[number]
        assert words in refused("train", "--data", "tinyshakespeare", *STEPS)


def test_weights_of_a_batch_that_are_not_finite_are_refused() -> None:
    symbols = np.zeros((3, 2), np.int32)
    with pytest.raises(InputError, match="sum to infinity"):
        Objective(Network("rnn", 2, 3, 2), Batch(symbols, symbols, np.full((3, 2), np.inf)))


def test_a_part_of_a_task_is_refused_in_python_too() -> None:
    net, theta, _ = load("task")
    config = RunFolder("task").config()
    with pytest.raises(InputError, match="addition has no parts"):
        evaluate_sequences(net, theta, config, "test")
    with pytest.raises(InputError, match="'middle' is not known"):
        evaluate_sequences(net, theta, dataclasses.replace(config, data="jsb"), "middle")


# ------------------------------------------------------------------ in a process of its own


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["train", "latin1.txt"], 2, "byte 0xe9"),
        (["train", "text.txt", "--hidden", "0"], 2, "0"),
        (["train", "text.txt", "--config", "latin1.txt"], 2, "is not TOML"),
        (["evaluate", "folder"], 2, "not a run folder"),
        (["--kernel", "text.txt", "info"], 2, "no Python file"),
    ],
)
def test_a_process_ends_with_one_sentence_and_its_exit_code(arguments: list[str], code: int, words: str) -> None:
    before = snapshot(Path())
    done = subprocess.run([sys.executable, "-m", "hfrnn", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert words in sentence_of(done.stderr)
    assert done.stdout == ""
    assert snapshot(Path()) == before


# ------------------------------------------------------------------ damage that nobody thought of

RUN_FILES = sorted(READ)


def survives(path: str, content: bytes) -> None:
    """Whatever a file of the run holds: a sentence and everything as it was, or what the whole file gives."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree("run", Path(folder, "run"))
        (copy / path).write_bytes(content)
        for arguments in (["evaluate", str(copy), "--json"], ["train", "--resume", str(copy), *RESUME[3:]]):
            before = snapshot(copy)
            result = call(*arguments)
            assert result.exit_code in (0, 2), result.output
            if result.exit_code == 2:
                sentence_of(result.stderr)
                assert snapshot(copy) == before
            elif arguments[0] == "evaluate" and path != "config.toml":
                assert result.stdout == call("evaluate", "run", "--json").stdout


@given(st.sampled_from(RUN_FILES), st.floats(0, 1), st.binary(min_size=1, max_size=40), st.integers(0, 40))
def test_bytes_spliced_into_a_file_of_a_run_are_survived(path: str, where: float, spliced: bytes, gone: int) -> None:
    content = Path("run", path).read_bytes()
    place = int(where * len(content))
    survives(path, content[:place] + spliced + content[place + gone :])


@given(st.sampled_from(RUN_FILES), st.floats(0, 1), st.floats(0, 1))
def test_a_file_of_a_run_with_a_hole_is_survived(path: str, first: float, second: float) -> None:
    content = Path("run", path).read_bytes()
    start, stop = sorted(int(share * len(content)) for share in (first, second))
    survives(path, content[:start] + content[stop:])


json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.text(max_size=5),
        st.sampled_from([-1, 0, 1, 2**31, 2**63, 10**30, -0.5, 1e308, float("inf"), float("nan")]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=4,
)  # fmt: skip


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there is something in a JSON value."""
    yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(min(len(value), 3)):
            yield from places(value[key], (*at, key))


def put(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    """The value with something else at a place."""
    if not at:
        return new
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[at[0]] = put(value[at[0]], at[1:], new)
    return changed


@given(st.data(), json_values)
def test_a_vocabulary_with_other_json_is_survived(data: st.DataObject, new: Any) -> None:
    content = json.loads(Path("run/vocabulary.json").read_bytes())
    changed = put(content, data.draw(st.sampled_from(list(places(content)))), new)
    if isinstance(changed, dict) and data.draw(st.booleans()):
        plain = {key: value for key, value in changed.items() if key != "sha256"}
        changed["sha256"] = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    survives("vocabulary.json", json.dumps(changed).encode())


@given(st.data(), json_values)
def test_a_log_with_other_json_is_survived(data: st.DataObject, new: Any) -> None:
    lines = log_of_run()
    number = data.draw(st.integers(0, 1))
    record = json.loads(lines[number])
    lines[number] = json.dumps(put(record, data.draw(st.sampled_from(list(places(record)))), new)).encode() + b"\n"
    survives("metrics.jsonl", b"".join(lines))


@given(st.data(), json_values)
def test_a_checkpoint_with_another_description_is_survived(data: st.DataObject, new: Any) -> None:
    name = data.draw(st.sampled_from(["last.safetensors", "best.safetensors"]))
    arrays, meta = load_checkpoint(f"run/{name}")
    changed = put(meta, data.draw(st.sampled_from(list(places(meta)))), new)
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree("run", Path(folder, "run"))
        (copy / name).write_bytes(sealed("1", json.dumps(changed), arrays))
        for arguments in (["evaluate", str(copy), "--which", name.partition(".")[0]], ["sample", str(copy)]):
            assert call(*arguments).exit_code in (0, 2)
        assert call("train", "--resume", str(copy), *RESUME[3:]).exit_code in (0, 2)


toml_values = st.one_of(
    st.booleans(), st.sampled_from([-1, 0, 1, 3, 2**31, 2**63 - 1, -0.5, 0.5, 1e308, float("inf"), float("nan")]),
    st.text(max_size=5), st.lists(st.integers(-1, 3), max_size=3),
    st.sampled_from(["mlstm", "rnn", "sgd", "none", "float64", "word", "addition", "text.txt", "hidden", "all"]),
)  # fmt: skip


@given(st.sampled_from([name for name in FIELDS if name != "backend"]), toml_values)
def test_a_run_with_another_option_in_its_configuration_is_survived(name: str, new: Any) -> None:
    content = tomllib.loads(Path("run/config.toml").read_text())
    survives("config.toml", tomli_w.dumps({**content, option_key(name): new}).encode())


@given(st.dictionaries(st.sampled_from(sorted(map(option_key, FIELDS))), toml_values, min_size=1, max_size=4))
def test_a_configuration_of_any_options_is_survived(options: dict[str, Any]) -> None:
    with replaced("options.toml", tomli_w.dumps(options).encode()):
        before = snapshot(Path())
        result = call("train", "--config", "options.toml", "--dry-run", *STEPS)
        assert result.exit_code in (0, 2), result.output
        assert snapshot(Path()) == before


@given(st.binary(min_size=1, max_size=300), st.sampled_from(["char", "byte", "word"]))
def test_a_text_of_any_bytes_is_survived(content: bytes, level: str) -> None:
    with replaced("any.txt", content):
        for arguments in (
            ["train", "any.txt", "--level", level, "--hidden", "4", "--sequence-length", "3", "--dry-run"],
            ["evaluate", "run", "any.txt", "--unknown", "skip"],
        ):
            result = call(*arguments)
            assert result.exit_code in (0, 2), result.output
            if result.exit_code == 2:
                sentence_of(result.stderr)


@given(st.floats(0, 1), st.binary(min_size=1, max_size=20), st.integers(0, 20))
def test_music_with_spliced_bytes_is_survived(where: float, spliced: bytes, gone: int) -> None:
    content, place = music(), int(where * len(music()))
    Path("music/jsb").mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HFRNN_DATA", "music")
        with replaced("music/jsb/jsb.npz", content[:place] + spliced + content[place + gone :]):
            result = call("train", "--data", "jsb", "--arch", "rnn", "--hidden", "4", "--dry-run")
            assert result.exit_code in (0, 2), result.output
