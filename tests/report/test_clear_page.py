"""The report in a real browser: colours with one meaning, letters at their own curves, the best values, even cards."""

from __future__ import annotations

import itertools
import math
import re
import shutil
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import browser
from support.report_pages import in_browser, number
from support.report_runs import rewrite
from support.tiny_runs import metrics

VISION = {  # how linear RGB is seen; Machado, Oliveira & Fernandes 2009, severity 1
    "normal": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
TO_CONES = [[0.41222147, 0.53633254, 0.05144599], [0.21190350, 0.68069955, 0.10739696],
            [0.08830246, 0.28171884, 0.62997870]]  # fmt: skip
TO_OKLAB = [[0.21045426, 0.79361779, -0.00407205], [1.97799850, -2.42859221, 0.45059371],
            [0.02590404, 0.78277177, -0.80867577]]  # fmt: skip


def palette(letter: str, theme: int) -> list[str]:
    """The colours of runs (c) or of reasons and activities (k), in the light (0) or the dark (1) theme."""
    css = resources.files("hfrnn.report").joinpath("page.css").read_text("utf-8")
    found = re.findall(rf"--{letter}\d: light-dark\((#\w+), (#\w+)\)", css)
    assert len(found) == 8
    return [colours[theme] for colours in found]


def seen(colour: str, vision: str) -> np.ndarray:
    """A colour in Oklab, as someone with this vision sees it."""
    rgb = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    cones = np.array(TO_CONES) @ np.clip(np.array(VISION[vision]) @ linear, 0, 1)
    return np.array(TO_OKLAB) @ np.cbrt(cones)


def apart(one: str, other: str, vision: str) -> float:
    return float(np.linalg.norm(seen(one, vision) - seen(other, vision)))


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_of_a_palette_differ_for_every_kind_of_vision(theme: int) -> None:
    for letter, vision in itertools.product("ck", VISION):
        for one, other in itertools.combinations(palette(letter, theme), 2):
            assert apart(one, other, vision) > 0.08, (letter, vision, one, other)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_a_reason_or_activity_has_the_colour_of_no_run(theme: int) -> None:
    runs, shades = palette("c", theme), palette("k", theme)
    for run, shade in itertools.product(runs, shades):
        assert apart(run, shade, "normal") > 0.1, (run, shade)
    strength = [max(math.hypot(*seen(colour, "normal")[1:]) for colour in colours) for colours in (shades, runs)]
    assert strength[0] < 0.045 < 0.15 < strength[1]


def letters(page: browser.Page, title: str) -> list[dict[str, float]]:
    """The letters of a chart: the run, the centre, and the end of the run's curve."""
    return list(
        page.run(
            f"[...chartOf({title!r}).querySelectorAll('text.letter')].map((text) => {{ const box = text.getBBox();"
            f'const path = chartOf({title!r}).querySelector(`path[data-run="${{text.dataset.run}}"]`);'
            "const [x, y] = path.getAttribute('d').match(/[-\\d.]+ [-\\d.]+$/)[0].split(' ').map(Number);"
            "return { run: Number(text.dataset.run), cx: box.x + box.width / 2, cy: box.y + box.height / 2, x, y }; })"
        )
    )


@in_browser
@pytest.mark.parametrize(("gap", "width"), [(0.0, 1280), (0.002, 360), (0.05, 1280)])
def test_letters_of_curves_that_meet_stand_apart_and_at_their_ends(shown, runs, tmp_path, gap, width) -> None:
    folders = [Path(shutil.copytree(runs["hf"], tmp_path / name)) for name in "abcde"]
    for n, folder in enumerate(folders):
        rewrite(folder, lambda line, n=n: line.update(valid_bits=3 / line["update"] + (-1) ** n * n * gap))
    page = shown(*folders, width=width)
    found = letters(page, "Loss")
    assert sorted(each["run"] for each in found) == [0, 1, 2, 3, 4]
    for one, other in itertools.combinations(found, 2):
        assert (one["cy"] - other["cy"]) * (one["y"] - other["y"]) >= 0  # from top to bottom as the curves end
        assert abs(one["cx"] - other["cx"]) > 9 or abs(one["cy"] - other["cy"]) > 10, (one, other)
    assert all(math.hypot(each["cx"] - each["x"], each["cy"] - each["y"]) < 60 for each in found)


@in_browser
def test_the_best_value_of_each_run_is_marked_and_written(shown: Any, runs: dict[str, Path], tmp_path: Path) -> None:
    early = Path(shutil.copytree(runs["hf"], tmp_path / "early"))
    rewrite(early, lambda line: line.update(valid_bits=abs(line["update"] - 3) + 1.5, valid_perplexity=None))
    page = shown(early, runs["tikhonov"])
    least = min(line["valid_bits"] for line in metrics(runs["tikhonov"]) if line["valid_bits"] is not None)
    words = page.run("chartOf('Loss').querySelector('.key').innerText").split()
    assert " ".join(words).startswith("\u25cb best A 1.5 at update 3")
    assert number(least) in words
    assert page.run("chartOf('Loss').querySelector('.key b').textContent") == "1.5"  # the best of all
    rings = page.run("[...chartOf('Loss').querySelectorAll('circle.best')].map((ring) => ring.textContent)")
    assert rings == ["best 1.5", f"best {number(least)}"]


SPREAD = [
    ([50, 80], [50, 80]), ([50, 50], [43.5, 56.5]), ([50, 60, 100], [48.5, 61.5, 100]), ([10, 10, 10], [10, 23, 36]),
    ([100, 100, 100], [74, 87, 100]), ([20, 40, 40, 40], [15.5, 28.5, 41.5, 54.5]), ([], []),
    ([50] * 10, [10 * n for n in range(1, 11)]),
]  # fmt: skip


@in_browser
def test_letters_at_the_edge_move_apart_as_little_as_possible(shown: Any, runs: dict[str, Path]) -> None:
    page = shown(runs["sgd"])
    for wanted, expected in SPREAD:
        assert page.run(f"spread({wanted}, 10, 100)") == pytest.approx(expected)
