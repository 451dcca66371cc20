"""What a run shows: a table that fits 80 columns, a live line on a terminal, timed lines elsewhere."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tiny_runs import text_file, tiny_train

import hfrnn.progress
from hfrnn.optim.cg import CGStop
from hfrnn.progress import Display, clock, header, live_bar, number, profile_lines, result_lines, row
from hfrnn.training import Callback

RECORD: dict[str, Any] = {
    "update": 3, "seconds": 61.4, "train_bits": 2.5, "valid_bits": 2.75, "cg_iterations": 17, "cg_stop": "mu_growth",
    "mu": 0.1, "lambda": 0.01, "rho": 0.625, "step_size": 0.8,
}  # fmt: skip


class Slow(Callback):
    """Takes longer in one CG iteration than the live line takes to be drawn again."""

    def on_cg(self, iteration: int, q: float) -> None:
        if iteration == 3:
            time.sleep(0.15)


def shown(folder: Path, terminal: bool, **options: Any) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=80, color_system=None, _environ={"TERM": "xterm"})
    display = Display(console)
    result = tiny_train(folder, callbacks=(display, Slow()), **options)
    console.print("\n".join(result_lines(result)), soft_wrap=True)
    return file.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0.0, "0:00"), (-3.0, "0:00"), (64.6, "1:05"), (7265.0, "2:01:05")]
)
def test_seconds_are_shown_as_a_clock(seconds: float | None, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (2.5, "2.500"), (-0.125, "-0.125"), (-12.3456, "-12.35"), (1234.56, "1234.6"), (-1e7, "-1e+07")],
)
def test_a_number_takes_six_characters_at_most(value: float | None, text: str) -> None:
    assert number(value) == text


def test_columns_stand_under_their_names() -> None:
    line, head = row(RECORD, 120.0), header()
    for name, value in (
        ("update", "3"), ("time", "1:01"), ("left", "2:00"), ("train", "2.500"), ("valid", "2.750"), ("CG", "17"),
        ("rho", "0.625"), ("mu", "0.1"), ("step", "0.80"),
    ):  # fmt: skip
        end = head.index(name) + len(name)
        assert line[:end].endswith(value), name
    assert line.index("mu growth") == head.index("ended by")


@pytest.mark.parametrize("stop", list(CGStop))
@pytest.mark.parametrize("huge", [None, 1e300, -1e99])
def test_a_row_fits_80_columns(stop: CGStop, huge: float | None) -> None:
    record = {
        **RECORD, "update": 123456, "seconds": 86399.0, "cg_iterations": 1000, "cg_stop": stop.value, "rho": huge,
        "train_bits": huge, "valid_bits": huge, "mu": 1.23456e-8, "step_size": 0.0,
    }  # fmt: skip
    assert len(row(record, 35999.0)) <= 80


def test_tikhonov_shows_lambda_in_the_column_of_its_name(tmp_path: Path) -> None:
    text = shown(tmp_path, False, damping="tikhonov", **{"lambda": 0.375})
    assert re.search(r"rho +lambda", text)
    assert " 0.375 " in text


def test_a_pipe_gets_plain_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hfrnn.progress, "PLAIN_SECONDS", 0.0)
    text = shown(tmp_path, False, minutes=5.0)
    assert "\x1b" not in text
    assert "\r" not in text
    lines = text.splitlines()
    names = ["network", "text", "training", "gradient", "curvature", "memory", "limit", "folder"]
    assert [line.split()[0] for line in lines[:8]] == names
    assert header() in lines
    assert sum(bool(re.match(r" {5}[12] +0:0\d +\d:\d\d +\d+\.\d{3}", line)) for line in lines) == 2
    assert any(re.match(r" {5}1 +0:0\d +\d:\d\d +3  running, q -\d", line) for line in lines)
    assert "bits per character in validation, after update 2" in text


def test_a_terminal_gets_a_live_line_that_goes_away(tmp_path: Path) -> None:
    text = shown(tmp_path, True, minutes=0.01)
    assert "\x1b[2K" in text
    assert text.rindex("\x1b[?25h") > text.rindex("update 2 ")  # the cursor is back after the last live line
    frames = re.split(r"[\r\n]", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\r", text))
    paths = ("folder", "run folder:")
    assert max(len(frame) for frame in frames if not frame.startswith(paths)) <= 80
    assert any(re.match(r"update 1 .* CG   3  q -\S+  left 0:0\d", frame) for frame in frames)
    assert any(re.match(r"update 2 .* CG   3  q -\S+  \d\.\d{3} bits  left 0:0\d", frame) for frame in frames)


def test_a_dumb_terminal_gets_plain_lines(tmp_path: Path) -> None:
    file = io.StringIO()
    display = Display(Console(file=file, force_terminal=True, width=80, _environ={"TERM": "dumb"}))
    tiny_train(tmp_path, callbacks=(display,))
    assert "\x1b" not in file.getvalue()


def test_skipped_validation_symbols_are_told(tmp_path: Path) -> None:
    valid = text_file(tmp_path, "The fox é and ü the dog.", "valid.txt")
    assert "2 of the latter were never seen in training and are skipped" in shown(tmp_path, False, valid=valid)


def test_bytes_are_called_bytes(tmp_path: Path) -> None:
    text = shown(tmp_path, False, level="byte")
    assert "bits a byte" in text
    assert "bytes to train on" in text
    assert "character" not in text


def test_no_bar_is_shown_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with live_bar() as show:
        show("half", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_profile_shares_out_the_whole_time(tmp_path: Path) -> None:
    display = Display(Console(file=io.StringIO()))
    tiny_train(tmp_path, callbacks=(display,))
    lines = profile_lines(display.records)
    whole = float(re.search(r"2 updates: (\d+\.\d)", "\n".join(lines)).group(1))  # type: ignore[union-attr]
    parts = [float(line.split(" s ")[0].split()[-1]) for line in lines[2:]]
    shares = [float(line.split()[-1].rstrip("%")) for line in lines[2:]]
    assert sum(parts) == pytest.approx(whole, abs=0.1)
    assert sum(shares) == pytest.approx(100, abs=1)
    products = sum(record["products"] for record in display.records)
    assert any(line.startswith(f"  products ({products})") for line in lines)
