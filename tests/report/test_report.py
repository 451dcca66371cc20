"""The report without a browser: what its page holds is what the logs hold, of every kind of run, finished or not."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.command_line import call, refused
from support.damage import DAMAGE
from support.method_runs import run as tiny_method
from support.report_runs import HOSTILE, rewrite
from support.tiny_runs import TEXT, metrics, snapshot, tiny_train

from hfrnn.cli import main
from hfrnn.engine import sampling
from hfrnn.errors import InputError, NonFiniteError, StorageError
from hfrnn.report import make_page, write_report
from hfrnn.report.values import NUMBERS, WORDS, option_rows, read_run, run_names
from hfrnn.report.verdict import verdict
from hfrnn.runs.folder import RunFolder
from hfrnn.training.trainer import Callback


def embedded(page: str) -> dict[str, Any]:
    """The data in a page."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return dict(json.loads(found))


@pytest.mark.parametrize("name", ["hf", "tikhonov", "sgd", "words", "online", "task"])
def test_the_page_holds_the_log_and_changes_nothing(runs: dict[str, Path], name: str) -> None:
    lines, before = metrics(runs[name], timed=True), snapshot(runs[name])
    (found,) = embedded(make_page([runs[name]]))["runs"]
    assert snapshot(runs[name]) == before
    assert len(lines) >= 2
    for key in (*NUMBERS, *WORDS):
        column = [line.get(key) for line in lines]
        assert found["columns"].get(key) == (column if any(value is not None for value in column) else None)
    hf = name in ("hf", "tikhonov")
    assert {"update", "seconds", "symbols", "train_loss", "valid_loss", "seconds_update"} <= set(found["columns"])
    assert ({"mu", "rho", "cg_stop", "step_size"} <= set(found["columns"])) == hf
    assert ("learning_rate" in found["columns"]) != hf
    assert ("valid_errors" in found["columns"]) == (name == "task")
    assert found["unit"] == {"words": "word", "task": None}.get(name, "character")


def test_music_is_shown_in_nats(tmp_path: Path, small_music: Path) -> None:
    made = tiny_method(tmp_path, data="jsb", arch="rnn", streams=3, updates=20).folder
    found = read_run(RunFolder(made), "m")
    assert (found["unit"], found["loss"]) == (None, "nats")
    assert found["columns"]["valid_loss"] == [line["valid_loss"] for line in metrics(made)]
    assert "valid_bits" not in found["columns"]
    assert found["facts"]["last training"] == f"loss {metrics(made)[-1]['train_loss']:.4g}"


def test_the_facts_are_those_of_the_run(runs: dict[str, Path]) -> None:
    facts = read_run(RunFolder(runs["hf"]), "hf")["facts"]
    summary = json.loads((runs["hf"] / "summary.json").read_text())
    best = summary["best"]
    assert facts["weights"] == f"{summary['parameters']:,}"
    assert facts["best validation"] == f"{best['valid_bits']:.4f} bits, perplexity {best['valid_perplexity']:.2f}"
    assert facts["best at"].startswith(f"update {best['update']}, 0:0")
    assert (facts["updates"], facts["ended"], facts["resumed"]) == ("6", "by updates", "once")
    assert (facts["network"], facts["optimizer"]) == ("mlstm 4", "hf, structural damping")
    assert facts["hfrnn"] == RunFolder(runs["hf"]).versions()["hfrnn"]
    task = read_run(RunFolder(runs["task"]), "task")["facts"]
    assert re.fullmatch(r"loss \S+, [\d.]+% wrong", task["best validation"])


