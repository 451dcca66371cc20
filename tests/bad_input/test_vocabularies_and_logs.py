"""A vocabulary or a log that does not belong to its run is refused, even if its checksum is right."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.damage import a_handful
from support.refusals import COMMANDS, RESUME, call, refused, replaced


def sealed_vocabulary(**changes: Any) -> bytes:
    """Return the vocabulary of the run with changes and the right checksum."""
    content = {**json.loads(Path("run/vocabulary.json").read_bytes()), **changes}
    content = {key: value for key, value in content.items() if key != "sha256" and value != "leave out"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return json.dumps({**content, "sha256": digest}).encode()


def symbols_of_run() -> list[str]:
    found: list[str] = json.loads(Path("run/vocabulary.json").read_bytes())["symbols"]
    return found


VOCABULARIES: dict[str, Callable[[], bytes]] = {
    "a symbol less": lambda: sealed_vocabulary(symbols=symbols_of_run()[:-1], size=27),
    "another symbol": lambda: sealed_vocabulary(symbols=[*symbols_of_run()[:-1], "é"]),
    "another size": lambda: sealed_vocabulary(size=5),
    "a symbol twice": lambda: sealed_vocabulary(symbols=[*symbols_of_run()[:-1], symbols_of_run()[-2]]),
    "symbols out of order": lambda: sealed_vocabulary(symbols=symbols_of_run()[::-1]),
    "symbols that are numbers": lambda: sealed_vocabulary(symbols=list(range(28))),
    "bytes above 255": lambda: sealed_vocabulary(level="byte", symbols=list(range(240, 268))),
    "words with blanks": lambda: sealed_vocabulary(level="word", symbols=[f"w {n}" for n in range(28)]),
    "a level that is not known": lambda: sealed_vocabulary(level="verse"),
    "another version": lambda: sealed_vocabulary(version=2),
    "a wrong checksum": lambda: sealed_vocabulary().replace(b'"T"', b'"U"'),
    "a number without end": lambda: sealed_vocabulary().replace(b'"size": 28', b'"size": ' + b"9" * 5000),
}  # fmt: skip


@pytest.mark.parametrize("case", a_handful(VOCABULARIES))
def test_a_foreign_vocabulary_is_refused_though_its_checksum_is_right(case: str) -> None:
    with replaced("run/vocabulary.json", VOCABULARIES[case]()):
        for arguments in (RESUME, COMMANDS["sample"], ["evaluate", "run", "text.txt"]):
            assert "vocabulary" in refused(*arguments)


# ------------------------------------------------------------------ logs


def log_of_run() -> list[bytes]:
    return Path("run/metrics.jsonl").read_bytes().splitlines(keepends=True)


LOGS: dict[str, Callable[[], list[bytes]]] = {
    "a line less": lambda: log_of_run()[:1],
    "lines out of order": lambda: log_of_run()[::-1],
    "an empty line between": lambda: [log_of_run()[0], b"\n", log_of_run()[1]],
    "rubbish between": lambda: [log_of_run()[0], b"\xff\x00rubbish\n", log_of_run()[1]],
    "half a line between": lambda: [log_of_run()[0][:40] + b"\n", log_of_run()[1]],
    "an update that is text": lambda: [b'{"update": "1"}\n', log_of_run()[1]],
    "an update below 0": lambda: [b'{"update": -1}\n', log_of_run()[1]],
    "an update without end": lambda: [b'{"update": ' + b"9" * 5000 + b"}\n", log_of_run()[1]],
    "no update": lambda: [b'{"seconds": 1}\n', log_of_run()[1]],
    "nested too deeply": lambda: [b"[" * 100_000 + b"\n", log_of_run()[1]],
}


@pytest.mark.parametrize("case", a_handful(LOGS))
def test_a_damaged_log_is_refused(case: str) -> None:
    with replaced("run/metrics.jsonl", b"".join(LOGS[case]())):
        assert "run/metrics.jsonl is damaged" in refused(*RESUME)


def test_what_a_killed_process_wrote_behind_the_log_is_cut_off(tmp_path: Path) -> None:
    for n, more in enumerate((b'{"update": 3}\n{"upd', b"\xff")):
        copy = shutil.copytree("run", tmp_path / str(n))
        with (copy / "metrics.jsonl").open("ab") as file:
            file.write(more)
        assert call("train", "--resume", str(copy), *RESUME[3:]).exit_code == 0
        assert [json.loads(line)["update"] for line in (copy / "metrics.jsonl").read_text().splitlines()] == [1, 2, 3]
