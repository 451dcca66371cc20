"""Compare two commits bit by bit: train the same small networks with both, and compare all that the runs have written.

    python tests/golden.py main                     compare main with HEAD
    python tests/golden.py v1 v2 --only '*-lstm-*'  compare two commits in some cases
    python tests/golden.py HEAD --working-tree      compare HEAD with the files of this folder, committed or not

Both commits run now, each in a temporary folder and one process. They use nothing but the command line and
`hfrnn.train`, so a commit that moves modules can be compared with the one before. A case compares every array of
last.safetensors and best.safetensors, the lines of metrics.jsonl, the data of the page that `hfrnn report` makes of the
run, and the output of `hfrnn gradcheck`, all without times, versions and folders. The exit status is 1 if one differs.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import io
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from golden_cases import CALLS, Case, cases, write_data

PROJECT = Path(__file__).resolve().parent.parent
DIFFERENT = 1  # exit status
CHECKPOINTS = ("last.safetensors", "best.safetensors")
FACTS = ("folder", "time", "machine", "hfrnn", "versions")
"""Rows of the report's summary that may differ: times, paths and versions."""
FAILURE = "failure.txt"
LONGEST = 200  # characters of a value in a message


def drive(source: Path, folder: Path, names: list[str]) -> int:
    """Run cases with the commit whose files are in `source`, each in a folder that keeps the output and a failure."""
    import hfrnn

    if not Path(hfrnn.__file__).resolve().is_relative_to(source.resolve()):
        raise SystemExit(f"{hfrnn.__file__} was imported instead of the package in {source}")
    chosen = {case.name: case for case in cases()}
    for name in names:
        place = folder / name
        place.mkdir()
        os.chdir(place)
        for command in chosen[name].commands:
            output = io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                failure = call(command, folder.parent / "data")
            (place / "output.txt").open("a").write(output.getvalue())
            if failure is not None:
                (place / FAILURE).write_text(f"hfrnn {command}: {failure} {output.getvalue().strip()[-LONGEST:]}")
                break
    return 0


def call(command: str, data: Path) -> str | None:
    """Run a command in this process; return why it failed, None if it did not."""
    try:
        if command in CALLS:
            CALLS[command]()
            return None
        sys.argv = ["hfrnn", *(word.replace("DATA", str(data)) for word in command.split())]
        runpy.run_module("hfrnn", run_name="__main__")
    except SystemExit as end:
        return f"exit status {end.code}" if end.code else None
    except Exception as error:
        return repr(error)
    return None


