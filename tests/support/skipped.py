"""A plugin that notes which tests were skipped, so that they can run again where more extras are installed."""

from __future__ import annotations

from pathlib import Path

import pytest


class Skipped:
    """Writes the node ids of skipped tests and modules into a file, one in a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ids: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self.ids.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.ids.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.path.write_text("".join(f"{each}\n" for each in sorted(self.ids)), encoding="utf-8")
