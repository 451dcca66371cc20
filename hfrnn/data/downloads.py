"""Download corpora with pooch into a hidden folder, and move them into the data folder when all are complete.

pooch downloads and checks a file. This module adds what pooch lacks: mirrors, further requests where they may help, and
a bound on the size of a download.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin, urlsplit

from hfrnn._version import __version__
from hfrnn.data.addresses import DOWNLOADS, Remote
from hfrnn.errors import HfrnnError, InputError, Message, PerReader
from hfrnn.files import replace

TIMEOUT = 30.0
"""Seconds to wait for the next byte before a request fails."""
PAUSES = (1.0, 4.0)
"""Seconds to wait before the second and the third request to an address whose failure may be temporary."""
PIECE = 2**14
"""Bytes that are downloaded and written at a time."""
UNFIT_FOLDER = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)

HIDDEN = ".fetch-"
"""Beginning of the names of the hidden folders into which corpora are downloaded."""
HEADERS = {"User-Agent": f"Mozilla/5.0 (compatible; hfrnn/{__version__})", "Accept-Encoding": "identity"}
"""The headers of all requests; the server of WikiText refuses Python's default user agent."""

Tell = Callable[[str], None]
Progress = Callable[[str, float, float], None]


class RequestError(Exception):
    """A request that failed, as the end of a sentence that begins with the address; if temporary, it may work later."""

    def __init__(self, message: str, temporary: bool) -> None:
        super().__init__(message)
        self.temporary = temporary


@dataclass(frozen=True)
class Fetched:
    """The result of `fetch`."""

    files: tuple[Path, ...]
    origins: tuple[str, ...]
    """The address (or the local archive) of each file that was fetched; empty if all files were there."""
    checked: bool
    """Whether the content was compared with a known sha256; not if a person put unpacked files there alone."""


def data_folder() -> Path:
    """Return the folder for downloads: the environment variable HFRNN_DATA, else a folder in the user's cache."""
    return data_folders()[0]


def data_folders() -> list[Path]:
    """Return the folders in which corpora are searched, in order: HFRNN_DATA if it is set, then the user's cache."""
    import pooch

    given = os.environ.get("HFRNN_DATA")
    return [*([Path(given)] if given else []), pooch.os_cache("hfrnn")]


def fetch(
    name: str,
    mirrors: Sequence[str] | None = None,
    force: bool = False,
    tell: Tell = lambda sentence: None,
    progress: Progress = lambda text, done, total: None,
) -> Fetched:
    """Download the files of a corpus into the data folder, unless they are there and intact.

    Parameters
    ----------
    name : str
        One of `hfrnn.data.addresses.DOWNLOADS`.
    mirrors : sequence of str, optional
        Addresses of folders with files of the same names, tried in this order before the original. The default is the
        environment variable HFRNN_MIRROR, with spaces between the addresses.
    force : bool
        Whether to download intact files again.
    tell : callable
        Called with a sentence about each address that is tried.
    progress : callable
        Called with the current activity, the bytes done, and the bytes in all.

    Returns
    -------
    Fetched

    Raises
    ------
    InputError
        The name is unknown, a mirror is not an address, or the data folder cannot be written to.
    HfrnnError
        No address gave the right content, or the disk is full; no file was changed.

    Notes
    -----
    All files are downloaded, checked and unpacked in a hidden folder. They replace older files only when all are ready.
    An archive is kept beside its unpacked files, so that the next call can check these. If a person put the archive
    there, it is unpacked without the network.
    """
    if name not in DOWNLOADS:
        raise InputError(f"no address is known for {name!r}; what can be fetched: {', '.join(DOWNLOADS)}")
    mirrors = os.environ.get("HFRNN_MIRROR", "").split() if mirrors is None else mirrors
    for mirror in mirrors:
        if not _is_address(mirror):
            raise InputError(f"the mirror is {mirror!r}: give the address of a folder, http://... or https://...")
    folder, remotes = data_folder() / name, DOWNLOADS[name]
    files = tuple(file for remote in remotes for file in remote.files(folder))
    wanted = [remote for remote in remotes if force or not _is_intact(remote, folder)]
    if not wanted:
        return Fetched(files, (), all((folder / remote.name).exists() for remote in remotes))
    origins = []
    with _hidden_folder(folder) as hidden:
        for remote in wanted:
            archive = folder / remote.name
            if remote.members and not force and _has_hash(archive, remote.sha256):
                origins.append(str(archive))
            else:
                archive = hidden / remote.name
                origins.append(_download(remote, archive, folder, mirrors, tell, progress))
            if remote.members:
                _unpack(remote, archive, hidden, progress)
        ready = sorted(hidden.iterdir())
        for path in ready:
            with open(path, "rb+") as file:
                os.fsync(file.fileno())
        for path in ready:
            replace(path, folder / path.name)
    return Fetched(files, tuple(origins), True)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def _without_password(address: str) -> str:
    """Return an address without the user name and password that it may contain."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


@contextlib.contextmanager
def _hidden_folder(folder: Path) -> Iterator[Path]:
    """Make a hidden folder inside a folder, and delete it at the end; delete new folders too if they stay empty."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=HIDDEN, dir=folder) as hidden:
            yield Path(hidden)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in UNFIT_FOLDER:
            raise InputError(
                f"cannot write to {folder} ({reason}); set the environment variable HFRNN_DATA to a folder that can "
                "be written to"
            ) from error
        raise HfrnnError(
            f"cannot write to {folder} ({reason}); older files are unchanged: free some space, or set the "
            "environment variable HFRNN_DATA to a folder on a larger disk"
        ) from error
    finally:
        for each in made:
            with contextlib.suppress(OSError):  # it is not empty now
                each.rmdir()


