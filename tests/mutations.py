"""Break hfrnn on purpose, one line at a time, and see whether the tests notice.

`python tests/mutations.py [FILTER]` copies the project once per mutation, replaces one piece of source text in the
copy, and runs there the few tests that ought to fail. It prints a line per mutation and ends with 1 if a mutant
survives, if a mutation's text is not found exactly once, or if the tests do not pass on the untouched copy. The working
tree is never written. All take about ten minutes; `--today` tries a tenth of them, another one each day.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

from mutation_rows import MUTATIONS, Mutation

PROJECT = Path(__file__).resolve().parent.parent
COPIED = ("hfrnn", "tests", "pyproject.toml")
AT_ONCE = 2
SECONDS = 120  # a mutant that runs longer than this is killed, and counts as noticed
DAYS = 10  # on which every mutation has had its turn with --today
PASSED, FAILED = 0, 1  # pytest's exit statuses; any other means that the tests did not run


def copy_project(source: Path, target: Path) -> None:
    """What the tests need, and nothing else."""
    for name in COPIED:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
        else:
            shutil.copy(source / name, target / name)


def run_tests(folder: Path, tests: tuple[str, ...]) -> tuple[int | None, str]:
    """Pytest's exit status (None: out of time) and the end of what it said, for a copy of the project."""
    one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    environment = os.environ | one_thread | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None, "out of time"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return done.returncode, "\n".join(lines[-4:])


def try_mutation(snapshot: Path, mutation: Mutation | None, tests: tuple[str, ...]) -> tuple[int | None, str, float]:
    """Run tests on a fresh copy of the snapshot with a mutation applied (None: untouched)."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="hfrnn-mutation-") as name:
        folder = Path(name)
        copy_project(snapshot, folder)
        if mutation is not None:
            mutation.apply(folder)
        status, words = run_tests(folder, tests)
    return status, words, time.perf_counter() - start


def try_all(snapshot: Path, chosen: list[Mutation]) -> list[str]:
    """Try the mutations, and the same tests without any; prints a line for each, returns the problems."""
    problems = [f"not found exactly once: {mutation}" for mutation in chosen if not mutation.applicable(snapshot)]
    chosen = [mutation for mutation in chosen if mutation.applicable(snapshot)]
    untouched = sorted({mutation.tests for mutation in chosen})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        baselines = [pool.submit(try_mutation, snapshot, None, tests) for tests in untouched]
        trials = [pool.submit(try_mutation, snapshot, mutation, mutation.tests) for mutation in chosen]
        for tests, baseline in zip(untouched, baselines, strict=True):
            status, words, _ = baseline.result()
            if status != PASSED:
                problems.append(f"status {status} without any mutation: pytest {' '.join(tests)}\n{words}")
        for mutation, trial in zip(chosen, trials, strict=True):
            status, words, seconds = trial.result()
            verdict = {FAILED: "noticed", None: "noticed (out of time)", PASSED: "SURVIVED"}.get(status, "DID NOT RUN")
            print(f"{verdict:10} {seconds:5.1f} s  {mutation}", flush=True)
            if verdict.isupper():
                problems.append(f"{verdict.lower()}: {mutation}\n{words}")
    return problems


def main(arguments: list[str]) -> int:
    """Try the mutations whose description contains the word given; with --today, this day's share of them."""
    start, words = time.perf_counter(), [word for word in arguments if word != "--today"]
    chosen = [mutation for mutation in MUTATIONS if all(word in str(mutation) for word in words)]
    if "--today" in arguments:
        chosen = chosen[date.today().toordinal() % DAYS :: DAYS]
    with tempfile.TemporaryDirectory(prefix="hfrnn-snapshot-") as name:
        copy_project(PROJECT, Path(name))
        problems = try_all(Path(name), chosen)
    print(f"{len(chosen)} mutations in {time.perf_counter() - start:.0f} s, {len(problems)} problems")
    for problem in problems:
        print(f"\n{problem}")
    return 1 if problems or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
