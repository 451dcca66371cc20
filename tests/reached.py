"""Record which tests reach each line of hfrnn, for mutations.py --reached.

    python tests/reached.py quick.json.gz                    the quick tier, on two processes
    python tests/reached.py slow.json.gz -m slow --processes 1
    python tests/reached.py some.json.gz tests/optim tests/checks

pytest runs once, in a copy of the project, traced by coverage.py. What a test reaches are the lines that run in its own
process, in Python processes that it starts, and in the module-wide fixtures that it uses. What a file does while it is
collected counts for all its tests. The caches of functions are emptied before each test, so that none hides from a test
what an earlier one has computed. All of hfrnn is imported first; a line that runs meanwhile is marked, and counts for
every test that reaches its file.

A process that is killed leaves no record. If a test has started more Python processes than have left one, it counts as
reaching every line. Loops that numba compiles are not traced: mutations.py takes their tests from mutation_table.py.
Only tests that pass are used; the others are printed and stored by name.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from coverage import CoverageData
from mutations import PAGES, copy_project
from support.reach import OUTSIDE, Reach, digest
from support.runs_of_copies import environment

QUICK = "not slow and not nightly"


def record(project: Path, folder: Path, marker: str, processes: int, paths: list[str]) -> None:
    """Run the tests of a copy of the project; the plugin writes its records to a folder."""
    words = [sys.executable, "-m", "pytest", "-p", "support.reach_plugin", "-p", "no:cacheprovider", "-m", marker]
    words += ["-n", str(processes)] if processes > 1 else []
    names = environment(project) | {"REACHED_FOLDER": str(folder)}
    status = subprocess.run([*words, "--tb=no", "-q", *paths], cwd=project, env=names).returncode
    if status not in (0, 1):
        raise SystemExit(f"pytest ended with status {status}")


def contexts_of(project: Path, folder: Path) -> tuple[dict[str, dict[int, set[str]]], Counter[str]]:
    """Return who has reached each line of each file, and how many processes each has started that left a record."""
    reached: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    children: Counter[str] = Counter()
    for path in [*folder.glob("main.*"), *folder.glob("child.*")]:
        data = CoverageData(str(path))
        data.read()
        if path.name.startswith("child"):
            children.update(data.measured_contexts())
        for name in data.measured_files():
            lines = reached[str(Path(name).relative_to(project))]
            for line, contexts in data.contexts_by_lineno(name).items():
                lines[line].update(contexts)
        data.close()
    return reached, children


def merged(project: Path, folder: Path, marker: str) -> Reach:
    """Return the record of a run from the files of its processes."""
    tests: dict[str, Any] = {}
    started: Counter[str] = Counter()
    collecting: dict[str, float] = {}
    for path in folder.glob("part.*"):
        part = json.loads(path.read_text(encoding="utf-8"))
        tests |= part["tests"]
        started.update(part["started"])
        collecting |= part["collecting"]
    used = sorted(name for name, test in tests.items() if test["outcome"] == "passed")
    members: dict[str, set[int]] = defaultdict(set, {"": {OUTSIDE}})
    for n, name in enumerate(used):
        for context in (name, name.partition("::")[0], *tests[name]["fixtures"]):
            members[context].add(n)

    def found(contexts: set[str]) -> tuple[int, ...]:
        return tuple(sorted(set().union(*(members[context] for context in contexts))))

    reached, children = contexts_of(project, folder)
    sets: dict[tuple[int, ...], int] = {}
    lines = {
        file: {str(line): sets.setdefault(found(contexts), len(sets)) for line, contexts in sorted(of_lines.items())}
        for file, of_lines in sorted(reached.items())
    }
    return Reach(
        marker=marker,
        digest=digest(project),
        tests={name: round(tests[name]["seconds"], 3) for name in used},
        left_out=sorted(set(tests) - set(used)),
        collecting={name: round(seconds, 3) for name, seconds in collecting.items()},
        untraced=sorted(set(found({name for name in started if started[name] > children[name]})) - {OUTSIDE}),
        sets=[list(each) for each in sets],
        lines=lines,
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Record which tests reach each line of hfrnn.")
    parser.add_argument("out", type=Path, help="file to write, e.g. quick.json.gz")
    parser.add_argument("paths", nargs="*", help="tests to run (default: all)")
    parser.add_argument("-m", dest="marker", default=QUICK, help="marker expression (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="number of processes (default: %(default)s)")
    options = parser.parse_intermixed_args(arguments)
    with tempfile.TemporaryDirectory(prefix="hfrnn-reached-") as name:
        project, folder = Path(name).resolve() / "project", Path(name).resolve() / "records"
        folder.mkdir()
        copy_project(project, PAGES)
        record(project, folder, options.marker, options.processes, options.paths)
        reach = merged(project, folder, options.marker)
    reach.write(options.out)
    print(f"{len(reach.tests)} tests reach {sum(map(len, reach.lines.values()))} lines of {len(reach.lines)} files")
    untraced = [list(reach.tests)[n] for n in reach.untraced]
    print(f"{len(untraced)} of them count as reaching every line:", *untraced, sep="\n  ")
    print(f"{len(reach.left_out)} did not pass or were skipped:", *reach.left_out, sep="\n  ")


if __name__ == "__main__":
    main(sys.argv[1:])
