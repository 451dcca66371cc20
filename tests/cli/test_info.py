"""`hfrnn info` and `hfrnn gradcheck`."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from support.command_line import call

import hfrnn
from hfrnn.cli.info import EXTRAS
from hfrnn.kernels import architectures


def test_info_names_versions_architectures_and_all_that_data_may_name() -> None:
    table = json.loads(call("info", "--json").stdout)
    assert table["hfrnn"] == hfrnn.__version__
    assert hfrnn.__version__ in call("--version").output
    assert table["architectures"] == list(architectures())
    assert ("temporal-order" in table["tasks"], table["music"], "ptb" in table["corpora"]) == (True, ["jsb"], True)
    assert any("[cuda12]" in extra for extra in table["extras"])
    text = call("info").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "python-manual" in text


def test_info_lists_every_optional_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {
        extra: tuple(re.split(r"[\[<>=;]", package)[0] for package in packages)
        for extra, packages in project["optional-dependencies"].items()
    }
    assert declared == EXTRAS
    lines = call("info").stdout
    for extra in EXTRAS:
        assert re.search(rf"\[{extra}\] +{EXTRAS[extra][0]} (not installed|[0-9])", lines)


@pytest.mark.usefixtures("few_gradcheck_cases")
def test_gradcheck_prints_a_table_and_gives_json() -> None:
    out = call("gradcheck", "rnn", "--arch", "rnn").stdout
    assert re.search(r"^Gv +1e-09 +\d\.\de-\d\d$", out, re.MULTILINE)
    assert out.endswith("11 of 11 checks passed\n")
    outcomes = json.loads(call("gradcheck", "rnn", "--json").stdout)
    assert {outcome["arch"] for outcome in outcomes} == {"rnn"}
    assert all(outcome["passed"] and outcome["error"] <= outcome["tolerance"] for outcome in outcomes)
