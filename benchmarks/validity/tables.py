"""Tables of simulated rates, with what each has to be."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One simulated design."""

    cells: tuple[str, ...]
    holds: bool = True
    """Whether the design keeps the promise of its table."""


@dataclass(frozen=True)
class Table:
    """The designs of one promise."""

    title: str
    promise: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    closing: str = ""

    def to_markdown(self) -> str:
        lines = [f"## {self.title}", "", self.promise, ""]
        lines += ["| " + " | ".join(self.columns) + " |", "|" + "---|" * len(self.columns)]
        lines += ["| " + " | ".join(mark(row)) + " |" for row in self.rows]
        return "\n".join([*lines, "", *([self.closing, ""] if self.closing else [])])

    @property
    def broken(self) -> int:
        return sum(not row.holds for row in self.rows)


def mark(row: Row) -> tuple[str, ...]:
    return row.cells if row.holds else (*row.cells[:-1], f"**{row.cells[-1]} (!)**")


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def rate_error(share: float, repetitions: int) -> float:
    """Return the standard error of a simulated rate whose true value is `share`."""
    return math.sqrt(share * (1 - share) / repetitions)
