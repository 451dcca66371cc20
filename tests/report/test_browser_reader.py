"""The report in a real browser: what a reader chooses, both themes, small screens, paper, and hostile content."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import browser
from support.report_pages import TRAIN, VALID, needs_browser, number, place, tip, vertices
from support.report_runs import HOSTILE, rewrite
from support.tiny_runs import metrics

from hfrnn.report import write_report

pytestmark = [pytest.mark.nightly, needs_browser]


def test_the_cursor_shows_values_of_the_log_for_every_run(shown: Any, runs: dict[str, Path]) -> None:
    page = shown(runs["hf"], runs["tikhonov"])
    logs = [{line["update"]: line for line in metrics(runs[name])} for name in ("hf", "tikhonov")]
    seen = set()
    for share in (0.1, 0.4, 0.7, 0.98):
        page.move(*place(page, "Loss", share))
        found = tip(page)
        assert [row["run"] for row in found] == [0, 1]
        for row, log in zip(found, logs, strict=True):
            line = log[row["update"]]
            seen.add((row["run"], row["update"]))
            assert row["values"] == {
                VALID: f"{VALID} {number(line['valid_bits'])}", TRAIN: f"{TRAIN} {number(line['train_bits'])}",
            }  # fmt: skip
    assert {(0, 6), (1, 4)} <= seen  # at the right edge the last of both
    assert len(seen) >= 5


def test_the_keyboard_reads_a_chart(shown: Any, runs: dict[str, Path]) -> None:
    page, lines = shown(runs["hf"]), metrics(runs["hf"])
    page.run("chartOf('Damping').querySelector('.plot > svg').focus()")
    keys = {"ArrowRight": (1, 2), "End": (6,), "ArrowLeft": (5, 4), "Home": (1,)}
    for key, update in ((key, update) for key, updates in keys.items() for update in updates):
        page.press(key)
        (row,) = tip(page)
        assert row["update"] == update
        assert row["values"]["mu"] == f"mu {number(lines[update - 1]['mu'])}"
        heard = page.run("chartOf('Damping').querySelector('[aria-live]').textContent")
        assert f"mu {number(lines[update - 1]['mu'])}" in heard
    page.press("Escape")
    assert tip(page) == []


def test_the_legend_turns_runs_off_and_on(shown: Any, runs: dict[str, Path]) -> None:
    page = shown(runs["hf"], runs["tikhonov"])
    whole = vertices(page)
    page.run("document.querySelector('#legend button').click()")
    assert vertices(page) == {key: value for key, value in whole.items() if key[1] == 1}
    page.move(*place(page, "Loss", 0.5))
    assert [row["run"] for row in tip(page)] == [1]
    page.run("document.querySelector('#legend button').click()")
    assert vertices(page) == whole


@pytest.mark.parametrize("key", ["update", "seconds", "symbols"])
def test_curves_lie_over_what_was_chosen(shown: Any, runs: dict[str, Path], key: str) -> None:
    page, lines = shown(runs["hf"]), metrics(runs["hf"], timed=True)
    page.run(f"pick('over', {key!r})")
    d = page.run("chartOf('Loss').querySelector('[data-series=training]').getAttribute('d')")
    xs = [float(point.split()[0]) for point in d[1:].split("L")]
    frame = page.run(
        "(() => { const box = chartOf('Loss').querySelector('.axis').getBBox(); return [box.x, box.width]; })()"
    )
    wanted = [frame[0] + frame[1] * line[key] / lines[-1][key] for line in lines]
    assert xs == pytest.approx(wanted, abs=0.02)


def test_light_and_dark_differ_and_can_be_chosen(shown: Any, runs: dict[str, Path]) -> None:
    def colours() -> list[str]:
        return list(page.run("[document.body, document.querySelector('.curve')].map((each) => "
                             "getComputedStyle(each).backgroundColor + getComputedStyle(each).color "
                             "+ getComputedStyle(each).stroke)"))  # fmt: skip

    page = shown(runs["hf"])
    light = colours()
    page.theme(dark=True)
    dark = colours()
    assert all(one != other for one, other in zip(light, dark, strict=True))
    page.run("pick('theme', 'light')")
    assert colours() == light
    page.theme(dark=False)
    page.run("pick('theme', 'dark')")
    assert colours() == dark


def test_all_runs_in_one_page_are_not_wider_than_a_telephone(shown: Any, runs: dict[str, Path]) -> None:
    page = shown(*runs.values(), width=360)
    assert {run for _, run, _ in vertices(page)} == set(range(len(runs)))
    assert page.run("document.querySelectorAll('#legend button').length") == len(runs)
    outside = (
        "[...document.querySelectorAll('body *')].filter((each) => !each.closest('.scroll table, .unseen, .tip') && "
        "each.getBoundingClientRect().right > 360.5).map((each) => each.outerHTML.slice(0, 80))"
    )
    assert page.run("document.documentElement.scrollWidth") == 360
    assert page.run(outside) == []


def test_paper_is_light_and_without_controls(shown: Any, runs: dict[str, Path]) -> None:
    page = shown(runs["hf"], dark=True)
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.send("Emulation.setEmulatedMedia", media="print", features=features)
    colour = page.run("getComputedStyle(document.querySelector('.panel')).backgroundColor")
    assert colour == "rgb(255, 255, 255)"
    assert page.run("document.querySelector('#controls').offsetHeight") == 0
    assert len(page.send("Page.printToPDF")["data"]) > 10_000
    page.send("Emulation.setEmulatedMedia", media="")


def test_names_and_samples_are_text_and_nothing_more(shown: Any, runs: dict[str, Path], tmp_path: Path) -> None:
    name = "\"'><img src=x onerror=window.hit=1>&amp;"
    run = Path(shutil.copytree(runs["hf"], tmp_path / name))
    rewrite(run, lambda line: line.update(sample=HOSTILE, failed=HOSTILE, cg_stop=HOSTILE))
    config = (run / "config.toml").read_text("utf-8")
    (run / "config.toml").write_text(config.replace('unknown = "skip"', f"unknown = {json.dumps(HOSTILE)}"), "utf-8")
    page = shown(run, runs["tikhonov"])
    page.move(*place(page, "Loss", 0.9))
    page.frame()
    assert page.run("window.hit") is None
    assert page.run("document.querySelectorAll('img').length") == 0
    assert page.run("document.querySelectorAll('script').length") == 2
    assert page.run("document.querySelector('#legend bdi').textContent") == name
    assert page.run("document.querySelector('pre').textContent") == HOSTILE
    assert page.run("document.title").endswith(f"{name}, tikhonov")
    assert HOSTILE in page.run("document.querySelector('#main').textContent")


def test_a_script_that_comes_in_is_not_run(page: browser.Page, runs: dict[str, Path], tmp_path: Path) -> None:
    file = write_report([runs["hf"]], tmp_path / "report.html")
    evil = "<script>window.hit = 1</script><img src=x onerror='window.hit=1'>"
    file.write_text(file.read_text("utf-8").replace("<footer>", evil + "<footer>"), "utf-8")
    page.open(file)
    assert page.run("window.hit") is None
    assert any("Content Security Policy" in complaint for complaint in page.complaints)
