"""Downloads have a bound and do not leave https."""

from __future__ import annotations

import threading
from io import BytesIO
from pathlib import Path

import pytest
import requests
from support.local_site import CONTENT, Site, compressed, endless
from support.tiny_runs import snapshot

from hfrnn.data.addresses import DOWNLOADS
from hfrnn.data.downloads import RequestError, check_redirect, fetch
from hfrnn.errors import HfrnnError

ENDLESS = {
    "endless": endless(), "endless when unpacked": endless("gzip"), "long by its own account": endless(length=10**9),
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
    site.odd["/original/text8.zip"] = endless(code=302)
    fetch("text8")
    assert (data / "text8/text8").read_bytes() == CONTENT["text8"]["text8"]
    assert site.sent < 20_000_000


@pytest.mark.parametrize(("encoding", "wbits"), [("gzip", 31), ("deflate", 15)])
def test_a_body_that_the_server_has_compressed_is_unpacked(site: Site, data: Path, encoding: str, wbits: int) -> None:
    site.odd["/original/ptb.train.txt"] = compressed(encoding, wbits)
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
