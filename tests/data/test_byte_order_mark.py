"""A byte order mark at the beginning of a text is no symbol."""

from __future__ import annotations

import pytest

from hfrnn.data.corpora import read_text


@pytest.mark.parametrize("level", ["char", "byte", "word"])
def test_a_byte_order_mark_is_no_symbol(level, tmp_path):
    (tmp_path / "plain.txt").write_bytes("größer\n".encode())
    (tmp_path / "marked.txt").write_bytes("\ufeffgrößer\n".encode())
    assert read_text(tmp_path / "marked.txt", level) == read_text(tmp_path / "plain.txt", level)
