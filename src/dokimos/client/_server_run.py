"""A run on a server with what waits to be sent to it, and what could not be sent."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class ItemDeliveryFailure:
    """Items that a server has not got, after all attempts.

    Example:
        >>> failure = ItemDeliveryFailure("8f14e45f", (b'{"ordinal": 3}',), "503 Service Unavailable")
        >>> failure.item_count, failure.items
        (1, [{'ordinal': 3}])
    """

    run_id: str
    """The run on the server, or `local-...` where it could not be started."""
    encoded_items: tuple[bytes, ...] = field(repr=False)
    """Each item as JSON, in the form of the API."""
    reason: str

    @property
    def item_count(self) -> int:
        return len(self.encoded_items)

    @property
    def items(self) -> list[dict[str, Any]]:
        """The items in the form of the API: `inputs`, `actualOutputs`, `evalResults`, `ordinal` and so on."""
        return [json.loads(item) for item in self.encoded_items]


@dataclass(eq=False, kw_only=True)
class ServerRun:
    """A run on the server, and what waits to be sent to it."""

    id: str
    start: dict[str, Any] | None = None
    """How it should have been started, where that failed: `projectName`, `idempotencyKey` and `run`."""
    problem: str | None = None
    """Why it could not be started."""
    items: deque[WaitingItem] = field(default_factory=deque)
    end: str | None = None
    """The status to set once all items are sent."""
    completed_at: str | None = None
    """When it ended, where that was before the server learns of it."""
    ended_at: str | None = None
    """When it ended, by the clock of this machine: for the spool."""
    evaluators: list[dict[str, Any]] = field(default_factory=list)
    """What is to be said of the evaluators then, where it was not known at the start."""
    is_start_spooled: bool = False


class WaitingItem(NamedTuple):
    since: float
    content: bytes
