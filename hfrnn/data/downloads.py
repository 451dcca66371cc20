"""Download corpora into a hidden folder, check them, and move them into the data folder.

pooch computes hashes and knows the user's cache folder. Its downloads are not used: they have no bound, repeat answers
that will not change (404, wrong content), and log addresses with their passwords. Its `Unzip` reports no progress.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from hfrnn.data.remotes import DOWNLOADS, Remote
from hfrnn.data.transfer import Progress, RequestError, download
from hfrnn.errors import HfrnnError, InputError
from hfrnn.locks import HELD, try_lock

TIMEOUT = 30.0
"""Seconds to wait for the next byte before a request fails."""
PAUSES = (1.0, 4.0)
"""Seconds to wait before the second and the third request to an address whose failure may be temporary."""
PIECE = 2**14
"""Bytes that are downloaded and written at a time."""
UNFIT_FOLDER = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)

HIDDEN = ".fetch-"
"""Beginning of the names of the hidden folders into which corpora are downloaded."""
LOCK = "lock"
"""Name of the file in a hidden folder that its download keeps locked."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Fetched:
    """The result of `fetch`.

    Attributes
    ----------
    files : tuple of Path
        The files of the corpus.
    origins : tuple of str
        The address (or the local archive) of each file that was fetched; empty if all files were there.
    checked : bool
        Whether the content of the files was compared with a known sha256. False for unpacked files that a person put
        there without their archive.
    """

    files: tuple[Path, ...]
    origins: tuple[str, ...]
    checked: bool


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
        One of `hfrnn.data.remotes.DOWNLOADS`.
    mirrors : sequence of str, optional
        Addresses of folders with files of the same names, tried in this order before the original. The default is the
        environment variable HFRNN_MIRROR, with spaces between the addresses.
    force : bool
        Whether to download intact files again.
    tell : callable
        Called with a sentence about each address that is tried.
    progress : callable
        Called with the current activity, the bytes done, and the bytes in all (0 if unknown).

    Returns
    -------
    Fetched

    Raises
    ------
    InputError
        The name is unknown, a mirror is not an address, or the data folder cannot be written to.
    HfrnnError
        No address gave the right content, an archive is not as expected, or the disk is full; no file was changed.

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
            _unpack(remote, archive, hidden, folder, progress)
        ready = sorted(path for path in hidden.iterdir() if path.name != LOCK)
        for path in ready:
            with open(path, "rb+") as file:
                os.fsync(file.fileno())
        for path in ready:
            os.replace(path, folder / path.name)
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
        for name in DOWNLOADS:
            _delete_leftovers(folder.parent / name)
        hidden, lock = _locked_folder(folder)
        try:
            yield hidden
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
            lock.close()
            shutil.rmtree(hidden, ignore_errors=True)  # some systems cannot delete an open file
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


def _locked_folder(folder: Path) -> tuple[Path, BinaryIO]:
    """Make a hidden folder inside a folder; return it with its locked file."""
    while True:
        hidden = Path(tempfile.mkdtemp(prefix=HIDDEN, dir=folder))
        with contextlib.ExitStack() as stack:
            # another download may find the folder before it is locked, and delete it
            stack.enter_context(contextlib.suppress(FileNotFoundError))
            lock = stack.enter_context(open(hidden / LOCK, "ab"))
            try:
                try_lock(lock)
            except OSError as error:
                if error.errno in HELD:
                    continue
            if os.path.samestat(os.fstat(lock.fileno()), os.stat(hidden / LOCK)):
                stack.pop_all()
                return hidden, lock


def _delete_leftovers(folder: Path) -> None:
    """Delete the hidden folders of killed downloads; a download that is running keeps a file of its folder locked."""
    for hidden in folder.glob(f"{HIDDEN}*"):
        if hidden.is_symlink() or not hidden.is_dir():
            continue
        with contextlib.suppress(OSError), open(hidden / LOCK, "ab") as lock:
            try_lock(lock)
            shutil.rmtree(hidden, ignore_errors=True)


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
    try:
        with zipfile.ZipFile(archive) as content:
            infos = [content.getinfo(member) for member in remote.members]
    except (KeyError, zipfile.BadZipFile):
        return False
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
    raise HfrnnError(
        f"cannot get {remote.name}: {'; '.join(failures)}. Nothing was changed: try again later, name another address "
        f"with `hfrnn data fetch --mirror ADDRESS`, or put the file at {folder / remote.name} yourself"
    )


def _request(address: str, remote: Remote, target: Path, progress: Progress) -> None:
    """Download a file and check its hash, or raise `RequestError`."""
    import pooch

    download(address, target, remote.most, progress, TIMEOUT, PIECE)
    found = pooch.file_hash(str(target), alg="sha256")
    if found != remote.sha256:
        raise RequestError(
            f"sent other content ({target.stat().st_size:,} bytes, sha256 {found[:12]}..., not "
            f"{remote.sha256[:12]}...)",
            False,
        )


def _unpack(remote: Remote, archive: Path, hidden: Path, folder: Path, progress: Progress) -> None:
    """Copy the members that the corpus needs out of an archive into the hidden folder."""
    members = zip(remote.members, remote.most_unpacked, remote.files(hidden), remote.files(folder), strict=False)
    for member, most, target, final in members:
        try:
            with zipfile.ZipFile(archive) as content, content.open(member) as source, open(target, "xb") as sink:
                total = content.getinfo(member).file_size
                while piece := source.read(2**20):
                    if sink.tell() + len(piece) > most:
                        raise zipfile.BadZipFile(f"{member} is larger than the {most:,} bytes that are allowed")
                    sink.write(piece)
                    progress(f"unpacking {target.name}", sink.tell(), total)
        except (KeyError, zipfile.BadZipFile, zlib.error) as error:
            reason = f"it lacks {member}" if isinstance(error, KeyError) else str(error)
            raise HfrnnError(
                f"cannot unpack {remote.name} from {_without_password(remote.address)}: {reason}. Nothing was changed: "
                f"put the unpacked file at {final} yourself"
            ) from error
