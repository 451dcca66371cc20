"""An HTML report on one or more runs: page.py puts the values of values.py and examples.py into one file."""

from __future__ import annotations

from hfrnn.report.page import make_page, write_report

__all__ = ["make_page", "write_report"]
