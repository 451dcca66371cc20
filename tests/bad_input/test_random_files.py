"""Random hostile files in a run folder, and random outputs: nothing outside is touched, nothing blocks or grows.

HFRNN_DAMAGE sets the number of cases, as test_random_damage.py says.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import cases, json_values, places, put
from support.refusals import READ, RESUME, STEPS, call, sentence_of
from support.tiny_runs import snapshot

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and devices with names are of POSIX systems")


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(path))


def a_sparse_file(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10**12)


KINDS: dict[str, Callable[[Path], object]] = {
    "link": lambda path: path.symlink_to("../victim"),
    "absolute link": lambda path: path.symlink_to((path.parent.parent / "victim").absolute()),
    "link to its copy": lambda path: path.symlink_to(f"../copy/{path.name}"),
    "second name": lambda path: os.link(path.parent.parent / "victim", path),
    "second name of its copy": lambda path: os.link(path.parent.parent / "copy" / path.name, path),
    "link to a folder": lambda path: path.symlink_to(".."),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to nowhere": lambda path: path.symlink_to("../new"),
    "loop": lambda path: path.symlink_to(path.name),
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "full folder": lambda path: (path / "more").mkdir(parents=True),
    "socket": a_socket,
    "sparse": a_sparse_file,
}
NAMES = [*READ, ".lock", ".hfrnn-0123456789ab.tmp", "update-000001.safetensors", "update-000009.safetensors"]
COMMANDS = {
    "resume": lambda run: ["train", "--resume", run, *RESUME[3:], "--keep", "1"],
    "dry run": lambda run: ["train", "--resume", run, *RESUME[3:], "--dry-run"],
    "evaluate": lambda run: ["evaluate", run],
    "evaluate last": lambda run: ["evaluate", run, "--which", "last"],
    "evaluate kept": lambda run: ["evaluate", run, "--which", "update-1"],
    "sample": lambda run: ["sample", run, "--length", "3"],
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


@pytest.mark.slow
@cases
@given(
    st.sampled_from(["--per-symbol", "--output"]),
    st.sampled_from(["../{}/home/{}", "{}", "./{}", "folder/../{}", "run/../{}"]),
    st.sampled_from(
        ["text.txt", "link", "second", "run/new", "run-link/x", "other.txt", "void/new", "new", "folder", "", "run",
         *(f"run/{name}" for name in NAMES), "task/last.safetensors", "best-link", "loop", "pipe"]
    ),
    st.booleans(),
)  # fmt: skip
def test_random_outputs_replace_nothing_but_what_they_are_told(option: str, form: str, name: str, force: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        home = Path(folder, "home")
        shutil.copytree(".", home, symlinks=True)
        patch.chdir(home)
        for link, target in (("link", "text.txt"), ("run-link", "run"), ("best-link", "run/best.safetensors")):
            os.symlink(target, link)
        os.link("text.txt", "second")
        os.mkfifo("pipe")
        path = form.replace("{}", Path(folder).name, form.count("{}") - 1).format(name)
        words = {"--per-symbol": ["evaluate", "run", "text.txt"], "--output": ["report", "run"]}[option]
        existed, before = os.path.lexists(path), snapshot(home)
        result = call(*words, option, path, *(["--force"] if force else []))
        after = snapshot(home)
        changed = {
            name
            for name in before.keys() | after.keys()
            if before.get(name, 0) != after.get(name, 0) and name != "link"
        }
        assert result.exit_code in (0, 2), result.output
        if result.exit_code == 2:
            sentence_of(result.stderr)
            assert not changed
        else:
            assert changed <= {
                os.path.relpath(os.path.join(os.path.realpath(Path(path).parent), Path(path).name), home)
            }
            assert force or not existed
            assert not {name for name in changed if name.startswith(("run/", "task/"))}


@pytest.mark.slow
@cases
@given(st.data(), st.one_of(json_values, st.integers(-(2**70), 2**70), st.lists(st.integers(-1, 2**63), max_size=3)))
def test_a_checkpoint_with_another_header_is_survived(data: st.DataObject, new: Any) -> None:
    name = data.draw(st.sampled_from(["last.safetensors", "best.safetensors"]))
    content = Path("run", name).read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    changed = json.dumps(put(header, data.draw(st.sampled_from(list(places(header)))), new)).encode()
    length = data.draw(st.sampled_from([len(changed), len(changed) + 1, 0, 2**26, 2**40, 2**64 - 1]))
    with tempfile.TemporaryDirectory() as folder:
        run = shutil.copytree("run", Path(folder, "run"))
        (run / name).write_bytes(length.to_bytes(8, "little") + changed + content[8 + size :])
        before = snapshot(run)
        for arguments in (["evaluate", str(run), "--which", name[:4]], ["report", str(run), "-o", f"{folder}/r.html"]):
            assert call(*arguments).exit_code in (0, 2)
        result = call("train", "--resume", str(run), *RESUME[3:])
        assert result.exit_code in (0, 2)
        if result.exit_code == 2:
            sentence_of(result.stderr)
            assert snapshot(run) == before


@pytest.mark.slow
@cases
@given(st.data(), json_values)
def test_a_report_on_other_json_is_survived(data: st.DataObject, new: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = shutil.copytree("run", Path(folder, "run"))
        name = data.draw(st.sampled_from(["metrics.jsonl", "summary.json"]))
        if name == "summary.json":
            content = json.loads((run / name).read_bytes())
            lines = [put(content, data.draw(st.sampled_from(list(places(content)))), new)]
        else:
            lines = [json.loads(line) for line in (run / name).read_bytes().splitlines()]
            number = data.draw(st.integers(0, 1))
            lines[number] = put(lines[number], data.draw(st.sampled_from(list(places(lines[number])))), new)
        (run / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        result = call("report", str(run), "-o", f"{folder}/r.html")
        assert result.exit_code in (0, 2), result.output
        assert Path(folder, "r.html").exists() == (result.exit_code == 0)
        if result.exit_code == 2:
            sentence_of(result.stderr)
