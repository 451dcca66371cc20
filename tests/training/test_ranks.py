"""Training on several ranks of mpiexec gives the bits of one process, and any number of ranks resumes a run."""

import shutil
from pathlib import Path

import pytest
from support import rank_runs
from support.mpi import errors, needs_mpi, run
from support.run_states import assert_same, state
from support.tiny_runs import TEXT, metrics, text_file

pytestmark = [needs_mpi, pytest.mark.nightly]
PROGRAM = Path(rank_runs.__file__)
MAIN = ("hf", "sgd", "adam")
MORE = ("tikhonov", "kronecker", "soap", "task")
FLAGS = ["--hidden", 4, "--sequence-length", 10, "--gradient-symbols", 1500, "--sample-length", 0, "--backend", "numpy"]
FLAGS += ["--threads", 1, "--shards", 6, "--quiet"]


def trained(folder):
    """Return the lines of a log without validation: a run that ends validates its last update, wherever that is."""
    return [{key: x for key, x in line.items() if not key.startswith("valid")} for line in metrics(folder)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A folder with the runs of one process."""
    folder = tmp_path_factory.mktemp("alone")
    text_file(folder)
    ended = run(1, PROGRAM, folder, 1, *MAIN, *MORE, folder=folder)
    assert ended.returncode == 0, ended.stderr
    return folder


def _trains_alike(alone, folder, ranks, threads, names):
    text_file(folder)
    ended = run(ranks, PROGRAM, folder, threads, *names, folder=folder)
    assert ended.returncode == 0, ended.stderr
    for name in names:
        assert len(metrics(folder / name)) >= 2
        assert_same(folder / name, alone / name)


@pytest.mark.parametrize(("ranks", "threads"), [(1, 2), (2, 1), (3, 2), (4, 1)])
def test_ten_updates_give_the_same_weights_on_any_number_of_ranks_and_threads(ranks, threads, alone, tmp_path):
    _trains_alike(alone, tmp_path, ranks, threads, MAIN)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_everything_else_that_is_summed_has_the_same_bits(ranks, alone, tmp_path):
    _trains_alike(alone, tmp_path, ranks, 1, MORE)


def _train(ranks, folder, *arguments):
    ended = run(ranks, "-m", "hfrnn", "train", *arguments, folder=folder)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("optimizer", MAIN)
def test_a_run_is_resumed_by_another_number_of_ranks(optimizer, tmp_path):
    text = text_file(tmp_path)
    options = [*FLAGS, "--optimizer", optimizer, *([] if optimizer == "hf" else ["--log-interval", 2, "--streams", 50])]
    if optimizer != "hf":
        at = options.index("--gradient-symbols")
        del options[at : at + 2]
    _train(1, tmp_path, text, *options, "--updates", 6, "--out", "whole")
    _train(2, tmp_path, text, *options, "--updates", 2, "--out", "parts")
    _train(3, tmp_path, "--resume", "parts", "--updates", 4, "--quiet")
    _train(1, tmp_path, "--resume", "parts", "--updates", 6, "--quiet")
    if optimizer == "hf":
        assert_same(tmp_path / "parts", tmp_path / "whole")
        return
    parts, whole = tmp_path / "parts", tmp_path / "whole"
    assert state(parts) == state(whole)
    assert trained(parts) == trained(whole)


def test_rank_0_alone_writes_the_screen_and_the_folder(tmp_path):
    text = text_file(tmp_path)
    flags = [flag for flag in FLAGS if flag != "--quiet"]
    ended = run(3, "-m", "hfrnn", "train", text, *flags, "--updates", 2, "--out", "run", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("network   ") == ended.stdout.count("run folder: run") == 1
    assert "ranks     3\n" in ended.stdout
    assert len(metrics(tmp_path / "run")) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "text.txt"]


def test_ranks_without_a_shard_are_told_of(tmp_path):
    text, flags = text_file(tmp_path), [flag for flag in FLAGS if flag not in ("--quiet", "--shards", 6)]
    ended = run(3, "-m", "hfrnn", "train", text, *flags, "--updates", 2, "--out", "run", folder=tmp_path)
    assert "the curvature batch has 2 shards: give --shards 3 or larger batches" in ended.stdout
    _train(1, tmp_path, text, *flags, "--updates", 2, "--out", "alone")
    assert_same(tmp_path / "run", tmp_path / "alone")


OTHER_TEXT = """
import os, sys
from hfrnn.__main__ import main
if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    sys.argv = [each.replace("text.txt", "other.txt") for each in sys.argv]
main()
"""


def test_a_data_file_that_differs_between_ranks_is_refused(tmp_path):
    text = text_file(tmp_path)
    text_file(tmp_path, TEXT.replace("fox", "box", 1), "other.txt")
    ended = run(2, "-c", OTHER_TEXT, "train", text, *FLAGS, "--out", "run", folder=tmp_path)
    assert ended.returncode == 2
    (error,) = errors(ended.stderr)
    assert error == (
        "Error: the data text.txt of rank 1 differs from that of the others: give all machines the same files"
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("arguments", "message"), [
    (["train", "nothing.txt"], "Error: there is no file "), (["train", "--hidden", "0"], "Error: "),
    (["train", "--optimizer", "online", "--arch", "lstm-krause"], "Error: --optimizer online works in one process"),
    (["info"], "Error: hfrnn info works in one process, and 2 ranks were started: start it without mpiexec"),
])  # fmt: skip
def test_wrong_input_is_one_sentence_and_exit_code_2(arguments, message, tmp_path):
    ended = run(2, "-m", "hfrnn", *arguments, folder=tmp_path)
    assert ended.returncode == 2
    (error,) = errors(ended.stderr)
    assert error.startswith(message)
    assert ended.stdout == ""


def test_a_run_folder_that_differs_between_ranks_is_refused(tmp_path):
    text = text_file(tmp_path)
    _train(1, tmp_path, text, *FLAGS, "--updates", 2, "--out", "run")
    shutil.copytree(tmp_path / "run", tmp_path / "other")
    _train(1, tmp_path, "--resume", "other", "--updates", 3, "--quiet")
    program = OTHER_TEXT.replace("text.txt", "run").replace("other.txt", "other")
    ended = run(2, "-c", program, "train", "--resume", "run", "--updates", 4, folder=tmp_path)
    assert ended.returncode == 2
    (error,) = errors(ended.stderr)
    assert "of rank 1 differs from that of the others" in error
