"""Bad input to the command line: one sentence, exit code 2, and nothing on the disk is touched."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.tiny_runs import FLAGS, TEXT, snapshot, text_file, tiny_train

from hfrnn.cli import main

STEPS = ["--sequence-length", "10"]
TRAIN: dict[str, tuple[list[str], str]] = {
    "missing file": (["train", "nowhere.txt"], "nowhere.txt; give the path"),
    "a folder": (["train", "folder"], "folder is a folder"),
    "empty file": (["train", "empty.txt"], "empty.txt is empty"),
    "undecodable": (["train", "latin1.txt"], "byte 0xe9 at offset 3"),
    "too short": (["train", "short.txt"], "9 symbols; sequences of 10 need at least 11"),
    "no fractions": (["train", "text.txt", "--fractions", "a,b"], "--fractions"),
    "fractions": (["train", "text.txt", "--fractions", "0.5,0.5,0.5"], "sum to 1"),
    "missing validation": (["train", "text.txt", "--valid", "nowhere.txt"], "nowhere.txt; give the path"),
    "missing test": (["train", "text.txt", "--test", "nowhere.txt"], "nowhere.txt; give the path"),
    "empty validation": (["train", "text.txt", "--valid", "empty.txt"], "empty.txt is empty"),
    "unknown symbol": (["train", "text.txt", "--valid", "other.txt", "--unknown", "error"], "'é'"),
    "bad replacement": (["train", "text.txt", "--unknown", "é"], "cannot become 'é'"),
    "corpus": (["train", "--data", "encyclopedia"], "no corpus named 'encyclopedia'"),
    "text and corpus": (["train", "text.txt", "--data", "python-manual"], "give one of them"),
    "level": (["train", "text.txt", "--level", "verse"], "'verse' is not one of"),
    "architecture": (["train", "text.txt", "--arch", "tnn"], "'tnn' is not known"),
    "hidden 0": (["train", "text.txt", "--hidden", "0"], "hidden size is 0"),
    "hidden negative": (["train", "text.txt", "--hidden", "-5"], "hidden size is -5"),
    "hidden text": (["train", "text.txt", "--hidden", "big"], "--hidden is 'big'"),
    "hidden fraction": (["train", "text.txt", "--hidden", "2.5"], "--hidden is '2.5'"),
    "a layer of 0": (["train", "text.txt", "--hidden", "4,0"], "hidden size is 0"),
    "embedding": (["train", "text.txt", "--embedding", "0"], "embedding is 0"),
    "activation": (
        ["train", "text.txt", "--activation", "relu"],
        "--activation was given, and --arch is mlstm: it is for --arch rnn",
    ),
    "l2": (["train", "text.txt", "--l2", "-1"], "l2"),
    "l2 nan": (["train", "text.txt", "--l2", "nan"], "--l2 is nan"),
    "optimizer": (["train", "text.txt", "--optimizer", "magic"], "magic"),
    "damping": (["train", "text.txt", "--damping", "heavy"], "heavy"),
    "unknown metric": (["train", "text.txt", "--metric", "cubic"], "cubic"),
    "metric of another": (["train", "text.txt", "--arch", "lstm", "--metric", "matching"], "no metric 'matching'"),
    "mu": (["train", "text.txt", "--mu", "-1"], "--mu is -1"),
    "lambda": (["train", "text.txt", "--damping", "none", "--lambda", "1"], "lambda"),
    "warm start": (["train", "text.txt", "--warm-start", "2"], "--warm-start is 2"),
    "cg": (["train", "text.txt", "--cg-iterations", "0"], "--cg-iterations is 0"),
    "cg epsilon": (["train", "text.txt", "--cg-epsilon", "-1"], "--cg-epsilon is -1"),
    "share": (["train", "text.txt", "--curvature-fraction", "2"], "--curvature-fraction is 2"),
    "updates": (["train", "text.txt", "--updates", "0"], "--updates is 0"),
    "minutes": (["train", "text.txt", "--minutes", "-1"], "--minutes is -1"),
    "number": (["train", "text.txt", "--updates", "many"], "many"),
    "seed": (["train", "text.txt", "--seed", "-1"], "--seed is -1"),
    "threads": (["train", "text.txt", "--threads", "0"], "--threads is 0"),
    "backend": (["train", "text.txt", "--backend", "abacus"], "abacus"),
    "checkpoint": (["train", "text.txt", "--checkpoint", "some"], "--checkpoint is 'some'"),
    "memory": (["train", "text.txt", "--memory", "lots"], "--memory is 'lots'"),
    "no such option": (["train", "text.txt", "--hiden", "3"], "--hiden"),
    "config missing": (["train", "text.txt", "--config", "nowhere.toml"], "nowhere.toml cannot be read"),
    "config broken": (["train", "text.txt", "--config", "text.txt"], "not TOML"),
    "config option": (["train", "text.txt", "--config", "unknown.toml"], "did you mean hidden?"),
    "config value": (["train", "text.txt", "--config", "wrong.toml"], "seed"),
    "out exists": (["train", "text.txt", "--out", "folder"], "folder exists already and is left as it is"),
    "out is a file": (["train", "text.txt", "--out", "text.txt"], "text.txt exists already"),
    "out below a file": (["train", "text.txt", "--out", "text.txt/run"], "cannot be made"),
    "out is a run": (["train", "text.txt", "--out", "run"], "--resume run"),
    "sgd rate": (["train", "text.txt", "--optimizer", "sgd", "--learning-rate", "0"], "--learning-rate is 0"),
    "sgd momentum": (["train", "text.txt", "--optimizer", "sgd", "--momentum", "1"], "--momentum is 1"),
    "sgd decay": (["train", "text.txt", "--optimizer", "sgd", "--weight-decay", "-1"], "--weight-decay is -1"),
    "sgd streams": (["train", "text.txt", "--optimizer", "sgd", "--streams", "0"], "--streams is 0"),
    "too many streams": (
        ["train", "text.txt", "--optimizer", "sgd", *STEPS, "--streams", "999"],
        "give more text or fewer",
    ),
    "clip norm": (["train", "text.txt", "--optimizer", "sgd", "--clip-norm", "-1"], "--clip-norm is -1"),
    "clip value": (["train", "text.txt", "--optimizer", "sgd", "--clip-value", "0"], "--clip-value is 0"),
    "max norm": (["train", "text.txt", "--optimizer", "sgd", "--max-norm", "0"], "--max-norm is 0"),
    "update every": (
        ["train", "text.txt", "--optimizer", "sgd", *STEPS, "--update-every", "3"],
        "(--sequence-length) 10 and steps between updates (--update-every) 3",
    ),
    "schedule": (["train", "text.txt", "--optimizer", "sgd", "--schedule", "cosine"], "cosine"),
    "schedule without validation": (
        ["train", "text.txt", "--optimizer", "sgd", "--schedule", "halve", "--fractions", "1,0,0"],
        "--schedule halve watches the validation loss: give a validation part",
    ),
    "epochs": (["train", "text.txt", "--epochs", "0"], "--epochs is 0"),
    "patience": (["train", "text.txt", "--patience", "0"], "--patience is 0"),
    "log interval": (["train", "text.txt", "--optimizer", "sgd", "--log-interval", "0"], "--log-interval is 0"),
    "validate every": (["train", "text.txt", "--validate-every", "0"], "--validate-every is 0"),
    "adam nesterov": (["train", "text.txt", "--optimizer", "adam", "--nesterov"], "--nesterov was given"),
    "online lstm": (
        ["train", "text.txt", "--optimizer", "online", "--arch", "lstm"],
        "online learning was asked for lstm with 1 layers: it is defined for one layer of lstm-krause",
    ),
    "online clipping": (
        ["train", "text.txt", "--optimizer", "online", "--arch", "lstm-krause", "--clip-value", "1"],
        "--clip-value was given, and --optimizer is online: it is for --optimizer sgd or adam; leave it out",
    ),
    "online task": (
        ["train", "--data", "addition", "--optimizer", "online", "--arch", "lstm-krause"],
        "learns from a text, and addition is none",
    ),
    "task length": (["train", "--data", "addition", "--length", "20"], "needs a length of at least 21, not 20"),
    "task sequences": (["train", "--data", "addition", "--sequences", "0"], "--sequences is 0"),
    "task and file": (["train", "text.txt", "--data", "addition"], "give one of them"),
    "task classes": (
        ["train", "--data", "addition", "--classes", "5"],
        "--classes was given, and addition is a synthetic task",
    ),
    "task validation": (["train", "--data", "addition", "--valid", "text.txt"], "--valid was given"),
    "no music": (["train", "--data", "jsb"], "jsb is not there"),
    "resume nowhere": (["train", "--resume", "nowhere"], "nowhere is no run folder"),
    "resume no run": (["train", "--resume", "folder"], "folder is no run folder"),
    "resume other text": (["train", "text.txt", "--resume", "run"], "keeps its text"),
    "resume other size": (["train", "--resume", "run", "--hidden", "5"], "keeps its hidden"),
}
OTHERS: dict[str, tuple[list[str], str]] = {
    "no run": (["evaluate", "folder"], "no run folder"),
    "text of a task": (["evaluate", "task", "text.txt"], "on addition, which is not a text: leave text.txt out"),
    "sample of a task": (["sample", "task"], "task was not trained on a text"),
    "no text": (["evaluate", "run", "nowhere.txt"], "no file nowhere.txt"),
    "one symbol": (["evaluate", "run", "one.txt"], "at least 2"),
    "unknown symbols": (["evaluate", "run", "other.txt"], "'é'"),
    "not utf-8": (["evaluate", "run", "latin1.txt"], "offset 3"),
    "text and part": (["evaluate", "run", "text.txt", "--part", "valid"], "not both"),
    "no command": (["dance"], "dance"),
    "sample no run": (["sample", "nowhere"], "no run folder"),
    "length": (["sample", "run", "--length", "-1"], "length is -1"),
    "temperature": (["sample", "run", "--temperature", "-1"], "temperature is -1"),
    "temperature nan": (["sample", "run", "--temperature", "nan"], "temperature is nan"),
    "top-k": (["sample", "run", "--top-k", "0"], "top-k is 0"),
    "sample seed": (["sample", "run", "--seed", "-1"], "seed is -1"),
    "prime": (["sample", "run", "--prime", "é"], "'é'"),
    "prime skipped": (["sample", "run", "--prime", "é", "--unknown", "skip"], "empty"),
    "nothing allowed": (["sample", "run", "--allowed", ""], "allow at least one"),
    "gradcheck": (["gradcheck", "tnn"], "'tnn' is not known"),
}


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    text_file(folder)
    for name, content in (
        ("empty.txt", b""), ("latin1.txt", b"caf\xe9 bar"), ("short.txt", b"0123456789"), ("one.txt", b"T"),
        ("other.txt", "The é.".encode()), ("unknown.toml", b"hiden = 3"), ("wrong.toml", b'seed = "three"'),
    ):  # fmt: skip
        text_file(folder, content, name)
    (folder / "folder").mkdir()
    (folder / "folder" / "diary.txt").write_text("dear")
    tiny_train(folder)
    tiny_train(folder, "task", text=None, data="addition", length=21, arch="rnn", optimizer="adam", sequences=9)
    return folder


def refused(folder: Path, arguments: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("HFRNN_DATA", raising=False)
    before = snapshot(folder)
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, result.output
    lines = result.stderr.splitlines()
    assert [line.startswith("Error: ") for line in lines].count(True) == 1, result.output
    assert lines[-1].startswith("Error: ")
    assert sentence in lines[-1]
    assert result.stdout == ""
    assert snapshot(folder) == before


@pytest.mark.parametrize("case", TRAIN)
def test_train_refuses_and_writes_nothing(ready: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, sentence = TRAIN[case]
    flags = [] if {"--resume", "--optimizer", "--data"} & set(arguments) else FLAGS
    command, *rest = arguments
    refused(ready, [command, *flags, *rest], sentence, monkeypatch)


@pytest.mark.parametrize("case", OTHERS)
def test_other_commands_refuse_and_write_nothing(ready: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(ready, *OTHERS[case], monkeypatch)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-9] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [_cut, _flip, Path.unlink])
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("last.safetensors", ["train", "--resume", "run", "--updates", "3"]),
        ("best.safetensors", ["train", "--resume", "run", "--updates", "3"]),
        ("vocabulary.json", ["train", "--resume", "run", "--updates", "3"]),
        ("best.safetensors", ["evaluate", "run"]),
        ("last.safetensors", ["evaluate", "run", "--which", "last"]),
        ("best.safetensors", ["sample", "run"]),
        ("vocabulary.json", ["sample", "run"]),
    ],
)
def test_a_damaged_run_is_refused_by_every_command(
    ready: Path, tmp_path: Path, name: str, command: list[str], damage: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    shutil.copytree(ready / "run", tmp_path / "run")
    damage(tmp_path / "run" / name)
    refused(tmp_path, command, name, monkeypatch)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("config.toml", b"arch = ", "config.toml is not TOML"),
        ("config.toml", b'arch = "tnn"\ndata = "python-manual"', "config.toml has no table of versions"),
        ("config.toml", b"hidden = true", "config.toml: hidden is True"),
        ("metrics.jsonl", b"{}\n{}\n", "metrics.jsonl is damaged: line 1"),
        ("metrics.jsonl", b"", "metrics.jsonl is damaged: it ends at update 0"),
    ],
)
def test_a_run_with_a_foreign_file_is_not_resumed(
    ready: Path, tmp_path: Path, name: str, content: bytes, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ready / "run", tmp_path / "run")
    (tmp_path / "run" / name).write_bytes(content)
    refused(tmp_path, ["train", "--resume", "run", "--updates", "3"], sentence, monkeypatch)


def test_a_changed_text_is_not_resumed(ready: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_train(tmp_path)
    text_file(tmp_path, TEXT.replace("fox", "dog"))
    refused(tmp_path, ["train", "--resume", "run", "--updates", "3"], "has changed", monkeypatch)
