"""Random damage to files of a run, hostile files in its folder, and random outputs.

Commands give one sentence and write nothing, or they give the result of the whole file. Nothing outside of the run is
touched, and nothing blocks or grows. HFRNN_DAMAGE sets how many cases all tests together try (25 each by default):

    HFRNN_DAMAGE=3000 python -m pytest -m "" tests/bad_input/test_random_damage.py
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from support.array_files import FLAGS, ROWS, TABLE, N, T, good, mat, npy, npz
from support.damage import a_sparse_file, cases, json_values, places, put, sealed_checkpoint
from support.refusals import FIELDS, READ, RESUME, STEPS, call, replaced, sentence_of
from support.tiny_runs import snapshot

from hfrnn.option import option_key
from hfrnn.runs.checkpoint import load_checkpoint

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and devices with names are of POSIX systems"),
]


def survives(path: str, content: bytes, meaning: bool = False) -> None:
    """Check that commands refuse a copy of the run with this file and change nothing, or print what `run` gives.

    With `meaning`, the content may mean something else and be accepted.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree("run", Path(folder, "run"))
        (copy / path).write_bytes(content)
        for arguments in (
            ["evaluate", str(copy), "--json"], ["sample", str(copy), "--length", "3"],
            ["report", str(copy), "-o", f"{folder}/report.html"], ["train", "--resume", str(copy), *RESUME[3:]],
        ):  # fmt: skip
            before = snapshot(copy)
            result = call(*arguments)
            assert result.exit_code in (0, 2), result.output
            assert arguments[0] != "report" or Path(folder, "report.html").exists() == (result.exit_code == 0)
            if result.exit_code == 2:
                sentence_of(result.stderr)
                assert snapshot(copy) == before
            elif arguments[0] == "evaluate" and not meaning:
                assert result.stdout == call("evaluate", "run", "--json").stdout


@cases
@given(st.sampled_from(sorted(READ)), st.floats(0, 1), st.binary(max_size=40), st.integers(0, 40))
def test_bytes_spliced_into_a_file_of_a_run_are_survived(path: str, where: float, spliced: bytes, gone: int) -> None:
    content = Path("run", path).read_bytes()
    place = int(where * len(content))
    survives(path, content[:place] + spliced + content[place + gone :], meaning=path == "config.toml")


ARRAYS: dict[str, tuple[bytes, list[str]]] = {
    "bad.npz": (npz(good(mask=np.ones((N, T)), lengths=np.full(N, T - 1))), []),
    "bad.npy": (npy(good()["x"]), ["--targets", "y.npy"]),
    "bad.mat": (mat(good()), []),
    "bad.csv": (ROWS.encode(), TABLE),
}


@cases
@given(st.sampled_from(sorted(ARRAYS)), st.floats(0, 1), st.binary(max_size=5), st.integers(0, 100))
def test_bytes_spliced_into_a_file_of_arrays_are_survived(name: str, where: float, spliced: bytes, gone: int) -> None:
    content, more = ARRAYS[name]
    place = int(where * len(content))
    with replaced("y.npy", npy(good()["y"])), replaced(name, content[:place] + spliced + content[place + gone :]):
        before = snapshot(Path())
        result = call("train", "--data", name, *FLAGS, *more, "--dry-run")
        assert result.exit_code in (0, 2), result.output
        assert snapshot(Path()) == before


def changed(data: st.DataObject, value: Any, new: Any) -> Any:
    return put(value, data.draw(st.sampled_from(list(places(value)))), new)


@cases
@given(st.data(), json_values)
def test_a_vocabulary_with_other_json_is_survived(data: st.DataObject, new: Any) -> None:
    content = changed(data, json.loads(Path("run/vocabulary.json").read_bytes()), new)
    if isinstance(content, dict) and data.draw(st.booleans()):
        plain = {key: value for key, value in content.items() if key != "sha256"}
        content["sha256"] = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    survives("vocabulary.json", json.dumps(content).encode())


@cases
@given(st.data(), json_values, st.sampled_from(["metrics.jsonl", "summary.json"]))
def test_a_log_or_summary_with_other_json_is_survived(data: st.DataObject, new: Any, name: str) -> None:
    lines = Path("run", name).read_bytes().splitlines() if name == "metrics.jsonl" else [Path("run", name).read_bytes()]
    number = data.draw(st.integers(0, len(lines) - 1))
    lines[number] = json.dumps(changed(data, json.loads(lines[number]), new)).encode()
    survives(name, b"".join(line + b"\n" for line in lines))


