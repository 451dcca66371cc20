"""What a release says about itself agrees: the package, its citation and its changelog; the sdist holds all files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import hfrnn

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CITATION = (ROOT / "CITATION.cff").read_text("utf-8")


def cited(name: str) -> str:
    """Return a value of CITATION.cff that stands on a line of its own."""
    found = re.search(rf"^{name}: *\"?(.*?)\"?$", CITATION, re.M)
    assert found is not None, name
    return found[1]


def test_the_package_its_citation_and_its_changelog_agree() -> None:
    assert cited("version") == hfrnn.__version__
    assert cited("license") == PROJECT["project"]["license"]
    assert cited("title").partition(":")[0] == PROJECT["project"]["name"]
    keywords = re.search(r"^keywords:\n((?:  - .*\n)+)", CITATION, re.M)
    assert keywords is not None
    assert [line.removeprefix("  - ") for line in keywords[1].splitlines()] == PROJECT["project"]["keywords"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## {re.escape(hfrnn.__version__)}\b", changelog, re.M)


def test_the_sdist_holds_every_file_that_its_tests_read() -> None:
    included = set(PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    kept = {path.name for path in ROOT.iterdir() if path.suffix in (".md", ".cff") or path.name == "LICENSE"}
    assert kept <= included
    assert {"hfrnn", "tests", "benchmarks", "docs", "examples", "findings"} <= included
