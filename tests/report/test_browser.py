"""The report in a real browser: what it draws, shows and asks for, in both themes and on a telephone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import browser
from support.method_runs import run as tiny_method
from support.report_runs import HOSTILE, make_runs, rewrite
from support.tiny_runs import metrics

from hfrnn.report import write_report

PROGRAM = browser.found()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium on the PATH to look at the page with")

VALID, TRAIN = "validation", "training"
CURVES = {  # of an HF run: title of the chart, name of the curve, key of the log
    ("Loss", VALID): "valid_bits", ("Loss", TRAIN): "train_bits", ("Damping", "mu"): "mu",
    ("Damping", "lambda"): "lambda", ("rho", "rho"): "rho", ("CG iterations", "made"): "cg_iterations",
    ("CG iterations", "of the step chosen"): "chosen_iteration", ("Step size", "step size"): "step_size",
    ("Gradient norm", "gradient"): "gradient_norm", ("Gradient norm", "CG's last residual"): "residual_norm",
    ("Step norm", "step norm"): "step_norm",
}  # fmt: skip
FIRST_ORDER = {
    ("Loss", VALID): "valid_bits", ("Loss", TRAIN): "train_bits", ("Gradient norm", "gradient"): "gradient_norm",
    ("Learning rate", "learning rate"): "learning_rate", ("Clipped gradients", "clipped"): "clipped",
}  # fmt: skip

HELPERS = """
const charts = () => [...document.querySelectorAll("figure")].filter((figure) => figure.offsetWidth);
const chartOf = (title) => charts().find((figure) => figure.querySelector("h3").firstChild.data.trim() === title);
const curves = () => charts().flatMap((figure) => [...figure.querySelectorAll("path[data-series]")].map((path) => ({
  chart: figure.querySelector("h3").firstChild.data.trim(), run: Number(path.dataset.run), series: path.dataset.series,
  points: Number(path.dataset.points), vertices: (path.getAttribute("d").match(/[ML]/g) || []).length,
})));
const pick = (name, value) => document.querySelector(`input[name="${name}"][value="${value}"]`).click();
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Page]:
    assert PROGRAM is not None
    with browser.browser(PROGRAM, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def shown(page: browser.Page, tmp_path: Path) -> Any:
    """Opens a report on some runs; at the end the page has complained of nothing and asked for nothing."""
    files = []

    def show(*folders: Path, width: int = 1200, dark: bool = False) -> browser.Page:
        files.append(write_report(folders, tmp_path / "report.html"))
        page.open(files[-1], width=width, dark=dark)
        page.run(f"{HELPERS}; 0" if page.run("typeof charts") == "undefined" else "0")
        return page

    yield show
    page.frame()
    assert page.complaints == []
    assert set(page.requests) <= {file.resolve().as_uri() for file in files}


def number(value: float | None) -> str:
    """A number as the page writes it."""
    return "\u2013" if value is None else repr(float(f"{value:.5g}")).removesuffix(".0")


def vertices(page: browser.Page) -> dict[tuple[str, int, str], tuple[int, int]]:
    return {(c["chart"], c["run"], c["series"]): (c["points"], c["vertices"]) for c in page.run("curves()")}


def place(page: browser.Page, title: str, share: float) -> tuple[float, float]:
    """A point in a chart, so far from left to right."""
    left, top, width = page.run(
        f"(() => {{ const svg = chartOf({title!r}).querySelector('.plot > svg');"
        "svg.scrollIntoView({ block: 'center' }); const box = svg.getBoundingClientRect();"
        "return [box.left, box.top, box.width]; })()"
    )
    return left + share * width, top + 40


def tip(page: browser.Page) -> list[dict[str, Any]]:
    """What the cursor shows: of every run its update and its values."""
    return list(
        page.run(
            "[...document.querySelectorAll('.tip:not([hidden]) > div')].map((row) => ({ run: Number(row.dataset.run),"
            "update: Number(row.dataset.update), values: Object.fromEntries([...row.querySelectorAll('[data-series]')]"
            ".map((value) => [value.dataset.series, value.innerText])) }))"
        )
    )


# ---------------------------------------------------------------------- what is drawn


def test_every_curve_is_there_with_all_of_its_points(shown: Any, runs: dict[str, Path]) -> None:
    page = shown(runs["hf"], runs["sgd"])
    found = vertices(page)
    wanted = {}
    for run, (name, curves) in enumerate((("hf", CURVES), ("sgd", FIRST_ORDER))):
        lines = metrics(runs[name])
        for (title, series), key in curves.items():
            count = sum(line[key] is not None for line in lines)
            wanted[title, run, series] = (count, count)
    assert found == wanted
    assert min(count for count, _ in wanted.values()) >= 2


@pytest.mark.parametrize(
    ("names", "rule"),
    [(("hf", "sgd"), "below 0.5 and shrinks above 1. "), (("tikhonov",), "below 0.3 and shrinks above 1. "),
     (("hf", "tikhonov"), "")],
)  # fmt: skip
def test_the_bounds_of_rho_are_those_of_the_runs(
    shown: Any, runs: dict[str, Path], names: tuple[str, ...], rule: str
) -> None:
    text = shown(*(runs[name] for name in names)).run("chartOf('rho').innerText")
    assert text[text.index("Damping grows ") + 14 :].startswith(rule) if rule else "Damping grows" not in text


@pytest.mark.parametrize("name", ["tikhonov", "words", "online", "task"])
def test_every_kind_of_run_is_drawn(shown: Any, runs: dict[str, Path], name: str) -> None:
    page = shown(runs[name])
    lines, keys = metrics(runs[name]), {"words": "valid_perplexity", "task": "valid_loss"}
    count = sum(line["valid_loss"] is not None for line in lines)
    assert vertices(page)["Loss", 0, VALID] == (count, count)
    assert all(line[keys.get(name, "valid_bits")] is not None or line["valid_loss"] is None for line in lines)
    unit = page.run("chartOf('Loss').querySelector('.unit').innerText").split(",")[0]
    assert unit == {"words": "of a word", "task": "the task's loss"}.get(name, "bits per character")
    assert (("Wrong answers", 0, "wrong") in vertices(page)) == (name == "task")
    if name == "tikhonov":
        assert ("Damping", 0, "lambda") in vertices(page)
        assert vertices(page).get(("Damping", 0, "mu"), (0, 0)) == (0, 0)  # of 0 there is no logarithm


def test_music_is_drawn(shown: Any, tmp_path: Path, small_music: Path) -> None:
    page = shown(tiny_method(tmp_path, data="jsb", arch="rnn", streams=3, updates=20).folder)
    assert page.run("chartOf('Loss').querySelector('.unit').innerText").split(",")[0] == "nats"


def test_all_runs_together_fit_in_one_page(shown: Any, runs: dict[str, Path]) -> None:
    page = shown(*runs.values())
    assert {run for _, run, _ in vertices(page)} == set(range(len(runs)))
    assert page.run("document.querySelectorAll('#legend button').length") == len(runs)


def test_summary_samples_and_options_are_there(shown: Any, runs: dict[str, Path]) -> None:
    page = shown(runs["hf"], runs["tikhonov"])
    text = page.run("document.body.innerText")
    summary = json.loads((runs["hf"] / "summary.json").read_text())
    assert f"{summary['best']['valid_bits']:.4f} bits" in text
    samples = page.run("[...document.querySelectorAll('pre')].map((pre) => pre.textContent)")
    assert samples == [line["sample"] for line in metrics(runs["hf"]) if line["sample"]] + [summary["sample"]]
    differing = page.run("[...document.querySelectorAll('tr.differs th')].map((head) => head.textContent)")
    assert "≠ damping" in differing
    assert "≠ seed" not in differing
    before = page.run("document.querySelectorAll('.tables tr').length")
    page.run("document.querySelector('.all input').click()")
    assert page.run("document.querySelectorAll('.tables tr').length") > before + 30


def test_failures_and_resumptions_are_marked(shown: Any, runs: dict[str, Path], tmp_path: Path) -> None:
    run = Path(shutil.copytree(runs["hf"], tmp_path / "run"))
    rewrite(run, lambda line: line.update(failed="no_decrease" if line["update"] in (2, 5) else None))
    page = shown(run)
    assert page.run("chartOf('Loss').querySelectorAll('.failed').length") == 2
    assert page.run("chartOf('Loss').querySelectorAll('.resumed').length") == 1
    page.move(*place(page, "Step size", 0.36))
    assert "failed: no decrease" in page.run("document.querySelector('.tip:not([hidden])').innerText")


def test_a_rho_off_the_scale_is_marked_at_the_edge(shown: Any, runs: dict[str, Path], tmp_path: Path) -> None:
    run = Path(shutil.copytree(runs["hf"], tmp_path / "run"))
    rewrite(run, lambda line: line.update(rho={1: 500.0, 2: -1000.0, 3: None}.get(line["update"], 0.5)))
    page = shown(run)
    assert page.run("chartOf('rho').querySelectorAll('.off').length") == 3
    labels = page.run("[...chartOf('rho').querySelectorAll('svg text')].map((text) => text.textContent)")
    assert {"\u22121", "0", "1", "2", "3"} <= set(labels)
    assert "500" not in labels


def test_a_curve_goes_on_where_nothing_was_validated_and_breaks_where_rho_is_missing(
    shown: Any, runs: dict[str, Path], tmp_path: Path
) -> None:
    def change(line: dict[str, Any]) -> None:
        line.update({"valid_bits": None, "rho": None} if line["update"] in (3, 4) else {"rho": 0.5})

    run = Path(shutil.copytree(runs["hf"], tmp_path / "run"))
    rewrite(run, change)
    page = shown(run)
    d = "chartOf({!r}).querySelector('[data-series={}]').getAttribute('d')"
    assert page.run(d.format("Loss", VALID)).count("M") == 1
    assert page.run(d.format("rho", "rho")).count("M") == 2
    assert vertices(page)["Loss", 0, VALID] == vertices(page)["rho", 0, "rho"] == (4, 4)


def test_thousands_of_updates_are_thinned_and_keep_their_extremes(
    shown: Any, runs: dict[str, Path], tmp_path: Path
) -> None:
    run, count = Path(shutil.copytree(runs["sgd"], tmp_path / "run")), 20_000
    line = {**metrics(run, timed=True)[0], "valid_loss": None, "valid_bits": None, "sample": None}
    lines = (
        {**line, "update": n, "seconds": n / 10, "train_bits": 3 + n % 7 / 10 + (n == 9_999) * 5 - (n == 5_000) * 2}
        for n in range(1, count + 1)
    )
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = shown(run)
    points, drawn = vertices(page)["Loss", 0, TRAIN]
    assert points == count
    assert drawn < 4 * 1200
    tops, bottoms = page.run(
        "(() => { const box = chartOf('Loss').querySelector('[data-series=training]').getBBox();"
        "const frame = chartOf('Loss').querySelector('.axis').getBBox();"
        "return [box.y, [box.y + box.height, frame.y]]; })()"
    )
    assert tops == pytest.approx(12, abs=1)  # the one high value, at the upper edge of the frame
    assert bottoms[0] == pytest.approx(bottoms[1] - 6, abs=1)  # the one low value
    assert page.run("charts().find((f) => f.innerText.includes('Each column')) !== undefined")


def test_a_run_that_goes_on_and_one_without_an_update_are_drawn(
    shown: Any, runs: dict[str, Path], tmp_path: Path
) -> None:
    going, begun = (Path(shutil.copytree(runs["hf"], tmp_path / name)) for name in ("going", "begun"))
    (going / "summary.json").unlink()
    with open(going / "metrics.jsonl", "ab") as log:
        log.write(b'{"update": 7, "sec')
    (begun / "metrics.jsonl").unlink()
    page = shown(going, begun)
    assert vertices(page)["Loss", 0, TRAIN] == (6, 6)
    assert "goes on, or was stopped" in page.run("document.body.innerText")
    page = shown(begun)
    assert vertices(page) == {}
    assert "no update in any log" in page.run("document.body.innerText")


# ---------------------------------------------------------------------- what the reader chooses


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


def test_the_cursor_finds_the_last_validation_before_it(shown: Any, runs: dict[str, Path]) -> None:
    page, lines = shown(runs["sgd"]), metrics(runs["sgd"])
    validated = [line["update"] for line in lines if line["valid_bits"] is not None]
    late = next(n for n, line in enumerate(lines) if n and line["valid_bits"] is None and lines[0]["update"])
    assert validated[0] < lines[-1]["update"]
    page.run("chartOf('Loss').querySelector('.plot > svg').focus()")
    for _ in range(late + 1):
        page.press("ArrowRight")
    (row,) = tip(page)
    assert row["update"] == lines[late]["update"]
    if validated[0] < row["update"]:
        before = max(update for update in validated if update < row["update"])
        assert row["values"][VALID].endswith(f"(update {before})")


def test_the_keyboard_reads_a_chart(shown: Any, runs: dict[str, Path]) -> None:
    page, lines = shown(runs["hf"]), metrics(runs["hf"])
    page.run("chartOf('Damping').querySelector('.plot > svg').focus()")
    for key, update in (
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("End", 6),
        ("ArrowRight", 6),
        ("ArrowLeft", 5),
        ("Home", 1),
    ):
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
    assert page.run(
        "[...document.querySelectorAll('.tables th[scope=col]')].every((th) => th.innerText.includes('tik'))"
    )
    assert page.run("document.querySelector('#legend button').getAttribute('aria-pressed')") == "false"
    page.move(*place(page, "Loss", 0.5))
    assert [row["run"] for row in tip(page)] == [1]
    page.run("document.querySelectorAll('#legend button')[1].click()")
    assert vertices(page) == {}
    page.run("document.querySelectorAll('#legend button').forEach((button) => button.click())")
    assert vertices(page) == whole


@pytest.mark.parametrize(("axis", "key"), [("update", "update"), ("seconds", "seconds"), ("symbols", "symbols")])
def test_curves_lie_over_what_was_chosen(shown: Any, runs: dict[str, Path], axis: str, key: str) -> None:
    page, lines = shown(runs["hf"]), metrics(runs["hf"], timed=True)
    page.run(f"pick('over', {axis!r})")
    d = page.run("chartOf('Loss').querySelector('[data-series=training]').getAttribute('d')")
    xs = [float(point.split()[0]) for point in d[1:].split("L")]
    frame = page.run(
        "(() => { const box = chartOf('Loss').querySelector('.axis').getBBox(); return [box.x, box.width]; })()"
    )
    wanted = [frame[0] + frame[1] * line[key] / lines[-1][key] for line in lines]
    assert xs == pytest.approx(wanted, abs=0.02)
    name = {"update": "updates", "seconds": "time", "symbols": "symbols"}[axis]
    assert page.run("chartOf('Loss').querySelector('text.name').textContent") == name


def test_another_measure_of_the_loss_can_be_chosen(shown: Any, runs: dict[str, Path]) -> None:
    page, last = shown(runs["hf"]), metrics(runs["hf"])[-1]
    for measure, value in (
        ("perplexity", last["valid_perplexity"]),
        ("loss", last["valid_loss"]),
        ("bits", last["valid_bits"]),
    ):
        page.run(f"pick('measure', {measure!r})")
        page.move(*place(page, "Loss", 0.99))
        assert tip(page)[0]["values"][VALID] == f"{VALID} {number(value)}"


# ---------------------------------------------------------------------- themes, sizes, paper


def test_light_and_dark_differ_and_can_be_chosen(shown: Any, runs: dict[str, Path]) -> None:
    def colours() -> list[str]:
        return list(page.run("[document.body, document.querySelector('.curve')].map((each) => "
                             "getComputedStyle(each).backgroundColor + getComputedStyle(each).color "
                             "+ getComputedStyle(each).stroke)"))  # fmt: skip

    page = shown(runs["hf"])
    light, bright = colours(), page.picture(whole=False)
    page.theme(dark=True)
    dark = colours()
    assert all(one != other for one, other in zip(light, dark, strict=True))
    page.frame()
    assert page.picture(whole=False) != bright
    page.run("pick('theme', 'light')")
    assert colours() == light
    page.theme(dark=False)
    page.run("pick('theme', 'dark')")
    assert colours() == dark
    page.run("pick('theme', 'auto')")
    assert colours() == light


@pytest.mark.parametrize("names", [["hf"], ["hf", "tikhonov", "sgd", "words", "online", "task"]])
def test_nothing_is_wider_than_a_telephone(shown: Any, runs: dict[str, Path], names: list[str]) -> None:
    page = shown(*(runs[name] for name in names), width=360)
    outside = (
        "[...document.querySelectorAll('body *')].filter((each) => !each.closest('.scroll table, .unseen, .tip') && "
        "each.getBoundingClientRect().right > 360.5).map((each) => each.outerHTML.slice(0, 80))"
    )
    assert page.run("document.documentElement.scrollWidth") == 360
    assert page.run(outside) == []
    page.run("document.querySelector('.all input').click()")
    page.move(*place(page, "Loss", 0.9))
    assert page.run("document.documentElement.scrollWidth") == 360
    assert page.run("(() => { const box = document.querySelector('.tip:not([hidden])').getBoundingClientRect();"
                    "return box.left >= 0 && box.right <= 360; })()")  # fmt: skip


def test_charts_follow_the_width_of_the_window(shown: Any, runs: dict[str, Path]) -> None:
    page = shown(runs["hf"])
    wide = page.run("chartOf('Loss').querySelector('.plot > svg').viewBox.baseVal.width")
    page.resize(500, 900)
    page.wait(f"chartOf('Loss').querySelector('.plot > svg').viewBox.baseVal.width < {wide / 2}")
    assert vertices(page)["Loss", 0, TRAIN] == (6, 6)


def test_paper_is_light_and_without_controls(shown: Any, runs: dict[str, Path]) -> None:
    page = shown(runs["hf"], dark=True)
    dark = page.run("getComputedStyle(document.querySelector('.panel')).backgroundColor")
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.send("Emulation.setEmulatedMedia", media="print", features=features)
    assert (
        page.run("getComputedStyle(document.querySelector('.panel')).backgroundColor") == "rgb(255, 255, 255)" != dark
    )
    assert page.run("document.querySelector('#controls').offsetHeight") == 0
    assert len(page.send("Page.printToPDF")["data"]) > 10_000
    page.send("Emulation.setEmulatedMedia", media="")


def test_nothing_moves_for_who_wants_that(shown: Any, runs: dict[str, Path]) -> None:
    page = shown(runs["hf"], runs["sgd"])
    moving = (
        "[...document.querySelectorAll('*')]"
        ".filter((each) => getComputedStyle(each).transitionDuration !== '0s').length"
    )
    page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "no-preference"}])
    assert page.run(moving) > 0
    page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    assert page.run(moving) == 0


# ---------------------------------------------------------------------- what must not happen


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
    html = file.read_text("utf-8").replace(
        "<footer>", "<script>window.hit = 1</script><img src=x onerror='window.hit=1'><footer>"
    )
    file.write_text(html, "utf-8")
    page.open(file)
    assert page.run("window.hit") is None
    assert any("Content Security Policy" in complaint for complaint in page.complaints)