def start(folder: Path, commit: str | None, names: list[str]) -> subprocess.Popen[bytes]:
    """Unpack a commit, None for the working tree, next to a new folder for its cases, and start its process."""
    source = folder.with_name(f"{folder.name}-source")
    source.mkdir()
    folder.mkdir()
    if commit is None:
        for file in git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
            if (PROJECT / file).is_file():
                (source / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(PROJECT / file, source / file)
    else:
        archive = subprocess.run(["git", "archive", commit], cwd=PROJECT, capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", str(source)], input=archive.stdout, check=True)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(source), str(source / "src")])}
    environment |= {"NUMBA_CACHE_DIR": str(folder.with_name(f"{folder.name}-numba")), "HFRNN_OFFLINE": "1"}
    return subprocess.Popen([sys.executable, __file__, "--drive", source, folder, *names], env=environment)


class Found(NamedTuple):
    arrays: dict[str, Any]
    values: dict[str, Any]


def read(folder: Path, prints: bool) -> Found:
    """Return the arrays of a case; and its log, report and, if asked for, output as values of JSON."""
    from safetensors.numpy import load_file

    found = Found({}, {})
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.name in CHECKPOINTS:
            found.arrays.update({f"{name}: {key}": array for key, array in sorted(load_file(path).items())})
        elif path.name == "metrics.jsonl":
            found.values[name] = [untimed(json.loads(line)) for line in path.read_text("utf-8").splitlines()]
        elif path.name == "report.html":
            found.values[name] = report_data(path.read_text("utf-8"))
        elif path.name == "output.txt" and prints:
            found.values[name] = json.loads(path.read_text("utf-8"))
    return found


def untimed(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if not name.startswith("seconds")}


def report_data(page: str) -> dict[str, Any]:
    """Return the data of a report without times, paths, versions and the order of its options."""
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    found: dict[str, Any] = json.loads(match[1]) if match else {"damaged": "the page has no data"}
    found.pop("version", None)
    found.pop("options", None)  # the rows of a table; every run has the values
    for run in found.get("runs", []):
        run.pop("given", None)
        run["columns"] = untimed(run["columns"])
        options = run.get("options", {})
        run["options"] = {name: Option(value) for name, value in options.items() if value not in (None, "-")}
        examples = run.get("examples") or {}
        for sequence in (examples, *examples.get("sequences", [])):
            sequence.pop("shares", None)  # the report had principal components once
            sequence.pop("components", None)
        run["facts"] = {name: value for name, value in run["facts"].items() if name not in FACTS}
        if "best at" in run["facts"]:
            run["facts"]["best at"] = re.sub(r", [\d:]+$", "", run["facts"]["best at"])
    return found


class Option(str):
    """The value of an option of a run. Options come and go, and only those that both commits have are compared."""


def differences(before: Any, after: Any, place: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            if key in before and key in after:
                yield from differences(before[key], after[key], f"{place} {key}")
            elif not isinstance(before.get(key, after.get(key)), Option):
                yield f"{place} {key} only {'before' if key in before else 'after'}"
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{place} has {len(before)} entries before, {len(after)} after"
        for n, pair in enumerate(zip(before, after, strict=False), 1):
            yield from differences(*pair, f"{place} [{n}]")
    elif repr(before) != repr(after):  # also NaN; 1 and 1.0, 0.0 and -0.0 differ
        yield f"{place} is {before!r:.{LONGEST}} before, {after!r:.{LONGEST}} after"


def array_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*before, *after]):
        if name not in before or name not in after:
            yield f"{name} only {'before' if name in before else 'after'}"
            continue
        a, b = before[name], after[name]
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            yield f"{name} is {a.dtype} {a.shape} before, {b.dtype} {b.shape} after"
        elif a.tobytes() != b.tobytes():
            size = a.dtype.itemsize
            bits_a, bits_b = (np.frombuffer(each.tobytes(), np.uint8).reshape(-1, size) for each in (a, b))
            (places,) = np.nonzero((bits_a != bits_b).any(axis=1))
            n = int(places[0])
            first = f"number {n} is {a.ravel()[n]!r} before, {b.ravel()[n]!r} after"
            yield f"{name} differs in {len(places)} of {a.size} numbers: {first}"


def compare(case: Case, folders: tuple[Path, Path]) -> list[str]:
    """Print a line about a case that both commits have run, and return what differs."""
    problems, arrays = [], "-"
    for folder in folders:
        if not (folder / case.name).is_dir():
            problems.append(f"the process {folder.name} has ended before")
        elif (failure := folder / case.name / FAILURE).exists():
            problems.append(f"failed {folder.name}: {failure.read_text()}")
    if not problems:
        old, new = (read(folder / case.name, case.prints) for folder in folders)
        problems = [*array_differences(old.arrays, new.arrays)]
        for name in dict.fromkeys([*old.values, *new.values]):
            problems += differences(old.values.get(name), new.values.get(name), name)
        arrays = str(len(old.arrays))
        if not old.arrays and not old.values:
            problems.append("nothing was written")
    first = f": {problems[0]} ({len(problems)} in all)" if problems else ""
    print(f"{'DIFFERS' if problems else 'equal':8} {arrays:>3} arrays  {case.name}{first}", flush=True)
    return problems


def git(*words: str) -> str:
    ended = subprocess.run(["git", *words], cwd=PROJECT, capture_output=True, text=True)
    if ended.returncode:
        raise SystemExit(ended.stderr.strip())
    return ended.stdout.strip()


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare two commits bit by bit.")
    parser.add_argument("before", metavar="BEFORE", nargs="?", help="commit to compare with")
    parser.add_argument("after", metavar="AFTER", nargs="?", default="HEAD", help="commit (default: %(default)s)")
    parser.add_argument("--working-tree", action="store_true", help="take the files of this folder as AFTER")
    parser.add_argument("--only", default="*", metavar="GLOB", help="run only cases that match, e.g. '*-lstm-*'")
    parser.add_argument("--list", action="store_true", help="print the cases and run nothing")
    options = parser.parse_args(arguments)
    if options.before is None and not options.list:
        parser.error("BEFORE is missing: give a commit")
    return options


def run_both(commits: tuple[str, str | None], chosen: list[Case], folder: Path) -> int:
    """Run the cases with both commits at once, print the results, and return how many cases differ."""
    write_data(folder / "data")
    folders, processes = (folder / "before", folder / "after"), []
    try:
        for place, commit in zip(folders, commits, strict=True):
            processes.append(start(place, commit, [case.name for case in chosen]))
        for process in processes:
            process.wait()
    finally:
        for process in processes:
            process.kill()
    return sum(bool(compare(case, folders)) for case in chosen)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--drive"]:
        return drive(Path(arguments[1]), Path(arguments[2]), arguments[3:])
    options, begin = parse(arguments), time.perf_counter()
    chosen = [case for case in cases() if fnmatch.fnmatch(case.name, options.only)]
    if options.list or not chosen:
        print("\n".join(f"{case.name}: {'; '.join(case.commands)}" for case in chosen) or "no case matches")
        return 0 if chosen else DIFFERENT
    before, after = (git("rev-parse", "--verify", f"{name}^{{commit}}") for name in (options.before, options.after))
    commits = before, None if options.working_tree else after
    for when, commit in zip(("before", "after"), commits, strict=True):
        print(f"{when:8}", "the working tree" if commit is None else git("log", "-1", "--format=%h %s", commit))
    if options.after == "HEAD" and not options.working_tree and git("status", "--porcelain"):
        print("changes that are not committed are left out: --working-tree compares them")
    with tempfile.TemporaryDirectory(prefix="hfrnn-golden-") as folder:
        different = run_both(commits, chosen, Path(folder))
    print(f"{time.perf_counter() - begin:.0f} s, {len(chosen)} cases, {different} differ")
    return DIFFERENT if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
