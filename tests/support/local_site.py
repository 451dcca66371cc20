"""A local web server with small corpora; it can also break off, send wrong content, and be slow."""

from __future__ import annotations

import hashlib
import io
import random
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pooch
import pytest

from hfrnn.choices import PARTS
from hfrnn.data import downloads
from hfrnn.data.addresses import DOWNLOADS, Remote

CONTENT = {
    "ptb": {f"ptb.{part}.txt": f" {part} of the <unk> \n N {part} \n".encode() * 40 for part in PARTS},
    "tinyshakespeare": {"tinyshakespeare.txt": b"To be, or not to be.\n" * 40},
    "text8": {"text8": bytes(random.Random(0).choices(b"abcdefghi ", k=4000))},
    "enwik8": {"enwik8": "<mediawiki>né</mediawiki>\n".encode() * 100},
    "wikitext-2": {f"wiki.{part}.tokens": f" \n = {part} = \n".encode() for part in PARTS},
}  # fmt: skip
"""The files in the folder of each corpus after it was fetched, without archives."""
PIECE = 100


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


ARCHIVES = {
    "text8.zip": zipped(CONTENT["text8"]),
    "enwik8.zip": zipped(CONTENT["enwik8"]),
    "wikitext-2-v1.zip": zipped({f"wikitext-2/{name}": content for name, content in CONTENT["wikitext-2"].items()}),
}
Answer = Callable[["Site", BaseHTTPRequestHandler], None]


class Site:
    """The server: `files` and `odd` (other answers) by path; `seen` lists the requests as (path, user agent)."""

    def __init__(self, address: str) -> None:
        self.address = address
        contents = {**CONTENT["ptb"], **CONTENT["tinyshakespeare"], **ARCHIVES}
        self.files = {f"/{folder}/{name}": contents[name] for folder in ("original", "mirror") for name in contents}
        self.odd: dict[str, Answer] = {}
        self.sent = 0  # bytes of endless answers
        self.seen: list[tuple[str, str]] = []
        self.closing = threading.Event()

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.seen]

    def remote(self, name: str, *members: str) -> Remote:
        """Return a file of the folder "original" with its correct sha256 and size."""
        content = self.files[f"/original/{name}"]
        sha256 = hashlib.sha256(content).hexdigest()
        return Remote(f"{self.address}/original/{name}", sha256, len(content), members)


def send(
    handler: BaseHTTPRequestHandler, content: bytes, headers: Mapping[str, object] | None = None, code: int = 200
) -> None:
    """Send content, with its length if no headers are given; a header that is None is left out."""
    handler.send_response(code)
    for name, value in ({"Content-Length": len(content)} if headers is None else headers).items():
        if value is not None:
            handler.send_header(name, str(value))
    handler.end_headers()
    handler.wfile.write(content)


def break_off(site: Site, handler: BaseHTTPRequestHandler) -> None:
    content = site.files[handler.path]
    send(handler, content[: len(content) // 2], {"Content-Length": len(content)})


def status(code: int) -> Answer:
    return lambda site, handler: handler.send_error(code)


def rubbish(site: Site, handler: BaseHTTPRequestHandler) -> None:
    send(handler, b"<html>please log in</html>")


def endless(encoding: str | None = None, code: int = 200, length: int | None = None) -> Answer:
    """Return an answer whose body never ends; perhaps compressed, that of a redirect, or with a length announced."""

    def answer(site: Site, handler: BaseHTTPRequestHandler) -> None:
        location = f"{site.address}/mirror/text8.zip" if code == 302 else None
        send(handler, b"", {"Content-Encoding": encoding, "Content-Length": length, "Location": location}, code)
        packer = zlib.compressobj(wbits=31)
        with suppress(OSError):  # until the client has enough
            while not site.closing.is_set() and site.sent < 10**8:  # a client without a bound must not fill the memory
                piece = bytes(2**16)
                site.sent += handler.wfile.write(piece if encoding is None else packer.compress(piece) or b"")

    return answer


def compressed(encoding: str, wbits: int) -> Answer:
    def answer(site: Site, handler: BaseHTTPRequestHandler) -> None:
        packer = zlib.compressobj(wbits=wbits)
        content = packer.compress(site.files[handler.path]) + packer.flush()
        send(handler, content, {"Content-Length": len(content), "Content-Encoding": encoding})

    return answer


def redirect(path: str) -> Answer:
    return lambda site, handler: send(handler, b"", {"Location": site.address + path, "Content-Length": 0}, 302)


def silent(site: Site, handler: BaseHTTPRequestHandler) -> None:
    site.closing.wait(30)


def stall(site: Site, handler: BaseHTTPRequestHandler) -> None:
    break_off(site, handler)
    handler.wfile.flush()
    site.closing.wait(30)


def once(first: Answer) -> Answer:
    def answer(site: Site, handler: BaseHTTPRequestHandler) -> None:
        if len(site.seen) == 1:
            first(site, handler)
        else:
            send(handler, site.files[handler.path])

    return answer


@contextmanager
def local_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Run the server in a thread; all downloads go to it, and data folder and cache are under tmp_path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.seen.append((self.path, self.headers["User-Agent"]))
            if self.path in site.odd:
                site.odd[self.path](site, self)
            elif self.path in site.files:
                send(self, site.files[self.path])
            else:
                self.send_error(404)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site = Site(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    table = {
        "ptb": tuple(site.remote(name) for name in CONTENT["ptb"]),
        "tinyshakespeare": (site.remote("tinyshakespeare.txt"),),
        "text8": (site.remote("text8.zip", "text8"),),
        "enwik8": (site.remote("enwik8.zip", "enwik8"),),
        "wikitext-2": (site.remote("wikitext-2-v1.zip", *(f"wikitext-2/{name}" for name in CONTENT["wikitext-2"])),),
    }
    for name, remotes in table.items():
        monkeypatch.setitem(DOWNLOADS, name, remotes)
    monkeypatch.setattr(downloads, "PAUSES", (0.0, 0.0))
    monkeypatch.setattr(downloads, "PIECE", PIECE)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("HFRNN_MIRROR", raising=False)
    try:
        yield site
    finally:
        site.closing.set()
        server.shutdown()
        server.server_close()
