"""Parse proportions as people write them."""

from __future__ import annotations

from decimal import Decimal


def parse_proportion(text: str) -> float | None:
    """Read `0.9` or `90%`, None for anything but a number in 0..1."""
    number = text.strip()
    try:
        share = Decimal(number[:-1]) / 100 if number.endswith("%") else Decimal(number)
        return float(share) if 0 <= share <= 1 else None
    except ArithmeticError:  # decimal's errors are no ValueError
        return None
