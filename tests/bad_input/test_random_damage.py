"""Random damage to files of a run and of arrays, and random configurations.

Commands give one sentence and write nothing, or they give the result of the whole file. HFRNN_DAMAGE sets how many
cases all tests together try (25 each by default):

    HFRNN_DAMAGE=3000 python -m pytest -m "" tests/bad_input/test_random_damage.py
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from support.array_files import FLAGS, ROWS, TABLE, N, T, good, mat, npy, npz
from support.damage import cases, json_values, places, put, sealed_checkpoint
from support.matlab_files import hdf5
from support.refusals import FIELDS, READ, RESUME, STEPS, call, replaced, sentence_of
from support.tiny_runs import snapshot

from hfrnn.option import option_key
from hfrnn.runs.checkpoint import load_checkpoint

pytestmark = pytest.mark.nightly


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
    "bad.h5": (hdf5(good()), []),
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
