"""Break hfrnn on purpose, one small change at a time, and see whether the tests notice.

    python tests/mutations.py                       a random sample, the same for every run on one commit
    python tests/mutations.py --file 'hfrnn/optim/*' --count 50 --seed 3
    python tests/mutations.py --kernel FILE         break the kernel that FILE registers, and check it as users do

Each mutant is applied to a copy of the project, where the tests that mutation_table.py names for its file run; the
working tree is never written. A mutant that runs out of time, or crashes, counts as noticed. The exit status is 3 if a
mutant survives that is not listed as equivalent, and 1 if a listed one matches no source line, if the tests fail
without any change, or if there is nothing to mutate.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import fnmatch
import os
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from py_compile import PycInvalidationMode
from threading import Lock

from mutation_table import EQUIVALENTS, TARGETS, Equivalent, Target
from support.cuda_mutants import cuda_mutants
from support.mutants import Mutant, mutants

PROJECT = Path(__file__).resolve().parent.parent
COPIED = ("hfrnn", "tests", "pyproject.toml")
AT_ONCE = 2
COUNT = 60  # mutants, unless --count says otherwise
NUMBA_CACHE = "numba-cache"  # of each copy by itself: numba does not see that a function in another file has changed
PYTEST_OPTIONS = ("-m", "", "-x", "-q", "--tb=line", "-p", "no:cacheprovider")  # slow tests too
ERROR, SURVIVED = 1, 3  # exit statuses
MEMORY = 16 * 2**30  # bytes of address space for one mutant
PASSED, NOTHING_RAN = 0, 5  # pytest's exit statuses; with any other a mutant has been noticed


def seconds_allowed(untouched: float) -> float:
    """Return the time limit for tests that take `untouched` seconds on the original source."""
    return 30 + 5 * untouched


@dataclass
class Checks:
    """A copy of the project to start from, and what its tests do without any change."""

    snapshot: Path
    untouched: dict[tuple[str, ...], Future[tuple[int | None, str, float]]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def baseline(self, command: tuple[str, ...]) -> tuple[int | None, str, float]:
        """Run a command on the snapshot, once; later calls return the same result."""
        with self.lock:
            first = command not in self.untouched
            future = self.untouched.setdefault(command, Future())
        if first:
            future.set_result(run(command, self.snapshot, 600))
        return future.result()

    def verdict(self, mutant: Mutant, commands: list[tuple[str, ...]]) -> tuple[str, float]:
        """Run the commands on a copy with the mutant until one fails."""
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="hfrnn-mutant-") as name:
            folder = Path(name) / "project"
            shutil.copytree(self.snapshot, folder, ignore=shutil.ignore_patterns(NUMBA_CACHE))
            path = folder / mutant.file
            path.write_bytes(mutant.apply(path.read_bytes()))
            for command in commands:
                status, _, seconds = self.baseline(command)
                if status != PASSED:
                    return "NOT TRIED", 0.0
                status, _, _ = run(command, folder, seconds_allowed(seconds))
                if status == NOTHING_RAN:
                    return "NOT TRIED", 0.0
                if status != PASSED:
                    return "noticed" if status is not None else "out of time", time.perf_counter() - start
        return "SURVIVED", time.perf_counter() - start


def run(command: tuple[str, ...], folder: Path, seconds: float) -> tuple[int | None, str, float]:
    """Return a command's exit status (None: out of time), the end of its output, and its seconds."""
    one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    path = os.pathsep.join([str(folder), str(folder / "tests")])
    environment = os.environ | one_thread | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    environment["NUMBA_CACHE_DIR"] = str(folder / NUMBA_CACHE)
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
        output.seek(0)
        words = output.read().strip().splitlines()
    return status, "\n".join(words[-6:]), time.perf_counter() - start


def copy_project(target: Path) -> None:
    """Copy what the tests need, and compile it, so that copies of the copy start fast."""
    for name in COPIED:
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, target / name, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
        else:
            shutil.copy2(PROJECT / name, target / name)
    compileall.compile_dir(target / "hfrnn", quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)


def targets(project: Path) -> dict[str, Target]:
    """Return every file to mutate, with the first target that matches it."""
    found: dict[str, Target] = {}
    for target in TARGETS:
        for path in sorted(project.glob(target.files)):
            found.setdefault(str(path.relative_to(project)), target)
    return found


def pytest_commands(project: Path, file: str, target: Target) -> list[tuple[str, ...]]:
    """Return the commands that test a file, the fastest first."""
    stem, commands = Path(file).stem, []
    for tests in target.tests:
        words = shlex.split(tests.format(module=stem, stem=stem.replace("_", "-")))
        paths = [
            str(path.relative_to(project)) if "*" in word else word
            for word in words if word.startswith("tests")
            for path in (sorted(project.glob(word)) if "*" in word else [project / word])
        ]  # fmt: skip
        options = [word for word in words if not word.startswith("tests")]
        if paths:
            commands.append(("-m", "pytest", *PYTEST_OPTIONS, *paths, *options))
    return commands


