"""An HTML report on one or more runs: `hfrnn report`.

values.py reads a run folder into JSON values, and examples.py computes those of validation sequences. page.py puts them
into one HTML file together with the style and the scripts; the file loads nothing from the network. The scripts draw
the page: tools.js, axes.js, lines.js, bars.js, examples.js, page.js.
"""

from __future__ import annotations

from hfrnn.report.page import make_page, write_report

__all__ = ["make_page", "write_report"]
