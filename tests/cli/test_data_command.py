"""`hfrnn data`: what it prints, what it fetches from a local server, its exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from support.command_line import call
from support.local_site import CONTENT, Site, local_site, rubbish, silent, status
from support.tiny_runs import snapshot, text_file

from hfrnn.data.corpora import CORPORA, load_corpus
from hfrnn.data.music import COLLECTIONS


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with local_site(tmp_path, monkeypatch) as site:
        yield site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the corpora go."""
    return tmp_path / "data"


def sentence(result: Result) -> str:
    """The one error sentence on stderr."""
    assert result.stderr.count("Error: ") == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    return last


def put(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    return text_file(folder, content, name)


# ---------------------------------------------------------------------- list


def rows() -> dict[str, dict[str, object]]:
    return {row["name"]: row for row in json.loads(call("data", "list", "--json").stdout)["corpora"]}


def test_list_names_every_corpus_and_says_whether_and_where_it_is_here(site: Site, folder: Path) -> None:
    path = put(folder, "text8/text8-prefix.txt", b"some letters")
    call("data", "fetch", "wikitext-2")
    found = rows()
    assert list(found) == [*CORPORA, *COLLECTIONS]
    assert {name: row["here"] for name, row in found.items()} == {
        "python-manual": "yes", "tinyshakespeare": "no", "ptb": "no", "ptb-char": "no", "text8": "part",
        "enwik8": "no", "wikitext-2": "yes", "jsb": "no",
    }  # fmt: skip
    assert (found["text8"]["files"], found["text8"]["bytes"]) == ([str(path)], 12)
    assert found["wikitext-2"]["bytes"] == sum(map(len, CONTENT["wikitext-2"].values()))
    assert [name for name, row in found.items() if not row["can_fetch"]] == ["python-manual"]
    lines = call("data", "list").stdout.splitlines()
    assert lines[0] == f"data folder: {folder}"
    assert [line.split()[0] for line in lines[3:] if not line.startswith(" ")] == [*CORPORA, *COLLECTIONS]
    assert f"{'':34}{path}" in lines
    assert all(len(line) <= 80 for line in lines if str(folder) not in line)


def test_list_says_yes_once_all_of_text8_is_here(site: Site) -> None:
    call("data", "fetch", "text8")
    assert rows()["text8"]["here"] == "yes"


# ---------------------------------------------------------------------- fetch


def test_fetch_says_what_it_did_and_the_second_time_that_all_is_there(site: Site, folder: Path) -> None:
    first = call("data", "fetch", "text8", "ptb")
    assert first.stdout.splitlines()[:2] == [
        f"text8: sha256 as expected, from {site.address}/original/text8.zip",
        f"  {folder / 'text8' / 'text8'}",
    ]
    assert f"getting {site.address}/original/ptb.valid.txt" in first.stderr.splitlines()
    asked = len(site.seen)
    assert "ptb: already here and complete\n" in call("data", "fetch", "ptb").stdout
    assert len(site.seen) == asked
    assert "ptb: sha256 as expected" in call("data", "fetch", "ptb", "--force").stdout
    assert len(site.seen) == asked + 3


def test_fetch_says_of_a_text_put_there_by_hand_that_it_was_not_checked(site: Site, folder: Path) -> None:
    put(folder, "enwik8/enwik8", b"mine")
    assert "enwik8: already here; you put it there, so it was not checked" in call("data", "fetch", "enwik8").stdout


def test_fetch_leaves_the_same_music_in_another_file_but_not_the_beginning_of_a_text(site: Site, folder: Path) -> None:
    path = put(folder, "jsb/jsb.npz", b"mine")
    assert call("data", "fetch", "jsb").stdout.splitlines() == [
        "jsb: already here; you put it there, so it was not checked (--force downloads it again)", f"  {path}",
    ]  # fmt: skip
    assert not site.seen
    put(folder, "text8/text8-prefix.txt", b"the beginning only")
    assert "text8: sha256 as expected" in call("data", "fetch", "text8").stdout


def test_after_fetch_a_corpus_trains_without_hfrnn_data(site: Site, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("HFRNN_DATA")
    flags = ["--hidden", 4, "--sequence-length", 5, "--updates", 1, "--gradient-symbols", 50, "--sample-length", 0]
    train = ["train", "--data", "ptb", "--level", "word", "--classes", 0, *flags, "--out", tmp_path / "run"]
    assert "hfrnn data fetch ptb" in sentence(call(*train, code=2))
    call("data", "fetch", "ptb")
    assert "text      ptb: " in call(*train).stdout
    assert (tmp_path / "cache/hfrnn/ptb/ptb.train.txt").is_file()


def test_the_older_name_of_ptb_fetches_ptb(site: Site, folder: Path) -> None:
    call("data", "fetch", "ptb-char")
    assert (folder / "ptb" / "ptb.train.txt").is_file()


def test_a_corpus_that_comes_with_python_is_not_fetched(site: Site) -> None:
    assert "comes with Python" in call("data", "fetch", "python-manual").stdout
    assert site.seen == []


def test_tinyshakespeare_is_fetched_under_its_own_name(site: Site, folder: Path) -> None:
    call("data", "fetch", "tinyshakespeare")
    assert load_corpus(name="tinyshakespeare").source == str(folder / "tinyshakespeare" / "tinyshakespeare.txt")


def test_a_wrong_name_is_refused_before_anything_is_fetched(site: Site) -> None:
    said = sentence(call("data", "fetch", "ptb", "ptb2", code=2))
    assert "there is no corpus named 'ptb2'; use one of python-manual, " in said
    call("data", "fetch", code=2)
    assert site.seen == []


def test_mirrors_come_from_the_option_or_the_environment(site: Site, monkeypatch) -> None:
    call("data", "fetch", "text8", "--mirror", f"{site.address}/a", "--mirror", f"{site.address}/mirror")
    assert site.paths == ["/a/text8.zip", "/mirror/text8.zip"]
    site.seen.clear()
    monkeypatch.setenv("HFRNN_MIRROR", f"{site.address}/b {site.address}/mirror/")
    call("data", "fetch", "enwik8")
    assert site.paths == ["/b/enwik8.zip", "/mirror/enwik8.zip"]
    assert "the mirror is 'here'" in sentence(call("data", "fetch", "ptb", "--mirror", "here", code=2))


def test_training_downloads_a_corpus_that_is_not_here_unless_told_not_to(site: Site, folder: Path, monkeypatch) -> None:
    assert "hfrnn data fetch text8" in sentence(call("data", "show", "text8", code=2))
    assert site.seen == []
    monkeypatch.delenv("HFRNN_OFFLINE")
    monkeypatch.setenv("HFRNN_MIRROR", f"{site.address}/mirror")
    assert "text8" in call("data", "show", "text8").stdout
    assert (folder / "text8" / "text8").is_file()
    call("data", "show", "text8")
    assert site.paths == ["/mirror/text8.zip"]


@pytest.mark.parametrize("answer", [status(404), rubbish], ids=["404", "rubbish"])
def test_trouble_with_the_network_exits_with_1_and_leaves_nothing(site: Site, tmp_path: Path, answer) -> None:
    site.odd["/original/text8.zip"] = answer
    result = call("data", "fetch", "text8", code=1)
    assert f"cannot get text8.zip: {site.address}/original/text8.zip" in sentence(result)
    assert result.stdout == ""
    assert snapshot(tmp_path) == {}


def test_a_data_folder_that_cannot_be_used_exits_with_2(site: Site, folder: Path) -> None:
    folder.write_bytes(b"a file")
    assert "HFRNN_DATA" in sentence(call("data", "fetch", "text8", code=2))


@pytest.mark.parametrize("numbers", [(signal.SIGINT,), (signal.SIGTERM, signal.SIGTERM), (signal.SIGHUP,)])
def test_a_signal_is_one_sentence_and_leaves_nothing(site: Site, tmp_path: Path, numbers: tuple[int, ...]) -> None:
    site.odd["/mirror/ptb.train.txt"] = silent
    process = subprocess.Popen(
        [sys.executable, "-m", "hfrnn", "data", "fetch", "ptb", "--mirror", f"{site.address}/mirror"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HFRNN_DATA": str(tmp_path / "data")},
    )
    deadline = time.monotonic() + 60
    while not site.seen and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    for number in numbers:
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err.splitlines()[-1] == "Error: interrupted"
    assert "Traceback" not in err
    assert snapshot(tmp_path) == {}


def test_without_a_terminal_progress_is_a_line_now_and_then(site: Site, monkeypatch) -> None:
    monkeypatch.setattr("hfrnn.cli.progress.PLAIN_SECONDS", 0.0)
    assert "text8.zip  0.0 MB of 0.0 MB" in call("data", "fetch", "text8").stderr.splitlines()
    monkeypatch.setattr("hfrnn.cli.progress.PLAIN_SECONDS", 60.0)
    assert call("data", "fetch", "enwik8").stderr == f"getting {site.address}/original/enwik8.zip\n"


# ---------------------------------------------------------------------- show


@pytest.mark.parametrize("level", ["char", "byte", "word"])
def test_show_tells_parts_symbols_and_the_beginning(site: Site, level: str) -> None:
    call("data", "fetch", "ptb")
    shown = json.loads(call("data", "show", "ptb", "--level", level, "--json").stdout)
    corpus = load_corpus(name="ptb", level=level)
    assert shown["source"] == corpus.source
    assert shown["sha256"] == corpus.sha256
    if level == "word":  # " train of the <unk> \n N train \n", forty times
        assert shown["parts"] == {"train": 320, "valid": 320, "test": 320}
        assert shown["symbols"] == 6
        assert shown["most_frequent"][:2] == [{"symbol": "<eos>", "count": 80}, {"symbol": "train", "count": 80}]
        assert shown["beginning"] == corpus.train[:300]
    else:
        assert shown["parts"] == {part: len(getattr(corpus, part)) for part in ("train", "valid", "test")}
        assert shown["symbols"] == len(set(corpus.train))
        assert shown["most_frequent"][0] == {"symbol": "_" if level == "char" else ord("_"), "count": 160}
        assert shown["beginning"] == load_corpus(name="ptb").train[:300]
    counts = [each["count"] for each in shown["most_frequent"]]
    assert counts == sorted(counts, reverse=True)


def test_show_prints_it_for_reading(site: Site) -> None:
    call("data", "fetch", "ptb")
    out = call("data", "show", "ptb").stdout
    assert "train     1,080 characters\n" in out
    assert "frequent  '_'         14.81%\n" in out
    assert out.endswith("\nbeginning:\n" + load_corpus(name="ptb").train[:300] + "\n")


def test_show_keeps_control_characters_from_the_terminal(site: Site, folder: Path) -> None:
    put(folder, "enwik8/enwik8", b"a\x1b[2Jb" * 100)
    assert "a\\x1b[2Jb" in call("data", "show", "enwik8", "--level", "byte").stdout


def test_show_of_a_corpus_that_is_not_here_says_how_to_get_it(site: Site) -> None:
    assert "hfrnn data fetch enwik8" in sentence(call("data", "show", "enwik8", code=2))
    assert "no corpus named 'novel'" in sentence(call("data", "show", "novel", code=2))
    assert site.seen == []


def test_show_reads_a_text_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_text("abab" * 50, encoding="utf-8")
    shown = json.loads(call("data", "show", "book.txt", "--json").stdout)
    assert (shown["source"], shown["symbols"], shown["beginning"]) == ("book.txt", 2, "abab" * 45)
    assert shown["parts"] == {"train": 180, "valid": 20, "test": 0}
    assert call("data", "show", "book.txt").stdout.startswith("book.txt: a text file\nfrom      book.txt\n")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("r.csv", "a table"), ("addition", "a synthetic task"), ("jsb", "music")],
)
def test_show_says_where_other_data_are_described(name: str, kind: str) -> None:
    said = sentence(call("data", "show", name, code=2))
    assert f"{name} is {kind} and has no symbols to show: the first lines of hfrnn train --data {name} say" in said


def test_show_counts_rare_words_as_unknown(site: Site, folder: Path) -> None:
    put(folder, "text8/text8", b"often " * 2000 + b"seldom rarely " * 10 + b"often " * 20)
    out = call("data", "show", "text8", "--level", "word").stdout
    assert "symbols   3 (words seen fewer than 11 times are <unk>)\n" in out
