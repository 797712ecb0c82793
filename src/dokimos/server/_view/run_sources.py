"""What the feed asks of a run on disk, be it a folder that still grows or a result in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from dokimos.reporting._reported_run import ReportedStatus
from dokimos.server._view.read_marks import ReadMark

MOST_ITEMS: Final = 200
MOST_BYTES: Final = 2 * 2**20
"""What one request takes: much more of it would keep requests of people waiting."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Encoded items, and what to note once they are stored."""

    items: list[bytes]
    last: list[int] | None
    """The last of them, None where the pass could not begin behind it again."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended."""

    status: ReportedStatus
    completed_at: str | None
    evaluators: Sequence[dict[str, Any]]
    body: dict[str, Any]
    """The run as it is known at its end, which is more than at its beginning."""


class RunSource(Protocol):
    """A run on disk. What may take long, which is all but `close`, is called in a thread."""

    key: str
    """What its mark is kept under."""
    name: str
    """What people are told about it by."""

    def stamp(self) -> list[int]:
        """Return what changes with its files, first of that which says what it is; empty where it is gone."""
        ...

    def begin(self, mark: ReadMark) -> None:
        """Read what is new, and plan what to send. Raises `DokimosError` where it cannot be read."""
        ...

    def describe(self, project: str) -> dict[str, Any]:
        """Return the request that creates it, with the key that makes it one run."""
        ...

    def take(self) -> Batch | None:
        """Return the next items to send, None after the last."""
        ...

    def finish(self, mark: ReadMark) -> Ending | None:
        """Note that all of the plan is sent; return how the run ended, None where it goes on."""
        ...

    def close(self) -> None:
        """Let go of its files."""
        ...
