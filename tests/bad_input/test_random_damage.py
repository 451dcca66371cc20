"""Random damage to a file of a run: one sentence and nothing written, or the result of the whole file.

HFRNN_DAMAGE sets how many cases all tests together try (25 each by default):

    HFRNN_DAMAGE=3000 python -m pytest -m "" tests/bad_input/test_random_damage.py tests/bad_input/test_random_files.py
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from support.damage import cases, json_values, places, put, sealed_checkpoint
from support.refusals import FIELDS, READ, RESUME, STEPS, call, replaced, sentence_of
from support.tiny_runs import snapshot

from hfrnn.option import option_key
from hfrnn.runs.checkpoint import load_checkpoint

RUN_FILES = sorted(READ)


def survives(path: str, content: bytes) -> None:
    """Check that commands refuse a copy of the run with this file and change nothing, or print what `run` gives."""
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


@cases
@given(st.sampled_from(RUN_FILES), st.floats(0, 1), st.binary(min_size=1, max_size=40), st.integers(0, 40))
def test_bytes_spliced_into_a_file_of_a_run_are_survived(path: str, where: float, spliced: bytes, gone: int) -> None:
    content = Path("run", path).read_bytes()
    place = int(where * len(content))
    survives(path, content[:place] + spliced + content[place + gone :])


@pytest.mark.slow
@cases
@given(st.sampled_from(RUN_FILES), st.floats(0, 1), st.floats(0, 1))
def test_a_file_of_a_run_with_a_hole_is_survived(path: str, first: float, second: float) -> None:
    content = Path("run", path).read_bytes()
    start, stop = sorted(int(share * len(content)) for share in (first, second))
    survives(path, content[:start] + content[stop:])


@pytest.mark.slow
@cases
@given(st.data(), json_values)
def test_a_vocabulary_with_other_json_is_survived(data: st.DataObject, new: Any) -> None:
    content = json.loads(Path("run/vocabulary.json").read_bytes())
    changed = put(content, data.draw(st.sampled_from(list(places(content)))), new)
    if isinstance(changed, dict) and data.draw(st.booleans()):
        plain = {key: value for key, value in changed.items() if key != "sha256"}
        changed["sha256"] = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    survives("vocabulary.json", json.dumps(changed).encode())


@pytest.mark.slow
@cases
@given(st.data(), json_values)
def test_a_log_with_other_json_is_survived(data: st.DataObject, new: Any) -> None:
    lines = Path("run/metrics.jsonl").read_bytes().splitlines(keepends=True)
    number = data.draw(st.integers(0, 1))
    record = json.loads(lines[number])
    lines[number] = json.dumps(put(record, data.draw(st.sampled_from(list(places(record)))), new)).encode() + b"\n"
    survives("metrics.jsonl", b"".join(lines))


@pytest.mark.slow
@cases
@given(st.data(), json_values)
def test_a_checkpoint_with_another_description_is_survived(data: st.DataObject, new: Any) -> None:
    name = data.draw(st.sampled_from(["last.safetensors", "best.safetensors"]))
    arrays, meta = load_checkpoint(f"run/{name}")
    changed = put(meta, data.draw(st.sampled_from(list(places(meta)))), new)
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree("run", Path(folder, "run"))
        (copy / name).write_bytes(sealed_checkpoint("1", json.dumps(changed), arrays))
        for arguments in (["evaluate", str(copy), "--which", name.partition(".")[0]], ["sample", str(copy)]):
            assert call(*arguments).exit_code in (0, 2)
        assert call("train", "--resume", str(copy), *RESUME[3:]).exit_code in (0, 2)


toml_values = st.one_of(
    st.booleans(), st.sampled_from([-1, 0, 1, 3, 2**31, 2**63 - 1, -0.5, 0.5, 1e308, float("inf"), float("nan")]),
    st.text(max_size=5), st.lists(st.integers(-1, 3), max_size=3),
    st.sampled_from(["mlstm", "rnn", "sgd", "none", "float64", "word", "addition", "text.txt", "hidden", "all"]),
)  # fmt: skip


@pytest.mark.slow
@cases
@given(st.sampled_from([name for name in FIELDS if name != "backend"]), toml_values)
def test_a_run_with_another_option_in_its_configuration_is_survived(name: str, new: Any) -> None:
    content = tomllib.loads(Path("run/config.toml").read_text())
    survives("config.toml", tomli_w.dumps({**content, option_key(name): new}).encode())


@pytest.mark.slow
@cases
@given(st.dictionaries(st.sampled_from(sorted(map(option_key, FIELDS))), toml_values, min_size=1, max_size=4))
def test_a_configuration_of_any_options_is_survived(options: dict[str, Any]) -> None:
    with replaced("options.toml", tomli_w.dumps(options).encode()):
        before = snapshot(Path())
        result = call("train", "--config", "options.toml", "--dry-run", *STEPS)
        assert result.exit_code in (0, 2), result.output
        assert snapshot(Path()) == before


@pytest.mark.slow
@cases
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
