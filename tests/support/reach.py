"""Which tests reach a line of hfrnn, as tests/reached.py has recorded it."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

TOOLS = {"mutations.py", "mutation_table.py", "mutants.py", "reached.py", "reach.py", "reach_plugin.py"}
"""Files of tests/ that change no test of hfrnn."""
OUTSIDE = -1
"""Stands in a set of tests for the import of hfrnn and of what tests share."""
FIRST, SECONDS = 20, 20.0  # tests of the first batch, and seconds of each batch, at most


def digest(project: Path) -> str:
    """Return a hash of the Python files of hfrnn and its tests."""
    found = hashlib.sha256()
    for path in sorted([*project.glob("hfrnn/**/*.py"), *project.glob("tests/**/*.py")]):
        if path.name not in TOOLS:
            found.update(f"{path.relative_to(project)} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


@dataclass
class Reach:
    """A record of one run of the tests.

    marker : str
        The marker expression of the run.
    digest : str
        Of the sources it belongs to.
    tests : dict of str to float
        The tests that passed, with their seconds while they were traced.
    left_out : list of str
        The tests that did not pass or were skipped.
    collecting : dict of str to float
        The seconds that it takes to collect each file of tests.
    untraced : list of int
        Tests, by their place in `tests`, that started a process which left no record: they may reach any line.
    sets : list of list of int
        Sets of tests, by their place in `tests`; OUTSIDE stands for an import.
    lines : dict of str to dict of str to int
        For each file and line, the place of its set in `sets`.
    """

    marker: str
    digest: str
    tests: dict[str, float]
    left_out: list[str]
    collecting: dict[str, float]
    untraced: list[int]
    sets: list[list[int]]
    lines: dict[str, dict[str, int]]

    def write(self, path: Path) -> None:
        with gzip.open(path, "wt", encoding="utf-8") as stream:
            json.dump(asdict(self), stream, separators=(",", ":"))

    @classmethod
    def read(cls, path: Path) -> Reach:
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            return cls(**json.load(stream))

    def tests_of(self, file: str, lines: Iterable[int]) -> list[str]:
        """Return the tests that reach a line of a file, the quickest first; those of `untraced` are the last.

        A line that also runs while a module is imported may matter to every test that reaches the file.
        """
        places = self.lines.get(file, {})
        found = self._members({places[str(line)] for line in lines if str(line) in places})
        if OUTSIDE in found:
            found |= self._members(set(places.values()))
        found.discard(OUTSIDE)
        names, every = list(self.tests), found | set(self.untraced)
        return [names[n] for n in sorted(every, key=lambda n: (n not in found, self._cost(names[n])))]

    def _members(self, places: set[int]) -> set[int]:
        return {test for place in places for test in self.sets[place]}

    def _cost(self, test: str) -> float:
        return self.tests[test] + self.collecting.get(test.partition("::")[0], 0.0)

    def batches(self, tests: list[str], limit: float) -> Iterator[tuple[list[str], float]]:
        """Yield tests in batches with their seconds, as long as all of them together take less than `limit`."""
        batch, seconds, total = [], 0.0, 0.0
        files: set[str] = set()
        for n, test in enumerate(tests):
            file = test.partition("::")[0]
            cost = self.tests[test] + (0.0 if file in files else self.collecting.get(file, 0.0))
            if total + cost > limit:
                break
            if batch and (seconds + cost > SECONDS or n == len(batch) == FIRST):
                yield batch, seconds
                batch, seconds, files = [], 0.0, set()
                cost = self._cost(test)
            batch.append(test)
            files.add(file)
            seconds, total = seconds + cost, total + cost
        if batch:
            yield batch, seconds
