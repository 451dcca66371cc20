"""A page on one run or several: `hfrnn report`.

runs.py reads a run folder into plain values, page.py puts them with the style and the scripts into one HTML file, which
asks for nothing from anywhere. The drawing is in the page: tools.js, lines.js, bars.js, page.js.
"""

from __future__ import annotations

from hfrnn.report.page import make_page, write_report

__all__ = ["make_page", "write_report"]
