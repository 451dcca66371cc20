"""Files that others may have made: only regular ones are opened, within a bound, and not through links in a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hfrnn import files
from hfrnn.files import is_regular, memory_share, open_to_append, open_to_read, read_bytes

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
