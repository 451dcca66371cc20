"""Downloads have a bound, do not leave https, and clean up after killed ones."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.local_site import CONTENT, Site, compressed, endless, local_site, stall, zipped
from support.tiny_runs import snapshot

from hfrnn.data import downloads, remotes
from hfrnn.data.corpora import CORPORA, folder_of
from hfrnn.data.downloads import fetch
from hfrnn.data.remotes import DOWNLOADS
from hfrnn.data.transfer import RequestError, next_address
from hfrnn.errors import HfrnnError

REAL = dict(DOWNLOADS)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with local_site(tmp_path, monkeypatch) as site:
        yield site


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


ENDLESS = {
    "endless": (endless(), r"sent more than the [\d,]+ bytes that are allowed\. "),
    "endless when unpacked": (endless("gzip"), r"sent more than the [\d,]+ bytes that are allowed after decompress"),
    "long by its own account": (endless(length=10**9), r"would send 1,000,000,000 bytes, more than the [\d,]+ that"),
    "in an odd encoding": (endless("br"), r"sent content in the encoding 'br', which was not asked for"),
}


@pytest.mark.parametrize("size", ["known", "unknown"])
@pytest.mark.parametrize("trouble", ENDLESS)
def test_a_body_without_an_end_is_cut_off_and_leaves_nothing(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str, size: str
) -> None:
    answer, words = ENDLESS[trouble]
    site.odd["/original/text8.zip"] = answer
    monkeypatch.setattr(remotes, "MARGIN", 30_000)
    monkeypatch.setattr(remotes, "MOST_UNKNOWN", 50_000)
    if size == "unknown":
        monkeypatch.setitem(DOWNLOADS, "text8", (replace(DOWNLOADS["text8"][0], size=None),))
    sizes: list[float] = []
    with pytest.raises(HfrnnError, match=f"cannot get text8.zip: {site.address}/original/text8.zip {words}"):
        fetch("text8", progress=lambda text, done, total: sizes.append(done))
    assert max(sizes, default=0) <= 50_000
    assert site.sent < 20_000_000  # what the sockets hold
    assert len(site.paths) == 1
    assert snapshot(tmp_path) == {}


def test_the_body_of_a_redirect_is_not_read(site: Site, data: Path) -> None:
    site.odd["/original/text8.zip"] = endless(code=302)
    fetch("text8")
    assert (data / "text8/text8").read_bytes() == CONTENT["text8"]["text8"]
    assert site.sent < 20_000_000


@pytest.mark.parametrize(("encoding", "wbits"), [("gzip", 31), ("deflate", 15)])
def test_a_body_that_the_server_has_compressed_is_unpacked(site: Site, data: Path, encoding: str, wbits: int) -> None:
    site.odd["/original/ptb.train.txt"] = compressed(encoding, wbits)
    fetch("ptb")
    assert (data / "ptb/ptb.train.txt").read_bytes() == CONTENT["ptb"]["ptb.train.txt"]


def test_a_member_larger_than_its_known_size_is_not_unpacked(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.files["/original/text8.zip"] = zipped({"text8": bytes(10**7)})
    monkeypatch.setattr(remotes, "MARGIN", 10_000)
    monkeypatch.setitem(DOWNLOADS, "text8", (replace(site.remote("text8.zip", "text8"), member_sizes=(1000,)),))
    words = r"cannot unpack text8\.zip from .*: text8 is larger than the 11,100 bytes that are allowed"
    with pytest.raises(HfrnnError, match=words):
        fetch("text8")
    assert snapshot(tmp_path) == {}


@pytest.mark.parametrize(
    ("address", "location", "following"),
    [
        ("https://a.org/x", "https://b.org/y", "https://b.org/y"),
        ("https://a.org/x", "/y", "https://a.org/y"),
        ("http://a.org/x", "https://b.org/y", "https://b.org/y"),
        ("http://a.org/x", "//b.org/y", "http://b.org/y"),
        ("https://a.org/x", "http://a.org/x", None),
        ("https://a.org/x", "ftp://a.org/x", None),
    ],
)
def test_a_redirect_may_not_leave_https(address: str, location: str, following: str | None) -> None:
    if following is None:
        with pytest.raises(RequestError, match="redirects from https to an address without encryption"):
            next_address(address, location)
    else:
        assert next_address(address, location) == following


def test_every_corpus_comes_by_https_and_has_its_sizes_recorded() -> None:
    for remote in (each for corpus in REAL.values() for each in corpus):
        assert remote.address.startswith("https://")
        assert remote.size is not None
        assert len(remote.member_sizes) == len(remote.members)
    for name, known in CORPORA.items():
        if known.files and folder_of(known.files) in REAL:
            whole = sum(sum(each.member_sizes) or each.size or 0 for each in REAL[folder_of(known.files)])
            assert abs(whole / known.size - 1) < 0.02, name


# ---------------------------------------------------------------------- what killed downloads leave


def test_leftovers_are_deleted_but_not_those_of_a_running_download(site: Site, data: Path) -> None:
    with downloads._hidden_folder(data / "text8") as running:
        put(running / "text8.zip", b"half")
        put(data / "text8/.fetch-old/text8.zip", b"half")  # of a version without locks
        put(data / "enwik8/.fetch-killed/enwik8.zip", b"half")
        put(data / "enwik8/.fetch-killed/lock", b"")
        (data / "enwik8/.fetch-link").symlink_to(data / "text8")
        fetch("text8")
        assert (running / "text8.zip").read_bytes() == b"half"
        assert {path.name for path in data.glob("*/.fetch-*")} == {".fetch-link", running.name}
    assert {path.name for path in data.glob("*/.fetch-*")} == {".fetch-link"}


def test_the_next_download_deletes_what_a_killed_one_has_left(site: Site, data: Path) -> None:
    site.odd["/original/text8.zip"] = stall
    code = (
        "import sys\nfrom hfrnn.data import downloads\nfrom hfrnn.data.remotes import DOWNLOADS, Remote\n"
        "DOWNLOADS['text8'] = (Remote(sys.argv[1], '0' * 64, ('text8',)),)\ndownloads.fetch('text8')\n"
    )
    started = subprocess.Popen([sys.executable, "-c", code, f"{site.address}/original/text8.zip"])
    deadline = time.monotonic() + 60
    while not site.seen and time.monotonic() < deadline:
        time.sleep(0.01)
    del site.odd["/original/text8.zip"]
    fetch("text8")
    assert len(list(data.glob("text8/.fetch-*"))) == 1  # the other one is still running
    started.kill()
    started.wait()
    assert len(list(data.glob("text8/.fetch-*"))) == 1
    fetch("text8", force=True)
    assert not list(data.glob("text8/.fetch-*"))


def test_downloads_at_the_same_time_do_not_disturb_each_other(site: Site, data: Path) -> None:
    errors: list[BaseException] = []

    def load() -> None:
        try:
            fetch("text8", force=True)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(path.name for path in (data / "text8").iterdir()) == ["text8", "text8.zip"]
