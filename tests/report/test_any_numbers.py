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
from support.report_pages import HELPERS, in_browser, place
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


# ---------------------------------------------------------------------- reading


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


# ---------------------------------------------------------------------- axes


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
@example(kind="linear", ends=(1e300, 1e300))
@example(kind="linear", ends=(0.0, 5e-324))
@example(kind="log", ends=(5e-324, 1e300))
@example(kind="log", ends=(5e-324, 5e-324))
@example(kind="time", ends=(0.0, 1e300))
@example(kind="whole", ends=(0.0, 5e-324))
def test_an_axis_of_any_ends_has_ticks_inside(axes: browser.Page, kind: str, ends: tuple[float, float]) -> None:
    low, high = sorted(abs(end) or 1.0 for end in ends) if kind == "log" else sorted(ends)
    found = ticks(axes, kind, low, high)
    assert len(found) <= 30
    assert all(-1 <= pixel <= 301 for _, _, pixel in found)
    assert [value for value, *_ in found] == sorted(value for value, *_ in found)
    if kind != "whole":
        assert len(found) >= 1
    if kind != "time":  # 1e300 seconds have no label that fits
        assert len({label for _, label, _ in found}) == len(found)
        assert all(label and "NaN" not in label and "∞" not in label for _, label, _ in found)


@in_browser
@pytest.mark.parametrize(
    ("kind", "low", "high", "expected"),
    [
        ("linear", 0.0, 1.0, ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ("linear", -0.5, 0.5, ["\u22120.4", "\u22120.2", "0", "0.2", "0.4"]),
        ("linear", 0.0, 1.2e-4, ["0", *[f"{x}e\u22124" for x in ("0.2", "0.4", "0.6", "0.8", "1.0", "1.2")]]),
        ("linear", 0.0, 1.5e6, ["0", "0.5M", "1.0M", "1.5M"]),
        ("linear", 9000.0, 12000.0, ["9.0k", "9.5k", "10.0k", "10.5k", "11.0k", "11.5k", "12.0k"]),
        ("log", 0.01, 100.0, ["0.01", "0.1", "1", "10", "100"]),
        ("time", 0.0, 300.0, ["0:00", "1:00", "2:00", "3:00", "4:00", "5:00"]),
    ],
)
def test_the_labels_of_an_axis_have_one_format(
    axes: browser.Page, kind: str, low: float, high: float, expected: list[str]
) -> None:
    assert [label for _, label, _ in ticks(axes, kind, low, high)] == expected


# ---------------------------------------------------------------------- whole pages


def drawn(data: st.DataObject, keys: set[str]) -> dict[str, Any]:
    return {key: data.draw(VALUES) for key in sorted(keys)}


def look_at(page: browser.Page, file: Path) -> None:
    """Open a report, make every choice, and move the cursor through its charts; nothing may be complained of."""
    page.open(file)
    page.run(f"{HELPERS}; 0" if page.run("typeof charts") == "undefined" else "0")
    for axis in ("seconds", "symbols", "update"):
        page.run(f"pick('over', {axis!r})")
        for scale in ("log", "linear", "auto"):
            page.run(f"document.querySelector('input[name=scale][value={scale}]')?.click()")
        page.run("drawings.filter((each) => each.move).forEach((each) => [0, 300].forEach((x) => each.move(x)))")
        page.run(
            "drawings.filter((each) => each.key).forEach((each) => ['Home', 'ArrowRight'].forEach((key) => "
            "each.key(new KeyboardEvent('keydown', { key }))))"
        )
    page.frame()
    assert page.complaints == []


@in_browser
@settings(together, max_examples=8)
@given(data=st.data())
def test_the_page_draws_any_numbers(
    page: browser.Page, runs: dict[str, Path], tmp_path: Path, data: st.DataObject
) -> None:
    folders = []
    for name in ("hf", "sgd"):
        folders.append(Path(shutil.copytree(runs[name], tmp_path / name, dirs_exist_ok=True)))
        kept = data.draw(st.sets(st.sampled_from(NUMBERS)))
        rewrite(folders[-1], lambda line, keys=set(NUMBERS) - kept - {"update"}: line.update(drawn(data, keys)))
    look_at(page, write_report(folders, tmp_path / "report.html", force=True))


ULP = math.nextafter(4.0, 5.0) - 4.0
CHANGES: dict[str, Any] = {
    "columns that differ in the last place": lambda line: {
        "train_bits": 4.0 + line["update"] % 3 * ULP, "valid_bits": 4.0 + line["update"] % 2 * ULP
    },
    "seconds now and then": lambda line: {"seconds": None if line["update"] % 2 else line["seconds"]},
    "equal seconds": lambda line: {"seconds": 3.0},
    "falling seconds": lambda line: {"seconds": 100.0 - line["update"]},
    "negative seconds": lambda line: {"seconds": -line["seconds"]},
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


@in_browser
def test_records_without_a_time_are_left_out_over_time(page: browser.Page, run: Path) -> None:
    rewrite(run, lambda line: line.update(seconds=None if line["update"] == 3 else line["seconds"]))
    page.open(write_report([run], run.parent / "report.html", force=True))
    page.run(f"{HELPERS}; 0" if page.run("typeof charts") == "undefined" else "0")
    points = "Number(chartOf('Loss').querySelector('[data-series=training]').dataset.points)"
    assert page.run(points) == 6
    page.run("pick('over', 'seconds')")
    assert page.run(points) == 5
    page.move(*place(page, "Loss", 0.5))
    assert page.run("document.querySelectorAll('.tip:not([hidden]) [data-update=\"3\"]').length") == 0
