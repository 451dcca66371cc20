"""Downloads from a local server that answers correctly, breaks off, sends wrong content, hangs or redirects."""

from __future__ import annotations

import errno
import os
import resource
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from unittest.mock import Mock

import pytest
import requests
from support import local_site as answers
from support.local_site import ARCHIVES, CONTENT, PIECE, Site, local_site, put
from support.tiny_runs import snapshot

from hfrnn.data import downloads
from hfrnn.data.addresses import DOWNLOADS, Remote
from hfrnn.data.corpora import CORPORA, folder_of, load_corpus
from hfrnn.data.downloads import RequestError, check_redirect, fetch
from hfrnn.data.music import COLLECTIONS
from hfrnn.errors import HfrnnError, InputError

REAL = dict(DOWNLOADS)
TEXT8 = CONTENT["text8"]["text8"]
SHARED = Path(os.environ.get("HFRNN_DATA") or Path(__file__).parents[3] / "shared" / "data").resolve()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with local_site(tmp_path, monkeypatch) as site:
        yield site


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def refused(name: str, words: str, *, force: bool = False, mirrors: tuple[str, ...] = ()) -> str:
    """Check that fetching fails with exit code 1, and return the message."""
    with pytest.raises(HfrnnError, match=words) as error:
        fetch(name, mirrors, force)
    assert error.value.exit_code == 1
    return str(error.value)


@pytest.mark.parametrize("name", CONTENT)
def test_a_corpus_is_fetched_to_where_it_is_looked_for(site: Site, data: Path, name: str) -> None:
    found = fetch(name)
    archives = {remote.name: ARCHIVES[remote.name] for remote in DOWNLOADS[name] if remote.members}
    assert {path.name: path.read_bytes() for path in data.rglob("*") if path.is_file()} == CONTENT[name] | archives
    assert {path.parent for path in found.files} == {data / name}
    assert [path.read_bytes() for path in found.files] == list(CONTENT[name].values())
    assert found.origins == tuple(remote.address for remote in DOWNLOADS[name])
    assert found.checked
    level = "word" if "word" in CORPORA[name].levels else "byte"
    assert load_corpus(name=name, level=level).source == ", ".join(map(str, found.files))


