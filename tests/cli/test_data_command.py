"""`hfrnn data`: what it prints, what it fetches from a local server, its exit codes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from support.command_line import call
from support.local_site import CONTENT, Site, local_site, rubbish, silent
from support.processes import ended, start, wait_until
from support.tiny_runs import snapshot, text_file

from hfrnn.data.corpora import CORPORA, load_corpus
from hfrnn.data.music import COLLECTIONS


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with local_site(tmp_path, monkeypatch) as site:
        yield site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def sentence(result: Result) -> str:
    """The one error sentence on stderr."""
    *_, last = result.stderr.splitlines()
    assert result.stderr.count("Error: ") == last.startswith("Error: ") == 1
    return last


def put(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    return text_file(folder, content, name)


def test_list_names_every_corpus_and_says_whether_and_where_it_is_here(site: Site, folder: Path) -> None:
    path = put(folder, "text8/text8-prefix.txt", b"some letters")
    call("data", "fetch", "wikitext-2", "ptb-char")  # another name of ptb
    found = {row["name"]: row for row in json.loads(call("data", "list", "--json").stdout)["corpora"]}
    assert list(found) == [*CORPORA, *COLLECTIONS]
    assert {name: row["here"] for name, row in found.items()} == {
        "python-manual": "yes", "tinyshakespeare": "no", "ptb": "yes", "ptb-char": "yes", "text8": "part",
        "enwik8": "no", "wikitext-2": "yes", "jsb": "no",
    }  # fmt: skip
    assert (found["text8"]["files"], found["text8"]["bytes"]) == ([str(path)], 12)
    assert found["wikitext-2"]["bytes"] == sum(map(len, CONTENT["wikitext-2"].values()))
    assert [name for name, row in found.items() if not row["can_fetch"]] == ["python-manual"]
    lines = call("data", "list").stdout.splitlines()
    assert lines[0] == f"data folder: {folder}"
    assert all(len(line) <= 80 for line in lines if str(folder) not in line)


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
    path = put(folder, "jsb/jsb.npz", b"mine")
    assert call("data", "fetch", "jsb").stdout.splitlines() == [
        "jsb: already here; you put it there, so it was not checked (--force downloads it again)", f"  {path}",
    ]  # fmt: skip


def test_a_wrong_name_or_a_corpus_of_python_is_not_fetched(site: Site) -> None:
    assert "comes with Python" in call("data", "fetch", "python-manual").stdout
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
    assert "no corpus named 'novel'" in sentence(call("data", "show", "novel", code=2))
    assert site.seen == []
    monkeypatch.delenv("HFRNN_OFFLINE")
    monkeypatch.setenv("HFRNN_MIRROR", f"{site.address}/mirror")
    assert "text8" in call("data", "show", "text8").stdout
    assert (folder / "text8" / "text8").is_file()
    call("data", "show", "text8")
    assert site.paths == ["/mirror/text8.zip"]


def test_trouble_with_the_network_exits_with_1_and_leaves_nothing(site: Site, tmp_path: Path) -> None:
    site.odd["/original/text8.zip"] = rubbish
    result = call("data", "fetch", "text8", code=1)
    assert f"cannot get text8.zip: {site.address}/original/text8.zip" in sentence(result)
    assert result.stdout == ""
    assert snapshot(tmp_path) == {}


def test_a_signal_is_one_sentence_and_leaves_nothing(site: Site, tmp_path: Path) -> None:
    site.odd["/mirror/ptb.train.txt"] = silent
    process = start(tmp_path, "data", "fetch", "ptb", "--mirror", f"{site.address}/mirror")
    wait_until(lambda: bool(site.seen), process)
    code, err = ended(process, signal.SIGTERM, signal.SIGTERM)
    assert code == 1
    assert err.splitlines()[-1] == "Error: interrupted"
    assert snapshot(tmp_path) == {}


def test_without_a_terminal_progress_is_a_line_now_and_then(site: Site, monkeypatch) -> None:
    monkeypatch.setattr("hfrnn.live_line.PLAIN_SECONDS", 0.0)
    assert "text8.zip  0.0 MB of 0.0 MB" in call("data", "fetch", "text8").stderr.splitlines()
    monkeypatch.setattr("hfrnn.live_line.PLAIN_SECONDS", 60.0)
    assert call("data", "fetch", "enwik8").stderr == f"getting {site.address}/original/enwik8.zip\n"


def test_show_tells_parts_symbols_and_the_beginning(site: Site) -> None:
    call("data", "fetch", "ptb")
    out = call("data", "show", "ptb").stdout
    assert "train     1,080 characters\n" in out
    assert "frequent  '_'         14.81%\n" in out
    assert out.endswith("\nbeginning:\n" + load_corpus(name="ptb").train[:300] + "\n")
    shown = json.loads(call("data", "show", "ptb", "--level", "byte", "--json").stdout)
    corpus = load_corpus(name="ptb", level="byte")
    assert (shown["source"], shown["sha256"]) == (corpus.source, corpus.sha256)
    assert shown["symbols"] == len(set(corpus.train))
    assert shown["parts"] == {part: len(getattr(corpus, part)) for part in ("train", "valid", "test")}
    assert shown["most_frequent"][0] == {"symbol": ord("_"), "count": 160}
    shown = json.loads(call("data", "show", "ptb", "--level", "word", "--json").stdout)
    assert shown["parts"] == {"train": 320, "valid": 320, "test": 320}  # " train of the <unk> \n N train \n", 40 times
    assert shown["symbols"] == 6
    assert shown["most_frequent"][:2] == [{"symbol": "<eos>", "count": 80}, {"symbol": "train", "count": 80}]
    assert shown["beginning"] == load_corpus(name="ptb", level="word").train[:300]


def test_show_reads_a_text_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_text("abab" * 50, encoding="utf-8")
    shown = json.loads(call("data", "show", "book.txt", "--json").stdout)
    assert (shown["source"], shown["symbols"], shown["beginning"]) == ("book.txt", 2, "abab" * 45)
    assert shown["parts"] == {"train": 180, "valid": 20, "test": 0}
    assert "r.csv is a table and has no symbols to show" in sentence(call("data", "show", "r.csv", code=2))


def test_show_counts_rare_words_as_unknown(site: Site, folder: Path) -> None:
    put(folder, "text8/text8", b"often " * 2000 + b"seldom rarely " * 10 + b"often " * 20)
    out = call("data", "show", "text8", "--level", "word").stdout
    assert "symbols   3 (words seen fewer than 11 times are <unk>)\n" in out
