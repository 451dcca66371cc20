"""Check every derivative of an architecture against complex steps of its forward pass, on small random networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hfrnn.checks import count, function, wrong
from hfrnn.errors import InputError
from hfrnn.gradcheck.cases import VARIANTS as VARIANTS
from hfrnn.gradcheck.cases import Case as Case
from hfrnn.gradcheck.cases import cases_of
from hfrnn.gradcheck.derivatives import TOLERANCES as TOLERANCES
from hfrnn.gradcheck.derivatives import check_case as check_case
from hfrnn.kernels import architectures
from hfrnn.kernels.registry import first_name


@dataclass(frozen=True)
class Outcome:
    """The largest error of one check of one architecture, over all cases and parameter blocks.

    Examples
    --------
    >>> from hfrnn.gradcheck import Outcome
    >>> Outcome("rnn", "gradient", error=1e-14, tolerance=1e-10, where="layer0.W_h").passed
    True
    """

    arch: str
    check: str
    error: float
    tolerance: float
    where: str
    """The loss, the case and the parameter block of the largest error."""

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.error <= self.tolerance  # False for NaN


def gradcheck(
    archs: Sequence[str] | None = None, seed: int = 0, progress: Callable[[str, str], Any] | None = None
) -> list[Outcome]:
    """Check every derivative routine of architectures.

    Parameters
    ----------
    archs : sequence of str, optional
        Names of registered architectures; all by default.
    seed : int
        Seed of the random networks and batches, 0 or more.
    progress : callable, optional
        Called with the names of the architecture and of the case, before each case.

    Returns
    -------
    list of Outcome
        One for each architecture and each check that applies to it.

    Raises
    ------
    InputError
        An architecture is unknown.

    Examples
    --------
    >>> from hfrnn.gradcheck import gradcheck
    >>> all(outcome.passed for outcome in gradcheck(["rnn"]))
    True
    """
    known, seed = architectures(), count("seed", seed)
    function("progress", progress, "arch, case", or_none=True)
    if archs is not None and not (isinstance(archs, list | tuple) and all(isinstance(arch, str) for arch in archs)):
        raise wrong("archs", archs, "give a list of architectures")
    chosen = known if archs is None else tuple(dict.fromkeys(first_name(arch) for arch in archs))
    for arch in chosen:
        if arch not in known:
            raise InputError(f"architecture {arch!r} is not known: use one of {', '.join(known)}")
    outcomes = []
    for arch in chosen:
        worst: dict[str, tuple[float, str]] = {}
        for case in cases_of(arch, seed):
            if progress is not None:
                progress(arch, case.name)
            for check, error, where in check_case(case, seed):
                if check not in worst or not error <= worst[check][0]:
                    worst[check] = (error, f"{case.name}, {where}" if where else case.name)
        outcomes += [Outcome(arch, check, error, TOLERANCES[check], place) for check, (error, place) in worst.items()]
    return outcomes


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the results of `gradcheck` as a table of at most 80 columns.

    It has the error of every check, with `!` after errors above the tolerance; then the place of each such error.

    Examples
    --------
    >>> from hfrnn.gradcheck import Outcome, table
    >>> print(table([Outcome("rnn", "gradient", error=1e-14, tolerance=1e-10, where="layer0.W_h")]))
                    allowed           rnn
    gradient          1e-09       1.0e-14
    <BLANKLINE>
    1 of 1 checks passed
    """
    if not (isinstance(outcomes, list | tuple) and all(isinstance(outcome, Outcome) for outcome in outcomes)):
        raise wrong("outcomes", outcomes, "give the result of gradcheck")
    names = list(dict.fromkeys(outcome.arch for outcome in outcomes))
    checks = list(dict.fromkeys(outcome.check for outcome in outcomes))
    found = {(outcome.arch, outcome.check): outcome for outcome in outcomes}
    lines, width = [], max([12, *map(len, names)])
    columns = max(1, (80 - 23) // (width + 2))
    for start in range(0, len(names), columns):
        shown = names[start : start + columns]
        lines.append(f"{'':14}{'allowed':>9}" + "".join(f"{name:>{width + 2}}" for name in shown))
        for check in checks:
            cells = [found.get((name, check)) for name in shown]
            marks = ["-" if cell is None else f"{cell.error:.1e}{'' if cell.passed else ' !'}" for cell in cells]
            lines.append(f"{check:14}{TOLERANCES[check]:9.0e}" + "".join(f"{mark:>{width + 2}}" for mark in marks))
        lines.append("")
    failed = [outcome for outcome in outcomes if not outcome.passed]
    for outcome in failed:
        lines += [f"FAILED  {outcome.arch}: {outcome.check} is off by {outcome.error:.1e}", f"        {outcome.where}"]
    return "\n".join([*lines, f"{len(outcomes) - len(failed)} of {len(outcomes)} checks passed"])