def test_without_hfrnn_data_the_user_s_cache_is_the_data_folder(site: Site, data: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HFRNN_DATA", "")
    fetch("ptb")
    assert (tmp_path / "cache/hfrnn/ptb/ptb.train.txt").read_bytes() == CONTENT["ptb"]["ptb.train.txt"]
    monkeypatch.delenv("HFRNN_DATA")
    assert load_corpus(name="ptb", level="word").train.encode() == CONTENT["ptb"]["ptb.train.txt"]
    monkeypatch.setenv("HFRNN_DATA", str(data))  # comes first, but the cache is looked in too
    assert load_corpus(name="ptb", level="word").train.encode() == CONTENT["ptb"]["ptb.train.txt"]
    for part in ("train", "valid", "test"):
        put(data / f"ptb/ptb.{part}.txt", b"mine\n")
    assert load_corpus(name="ptb", level="word").train == "mine\n"


@pytest.mark.parametrize("name", ["ptb", "text8"])
def test_what_is_there_and_whole_is_left_alone_unless_forced(site: Site, name: str) -> None:
    fetch(name)
    asked = list(site.paths)
    assert (fetch(name).origins, fetch(name).checked) == ((), True)
    assert site.paths == asked
    assert len(fetch(name, force=True).origins) == len(asked)
    assert site.paths == asked * 2


def test_only_a_damaged_file_is_fetched_again_and_may_be_read_by_all_whom_the_umask_lets(site, data):
    fetch("ptb")
    put(data / "ptb/ptb.valid.txt", b"damaged")
    site.seen.clear()
    fetch("ptb")
    assert site.paths == ["/original/ptb.valid.txt"]
    assert (data / "ptb/ptb.valid.txt").read_bytes() == CONTENT["ptb"]["ptb.valid.txt"]
    (data / "plain").touch()
    assert (data / "ptb/ptb.test.txt").stat().st_mode == (data / "plain").stat().st_mode


@pytest.mark.parametrize("change", [b"X" + TEXT8[1:], TEXT8[:-1], None])
def test_a_damaged_text_is_unpacked_again_from_the_archive_beside_it(site: Site, data: Path, change: bytes) -> None:
    archive, text = put(data / "text8/text8.zip", ARCHIVES["text8.zip"]), data / "text8/text8"
    if change is not None:
        fetch("text8")
        text.write_bytes(change)
    assert fetch("text8").origins == (str(archive),)
    assert text.read_bytes() == TEXT8
    assert site.paths == []


def test_a_wrong_archive_is_not_unpacked_but_replaced(site: Site, data: Path) -> None:
    archive = put(data / "text8/text8.zip", answers.zipped({"text8": b"something else"}))
    fetch("text8")
    assert (data / "text8/text8").read_bytes() == TEXT8
    assert archive.read_bytes() == ARCHIVES["text8.zip"]


def test_a_text_that_the_user_put_there_is_left_alone_and_not_called_checked(site: Site, data: Path) -> None:
    put(data / "text8/text8-prefix.txt", b"a beginning")
    assert fetch("text8").origins  # is not the whole
    put(data / "enwik8/enwik8", b"my own")
    asked = list(site.paths)
    found = fetch("enwik8")
    assert (found.origins, found.checked) == ((), False)
    assert (data / "enwik8/enwik8").read_bytes() == b"my own"
    assert site.paths == asked
    for name in ("wiki.train.tokens", "wiki.test.tokens"):  # a part is missing
        put(data / "wikitext-2" / name, b"mine")
    assert fetch("wikitext-2").origins
    assert (data / "wikitext-2/wiki.valid.tokens").read_bytes() == CONTENT["wikitext-2"]["wiki.valid.tokens"]
    assert (data / "text8/text8-prefix.txt").read_bytes() == b"a beginning"


def test_redirects_are_followed_and_servers_are_not_told_python_s_user_agent(site, data):
    site.files["/far/t.zip"] = ARCHIVES["text8.zip"]
    site.odd["/original/text8.zip"] = answers.redirect("/far/t.zip")
    fetch("text8")
    assert (data / "text8/text8").read_bytes() == TEXT8
    assert [agent for _, agent in site.seen if "hfrnn" not in agent or agent.lower().startswith("python")] == []


def test_progress_goes_from_nothing_to_the_whole_of_every_file(site: Site) -> None:
    steps, size = list[tuple[str, float, float]](), len(ARCHIVES["text8.zip"])
    fetch("text8", progress=lambda *step: steps.append(step))
    assert ("text8.zip", size, size) in steps
    assert steps[-1] == ("unpacking text8", len(TEXT8), len(TEXT8))
    assert all(0 < done <= total for _, done, total in steps)


def test_mirrors_are_tried_in_order_before_the_original(site: Site) -> None:
    told, mirrors = list[str](), (f"{site.address}/none", f"{site.address}/mirror/")
    assert fetch("text8", mirrors, tell=told.append).origins == (f"{site.address}/mirror/text8.zip",)
    assert site.paths == ["/none/text8.zip", "/mirror/text8.zip"]
    zips = [f"{mirror.rstrip('/')}/text8.zip" for mirror in mirrors]
    assert told == [f"getting {zips[0]}", f"{zips[0]} answered 404 Not Found", f"getting {zips[1]}"]


def test_a_mirror_with_other_content_is_passed_over_and_every_address_that_failed_is_named(site: Site) -> None:
    site.odd["/mirror/text8.zip"] = answers.rubbish
    mirrors = (f"{site.address}/none", f"{site.address}/mirror")
    assert fetch("text8", mirrors).origins == (f"{site.address}/original/text8.zip",)
    site.odd["/original/text8.zip"] = answers.status(404)
    words = r"/none/text8\.zip answered 404.*/mirror/text8\.zip sent.*/original/text8\.zip answered"
    refused("text8", words, mirrors=mirrors, force=True)


@pytest.mark.parametrize("mirror", ["", "example.org/x", "file:///data", "ftp://example.org", "https://", "http://["])
def test_a_mirror_that_is_no_address_is_refused(site: Site, mirror: str) -> None:
    with pytest.raises(InputError, match=r"mirror is .*http"):
        fetch("text8", [mirror])
    assert site.paths == []


def test_only_named_addresses_are_known_and_no_password_is_shown(site: Site) -> None:
    mirror = site.address.replace("http://", "http://me:secret@") + "/none"
    told: list[str] = []
    fetch("text8", [mirror], tell=told.append)
    assert "/none/text8.zip answered 404" in told[1]
    site.odd["/original/text8.zip"] = answers.status(404)
    assert "secret" not in refused("text8", "/none/text8.zip", mirrors=(mirror,), force=True) + "".join(told)
    names = "ptb, tinyshakespeare, jsb, text8, enwik8, wiki"
    with pytest.raises(InputError, match=f"no address is known for 'python-manual'; .*: {names}"):
        fetch("python-manual")


HALF = len(ARCHIVES["text8.zip"]) // 2
BROKE_OFF = rf"broke off after ({HALF:,}|{HALF // PIECE * PIECE:,}) bytes"
TROUBLE = {
    "404": (answers.status(404), 1, r"answered 404 Not Found"),
    "busy": (answers.status(503), 3, r"answered 503 Service Unavailable"),
    "breaks off": (answers.break_off, 3, BROKE_OFF),
    "rubbish": (answers.rubbish, 1, r"sent other content than the file of sha256 \w{12}\.\.\."),
    "silent": (answers.silent, 3, r"cannot be reached \(Read timed out"),
    "stalls": (answers.stall, 3, BROKE_OFF),
    "runs in a circle": (answers.redirect("/original/text8.zip"), 31, r"cannot be reached \(Exceeded 30 redirects"),
}


@pytest.mark.parametrize("trouble", TROUBLE)
def test_trouble_is_one_sentence_and_leaves_all_as_it_was(site, tmp_path, data, monkeypatch, trouble):
    answer, requests, words = TROUBLE[trouble]
    there = requests == 3  # an older file
    if there:
        fetch("text8")
    before = snapshot(tmp_path)
    site.seen.clear()
    site.odd["/original/text8.zip"] = answer
    if answer in (answers.silent, answers.stall):
        monkeypatch.setattr(downloads, "TIMEOUT", 0.3)
    sentence = refused("text8", f"cannot get text8.zip: {site.address}/original/text8.zip {words}", force=there)
    assert f"put the file at {data / 'text8/text8.zip'} yourself, or set HFRNN_MIRROR to another address" in sentence
    assert "\n" not in sentence
    assert len(site.paths) == requests
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("trouble", ["breaks off", "busy", "stalls"])
def test_trouble_that_passes_is_tried_again(site: Site, data: Path, monkeypatch, trouble: str) -> None:
    told: list[str] = []
    if trouble == "stalls":
        monkeypatch.setattr(downloads, "TIMEOUT", 0.3)
    site.odd["/original/text8.zip"] = answers.once(TROUBLE[trouble][0])
    fetch("text8", tell=told.append)
    assert (data / "text8/text8").read_bytes() == TEXT8
    assert "trying again" in told[1]


def test_a_corpus_out_of_reach_is_said_to_be_and_all_of_its_files_come_or_none(site, tmp_path, monkeypatch):
    closed = Remote("http://127.0.0.1:9/text8.zip", "0" * 64, 1000, ("text8",))
    monkeypatch.setitem(DOWNLOADS, "text8", (closed,))
    refused("text8", r"cannot be reached \(\[Errno \d+\] Connection refused\)")
    assert snapshot(tmp_path) == {}
    site.odd["/original/ptb.test.txt"] = answers.status(404)
    refused("ptb", r"cannot get ptb\.test\.txt")
    assert len(site.paths) == 3
    assert snapshot(tmp_path) == {}


@pytest.mark.parametrize("size", [20, len(ARCHIVES["text8.zip"]) + 10], ids=["downloading", "unpacking"])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(site: Site, tmp_path: Path, size: int) -> None:
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))  # writing more than `size` bytes fails
    try:
        refused("text8", r"cannot write to .*text8 \(File too large\).*free some space")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert snapshot(tmp_path) == {}


