"""A folder of MIDI files names all files that cannot be read, or leaves them out on request."""

from __future__ import annotations

import pytest
from support.midi_files import write_tunes

from hfrnn.data.midi import load_midi
from hfrnn.errors import InputError


def test_all_bad_files_are_named_at_once_or_left_out(tmp_path):
    folder = write_tunes(tmp_path / "tunes", 4)
    (folder / "y.mid").write_bytes(b"no music")
    (folder / "z.mid").write_bytes(b"MThd")
    with pytest.raises(InputError, match=r"2 of 6 files .*y\.mid.*z\.mid.*skip_bad=True"):
        load_midi(folder)
    music = load_midi(folder, skip_bad=True)
    assert sum(map(len, (music.train, music.valid, music.test))) == 4
    assert music.note.endswith("2 files that cannot be read left out")
    for path in sorted(folder.glob("*.mid"))[:4]:
        path.unlink()
    with pytest.raises(InputError, match=r"2 of 2 files"):
        load_midi(folder, skip_bad=True)
