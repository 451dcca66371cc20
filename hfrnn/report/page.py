"""Make one HTML file from runs, style and scripts; it loads nothing from the network.

Names, samples and options are not trusted. The page stores them as JSON without `<`, `>` and `&`, and the scripts
insert them only as text. The content security policy allows these scripts and no others.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from hfrnn._version import __version__
from hfrnn.checks import flag, path, wrong
from hfrnn.files import open_to_read
from hfrnn.report.values import option_rows, read_run, run_names
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.outputs import Output

SCRIPTS = ("tools.js", "axes.js", "lines.js", "bars.js", "examples.js", "page.js")
"""The scripts in order; each uses names of those before it."""
DEFAULT_OUTPUT = "report.html"
GENERATOR = b'<meta name="generator" content="hfrnn '
"""What every report holds near its beginning."""
BEGINNING = 1000
"""Bytes of a file in which `GENERATOR` is looked for."""


def make_page(runs: Sequence[str | Path]) -> str:
    """Return the report on some run folders, finished or not, as HTML.

    InputError is raised for a path that is not a run folder or was given twice, and CheckpointError if a file of a run
    is damaged.
    """
    folders = _folders(runs)
    found = [read_run(*each) for each in zip(folders, run_names(runs), strict=True)]
    script = "".join(_part(name) for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    title = found[0]["name"] if len(found) == 1 else f"{len(found)} runs: {', '.join(run['name'] for run in found)}"
    parts = {
        "policy": f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'",
        "version": html.escape(__version__),
        "title": html.escape(title),
        "style": _part("page.css"),
        "data": _embedded({"version": __version__, "title": title, "runs": found, "options": option_rows(found)}),
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _part("page.html"))


def write_report(runs: Sequence[str | Path], output: str | Path | None = None, force: bool = False) -> Path:
    """Write the report on some runs as an HTML file, and return its path; an error leaves an older file unchanged.

    Parameters
    ----------
    runs : sequence of paths
        Run folders, finished or not.
    output : path, optional
        The file to write; its folder must exist. By default report.html, which may replace an older report.
    force : bool
        Whether to replace an existing file.

    Raises
    ------
    InputError
        As for `make_page`; or the file exists, is the text of a run, or lies in a run folder.
    StorageError
        The file cannot be written.
    """
    folders = _folders(runs)
    if output is not None:
        path("output", output)
    target = os.fspath(DEFAULT_OUTPUT if output is None else output)
    configs = [folder.config() for folder in folders]
    data = [file for config in configs for file in config.kind.files(config.values)]  # the page replaces no run's text
    file = Output("output", target, flag("force", force) or (output is None and _is_report(target)), data)
    file.check()
    file.write(make_page(runs))
    return Path(target)


def _folders(runs: Any) -> list[RunFolder]:
    if not isinstance(runs, list | tuple) or not runs:
        raise wrong("runs", runs, "give a list of one or more run folders")
    return [RunFolder(path("a folder of runs", run)) for run in runs]


def _is_report(path: str) -> bool:
    """Return whether a file is a report that this module has written."""
    try:
        with open_to_read(path) as file:
            return GENERATOR in file.read(BEGINNING)
    except (OSError, ValueError):
        return False


def _part(name: str) -> str:
    """Return the text of a file in this folder."""
    return resources.files("hfrnn.report").joinpath(name).read_text("utf-8")


def _embedded(data: object) -> str:
    """Return JSON that is safe inside a script element for all strings."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