@cases
@given(st.data(), json_values, st.sampled_from(["last.safetensors", "best.safetensors"]))
def test_a_checkpoint_with_another_description_is_survived(data: st.DataObject, new: Any, name: str) -> None:
    arrays, meta = load_checkpoint(f"run/{name}")
    survives(name, sealed_checkpoint("1", json.dumps(changed(data, meta, new)), arrays), meaning=True)


@cases
@given(st.data(), st.one_of(json_values, st.integers(-(2**70), 2**70), st.lists(st.integers(-1, 2**63), max_size=3)))
def test_a_checkpoint_with_another_header_is_survived(data: st.DataObject, new: Any) -> None:
    name = data.draw(st.sampled_from(["last.safetensors", "best.safetensors"]))
    content = Path("run", name).read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(changed(data, json.loads(content[8 : 8 + size]), new)).encode()
    length = data.draw(st.sampled_from([len(header), len(header) + 1, 0, 2**26, 2**40, 2**64 - 1]))
    survives(name, length.to_bytes(8, "little") + header + content[8 + size :])


toml_values = st.one_of(
    st.booleans(), st.sampled_from([-1, 0, 1, 3, 2**31, 2**63 - 1, -0.5, 0.5, 1e308, float("inf"), float("nan")]),
    st.text(max_size=5), st.lists(st.integers(-1, 3), max_size=3),
    st.sampled_from(["mlstm", "rnn", "sgd", "none", "float64", "word", "addition", "text.txt", "hidden", "all"]),
)  # fmt: skip


@cases
@given(st.sampled_from([name for name in FIELDS if name != "backend"]), toml_values)
def test_a_run_with_another_option_in_its_configuration_is_survived(name: str, new: Any) -> None:
    content = tomllib.loads(Path("run/config.toml").read_text())
    survives("config.toml", tomli_w.dumps({**content, option_key(name): new}).encode(), meaning=True)


@cases
@given(st.dictionaries(st.sampled_from(sorted(map(option_key, FIELDS))), toml_values, min_size=1, max_size=4))
def test_a_configuration_of_any_options_is_survived(options: dict[str, Any]) -> None:
    with replaced("options.toml", tomli_w.dumps(options).encode()):
        before = snapshot(Path())
        result = call("train", "--config", "options.toml", "--dry-run", *STEPS)
        assert result.exit_code in (0, 2), result.output
        assert snapshot(Path()) == before


# ---------------------------------------------------------------------- hostile files


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(path))


KINDS: dict[str, Callable[[Path], object]] = {
    "link": lambda path: path.symlink_to("../victim"),
    "link to its copy": lambda path: path.symlink_to(f"../copy/{path.name}"),
    "second name of its copy": lambda path: os.link(path.parent.parent / "copy" / path.name, path),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path.name),
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "socket": a_socket,
    "sparse": a_sparse_file,
}
NAMES = [*READ, ".lock", ".hfrnn-0123456789ab.tmp", "update-000001.safetensors", "update-000009.safetensors"]
COMMANDS = {
    "resume": lambda run: ["train", "--resume", run, *RESUME[3:], "--keep", "1"],
    "evaluate": lambda run: ["evaluate", run],
    "evaluate kept": lambda run: ["evaluate", run, "--which", "update-1"],
    "report": lambda run: ["report", run, "-o", f"{Path(run).parent / 'page.html'}"],
    "start from": lambda run: ["train", "text.txt", *STEPS, "--init-from", run, "--out", f"{Path(run).parent / 'out'}"],
    "new": lambda run: ["train", "text.txt", *STEPS, "--out", run],
}


def outside(folder: str) -> dict[str, bytes | None]:
    """What a folder holds outside of the run and of what the commands may make."""
    return {name: content for name, content in snapshot(Path(folder)).items()
            if name.split("/")[0] not in ("run", "out", "page.html")}  # fmt: skip


@cases
@given(
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(sorted(KINDS)), min_size=1, max_size=2),
    st.sampled_from(sorted(COMMANDS)),
)
def test_hostile_files_of_a_run_are_survived(hostile: dict[str, str], command: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = shutil.copytree("run", Path(folder, "run"))
        copy = shutil.copytree("run", Path(folder, "copy"))
        for name in NAMES:
            (copy / name).touch()
        Path(folder, "victim").write_bytes(b"dear diary\n")
        for name, kind in hostile.items():
            (run / name).unlink(missing_ok=True)
            KINDS[kind](run / name)
        before, inside = outside(folder), snapshot(run)
        result = call(*COMMANDS[command](str(run)))
        assert result.exit_code in (0, 1, 2), result.output
        if result.exit_code:
            sentence_of(result.stderr)
        if result.exit_code == 2 or command not in ("resume", "new"):
            assert snapshot(run) == inside
        assert outside(folder) == before