def test_a_folder_that_cannot_be_written_to_is_refused(site: Site, data: Path, tmp_path: Path, monkeypatch) -> None:
    reason = os.strerror(errno.EROFS)
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkdtemp", Mock(side_effect=OSError(errno.EROFS, reason)))
        with pytest.raises(InputError, match=rf"cannot write to .*text8 \({reason}\).*HFRNN_DATA"):
            fetch("text8")
    assert snapshot(tmp_path) == {}
    put(data, b"a file")
    with pytest.raises(InputError, match="cannot write to"):
        fetch("text8")
    assert data.read_bytes() == b"a file"


@pytest.mark.parametrize("moment", ["text8.zip", "unpacking text8"])
def test_an_interruption_leaves_nothing(site: Site, tmp_path: Path, moment: str) -> None:
    def interrupt(text: str, done: float, total: float) -> None:
        if text == moment:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("text8", progress=interrupt)
    assert snapshot(tmp_path) == {}


def test_the_files_that_are_fetched_are_those_that_are_read() -> None:
    assert {folder_of(known.files) for known in (*CORPORA.values(), *COLLECTIONS.values()) if known.files} == set(REAL)
    for name, remotes in REAL.items():
        fetched = [f"{name}/{file.name}" for remote in remotes for file in remote.files(Path(name))]
        assert fetched == list({**CORPORA, **COLLECTIONS}[name].files[0])
        for remote in remotes:
            assert len(remote.sha256) == 64
            assert remote.address.startswith("https://")
            assert remote.size > 0
        if name in CORPORA and not any(remote.members for remote in remotes):
            assert abs(sum(remote.size for remote in remotes) / CORPORA[name].size - 1) < 0.02, name


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["tinyshakespeare", "ptb"])
def test_a_corpus_on_this_machine_has_the_hashes_that_fetch_expects(site: Site, monkeypatch, name: str) -> None:
    if not (SHARED / name).is_dir():
        pytest.skip(f"no folder {name} under HFRNN_DATA or ../shared/data")
    monkeypatch.setenv("HFRNN_DATA", str(SHARED))
    monkeypatch.setitem(DOWNLOADS, name, REAL[name])
    assert fetch(name) == downloads.Fetched(tuple(SHARED / name / file for file in CONTENT[name]), (), True)