def test_a_run_begins_with_its_best_score_and_what_came_after(runs: dict[str, Path]) -> None:
    for losses, since in (
        ([3.0, 2.0, 1.0], "3 of 3, the last one"), ([3.0, 1.0, 2.0, 4.0], "2 of 4, rising since"),
        ([1.0, None, 3.0, 2.0], "1 of 4, not better since"), ([1.0, 1.0001, 1.0002], "1 of 3, not better since"),
        ([-1.0, -0.9, -0.5], "1 of 3, rising since"),
    ):  # fmt: skip
        columns = {"update": range(1, len(losses) + 1), "valid_loss": losses}
        columns |= dict.fromkeys(("valid_errors", "valid_bits"), [None] * len(losses))
        found = verdict("a.csv", "", columns, "RMSE 2.000, fit 90.0%")
        assert found == f"a.csv: RMSE 2.000, fit 90.0%; validation best at {since}"
    best = json.loads((runs["hf"] / "summary.json").read_text())["best"]
    words = f": {best['valid_bits']:.4f} bits per character, perplexity {best['valid_perplexity']:.2f}; validation best"
    assert f"{words} at {best['update']} of 6" in read_run(RunFolder(runs["hf"]), "hf")["verdict"]
    task = read_run(RunFolder(runs["task"]), "task")
    assert re.match(r"addition: [\d.]+% wrong, RMSE \S+, fit \S+%; ", task["verdict"])
    assert "steps" in task["facts"]
    assert "symbols" not in task["facts"]


def test_an_older_log_without_the_newer_columns_is_shown_with_its_failed_updates(run: Path) -> None:
    def older(line: dict[str, Any]) -> None:
        del line["seconds_before"], line["sample"], line["seconds_update"]
        line["failed"] = "no_decrease" if line["update"] in (2, 5) else None

    rewrite(run, older)
    found = read_run(RunFolder(run), "run")
    assert (found["resumed"], len(found["samples"]), found["facts"]["resumed"]) == ([], 1, "never")
    assert found["columns"]["failed"] == [None, "no_decrease", None, None, "no_decrease", None]
    assert found["facts"]["updates"] == "6, 2 failed"


def test_values_that_no_log_should_hold_are_left_out(run: Path) -> None:
    rewrite(run, lambda line: line.update(rho=float("nan"), mu="</script>", step_size=True, failed=3, sample=7))
    found = read_run(RunFolder(run), "run")
    assert {"rho", "mu", "step_size", "failed"}.isdisjoint(found["columns"])
    assert [sample["update"] for sample in found["samples"]] == [None]


def test_the_log_says_where_a_run_was_resumed(runs: dict[str, Path]) -> None:
    before = [line["seconds_before"] for line in metrics(runs["hf"], timed=True)]
    seconds = [line["seconds"] for line in metrics(runs["hf"], timed=True)]
    assert before[:3] == [0.0] * 3
    assert before[3:] == [seconds[2]] * 3
    assert read_run(RunFolder(runs["hf"]), "hf")["resumed"] == [3]
    assert read_run(RunFolder(runs["sgd"]), "sgd")["resumed"] == []


def test_samples_are_kept_as_training_goes_on(runs: dict[str, Path]) -> None:
    kept = {line["update"]: line["sample"] for line in metrics(runs["hf"])}
    assert [update for update, text in kept.items() if text is not None] == [1, 2, 4]
    assert all(len(text) == 30 and set(text) <= set(TEXT) for text in kept.values() if text is not None)
    summary = json.loads((runs["hf"] / "summary.json").read_text())
    found = read_run(RunFolder(runs["hf"]), "hf")["samples"]
    assert [(sample["update"], sample["text"]) for sample in found] == [
        *((update, kept[update]) for update in (1, 2, 4)), (None, summary["sample"]),
    ]  # fmt: skip


def test_samples_come_with_the_first_line_after_a_power_of_two_and_only_where_one_asks(runs: dict[str, Path]) -> None:
    last = 0
    for line in metrics(runs["sgd"]):
        assert (line["sample"] is not None) == (line["update"].bit_length() > last.bit_length())
        last = line["update"]
    for name in ("tikhonov", "task"):
        assert {line["sample"] for line in metrics(runs[name])} == {None}
        assert json.loads((runs[name] / "summary.json").read_text())["sample"] is None


