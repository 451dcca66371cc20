"""Any numbers in a log: the report is made, and its page neither hangs nor throws."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import browser
from support.report_pages import in_browser, open_page
from support.report_runs import rewrite
from support.tiny_runs import metrics

from hfrnn.errors import CheckpointError
from hfrnn.report import make_page, write_report
from hfrnn.report.values import NUMBERS, read_run
from hfrnn.runs.folder import RunFolder

together = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

ODD = st.sampled_from(
    [None, 0, -0.0, 1.0, math.nextafter(1.0, 2.0), -1.0, 5e-324, 1e-310, 1e300, -1e300, 1.7e308, 10**400, -(10**400),
     math.inf, -math.inf, math.nan, True, "1"]
)  # fmt: skip
VALUES = ODD | st.floats() | st.integers(-(10**6), 10**6) | st.floats(2.0, 2.0 + 1e-12)
FINITE = st.floats(-1e300, 1e300) | st.sampled_from([0.0, -0.0, 5e-324, 1e-310, 1e300, -1e300])


def columns_of(page: str) -> dict[str, list[Any]]:
    start = page.index('id="data">') + len('id="data">')
    return dict(json.loads(page[start : page.index("</script>", start)])["runs"][0]["columns"])


@settings(together, max_examples=8)
@given(data=st.data())
def test_any_numbers_in_a_log_are_read(runs: dict[str, Path], tmp_path: Path, data: st.DataObject) -> None:
    run = Path(shutil.copytree(runs["hf"], tmp_path / "run", dirs_exist_ok=True))
    rewrite(run, lambda line: line.update({key: data.draw(VALUES) for key in NUMBERS if key != "update"}))
    for column in columns_of(make_page([run])).values():
        assert all(type(value) is str or value is None or abs(value) <= 1e300 for value in column)


@pytest.mark.parametrize("value", [-(10**309), 1.1e300, math.nan, math.inf, True, "1", [1]])
def test_what_is_no_number_of_use_counts_as_missing(run: Path, value: Any) -> None:
    rewrite(run, lambda line: line.update(mu=value))
    assert "mu" not in read_run(RunFolder(run), "run")["columns"]


@pytest.mark.parametrize("update", [2**53 + 1, 10**400])
def test_an_update_that_is_too_large_is_damage(run: Path, update: int) -> None:
    last = metrics(run)[-1]["update"]
    rewrite(run, lambda line: line.update(update=update) if line["update"] == last else None)
    with pytest.raises(CheckpointError, match="line 6 is not the record of a later update"):
        make_page([run])


@pytest.fixture(scope="module")
def axes(page: browser.Page, runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> browser.Page:
    page.open(write_report([runs["sgd"]], tmp_path_factory.mktemp("axes") / "report.html"))
    return page


def ticks(page: browser.Page, kind: str, low: float, high: float) -> list[tuple[float, str, float]]:
    """Value, label and pixel of each tick of an axis from 0 to 300."""
    script = f"(() => {{ const s = scale('{kind}', {low!r}, {high!r}, 0, 300, 40);"
    return [tuple(tick) for tick in page.run(script + "return s.ticks.map(([v, label]) => [v, label, s.at(v)]); })()")]


@in_browser
@settings(max_examples=150)
@given(kind=st.sampled_from(["linear", "log", "time", "whole"]), ends=st.tuples(FINITE, FINITE))
@example(kind="linear", ends=(1.0, math.nextafter(1.0, 2.0)))
@example(kind="linear", ends=(0.0, 5e-324))
@example(kind="log", ends=(5e-324, 1e300))
@example(kind="time", ends=(0.0, 1e300))
@example(kind="whole", ends=(0.0, 5e-324))
def test_an_axis_of_any_ends_has_ticks_inside(axes: browser.Page, kind: str, ends: tuple[float, float]) -> None:
    low, high = sorted(abs(end) or 1.0 for end in ends) if kind == "log" else sorted(ends)
    found = ticks(axes, kind, low, high)
    assert len(found) <= 30
    assert all(-1 <= pixel <= 301 for _, _, pixel in found)
    assert [value for value, *_ in found] == sorted(value for value, *_ in found)
    assert found or kind == "whole"
    if kind != "time":  # 1e300 seconds have no label that fits
        assert len({label for _, label, _ in found}) == len(found)
        assert all(label and "NaN" not in label and "∞" not in label for _, label, _ in found)


def look_at(page: browser.Page, file: Path) -> None:
    """Open a report, make every choice, and move the cursor through its charts; nothing may be complained of."""
    open_page(page, file)
    for axis in ("seconds", "symbols", "update"):
        page.run(f"pick('over', {axis!r})")
        for scale in ("log", "linear", "auto"):
            page.run(f"document.querySelector('input[name=scale][value={scale}]')?.click()")
        page.run("drawings.filter((each) => each.move).forEach((each) => [0, 300].forEach((x) => each.move(x)))")
        keys = "['Home', 'ArrowRight'].forEach((key) => each.key(new KeyboardEvent('keydown', { key })))"
        page.run(f"drawings.filter((each) => each.key).forEach((each) => {keys})")
    page.frame()
    assert page.complaints == []


@in_browser
@settings(together, max_examples=8)
@given(data=st.data())
def test_the_page_draws_any_numbers(page, runs, tmp_path, data) -> None:
    folders = []
    for name in ("hf", "sgd"):
        folders.append(Path(shutil.copytree(runs[name], tmp_path / name, dirs_exist_ok=True)))
        kept = {"update", *data.draw(st.sets(st.sampled_from(NUMBERS)))}
        keys = [key for key in NUMBERS if key not in kept]
        rewrite(folders[-1], lambda line, keys=keys: line.update({key: data.draw(VALUES) for key in keys}))
    look_at(page, write_report(folders, tmp_path / "report.html", force=True))


ULP = math.nextafter(4.0, 5.0) - 4.0
CHANGES: dict[str, Any] = {
    "columns that differ in the last place": lambda line: {
        "train_bits": 4.0 + line["update"] % 3 * ULP, "valid_bits": 4.0 + line["update"] % 2 * ULP
    },
    "seconds now and then": lambda line: {"seconds": None if line["update"] % 2 else line["seconds"]},
    "equal seconds": lambda line: {"seconds": 3.0},
    "falling and negative seconds": lambda line: {"seconds": 3.0 - line["update"]},
    "no symbols": lambda line: {"symbols": None},
    "nothing but updates": lambda line: {key: None for key in line if key != "update"},
    "negative zero": lambda line: dict.fromkeys(("mu", "rho", "seconds", "train_bits"), -0.0),
    "infinities": lambda line: dict.fromkeys(("mu", "rho", "valid_bits", "cg_iterations", "seconds"), math.inf),
    "seconds of activities beyond reason": lambda line: {"seconds_update": 1e300, "seconds_gradient": 1e300},
}  # fmt: skip


@in_browser
def test_odd_logs_and_a_single_record_are_drawn(page: browser.Page, runs: dict[str, Path], run: Path) -> None:
    log, out = run / "metrics.jsonl", run.parent / "report.html"
    whole = log.read_text()
    for change in CHANGES.values():
        log.write_text(whole)
        rewrite(run, lambda line, change=change: line.update(change(line)))
        look_at(page, write_report([run, runs["tikhonov"]], out, force=True))
    log.write_text(whole.splitlines()[0] + "\n")
    look_at(page, write_report([run], out, force=True))