ENDLESS = {
    "endless": answers.endless(), "endless when unpacked": answers.endless("gzip"),
    "long by its own account": answers.endless(length=10**9),
}  # fmt: skip


@pytest.mark.parametrize("trouble", ENDLESS)
def test_a_body_without_an_end_is_cut_off_and_leaves_nothing(site: Site, tmp_path: Path, trouble: str) -> None:
    site.odd["/original/text8.zip"] = ENDLESS[trouble]
    sizes: list[float] = []
    words = r"sent more than the [\d,]+ bytes of the file\. "
    with pytest.raises(HfrnnError, match=f"cannot get text8.zip: {site.address}/original/text8.zip {words}"):
        fetch("text8", progress=lambda text, done, total: sizes.append(done))
    assert max(sizes, default=0) <= DOWNLOADS["text8"][0].size
    assert site.sent < 20_000_000  # what the sockets hold
    assert len(site.paths) == 1
    assert snapshot(tmp_path) == {}


def test_the_body_of_a_redirect_is_not_read(site: Site, data: Path) -> None:
    site.odd["/original/text8.zip"] = answers.endless(code=302)
    fetch("text8")
    assert (data / "text8/text8").read_bytes() == TEXT8
    assert site.sent < 20_000_000


@pytest.mark.parametrize(("encoding", "wbits"), [("gzip", 31), ("deflate", 15)])
def test_a_body_that_the_server_has_compressed_is_unpacked(site: Site, data: Path, encoding: str, wbits: int) -> None:
    site.odd["/original/ptb.train.txt"] = answers.compressed(encoding, wbits)
    fetch("ptb")
    assert (data / "ptb/ptb.train.txt").read_bytes() == CONTENT["ptb"]["ptb.train.txt"]


@pytest.mark.parametrize(("address", "location", "allowed"), [
    ("https://a.org/x", "https://b.org/y", True), ("https://a.org/x", "/y", True),
    ("http://a.org/x", "https://b.org/y", True), ("http://a.org/x", "//b.org/y", True),
    ("https://a.org/x", "http://a.org/x", False), ("https://a.org/x", "ftp://a.org/x", False),
])  # fmt: skip
def test_a_redirect_may_not_leave_https(address: str, location: str, allowed: bool) -> None:
    response = requests.Response()
    response.url, response.status_code, response.raw = address, 302, BytesIO(b"a page")
    response.headers["location"] = location
    if allowed:
        check_redirect(response)
        assert response.content == b""
    else:
        with pytest.raises(RequestError, match="redirects from https to an address without encryption"):
            check_redirect(response)


def test_downloads_at_the_same_time_do_not_disturb_each_other(site: Site, data: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: fetch("text8", force=True), range(8)))
    assert sorted(path.name for path in (data / "text8").iterdir()) == ["text8", "text8.zip"]
