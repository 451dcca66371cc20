"""Compiled loops do not depend on numba's cache: it may be damaged, full or missing."""

import errno
import importlib.util
import warnings

import pytest

pytest.importorskip("numba", reason="numba is not installed (the extra fast)")

from hfrnn.cli.output import is_lost_output
from hfrnn.errors import UncachedWarning
from hfrnn.kernels.numba import cache


@pytest.fixture
def function(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_reasons", [])
    path = tmp_path / "loops.py"
    path.write_text("def double(x):\n    return 2 * x\n")
    spec = importlib.util.spec_from_file_location("loops", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.double


def hits(function):
    """Compile a function or load it from the cache, check it, and return whether it came from the cache."""
    loop = cache.compiled()(function)
    assert loop(3.0) == 6.0
    return bool(sum(loop.stats.cache_hits.values()))


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("kept", [0, 0.5, -1])
def test_a_damaged_cache_is_made_again(function, tmp_path, suffix, kept):
    assert [hits(function), hits(function)] == [False, True]
    (path,) = tmp_path.rglob(f"*.{suffix}")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if kept >= 0 else -1])
    assert [hits(function), hits(function)] == [False, True]
    assert not cache.why_uncached()


def test_a_change_of_any_file_of_loops_compiles_them_again(function, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "FOLDER", tmp_path / "loops")
    cache.FOLDER.mkdir()
    (cache.FOLDER / "helpers.py").write_text("one = 1\n")
    assert [hits(function), hits(function)] == [False, True]
    (cache.FOLDER / "helpers.py").write_text("one = 1.0\n")
    assert [hits(function), hits(function)] == [False, True]


@pytest.mark.parametrize(("name", "error", "reason"), [
    ("numba.core.caching.IndexDataCacheFile._save_data", OSError(errno.ENOSPC, "No space left on device"), "No space"),
    ("hfrnn.kernels.numba.cache._Cache.__init__", RuntimeError("no locator available"), "it finds no folder"),
], ids=["full", "no folder"])  # fmt: skip
def test_without_a_cache_loops_are_compiled_and_one_warning_says_so(function, monkeypatch, name, error, reason):
    def fail(*_):
        raise error

    monkeypatch.setattr(name, fail)
    with pytest.warns(UncachedWarning, match=rf"\({reason}.*NUMBA_CACHE_DIR"):
        assert not hits(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not hits(function)


def test_a_full_disk_elsewhere_is_no_lost_output():
    with pytest.raises(OSError, match="full") as error:
        raise OSError(errno.ENOSPC, "full")
    assert not is_lost_output(error.value)
