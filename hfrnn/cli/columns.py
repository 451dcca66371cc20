"""The table of updates that a training run prints, in as many columns as the screen has room for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hfrnn.runs.metrics import Record, clock
from hfrnn.wording import four_digits

WIDTH = 80
"""Width of a whole table."""


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes
    ----------
    name : str
        Its heading.
    width : int
        Characters, with the space before it.
    text : callable
        Returns the text of a record, given the seconds left.
    keep : int
        On a narrow screen, the column with the smallest number is left out first.
    left : bool
        Whether the text starts at the left.
    """

    name: str
    width: int
    text: Callable[[Record, float | None], str]
    keep: int
    left: bool = False

    def cell(self, text: str) -> str:
        """Return a text at its place in the column."""
        return f"  {text:<{self.width - 2}}" if self.left else f"{text:>{self.width}}"


class RunTable:
    """The heading and the rows of a run's updates.

    Parameters
    ----------
    strength : str, optional
        The strength of damping that is shown for Hessian-free optimization; None for another optimizer.
    errors : bool
        Whether the share of wrong answers is shown.
    width : int
        Characters that a line may have. There are fewer columns if not all fit.
    in_bits : bool
        Whether the loss is shown in bits. Other losses have four significant digits, and wider columns.
    """

    def __init__(
        self, strength: str | None = "mu", errors: bool = False, width: int = WIDTH, in_bits: bool = True
    ) -> None:
        own = _steps(in_bits) if strength is None else _hessian_free(strength, in_bits)
        wanted: list[Column] = [*CLOCK, *(BITS if in_bits else LOSSES), *own, *(ERRORS if errors else ())]
        while sum(column.width for column in wanted) > width and len(wanted) > 1:
            wanted.remove(min(wanted, key=lambda column: column.keep))
        self.columns = wanted

    def header(self) -> str:
        """Return the names of the columns."""
        return "".join(column.cell(column.name) for column in self.columns).rstrip()

    def unit(self, name: str) -> str:
        """Return a line with the unit of the losses, above their columns."""
        before = next((n for n, column in enumerate(self.columns) if column.name == "train"), 0)
        return " " * (sum(column.width for column in self.columns[:before]) + 1) + name

    def row(self, record: Record, left: float | None) -> str:
        """Return a record of the log as a line, given the seconds left."""
        return "".join(column.cell(column.text(record, left)) for column in self.columns).rstrip()


def number(value: float | None) -> str:
    """Return a number in at most six characters; - for None. A small number keeps its significant digits."""
    if value is None:
        return "-"
    if 0 < abs(value) < 0.0995:
        forms = [format(value, ".3g"), format(value, ".2g"), _short(format(value, ".1e")), _short(format(value, ".0e"))]
    else:
        forms = [format(value, form) for form in (".3f", ".2f", ".1f", ".0f")]
    return next((text for text in forms if len(text) <= 6), format(value, ".0e"))


def _short(text: str) -> str:
    """Return a number like 1.2e-05 as 1.2e-5."""
    return text.replace("e-0", "e-")


def _bits(part: str) -> Callable[[Record, float | None], str]:
    return lambda record, left: number(record.get(f"{part}_bits"))


def _loss(part: str) -> Callable[[Record, float | None], str]:
    def text(record: Record, left: float | None) -> str:
        loss = record.get(f"{part}_loss")
        return "-" if loss is None else four_digits(loss)

    return text


CLOCK = (
    Column("update", 6, lambda record, left: str(record["update"]), 9),
    Column("time", 9, lambda record, left: clock(record["seconds"]), 7),
    Column("left", 8, lambda record, left: clock(left), 6),
)
BITS = (Column("train", 7, _bits("train"), 9), Column("valid", 7, _bits("valid"), 8))
LOSSES = (Column("train", 9, _loss("train"), 9), Column("valid", 9, _loss("valid"), 8))
ERRORS = (Column("wrong", 7, lambda record, left: _share(record["valid_errors"], ".1%"), 5),)


def _hessian_free(strength: str, in_bits: bool) -> list[Column]:
    """The columns of Hessian-free optimization; narrower ones beside losses that are not in bits."""
    prefix, spared = ("", 0) if in_bits else ("max_", 4)
    return [
        Column("CG", 5, lambda record, left: str(record["cg_iterations"]), 5),
        Column(
            "ended by", 16 - spared,
            lambda record, left: record["cg_stop"].removeprefix(prefix).replace("_", " "), 1, left=True,
        ),
        Column("rho", 7, lambda record, left: number(record.get("rho")), 2),
        Column(strength, 9, lambda record, left: _strength(record["mu"] or record["lambda"]), 3),
        Column("step", 6, lambda record, left: format(record["step_size"], ".2f"), 4),
    ]  # fmt: skip


def _steps(in_bits: bool) -> list[Column]:
    """The columns of the other optimizers; narrower ones beside losses that are not in bits."""
    spared = 0 if in_bits else 1
    return [
        Column("epoch", 8 - spared, lambda record, left: _epoch(record["epoch"]), 4),
        Column("rate", 9 - spared, lambda record, left: _short(format(record["learning_rate"], ".3g")), 3),
        Column("gradient", 10 - spared, lambda record, left: number(record["gradient_norm"]), 1),
        Column("clipped", 9 - spared, lambda record, left: _share(record["clipped"], ".0%"), 2),
    ]


def _epoch(value: float) -> str:
    return format(value, ".2f" if value < 1000 else ".1f")


def _strength(value: float | None) -> str:
    return format(value, ".3g") if value else "-"


def _share(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
