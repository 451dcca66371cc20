"""One download over HTTP into a file, with a bound on its size.

The redirects of requests and pooch are not used, because they read the whole body of every answer into memory and go
from https to http. Their decompression is not used, because it has no bound either.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from hfrnn._version import __version__

HEADERS = {"User-Agent": f"Mozilla/5.0 (compatible; hfrnn/{__version__})", "Accept-Encoding": "identity"}
"""The headers of all requests; the server of WikiText refuses Python's default user agent."""
REDIRECTS = 30
"""The most redirects to follow."""

Progress = Callable[[str, float, float], None]


class RequestError(Exception):
    """A request that failed, as the end of a sentence that begins with the address.

    Attributes
    ----------
    temporary : bool
        Whether the same request may succeed later.
    """

    def __init__(self, message: str, temporary: bool) -> None:
        super().__init__(message)
        self.temporary = temporary


def download(address: str, target: Path, most: int, progress: Progress, timeout: float, piece: int) -> None:
    """Download a file.

    Parameters
    ----------
    address : str
        Its address; redirects are followed, but not from https to http.
    target : Path
        Where to write it.
    most : int
        The most bytes to receive, and to write if the server has compressed them.
    progress : callable
        Called with the name of the file, the bytes received, and the bytes in all (0 if unknown).
    timeout : float
        Seconds to wait for the next byte.
    piece : int
        Bytes to receive and write at a time.

    Raises
    ------
    RequestError
        The server cannot be reached, answers with an error, breaks off, or sends too much.
    """
    import requests
    import urllib3

    begun = False
    try:
        with _answer(address, timeout) as response, open(target, "wb") as file:
            if not response.ok:
                status, reason = response.status_code, response.reason or ""
                raise RequestError(f"answered {status} {reason}".rstrip(), status >= 500 or status in (408, 429))
            begun = True
            for content in _content(response, target.name, most, progress, piece):
                file.write(content)
    except (requests.RequestException, urllib3.exceptions.HTTPError, zlib.error, ValueError) as error:
        if begun:
            raise RequestError(f"broke off after {target.stat().st_size:,} bytes", True) from error
        if isinstance(error, requests.Timeout):
            raise RequestError(f"did not answer within {timeout:g} s", True) from error
        cause = getattr(error.args[0], "reason", error) if error.args else error
        temporary = isinstance(error, requests.ConnectionError)
        raise RequestError(f"cannot be reached ({str(cause).rpartition(': ')[2]})", temporary) from error


def _answer(address: str, timeout: float) -> AbstractContextManager[Any]:
    """Return the answer to a request after all redirects; nothing of its body has been read."""
    import requests

    class Session(requests.Session):
        def get_redirect_target(self, resp: Any) -> None:
            """Return None: requests would read the body of a redirect whole, even if told not to follow it."""

    session = Session()
    for _ in range(REDIRECTS + 1):
        response = session.get(address, headers=HEADERS, stream=True, timeout=timeout)
        if not response.is_redirect:
            return response
        response.close()
        address = next_address(address, response.headers["location"])
    raise RequestError(f"cannot be reached (Exceeded {REDIRECTS} redirects)", False)


def next_address(address: str, location: str) -> str:
    """Return the address that a redirect names; raise `RequestError` if it would leave https."""
    following = urljoin(address, location)
    if urlsplit(address).scheme == "https" and urlsplit(following).scheme != "https":
        raise RequestError("redirects from https to an address without encryption", False)
    return following


def _content(response: Any, name: str, most: int, progress: Progress, piece: int) -> Iterator[bytes]:
    """Yield the body of an answer in pieces, decompressed; raise `RequestError` if it is longer than `most` bytes."""
    length = response.headers.get("content-length", "")
    total = int(length) if length.isdecimal() else 0
    if total > most:
        raise RequestError(f"would send {total:,} bytes, more than the {most:,} that are allowed", False)
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip", "deflate"):
        raise RequestError(f"sent content in the encoding {encoding!r}, which was not asked for", False)
    unpacker = None if encoding == "identity" else zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib
    received = written = 0
    for content in response.raw.stream(piece, decode_content=False):
        received += len(content)
        if unpacker is not None:
            content = unpacker.decompress(content, most - written + 1)
        written += len(content)
        if max(received, written) > most:
            unpacked = " after decompression" if received <= most else ""
            raise RequestError(f"sent more than the {most:,} bytes that are allowed{unpacked}", False)
        yield content
        progress(name, min(received, total or received), total)
