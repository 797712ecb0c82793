"""Scalars without quotes that mean one value in YAML 1.1 and another one in YAML 1.2."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from dokimos.suites._problems import Location

MOST_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AmbiguousScalar:
    """A scalar where no schema says what it has to be."""

    text: str
    now: Any
    before: Any
    location: Location
    path: str

    def __str__(self) -> str:
        readings = (
            f"{self.text} is {_format_value(self.now)}, and was {_format_value(self.before)} in YAML 1.1"
        )
        return f"{self.location}: {self.path}: {readings}"


def format_warning(readings: Sequence[AmbiguousScalar]) -> str:
    """Return one warning with both readings of each value, empty where there is none."""
    if not readings:
        return ""
    first, *others = map(str, sorted(readings, key=lambda reading: reading.location)[:MOST_SHOWN])
    if len(readings) > MOST_SHOWN:
        others.append(f"and {len(readings) - MOST_SHOWN} more")
    advice = "Put quotes around a text, and write true, false or the number where you mean that."
    return "\n    ".join([f"{first}. Suites are read as YAML 1.2. {advice}", *others])


def _format_value(value: object) -> str:
    return f"the text {value!r}" if isinstance(value, str) else json.dumps(value)
