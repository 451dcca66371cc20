"""Settings for every test, and data that several share; Hypothesis runs without deadlines and with fixed seeds."""

from __future__ import annotations

import gc
import hashlib
import os
import signal
import sys
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from support.offline import no_network  # noqa: F401 - a fixture of every test
from support.skipped import Skipped

settings.register_profile("hfrnn", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("hfrnn")


def pytest_configure(config: pytest.Config) -> None:
    """Write the tests that were skipped to the file HFRNN_SKIPPED, if it is set; `pytest @FILE` runs these alone."""
    path = os.environ.get("HFRNN_SKIPPED")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skipped(Path(path)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let each worker of pytest-xdist run whole files of quick tests, unless another `--dist` or tier is chosen."""
    from support.scheduling import ByFile

    quick = config.option.markexpr == "not slow and not nightly"
    return ByFile(config, log) if quick and config.option.dist == "load" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a share of the slow and nightly tests: with HFRNN_SLOW_SHARE=90,12/SEED one in 90 cases of large tables.

    A large table is a parametrised test with more than 20 cases; one in 12 of the other tests is kept.
    """
    shares, _, seed = os.environ.get("HFRNN_SLOW_SHARE", "").partition("/")
    if not shares:
        return
    of_tables, of_others = map(int, shares.split(","))
    sizes = Counter(item.nodeid.partition("[")[0] for item in items)

    def left_out(item: pytest.Item) -> bool:
        if item.get_closest_marker("slow") is None and item.get_closest_marker("nightly") is None:
            return False
        share = of_tables if sizes[item.nodeid.partition("[")[0]] > 20 else of_others
        digest = hashlib.sha256(f"{seed} {item.nodeid}".encode()).digest()
        return int.from_bytes(digest[:8]) % share != 0

    dropped = [item for item in items if left_out(item)]
    config.hook.pytest_deselected(items=dropped)
    items[:] = [item for item in items if not left_out(item)]


def pytest_collection_finish() -> None:
    """Write no bytecode from here on: tests compare folders, and importing a user's kernel would add __pycache__.

    The garbage collector passes over what exists by now, most of it tests and modules: that takes a second each time.
    """
    sys.dont_write_bytecode = True
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def signals_are_heard() -> None:
    """Processes that tests start hear every signal, even where the tests run under nohup or in the background."""
    for name in ("SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)


@pytest.fixture
def few_gradcheck_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let gradcheck try two networks of an architecture: one layer, and two."""
    from hfrnn import gradcheck

    every = gradcheck.cases_of
    monkeypatch.setattr(gradcheck, "cases_of", lambda arch, seed: islice(every(arch, seed), 2))


@pytest.fixture
def small_music(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A few short pieces under the name of the chorales, and their file."""
    from support.music_files import pieces_of, stored

    pieces = pieces_of(9, 4, 7, 9, 5, 8, 6)
    packed = np.packbits(np.concatenate(pieces).astype(np.uint8), axis=1)
    file = tmp_path / "jsb" / "jsb.npz"
    file.parent.mkdir()
    file.write_bytes(stored(train_packed=packed, train_lengths=np.array([len(piece) for piece in pieces])))
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    return file
