"""Format numbers and truncate long texts for reports: rounded half-up, with units, honest at the ends."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

DIGITS: Final = 6
UNKNOWN: Final = "–"

_UNITS: Final[dict[int, Decimal]] = {digits: Decimal(1).scaleb(-digits) for digits in range(DIGITS + 1)}

_EXACT: Final = Context(prec=400, rounding=ROUND_HALF_UP)


def round_half_up(value: float, digits: int = DIGITS) -> float:
    """Round to `digits` decimals; a tie, as the number is written, goes away from zero."""
    if value in (0.0, 1.0):  # as most scores
        return float(value)
    return float(_round(value, digits))


def round_half_up_or_none(value: float | None) -> float | None:
    """Round a number that may be unknown."""
    return None if value is None else round_half_up(value)


def format_or_unknown(write: Callable[[float], str], value: float | None) -> str:
    """Write a number that may be unknown."""
    return UNKNOWN if value is None else write(value)


def format_score(value: float | None) -> str:
    """Write a score with two decimals, or that it is unknown."""
    return UNKNOWN if value is None else str(_round(value, 2))


def percent(rate: float) -> str:
    """Write a share; only a whole one is 100.0 % and only none at all is 0.0 %."""
    rounded = _round(rate * 100, 1)
    if 0 < rate < 1:
        rounded = min(max(rounded, Decimal("0.1")), Decimal("99.9"))
    return f"{rounded} %"


def usd(amount: float) -> str:
    """Write an amount of US dollars with four decimals."""
    return f"${_round(amount, 4)}"


def format_count(value: float) -> str:
    """Write a count; a mean over repeats has one decimal unless it is whole."""
    return f"{int(value):,}" if value == int(value) else f"{_round(value, 1):,}"


def duration(milliseconds: float) -> str:
    """Write a time in the unit that gives about three digits."""
    for limit, unit, factor in ((999.5, "ms", 1.0), (99_950, "s", 1e3), (5_997_000, "min", 6e4)):
        if milliseconds < limit:
            return f"{_three_digits(milliseconds / factor)} {unit}"
    return f"{_three_digits(milliseconds / 3.6e6)} h"


def truncate_middle(text: str, limit: int) -> str:
    """Cut a long text in the middle and say how long it was."""
    if len(text) <= limit:
        return text
    note = f" … ({len(text):,} characters) … "
    room = max(limit - len(note), 2)
    return text[: room - room // 3] + note + text[-(room // 3) :]


def to_single_line(text: str, limit: int) -> str:
    """The text on one line, its end cut."""
    line = " ".join(text[: limit * 4].split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _three_digits(value: float) -> Decimal:
    return _round(value, 2 if value < 9.995 else 1 if value < 99.95 else 0)


def _round(value: float, digits: int) -> Decimal:
    # repr is the number as people see it: 0.285 goes up although its binary value lies below.
    number = Decimal(repr(float(value)))
    if not number.is_finite():
        return number
    return number.quantize(_UNITS[digits], context=_EXACT)
