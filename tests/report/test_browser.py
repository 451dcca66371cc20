"""The report in a real browser: what it draws of every kind of run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.report_pages import TRAIN, VALID, needs_browser, place, vertices
from support.report_runs import rewrite
from support.tiny_runs import metrics

from hfrnn.report.values import read_run
from hfrnn.runs.folder import RunFolder

pytestmark = [pytest.mark.nightly, needs_browser]

CURVES = {  # of an HF run: title of the chart, name of the curve, key of the log
    ("Loss", VALID): "valid_bits", ("Loss", TRAIN): "train_bits", ("Damping", "mu"): "mu",
    ("Damping", "lambda"): "lambda", ("rho", "rho"): "rho", ("CG iterations", "performed"): "cg_iterations",
    ("CG iterations", "chosen step"): "chosen_iteration", ("Step size", "step size"): "step_size",
    ("Gradient norm", "gradient"): "gradient_norm", ("Gradient norm", "last CG residual"): "residual_norm",
    ("Step norm", "step norm"): "step_norm",
}  # fmt: skip
FIRST_ORDER = {
    ("Loss", VALID): "valid_bits", ("Loss", TRAIN): "train_bits", ("Gradient norm", "gradient"): "gradient_norm",
    ("Learning rate", "learning rate"): "learning_rate", ("Clipped gradients", "clipped"): "clipped",
}  # fmt: skip


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
    ("names", "rule"), [(("tikhonov", "sgd"), "below 0.3 and shrinks above 1. "), (("hf", "tikhonov"), "")]
)  # fmt: skip
def test_the_bounds_of_rho_are_those_of_the_runs(shown, runs, names, rule) -> None:
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
    assert unit == {"words": "per word", "task": "the task's loss"}.get(name, "bits per character")
    assert (("Wrong answers", 0, "wrong") in vertices(page)) == (name == "task")
    assert (("Damping", 0, "lambda") in vertices(page)) == (name == "tikhonov")


def test_results_come_first_and_damping_is_folded(shown: Any, runs: dict[str, Path]) -> None:
    page = shown(runs["hf"], runs["task"], folded=True)
    lines = page.run("[...document.querySelector('main').firstChild.children].map((line) => line.innerText)")
    verdicts = [read_run(RunFolder(runs[name]), name)["verdict"] for name in ("hf", "task")]
    assert lines == [f"{letter} {text}" for letter, text in zip("AB", verdicts, strict=True)]
    closed = "[...document.querySelectorAll('details')].map((each) => [each.innerText, each.open])"
    assert page.run(closed) == [["Damping and trust", False], ["Conjugate gradient", False]]
    assert "steps" in page.run("document.querySelector('.controls').innerText")
    page.run("document.querySelector('summary').click()")
    page.frame()
    assert vertices(page)["Damping", 0, "mu"][0] == 6


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


def test_failures_and_resumptions_are_marked(shown: Any, run: Path) -> None:
    rewrite(run, lambda line: line.update(failed="no_decrease" if line["update"] in (2, 5) else None))
    page = shown(run)
    assert page.run("chartOf('Loss').querySelectorAll('.failed').length") == 2
    assert page.run("chartOf('Loss').querySelectorAll('.resumed').length") == 1
    page.move(*place(page, "Step size", 0.36))
    assert "failed: no decrease" in page.run("document.querySelector('.tip:not([hidden])').innerText")


def test_a_rho_off_the_scale_is_marked_at_the_edge(shown: Any, run: Path) -> None:
    rewrite(run, lambda line: line.update(rho={1: 500.0, 2: -1000.0, 3: None}.get(line["update"], 0.5)))
    page = shown(run)
    assert page.run("chartOf('rho').querySelectorAll('.off').length") == 3


def test_a_curve_goes_on_where_nothing_was_validated_and_breaks_where_rho_is_missing(shown: Any, run: Path) -> None:
    def change(line: dict[str, Any]) -> None:
        line.update({"valid_bits": None, "rho": None} if line["update"] in (3, 4) else {"rho": 0.5})

    rewrite(run, change)
    page = shown(run)
    d = "chartOf({!r}).querySelector('[data-series={}]').getAttribute('d')"
    assert page.run(d.format("Loss", VALID)).count("M") == 1
    assert page.run(d.format("rho", "rho")).count("M") == 2
    assert vertices(page)["Loss", 0, VALID] == vertices(page)["rho", 0, "rho"] == (4, 4)


def test_thousands_of_updates_are_thinned_and_keep_their_extremes(shown, runs, tmp_path) -> None:
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


def test_a_run_that_goes_on_and_one_without_an_update_are_drawn(shown, runs, tmp_path) -> None:
    going, begun = (Path(shutil.copytree(runs["hf"], tmp_path / name)) for name in ("going", "begun"))
    (going / "summary.json").unlink()
    with open(going / "metrics.jsonl", "ab") as log:
        log.write(b'{"update": 7, "sec')
    (begun / "metrics.jsonl").unlink()
    page = shown(going, begun)
    assert vertices(page)["Loss", 0, TRAIN] == (6, 6)
    assert "still running or was killed" in page.run("document.body.innerText")
    page = shown(begun)
    assert vertices(page) == {}
    assert "no updates yet" in page.run("document.body.innerText")
