"""What was found out about one thing that a machine has or lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "absent", "fault"]
"""`absent` is what nobody asked for; a `fault` is in the way of something that is configured or needed."""
SIGNS: dict[State, str] = {"ok": "+", "absent": "-", "fault": "!"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the doctor's table."""

    group: str
    name: str
    state: State
    found: str
    remedy: str = ""
    """What to do, empty where nothing has to be done."""
    is_needed: bool = False
    """Whether the target needs it."""

    @property
    def is_missing(self) -> bool:
        return self.is_needed and self.state != "ok"
