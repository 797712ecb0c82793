"""The protocol of a budget's ledger: what each model call asks before it is made, and reports to afterwards.

The accounts of a run are in memory (`_budget.py: MemoryLedger`); a server keeps those of its jobs in a
database, where they survive it and are shared with other servers.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from dokimos._core.metrics import CallMetrics

if TYPE_CHECKING:
    from dokimos.judges._judge_calls import CallRequest

Settlement: TypeAlias = Awaitable[None] | None
"""What settling returns: None where it is done, or what to await until it is stored."""


class CallReservation(Protocol):
    """The part of a budget that is reserved for one call; settled exactly once.

    A method that returns an awaitable has noted what it was called with before it returns: a caller that is
    cancelled while it waits takes nothing back.
    """

    def settle(self, metrics: CallMetrics | None, outcome: object) -> Settlement:
        """Record that the call was answered.

        Args:
            metrics: What it cost, as far as that is known.
            outcome: The reply; a `JudgeReplyError` where it is of no use. A ledger that is a call store too
                can store it together with its cost.
        """
        ...

    def fail(self, error: BaseException | None = None) -> Settlement:
        """Record that the call was made and not answered, and why."""
        ...

    async def repeat(self) -> None:
        """Reserve for one more attempt, after one that had no answer and that the provider may bill.

        Called before the attempt, any number of times. Raises what ends the call instead of it.
        """
        ...

    def cancel(self) -> Settlement:
        """Release the reservation of a call that was not made."""
        ...


class CallLedger(Protocol):
    """The accounts of a budget; the `budget` of a `RunScope`."""

    async def reserve(
        self, identity: str, *, nested: bool = False, request: CallRequest | None = None
    ) -> CallReservation:
        """Reserve what a call may cost, or wait until calls in flight have left enough for it.

        Args:
            identity: The judge, or whatever else is called.
            nested: Whether the call is made inside another one. It never waits, or it could deadlock: the
                call that it would wait for may wait for it.
            request: The call of a judge; None for others, such as those of embedders.

        Raises:
            BudgetExceededError: if too little is left.
        """
        ...