def _has_hash(path: Path, sha256: str) -> bool:
    import pooch

    return path.is_file() and pooch.file_hash(str(path), alg="sha256") == sha256


def _is_intact(remote: Remote, folder: Path) -> bool:
    """Return whether all files are there and, if their hash or archive is known, have the right content."""
    files, archive = remote.files(folder), folder / remote.name
    if not remote.members:
        return _has_hash(archive, remote.sha256)
    if not all(file.is_file() for file in files):
        return False
    if not archive.exists():
        return True  # put there by a person; nothing to compare with
    if not _has_hash(archive, remote.sha256):
        return False
    with zipfile.ZipFile(archive) as content:
        infos = [content.getinfo(member) for member in remote.members]
    return all(
        (file.stat().st_size, _crc(file)) == (info.file_size, info.CRC) for file, info in zip(files, infos, strict=True)
    )


def _crc(path: Path) -> int:
    """Return the CRC-32 of a file, as zip archives store it."""
    crc = 0
    with open(path, "rb") as file:
        while piece := file.read(2**20):
            crc = zlib.crc32(piece, crc)
    return crc


def _download(
    remote: Remote, target: Path, folder: Path, mirrors: Sequence[str], tell: Tell, progress: Progress
) -> str:
    """Download a file from the first address that has it, and return that address."""
    failures = []
    for address in [*(f"{mirror.rstrip('/')}/{remote.name}" for mirror in mirrors), remote.address]:
        shown = _without_password(address)
        tell(f"getting {shown}")
        for pause in (*PAUSES, None):
            try:
                _request(address, remote, target, progress)
                return shown
            except RequestError as error:
                failure = f"{shown} {error}"
                if not error.temporary or pause is None:
                    break
            tell(f"{failure}; trying again in {pause:g} s")
            time.sleep(pause)
        tell(failure)
        failures.append(failure)
    another = PerReader("set HFRNN_MIRROR to another address", "name another address: hfrnn data fetch {mirrors:URL}")
    raise HfrnnError(Message(
        "cannot get {0}: {1}. Nothing was changed: try again later, put the file at {2} yourself, or {3}",
        remote.name, "; ".join(failures), folder / remote.name, another,
    ))  # fmt: skip


def _request(address: str, remote: Remote, target: Path, progress: Progress) -> None:
    """Download a file with pooch, which checks its hash and moves it into place; or raise `RequestError`."""
    import pooch
    import requests

    get = pooch.HTTPDownloader(chunk_size=PIECE, timeout=TIMEOUT, headers=HEADERS, hooks={"response": check_redirect})

    def download(url: str, output: str, _: object) -> None:
        os.unlink(output)  # pooch has made the file for this user alone
        with open(output, "xb") as file:
            bounded = _Bounded(file, remote, progress)
            try:
                get(url, bounded, None)
            except requests.HTTPError as error:
                answer: Any = error.response
                busy = answer.status_code >= 500 or answer.status_code in (408, 429)
                raise RequestError(f"answered {answer.status_code} {answer.reason or ''}".rstrip(), busy) from error
            except (requests.RequestException, ValueError) as error:
                if bounded.written:
                    raise RequestError(f"broke off after {bounded.written:,} bytes", True) from error
                cause = getattr(error.args[0], "reason", error) if error.args else error
                temporary = isinstance(error, requests.ConnectionError | requests.Timeout)
                raise RequestError(f"cannot be reached ({str(cause).rpartition(': ')[2]})", temporary) from error

    def silent(record: object) -> bool:
        return False

    log = pooch.get_logger()
    log.addFilter(silent)  # it shows passwords
    try:
        pooch.retrieve(address, remote.sha256, target.name, target.parent, downloader=download)
    except ValueError as error:
        raise RequestError(f"sent other content than the file of sha256 {remote.sha256[:12]}...", False) from error
    finally:
        log.removeFilter(silent)


class _Bounded:
    """What pooch writes into: a file that refuses more bytes than are known to come, and reports progress."""

    def __init__(self, file: BinaryIO, remote: Remote, progress: Progress) -> None:
        self._file, self._remote, self._progress = file, remote, progress
        self.written = 0

    def write(self, content: bytes) -> None:
        size = self._remote.size
        if self.written + len(content) > size:
            raise RequestError(f"sent more than the {size:,} bytes of the file", False)
        self._file.write(content)
        self.written += len(content)
        self._progress(self._remote.name, self.written, size)

    def flush(self) -> None:
        self._file.flush()


def check_redirect(response: Any, **_: object) -> None:
    """Raise `RequestError` for a redirect from https to http; drop its body, which requests reads without bound."""
    if not response.is_redirect:
        return
    response.raw.close()
    response.raw = io.BytesIO()
    following = urljoin(response.url, response.headers["location"])
    if urlsplit(response.url).scheme == "https" and urlsplit(following).scheme != "https":
        raise RequestError("redirects from https to an address without encryption", False)


def _unpack(remote: Remote, archive: Path, hidden: Path, progress: Progress) -> None:
    """Copy the members that the corpus needs out of an archive, whose hash was checked, into the hidden folder."""
    with zipfile.ZipFile(archive) as content:
        for member, target in zip(remote.members, remote.files(hidden), strict=True):
            with content.open(member) as source, open(target, "xb") as sink:
                total = content.getinfo(member).file_size
                while piece := source.read(2**20):
                    sink.write(piece)
                    progress(f"unpacking {target.name}", sink.tell(), total)
