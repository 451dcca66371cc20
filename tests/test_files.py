"""Files that others may have made: only regular ones are opened, within a bound, and not through links in a run."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.windows import needs_proc, refuse_open_files

from hfrnn import files
from hfrnn.errors import StorageError
from hfrnn.files import is_regular, memory_share, open_to_append, open_to_read, read_bytes, write_atomic

posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and devices with names are of POSIX systems")


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a folder": (Path.mkdir, "it is a folder, not a regular file|Is a directory"),
    "a pipe": (lambda path: os.mkfifo(path), "it is a pipe, not a regular file"),
    "a link to a device": (lambda path: path.symlink_to("/dev/zero"), "it is a device, not a regular file"),
    "a link to nowhere": (lambda path: path.symlink_to("nowhere"), "No such file|it is a link"),
}


@posix
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    make, words = KINDS[kind]
    make(tmp_path / "file")
    with pytest.raises(OSError, match=words):
        read_bytes(tmp_path / "file", 100)
    with pytest.raises(OSError, match="it is a link" if "link" in kind else words):
        read_bytes(tmp_path / "file", 100, links=False)
    with pytest.raises(OSError, match="it is a link" if "link" in kind else words):
        open_to_append(tmp_path / "file")
    assert not is_regular(tmp_path / "file")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("system", ["with O_NOFOLLOW", "without"])
def test_a_link_is_followed_only_where_that_is_allowed(tmp_path: Path, monkeypatch, system: str) -> None:
    if system == "without":
        monkeypatch.delattr(os, "O_NOFOLLOW", raising=False)
    (tmp_path / "file").write_bytes(b"dear")
    (tmp_path / "link").symlink_to("file")
    assert read_bytes(tmp_path / "link", 4) == b"dear"
    for opened in (lambda path: open_to_read(path, links=False), open_to_append):
        with pytest.raises(OSError, match="it is a link, and the files of a run are not opened through links"):
            opened(tmp_path / "link")
        opened(tmp_path / "file").close()


def test_a_folder_is_named_where_the_system_says_permission_denied(tmp_path: Path, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(IsADirectoryError, match="it is a folder, not a regular file"):
        read_bytes(tmp_path, 100)


@pytest.mark.parametrize(("tag", "is_link"), [(0xA0000003, True), (0x9000001A, False)], ids=["junction", "OneDrive"])
def test_of_reparse_points_only_other_names_are_links(tmp_path: Path, monkeypatch, tag: int, is_link: bool) -> None:
    class Found:
        st_mode, st_file_attributes, st_reparse_tag = stat.S_IFREG, 0x400, tag

    (tmp_path / "file").write_bytes(b"dear")
    monkeypatch.delattr(os, "O_NOFOLLOW", raising=False)
    monkeypatch.setattr(files.os, "lstat", lambda path: Found)
    if is_link:
        with pytest.raises(OSError, match="it is a link"):
            read_bytes(tmp_path / "file", 4, links=False)
    else:
        assert read_bytes(tmp_path / "file", 4, links=False) == b"dear"


@needs_proc
def test_a_file_that_is_open_for_a_moment_is_replaced_also_on_windows(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("old")
    refused = refuse_open_files(monkeypatch)
    reader = open(tmp_path / "file")  # noqa: SIM115
    later = threading.Timer(0.1, reader.close)
    later.start()
    write_atomic(tmp_path / "file", "new")
    later.join()
    assert refused[0] == "file"
    assert (tmp_path / "file").read_text() == "new"
    monkeypatch.setattr(files, "BUSY_SECONDS", 0.05)
    with open(tmp_path / "file"), pytest.raises(StorageError, match=r"cannot write .*cannot access the file"):
        write_atomic(tmp_path / "file", "newer")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "new"


def test_a_file_with_a_second_name_is_read_but_not_appended_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"dear")
    os.link(tmp_path / "file", tmp_path / "other")
    assert read_bytes(tmp_path / "other", 4, links=False) == b"dear"
    with pytest.raises(OSError, match="it is a hard link"):
        open_to_append(tmp_path / "other")


def test_a_file_larger_than_its_bound_is_refused_unread(tmp_path: Path, monkeypatch) -> None:
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(OSError, match="it has 1,099,511,627,776 bytes, and at most 100 are read"):
        read_bytes(tmp_path / "sparse", 100)
    monkeypatch.setattr(files.os, "fstat", lambda descriptor: os.stat_result((0o100644, *(0,) * 9)))
    with pytest.raises(OSError, match="it has 101 bytes, and at most 100 are read"):  # a file that grows
        read_bytes(tmp_path / "sparse", 100)


def test_a_share_of_the_memory_is_that_of_this_machine_or_its_container() -> None:
    assert 2**20 < memory_share(16) < 2**46
    assert memory_share(1) >= 16 * memory_share(16) > memory_share(1) - 16
