"""A pytest plugin that records which lines of hfrnn each test reaches, in its own process and in those it starts.

tests/reached.py loads it and explains what it counts.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import pkgutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage

FOLDER, TEST = "REACHED_FOLDER", "REACHED_TEST"
"""Environment variables: where the records go, and who reaches the lines of a process that is started."""
KEPT = ("support.cuda_on_cpu", "hfrnn.ranks.mpi", "hfrnn.arrays.threads")
"""Modules whose caches hold libraries, communicators and threads."""
SETTINGS = "[run]\nsource = {source}\nparallel = true\ndata_file = {folder}/child\ncontext = ${{REACHED_TEST}}\n"
STARTS = ("subprocess.Popen", "os.fork", "os.posix_spawn")
caches: list[Any] = []


def noted(lru_cache: Callable[..., Any]) -> Callable[..., Any]:
    """Return functools.lru_cache, which now lists what it makes."""

    def note(made: Any) -> Any:
        if hasattr(made, "cache_clear"):
            caches.append(made)
            return made
        return lambda function: note(made(function))

    return functools.wraps(lru_cache)(lambda *args, **kwargs: note(lru_cache(*args, **kwargs)))


functools.lru_cache = noted(functools.lru_cache)  # before anything of the project uses it


class Recorder:
    """Traces hfrnn, and says to coverage for whom."""

    def __init__(self, folder: Path) -> None:
        source = Path.cwd() / "hfrnn"
        (folder / "settings").write_text(SETTINGS.format(source=source, folder=folder), encoding="utf-8")
        data = folder / f"main.{os.getpid()}"
        self.part = folder / f"part.{os.getpid()}.json"
        self.coverage = Coverage(data_file=data, config_file=False, source=[str(source)], messages=False)
        self.context = ""
        self.tests: dict[str, dict[str, Any]] = {}
        self.started: Counter[str] = Counter()
        self.collecting: dict[str, float] = {}
        self.coverage.start()
        for module in pkgutil.walk_packages([str(source)], "hfrnn."):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(Exception):  # an extra that is not installed
                    importlib.import_module(module.name)
        os.environ |= {"COVERAGE_PROCESS_START": str(folder / "settings"), TEST: ""}
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count the processes that are started, unless they are of another language."""
        if event in STARTS and (event == "os.fork" or "python" in repr(arguments[:2])):
            self.started[self.context] += 1

    @contextlib.contextmanager
    def of(self, context: str) -> Iterator[None]:
        """Attribute the lines that are reached to a test, a file of tests or a fixture."""
        before = self.context
        self.switch(context)
        try:
            yield
        finally:
            self.switch(before)

    def switch(self, context: str) -> None:
        self.context = os.environ[TEST] = context
        self.coverage.switch_context(context)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        start = time.perf_counter()
        in_file = isinstance(collector, pytest.Module | pytest.Class)
        with self.of(collector.nodeid.partition("::")[0] if in_file else ""):
            result = yield
        if isinstance(collector, pytest.Module):
            self.collecting[collector.nodeid] = time.perf_counter() - start
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        with self.of(fixture_name(fixturedef)):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        for cache in caches:
            if not cache.__module__.startswith(KEPT):
                cache.cache_clear()
        definitions = [each for several in item._fixtureinfo.name2fixturedefs.values() for each in several]
        wide = sorted({fixture_name(each) for each in definitions if each.scope != "function"})
        self.tests[item.nodeid] = {"seconds": 0.0, "outcome": "passed", "fixtures": wide}
        with self.of(item.nodeid):
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self.tests[report.nodeid]
        test["seconds"] += report.duration
        if report.outcome != "passed":
            test["outcome"] = report.outcome

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        self.part.write_text(
            json.dumps({"tests": self.tests, "started": self.started, "collecting": self.collecting}), encoding="utf-8"
        )


def fixture_name(definition: Any) -> str:
    return f"fixture {definition.argname} of {definition.baseid}"


def pytest_configure(config: pytest.Config) -> None:
    """Record in every process that runs tests, so not in one that hands them to others."""
    if hasattr(config, "workerinput") or config.getoption("dist", "no") == "no":
        config.pluginmanager.register(Recorder(Path(os.environ[FOLDER])))