def test_a_resumed_run_has_the_samples_of_an_unbroken_one(tmp_path: Path, runs: dict[str, Path]) -> None:
    whole = tiny_train(tmp_path, "whole", updates=6, sample_length=30, keep=2).folder
    assert metrics(whole) == metrics(runs["hf"])
    one, other = (json.loads((run / "summary.json").read_text())["sample"] for run in (whole, runs["hf"]))
    assert one == other


def test_a_network_that_can_write_nothing_costs_a_run_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> Any:
        raise NonFiniteError("the network's outputs are not finite")

    monkeypatch.setattr(sampling, "sample", broken)
    result = tiny_train(tmp_path, sample_length=30)
    assert result.summary["sample"] is None
    assert {line["sample"] for line in metrics(result.folder)} == {None}


def test_a_run_that_is_going_on_or_has_no_update_is_shown(run: Path) -> None:
    (run / "summary.json").unlink()
    whole = read_run(RunFolder(run), "run")
    with open(run / "metrics.jsonl", "ab") as log:
        log.write(b'{"update": 7, "seco')
    assert read_run(RunFolder(run), "run") == whole
    assert len(whole["columns"]["update"]) == 6
    assert whole["facts"]["ended"].startswith("no: ")
    assert whole["facts"]["weights"] == f"{RunFolder(run).restore('last')[0]['theta'].size:,}"
    for file in (*run.glob("*.safetensors"), run / "metrics.jsonl"):
        file.unlink()
    begun = read_run(RunFolder(run), "run")
    assert (begun["columns"], begun["facts"]["weights"], begun["facts"]["updates"]) == ({}, "-", "0")
    make_page([run])


def test_a_report_can_be_made_while_the_run_goes_on(tmp_path: Path) -> None:
    counts = []

    class Report(Callback):
        def on_update(self, record: dict[str, Any]) -> None:
            counts.append(len(embedded(make_page([tmp_path / "run"]))["runs"][0]["columns"]["update"]))

    tiny_train(tmp_path, callbacks=(Report(),), updates=3)
    assert counts == [1, 2, 3]


def test_options_that_differ_are_marked(runs: dict[str, Path]) -> None:
    found = [read_run(RunFolder(runs[name]), name) for name in ("hf", "tikhonov", "sgd")]
    rows = {row["name"]: row for row in option_rows(found)}
    assert rows["damping"]["values"] == ["structural", "tikhonov", None]
    assert rows["damping"]["differs"]
    assert rows["optimizer"]["values"] == ["hf", "hf", "sgd"]
    assert (rows["gradient_symbols"]["values"], rows["gradient_symbols"]["differs"]) == (["300", "300", None], False)
    assert rows["gradient_symbols"]["told"]  # of use to some, and not the default
    assert (rows["cg_iterations"]["values"], rows["cg_iterations"]["told"]) == (["3", "3", None], False)
    assert not rows["preset"]["told"]
    assert rows["epochs"]["values"] == ["-", "-", "3"]
    assert rows["hidden"] == {**rows["hidden"], "values": ["4", "4", "4"], "differs": False, "told": False}
    assert "out" not in rows
    alone = {row["name"]: row["told"] for row in option_rows(found[:1])}
    assert (alone["hidden"], alone["gradient_symbols"], alone["arch"]) == (True, True, False)


def test_names_are_as_long_as_it_takes_to_tell_runs_apart(tmp_path: Path) -> None:
    assert run_names([tmp_path / "a" / "run", tmp_path / "b" / "run"]) == ["a/run", "b/run"]
    assert run_names([tmp_path / "a" / "run", tmp_path / "b" / "other"]) == ["run", "other"]
    with pytest.raises(InputError, match="was given twice"):
        run_names([tmp_path / "a", tmp_path / "b", tmp_path / "b" / ".." / "a"])


def test_what_a_run_holds_cannot_leave_its_place(run: Path) -> None:
    rewrite(run, lambda line: line.update(sample=HOSTILE, failed=HOSTILE))
    name = "run '\"<img src=x onerror=window.hit=1>&{{script}}"
    page = make_page([run.rename(run.parent / name)])
    assert embedded(page)["runs"][0]["name"] == name
    assert embedded(page)["runs"][0]["samples"][0]["text"] == HOSTILE
    assert page.count("<script") == page.count("</script") == 2
    assert "<img" not in page
    assert page.count("<!--") == 0


