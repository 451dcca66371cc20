"""What a run shows: a table that fits 80 columns, a live line on a terminal, timed lines elsewhere."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.tiny_runs import text_file, tiny_train

import hfrnn.cli.progress
import hfrnn.training.hints
from hfrnn.cli.progress import Display
from hfrnn.cli.run_tables import RunTable, result_lines, short_number
from hfrnn.optim.cg import CGStop
from hfrnn.training.hints import Improvement
from hfrnn.training.trainer import Callback
from hfrnn.wording import clock

RECORD: dict[str, Any] = {
    "update": 3, "seconds": 61.4, "train_bits": 2.5, "valid_bits": 2.75, "cg_iterations": 17, "cg_stop": "mu_growth",
    "mu": 0.1, "lambda": 0.01, "rho": 0.625, "step_size": 0.8,
}  # fmt: skip


STEPS: dict[str, Any] = {
    "update": 300, "seconds": 61.4, "train_bits": 2.5, "valid_bits": 2.75, "cg_iterations": None, "epoch": 1.254,
    "learning_rate": 0.0125, "gradient_norm": 0.625, "clipped": 0.25, "valid_errors": None, "train_loss": 1.5,
    "valid_loss": 1.75,
}  # fmt: skip


SGD = {"optimizer": "sgd", "streams": 4, "updates": 20, "log_interval": 10}


class Slow(Callback):
    """Takes longer in one CG iteration than the live line takes to be drawn again."""

    def on_cg(self, iteration: int, q: float) -> None:
        if iteration == 3:
            time.sleep(0.15)


def shown(folder: Path, terminal: bool, **options: Any) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=80, color_system=None, _environ={"TERM": "xterm"})
    display = Display(console)
    result = tiny_train(folder, callbacks=(Slow(), display), **options)
    console.print("\n".join(result_lines(result)), soft_wrap=True)
    return file.getvalue()


def test_seconds_are_shown_as_a_clock() -> None:
    shown = {None: "-", 0.0: "0:00", -3.0: "0:00", 64.6: "1:05", 7265.0: "2:01:05"}
    assert {seconds: clock(seconds) for seconds in shown} == shown


def test_a_number_takes_six_characters_at_most() -> None:
    shown = {
        None: "-", 2.5: "2.500", -12.3456: "-12.35", 1234.56: "1234.6", -1e7: "-1e+07", 0.0: "0.000",
        0.01234: "0.0123", 1.234e-5: "1.2e-5", -1.23e-4: "-1e-4", 1.2e-100: "1e-100", 0.0996: "0.100",
    }  # fmt: skip
    assert {value: short_number(value) for value in shown} == shown


def under(head: str, line: str, **values: str) -> None:
    """Each value ends where its name ends."""
    for name, value in values.items():
        assert line[: head.index(name) + len(name)].endswith(f" {value}"), name


def test_columns_stand_under_their_names() -> None:
    line, head = RunTable().row(RECORD, 120.0), RunTable().header()
    under(head, line, update="3", time="1:01", left="2:00", train="2.500", valid="2.750", CG="17")
    under(head, line, rho="0.625", mu="0.1", step="0.80")
    assert line.index("mu growth") == head.index("ended by")


@pytest.mark.parametrize("huge", [None, 1e300, -1e99])
def test_a_row_fits_80_columns(huge: float | None) -> None:
    small = dict.fromkeys(("rho", "train_bits", "valid_bits", "train_loss", "valid_loss", "gradient_norm"), huge)
    large = {"update": 123456, "seconds": 86399.0, "mu": 1.23456e-8, "epoch": 1234.56, "learning_rate": 1.2345e-10}
    record = {**RECORD, **STEPS, **small, **large, "clipped": 1.0, "valid_errors": 1.0, "cg_iterations": 1000}
    for stop in CGStop:
        assert len(RunTable().row({**record, "cg_stop": stop.value}, 35999.0)) <= 80
    for other in (record, {**record, "gradient_norm": None, "clipped": None}):
        assert len(RunTable(None, True).row(other, 35999.0)) <= 80


@pytest.mark.parametrize("strength", ["mu", None])
@pytest.mark.parametrize("width", [80, 70, 60, 40, 10])
def test_a_table_has_as_many_columns_as_fit(strength: str | None, width: int) -> None:
    table = RunTable(strength, errors=strength is None, width=width)
    line = table.row(RECORD if strength else {**RECORD, **STEPS, "valid_errors": 0.5}, 60.0)
    assert max(len(table.header()), len(line)) <= width
    assert (width < 70) == ("rho" not in table.header() and "clipped" not in table.header())
    assert table.unit("bits").index("bits") <= len(line)


def test_a_pipe_gets_plain_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hfrnn.cli.progress, "PLAIN_SECONDS", 0.0)
    text = shown(tmp_path, False, minutes=5.0, cg_iterations=3)
    assert "\x1b" not in text
    assert "\r" not in text
    lines = text.splitlines()
    names = ["network", "text", "training", "gradient", "curvature", "memory", "backend", "limit", "folder"]
    assert [line.split()[0] for line in lines[:9]] == names
    assert "backend   numpy" in lines
    assert RunTable().header() in lines
    assert sum(bool(re.match(r" {5}[12] +0:0\d +\d:\d\d +\d+\.\d{3}", line)) for line in lines) == 2
    assert any(re.match(r" {5}1 +0:0\d +\d:\d\d +3  running, q -\d", line) for line in lines)
    assert "bits per character in validation, after update 2" in text


def test_a_run_without_a_better_validation_says_once_how_to_stop() -> None:
    lines = Improvement({"update": 4, "valid_loss": 1.0})
    losses = [2.0] * 9 + [0.5, None, *[0.5] * 9]
    assert [lines.hint({"update": n, "valid_loss": loss}) for n, loss in enumerate(losses, 5)] == [None] * 20
    hint = lines.hint({"update": 25, "valid_loss": 0.6})
    assert hint is not None
    assert "no better validation since update 14: Ctrl-C stops" in str(hint)
    assert [lines.hint({"update": n, "valid_loss": 0.6}) for n in range(26, 50)] == [None] * 24


def test_constraints_and_the_hint_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hfrnn.training.hints, "IDLE", 1)
    rate = {"arch": "rate", "activation": "relu", "density": 0.5, "excitatory": 0.75, "hidden": (8, 6)}
    for patience, times in ((None, 1), (99, 0)):
        options = {"optimizer": "sgd", "learning_rate": 1e-30, "updates": 6, "log_interval": 1, "validate_every": 1}
        (tmp_path / str(times)).mkdir()
        text = shown(tmp_path / str(times), False, patience=patience, **rate, **options)
        assert text.count("no better validation since update 1: Ctrl-C") == times
    words = "layer 0: 6 excitatory, 2 inhibitory, density 0.50; layer 1: 4 excitatory, 2 inhibitory, density 0.50"
    assert f"weights {words} text" in " ".join(text.split())


LIVE = {
    "hf": ({"cg_iterations": 3, "minutes": 0.15}, [
        r"update 1 .* CG   3  q -\S+  left 0:0\d", r"update 2 .* CG   3  q -\S+  \d\.\d{3} bits  left 0:0\d"]),
    "sgd": ({**SGD, "minutes": 5.0}, [
        r"update 1 .* step +3  \d\.\d{3} bits +left \d:\d\d", r"update 11 .* step +3  \d\.\d{3} bits  left"]),
}  # fmt: skip


@pytest.mark.parametrize("name", LIVE)
def test_a_terminal_gets_a_live_line_that_goes_away(tmp_path: Path, name: str) -> None:
    options, lines = LIVE[name]
    text = shown(tmp_path, True, **options)
    assert "\x1b[2K" in text
    assert text.rindex("\x1b[?25h") > text.rindex("left ")  # the cursor is back after the last live line
    frames = re.split(r"[\r\n]", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\r", text))
    assert max(len(frame) for frame in frames if not frame.startswith(("folder", "run folder:"))) <= 80
    for line in lines:
        assert any(re.match(line, frame) for frame in frames)


def test_skipped_validation_symbols_are_told(tmp_path: Path) -> None:
    valid = text_file(tmp_path, "The fox é and ü the dog.", "valid.txt")
    assert "2 of the latter were never seen in training and are skipped" in shown(tmp_path, False, valid=valid)


# ---------------------------------------------------------------------- SGD, Adam and the online rule


def test_columns_of_other_optimizers_stand_under_their_names() -> None:
    line, head = RunTable(None, True).row({**STEPS, "valid_errors": 0.125}, 120.0), RunTable(None, True).header()
    under(head, line, update="300", time="1:01", left="2:00", train="2.500", valid="2.750", epoch="1.25")
    under(head, line, rate="0.0125", gradient="0.625", clipped="25%", wrong="12.5%")
    assert len(line) == len(head)
    assert RunTable(None).header() == head.removesuffix("  wrong")
    assert RunTable(None).row(STEPS, 120.0) == line.removesuffix("12.5%").rstrip()
    line = RunTable(None, in_bits=False).row({**STEPS, "train_bits": None, "valid_bits": None}, None)
    assert "  1.500    1.750 " in line


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "sgd": ({**SGD, "update_every": 5}, "sgd, learning rate 0.5 (divide), 4 streams, 10 steps back every 5"),
    "online": ({**SGD, "optimizer": "online", "arch": "lstm-krause"},
               "online, learning rate 0.1 (constant), 4 streams, every step"),
    "task": ({"optimizer": "adam", "data": "addition", "length": 21, "arch": "rnn", "text": None, "sequences": 40,
              "updates": 20, "log_interval": 10}, "adam, learning rate 0.002 (constant), 32 sequences at a time"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_another_optimizer_says_how_it_trains_and_shows_its_lines(tmp_path, monkeypatch, name: str) -> None:
    monkeypatch.setattr(hfrnn.cli.progress, "PLAIN_SECONDS", 0.0)
    options, training = OTHERS[name]
    lines, task = shown(tmp_path, False, **options, epochs=2, minutes=5.0).splitlines(), name == "task"
    assert max(len(line) for line in lines if "folder" not in line) <= 80
    assert {f"training  {training}", "limit     update 20 or epoch 2 or 5:00"} <= set(lines)
    assert RunTable(None, task, in_bits=not task).header() in lines
    row = r" +\d+ +0:0\d +\S+ +\d+\.\d{3,5} +\S+ +\d\.\d\d +\S+ +\S+ +\S+" + (r" +\d+\.\d%" if task else "")
    assert len([line for line in lines if re.match(row, line)]) == 2
    best = r"loss \S+ in validation, \d+\.\d% wrong" if task else r"\S+ bits per character in valid"
    assert re.search(f"best: {best}", "\n".join(lines))
    if name == "sgd":  # a line that comes late is announced
        assert any(re.fullmatch(r" {4}11 +0:0\d +\S+ +7  running, \d\.\d{3} bits", line) for line in lines)


def test_tikhonov_shows_lambda_in_the_column_of_its_name(tmp_path: Path) -> None:
    text = shown(tmp_path, False, damping="tikhonov", **{"lambda": 0.375})
    assert re.search(r"rho +lambda", text)
    assert " 0.375 " in text