def kernel_commands(file: str, source: bytes) -> list[tuple[str, ...]]:
    """Return the commands that check a user's kernel file: the promises of every kernel, then gradcheck."""
    names = [
        node.args[0].value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("register_kernel") and node.args
        and isinstance(node.args[0], ast.Constant)
    ]  # fmt: skip
    checks = ("-m", "support.kernel_promises", file, *names)
    return [checks, ("-m", "hfrnn", "gradcheck", "--kernel", file, *names)]


def every_mutant(project: Path) -> list[Mutant]:
    """Return the mutants of all files of the table."""
    return [
        mutant
        for file, target in targets(project).items()
        for mutant in mutants_of(file, (project / file).read_bytes(), target.only_cited)
    ]


def mutants_of(file: str, source: bytes, only_cited: bool) -> list[Mutant]:
    """Return the mutants of a Python or CUDA source."""
    return mutants(file, source, only_cited) if file.endswith(".py") else cuda_mutants(file, source)


def equivalent(mutant: Mutant) -> Equivalent | None:
    """Return the entry of the table that lists a mutant as equivalent."""
    same = (e for e in EQUIVALENTS if (e.before, e.after) == (mutant.before, mutant.after))
    return next((e for e in same if fnmatch.fnmatch(mutant.file, e.file)), None)


def commit() -> str:
    """Return the hash of HEAD, "0" outside a repository."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=PROJECT, capture_output=True, text=True)
    return asked.stdout.strip() or "0"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Break the source on purpose and see whether the tests notice.")
    parser.add_argument("--count", type=int, default=COUNT, help="number of mutants to draw (default: %(default)s)")
    parser.add_argument("--seed", default=commit(), help="seed of the draw (default: the hash of HEAD)")
    parser.add_argument(
        "--file", default="*", metavar="GLOB", help="change only files that match, e.g. 'hfrnn/optim/*'"
    )
    parser.add_argument("--kernel", type=Path, metavar="FILE", help="change this file, which registers a kernel")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    return parser.parse_args(arguments)


def report(mutant: Mutant, verdict: str, seconds: float) -> str | None:
    """Print what became of a mutant; return it as a problem if it is one."""
    print(f"{verdict:11} {seconds:5.1f} s  {mutant}", flush=True)
    return f"{verdict.lower()}: {mutant}" if verdict.isupper() else None


def try_all(checks: Checks, chosen: list[Mutant], commands_of: dict[str, list[tuple[str, ...]]]) -> list[str]:
    """Try the mutants, print a report of each, and return the problems."""
    problems: list[str | None] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        trials = {pool.submit(checks.verdict, mutant, commands_of[mutant.file]): mutant for mutant in chosen}
        try:
            for trial in as_completed(trials):
                problems.append(report(trials[trial], *trial.result()))
        except BaseException:  # Ctrl-C: finish the mutants that are running, and no others
            pool.shutdown(cancel_futures=True)
            raise
    for command, done in checks.untouched.items():
        status, words, _ = done.result()
        if status != PASSED:
            problems.append(f"status {status} without any mutation: python {shlex.join(command)}\n{words}")
    return [problem for problem in problems if problem]


def main(arguments: list[str]) -> int:
    """Draw mutants and try them; return the exit status."""
    options, start, problems = parse(arguments), time.perf_counter(), []
    with tempfile.TemporaryDirectory(prefix="hfrnn-snapshot-") as name:
        snapshot = Path(name)
        copy_project(snapshot)
        if options.kernel:
            file, source = f"kernel/{options.kernel.name}", options.kernel.read_bytes()
            (snapshot / "kernel").mkdir()
            (snapshot / file).write_bytes(source)
            found, commands_of = mutants(file, source, only_cited=True), {file: kernel_commands(file, source)}
        else:
            found = every_mutant(snapshot)
            commands_of = {file: pytest_commands(snapshot, file, target) for file, target in targets(snapshot).items()}
            used = {equivalent(mutant) for mutant in found}
            problems = [f"listed as equivalent, but nothing matches: {e}" for e in EQUIVALENTS if e not in used]
            found = [mutant for mutant in found if fnmatch.fnmatch(mutant.file, options.file)]
        chosen = random.Random(options.seed).sample(found, min(options.count, len(found)))
        print(f"{len(chosen)} of {len(found)} mutants, seed {options.seed}", flush=True)
        for mutant in chosen if options.list else [mutant for mutant in chosen if equivalent(mutant)]:
            entry = equivalent(mutant)
            print(f"equivalent: {mutant}\n    {entry.reason}" if entry else mutant)
        if not options.list:
            chosen = [mutant for mutant in chosen if equivalent(mutant) is None]
            problems += try_all(Checks(snapshot), chosen, commands_of)
    print(f"{time.perf_counter() - start:.0f} s, {len(problems)} problems", *problems, sep="\n\n")
    if not found or any(not problem.startswith("survived: ") for problem in problems):
        return ERROR
    return SURVIVED if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