@pytest.mark.parametrize("name", [b"caf\xe9", "lone \ud800".encode("utf-8", "surrogatepass")])
def test_a_folder_whose_name_is_no_text_is_shown(runs: dict[str, Path], tmp_path: Path, name: bytes) -> None:
    folder = tmp_path / os.fsdecode(name)
    try:
        shutil.copytree(runs["sgd"], folder)
    except OSError:
        pytest.skip("this file system has no such names")
    assert "?" in embedded(write_report([folder], tmp_path / "r.html").read_text("utf-8"))["runs"][0]["name"]


def test_the_page_of_all_runs_in_their_order_is_the_same_every_time_and_asks_for_nothing(runs: dict[str, Path]) -> None:
    page = make_page(list(runs.values()))
    assert page == make_page(list(runs.values()))
    assert [run["name"] for run in embedded(page)["runs"]] == list(runs)
    assert embedded(page)["title"].startswith("6 runs: hf, tikhonov")
    assert set(re.findall(r"https?://[^\s\"')]+", page)) == {"http://www.w3.org/2000/svg"}  # the name of a language
    assert re.findall(r"""(?:src|href)\s*=\s*["'][^"']*""", page) == ['href="data:,']
    assert "default-src 'none'" in page


def test_the_command_writes_one_file_and_names_it(runs, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("report", runs["hf"]).stdout == "report.html\n"
    assert call("report", runs["hf"], runs["sgd"], "-o", "other.html").stdout == "other.html\n"
    assert sorted(snapshot(tmp_path)) == ["other.html", "report.html"]
    assert (tmp_path / "other.html").read_text("utf-8") == make_page([runs["hf"], runs["sgd"]])


def test_an_older_report_is_replaced_whole_or_not_at_all(runs, tmp_path, monkeypatch) -> None:
    out = tmp_path / "r.html"
    out.write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", lambda *paths: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(StorageError, match="No space left"):
            write_report([runs["hf"]], out, force=True)
    assert snapshot(tmp_path) == {"r.html": b"old"}
    write_report([runs["hf"]], out, force=True)
    assert out.read_text("utf-8") == make_page([runs["hf"]])


def test_what_is_no_run_folder_or_given_twice_is_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("dear")
    for given in ("missing", "", "a file"):
        found = refused("report", runs["hf"], tmp_path / given, "-o", tmp_path / "r.html")
        assert re.fullmatch(r"Error: .* is not a run folder: .*", found)
        assert not (tmp_path / "r.html").exists()
    assert "was given twice" in refused("report", runs["hf"], runs["hf"])
    assert "Missing argument 'RUN...'" in refused("report")


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["config.toml", "metrics.jsonl", "summary.json"])
def test_a_damaged_file_is_refused_in_one_sentence_or_means_that_there_is_nothing_yet(run: Path, name: str) -> None:
    path, out = run / name, run.parent / "r.html"
    whole, shown = path.read_bytes(), set()
    for kind, damage in DAMAGE.items():
        path.unlink()
        content = damage(whole)
        if callable(content):
            content(path)
        elif content is not None:
            path.write_bytes(content)
        result = CliRunner().invoke(main, ["report", str(run), "-o", str(out)])
        if result.exit_code == 0:
            shown.add(kind)
            out.unlink()
        else:
            assert result.exit_code == 2, (kind, result.output)
            assert re.fullmatch(rf"Error: .*(run|{name}).*\n", result.stderr), (kind, result.stderr)
            assert not out.exists()
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        path.write_bytes(whole)
    nothing_yet = {
        "metrics.jsonl": {"missing", "empty", "half of it", "zeros", "rubbish"},
        "summary.json": {"missing", "an object"},
    }
    assert shown == nothing_yet.get(name, set())
