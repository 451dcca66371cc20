"""Break hfrnn on purpose, one small change at a time, and see whether the tests notice.

    python tests/mutations.py                       a random sample, the same for every run on one commit
    python tests/mutations.py --file 'hfrnn/optim/*' --count 50 --seed 3
    python tests/mutations.py --kernel FILE         break the kernel that FILE registers, and check it as users do
    python tests/mutations.py --reached quick.json.gz --reached slow.json.gz --count 300 --seed 1 --json out.json
                                                    all packages; the tests that tests/reached.py has seen at a line
    python tests/mutations.py --reached quick.json.gz --only out.json:survivors

Each mutant is applied to a copy of the project, where the tests that mutation_table.py names for its file run; the
working tree is never written. A mutant that runs out of processor time, or crashes, counts as noticed. The exit status
is 3 if a mutant survives that is not listed as equivalent, and 1 if a listed one matches no source line, if the tests
fail without any change, or if there is nothing to mutate.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import fnmatch
import json
import queue
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from py_compile import PycInvalidationMode
from threading import Lock

from mutation_table import EQUIVALENTS, TARGETS, Equivalent, Target
from support.cuda_mutants import cuda_mutants
from support.mutants import Mutant, lines_of, mutants
from support.reach import Reach, digest
from support.runs_of_copies import NUMBA_CACHE, Trial, run

PROJECT = Path(__file__).resolve().parent.parent
COPIED = ("hfrnn", "tests", "pyproject.toml")  # what all tests of the table need
PAGES = ("docs", "examples", "benchmarks", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "CITATION.cff")
AT_ONCE = 2
COUNT = 60  # mutants, unless --count says otherwise
PYTEST_OPTIONS = ("-m", "", "-x", "-q", "--tb=line", "-p", "no:cacheprovider")  # slow tests too
LIMIT = 150.0  # seconds of tests for one mutant with --reached, as they were recorded
COMPILED = ("hfrnn/kernels/numba/*", "hfrnn/kernels/cuda/*")  # coverage sees no line of compiled loops
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.*?|benchmarks/.*?)(?: - .*)?$", re.MULTILINE)  # in pytest's summary
TABLE = "table"  # stands for a tier where the tests of mutation_table.py run
SURVIVORS = ("survived", "survived within the limit", "not reached")
ERROR, SURVIVED = 1, 3  # exit statuses
PASSED, NOT_FOUND, NOTHING_RAN = 0, 4, 5  # pytest's exit statuses; with any other a mutant has been noticed


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


def copy_project(target: Path, more: tuple[str, ...] = ()) -> None:
    """Copy what the tests need, and compile it, so that copies of the copy start fast."""
    target.mkdir(exist_ok=True)
    for name in (*COPIED, *(each for each in more if (PROJECT / each).exists())):
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


@dataclass
class ByReach:
    """Tries mutants with the tests that reach their lines, in copies at fixed places, so that numba's caches last."""

    snapshot: Path
    tiers: list[Reach]
    folders: queue.Queue[Path] = field(default_factory=queue.Queue)
    unusable: set[str] = field(default_factory=set)  # tests that fail without any change
    save: Callable[[list[Trial]], object] = list  # called after each mutant with those that are done

    def trial(self, mutant: Mutant) -> Trial:
        """Run the tests of each tier on a copy with the mutant until one fails."""
        start, found, folder = time.perf_counter(), Trial(mutant), self.folders.get()
        try:
            for path in folder.glob("*"):
                if path.name != NUMBA_CACHE or is_compiled(mutant):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            shutil.copytree(self.snapshot, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(NUMBA_CACHE))
            (folder / mutant.file).write_bytes(mutant.apply((folder / mutant.file).read_bytes()))
            for words, tier, seconds in self.batches(mutant, found):
                status, output, _ = run(("-m", "pytest", *PYTEST_OPTIONS, *words), folder, seconds_allowed(seconds))
                if status not in (PASSED, NOTHING_RAN) and (tier, status) != (TABLE, NOT_FOUND):
                    found.verdict, found.tier = "noticed" if status is not None else "out of time", tier
                    found.test, found.left = next(iter(FAILED.findall(output)), f"pytest's status {status}"), 0
                    break
                found.verdict = "survived"
            if found.left:
                found.verdict = "survived within the limit"
        finally:
            if is_compiled(mutant):
                shutil.rmtree(folder / NUMBA_CACHE, ignore_errors=True)
            self.folders.put(folder)
        found.seconds = round(time.perf_counter() - start, 1)
        return found

    def batches(self, mutant: Mutant, found: Trial) -> Iterator[tuple[list[str], str, float]]:
        """Yield arguments of pytest, the name of their tier and their seconds; count the tests in `found`."""
        if any(fnmatch.fnmatch(mutant.file, glob) for glob in COMPILED):
            but = [f"--deselect={test}" for test in sorted(self.unusable)]
            for command in pytest_commands(self.snapshot, mutant.file, targets(self.snapshot)[mutant.file]):
                yield [*command[2 + len(PYTEST_OPTIONS) :], *but], TABLE, LIMIT
        lines, rest = lines_of(mutant, (self.snapshot / mutant.file).read_bytes()), LIMIT
        for tier in self.tiers:
            tests = [test for test in tier.tests_of(mutant.file, lines) if test not in self.unusable]
            for batch, seconds in tier.batches(tests, rest):
                found.tried, tests, rest = found.tried + len(batch), tests[len(batch) :], rest - seconds
                yield batch, tier.marker, seconds
            found.left += len(tests)

    def all_trials(self, chosen: list[Mutant], at_once: int) -> list[Trial]:
        """Try the mutants; try those again that only a test has noticed which fails without any change."""
        self.compile_tests(chosen)
        with tempfile.TemporaryDirectory(prefix="hfrnn-mutants-") as name, ThreadPoolExecutor(at_once) as pool:
            for n in range(at_once):
                (Path(name) / str(n) / "project").mkdir(parents=True)
                self.folders.put(Path(name) / str(n) / "project")
            done: dict[Mutant, Trial] = {}
            while again := [mutant for mutant in chosen if mutant not in done or done[mutant].test in self.unusable]:
                trials = [pool.submit(self.trial, mutant) for mutant in again]
                try:
                    for each in as_completed(trials):
                        done[each.result().mutant] = each.result()
                        print(each.result(), flush=True)
                        self.save(list(done.values()))
                except BaseException:  # Ctrl-C: finish the mutants that are running, and no others
                    pool.shutdown(cancel_futures=True)
                    raise
                self.unusable |= self.failing(list(done.values()))
        return [done[mutant] for mutant in chosen]

    def compile_tests(self, chosen: list[Mutant]) -> None:
        """Let pytest compile the tests that run first, once for all copies: it halves the time of a mutant."""
        first = (next(self.batches(mutant, Trial(mutant)), ([], "", 0.0)) for mutant in chosen)
        files = sorted({test.partition("::")[0] for words, tier, _ in first if tier != TABLE for test in words})
        command = ("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files)
        if files:
            run(command, self.snapshot, 3600, PYTHONDONTWRITEBYTECODE="")

    def failing(self, trials: list[Trial]) -> set[str]:
        """Return the tests that noticed a mutant and fail without any change."""
        options = [option for option in PYTEST_OPTIONS if option != "-x"]
        known = {trial.test for trial in trials if any(trial.test in tier.tests for tier in self.tiers)}
        others = {trial.test for trial in trials if trial.tier == TABLE and "::" in trial.test}
        together = [sorted(known), *([test] for test in sorted(others - known))]
        runs = (run(("-m", "pytest", *options, *tests), self.snapshot, 3600) for tests in together if tests)
        return {test for _, output, _ in runs for test in FAILED.findall(output)}


def is_compiled(mutant: Mutant) -> bool:
    """Return whether numba may have compiled what a mutant changes; numba's cache does not notice all changes."""
    return mutant.file.startswith("hfrnn/kernels/") or "compiled" in mutant.file


def try_by_reach(snapshot: Path, options: argparse.Namespace) -> int:
    """Draw from all Python files, try the mutants with the tests that reach them; return the exit status."""
    copy_project(snapshot, PAGES)
    tiers = [Reach.read(path) for path in options.reached]
    for path, tier in zip(options.reached, tiers, strict=True):
        if tier.digest != digest(snapshot):
            print(f"{path} is of other sources or tests: record it again with tests/reached.py")
            return ERROR
    found = [
        mutant
        for path in sorted(snapshot.glob("hfrnn/**/*.py"))
        for mutant in mutants(str(path.relative_to(snapshot)), path.read_bytes())
        if fnmatch.fnmatch(mutant.file, options.file)
    ]
    if options.only:
        name, _, verdict = options.only.partition(":")
        wanted = [each for each in json.loads(Path(name).read_text())["trials"] if matches(each["verdict"], verdict)]
        by_key = {key(mutant): mutant for mutant in found}
        chosen = [by_key[key(Mutant(**each["mutant"]))] for each in wanted]  # a KeyError: of other sources
    else:
        chosen = random.Random(options.seed).sample(found, min(options.count, len(found)))
    print(f"{len(chosen)} of {len(found)} mutants, seed {options.seed}", flush=True)
    equivalents = [Trial(mutant, "equivalent") for mutant in chosen if equivalent(mutant)]
    if options.list:
        print(*chosen, sep="\n")
        return 0
    facts = {"seed": options.seed, "only": options.only, "drawn_from": len(found), "limit": LIMIT}
    facts |= {"tiers": [tier.marker for tier in tiers], "drawn": len(chosen)}

    def save(trials: list[Trial]) -> None:
        if options.json:
            words = json.dumps(facts | {"trials": [asdict(each) for each in trials + equivalents]}, indent=1)
            options.json.write_text(words + "\n")

    trials = ByReach(snapshot, tiers, save=save).all_trials([m for m in chosen if not equivalent(m)], options.at_once)
    save(trials)
    survivors = [trial for trial in trials if trial.verdict in SURVIVORS]
    print(f"{len(survivors)} of {len(trials)} survived", *survivors, sep="\n\n")
    return SURVIVED if survivors else 0


def key(mutant: Mutant) -> tuple[str, int, str, str]:
    return mutant.file, mutant.start, mutant.operator, mutant.text


def matches(verdict: str, asked: str) -> bool:
    """Return whether `--only FILE:asked` means a verdict; without a colon all are meant."""
    return not asked or verdict == asked or (asked == "survivors" and verdict in SURVIVORS)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Break the source on purpose and see whether the tests notice.")
    parser.add_argument("--count", type=int, default=COUNT, help="number of mutants to draw (default: %(default)s)")
    parser.add_argument("--seed", default=commit(), help="seed of the draw (default: the hash of HEAD)")
    parser.add_argument(
        "--file", default="*", metavar="GLOB", help="change only files that match, e.g. 'hfrnn/optim/*'"
    )
    parser.add_argument("--kernel", type=Path, metavar="FILE", help="change this file, which registers a kernel")
    parser.add_argument(
        "--reached", type=Path, action="append", metavar="FILE", help="record of tests/reached.py; the quick tier first"
    )
    parser.add_argument(
        "--only", metavar="JSON[:VERDICT]", help="try the mutants of an earlier --json, e.g. :survivors"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what became of each mutant (with --reached)")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="mutants tried at once (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    return parser.parse_args(arguments)


def report(mutant: Mutant, verdict: str, seconds: float) -> str | None:
    """Print what became of a mutant; return it as a problem if it is one."""
    print(f"{verdict:11} {seconds:5.1f} s  {mutant}", flush=True)
    return f"{verdict.lower()}: {mutant}" if verdict.isupper() else None


def try_all(
    checks: Checks, chosen: list[Mutant], commands_of: dict[str, list[tuple[str, ...]]], at_once: int
) -> list[str]:
    """Try the mutants, print a report of each, and return the problems."""
    problems: list[str | None] = []
    with ThreadPoolExecutor(at_once) as pool:
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
            end = "\n".join(words.splitlines()[-6:])
            problems.append(f"status {status} without any mutation: python {shlex.join(command)}\n{end}")
    return [problem for problem in problems if problem]


def main(arguments: list[str]) -> int:
    """Draw mutants and try them; return the exit status."""
    options, start, problems = parse(arguments), time.perf_counter(), []
    with tempfile.TemporaryDirectory(prefix="hfrnn-snapshot-") as name:
        snapshot = Path(name)
        if options.reached:
            return try_by_reach(snapshot, options)
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
            problems += try_all(Checks(snapshot), chosen, commands_of, options.at_once)
    print(f"{time.perf_counter() - start:.0f} s, {len(problems)} problems", *problems, sep="\n\n")
    if not found or any(not problem.startswith("survived: ") for problem in problems):
        return ERROR
    return SURVIVED if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
