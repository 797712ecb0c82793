"""What a run may spend: an estimate is reserved before each call is made."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dokimos._core.metrics import CallMetrics
from dokimos._core.number_format import usd
from dokimos.errors import BudgetExceededError, ConfigurationError

if TYPE_CHECKING:
    from dokimos.judges._judge_calls import CallRequest

TASK: Final = "the task"
"""The account of the calls that a run's own task makes."""
_ROUNDING: Final = 1e-9
"""The share by which sums of floats may exceed a limit."""
_LEAST_TOKENS: Final = 1
_LEAST_USD: Final = 1e-6
"""The least that the first call of a judge is assumed to cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits on what the calls of a run may cost, task and judges together. None means no limit.

    A call of the task counts if it reports its cost or its tokens.

    Example:
        >>> print(Budget(max_cost_usd=2.5, max_calls=500))
        max_cost_usd=2.5, max_calls=500
    """

    max_cost_usd: float | None = None
    max_tokens: int | None = None
    max_calls: int | None = None

    def __post_init__(self) -> None:
        limits = {name: getattr(self, name) for name in ("max_cost_usd", "max_tokens", "max_calls")}
        if all(limit is None for limit in limits.values()):
            raise ConfigurationError("A budget needs max_cost_usd, max_tokens or max_calls.")
        for name, limit in limits.items():
            kinds = int | float if name == "max_cost_usd" else int
            if limit is None:
                continue
            if isinstance(limit, bool) or not isinstance(limit, kinds) or not 0 <= limit < math.inf:
                raise ConfigurationError(f"{name} of a budget must be a number of at least 0, not {limit!r}.")

    def __str__(self) -> str:
        named = {
            "max_cost_usd": self.max_cost_usd,
            "max_tokens": self.max_tokens,
            "max_calls": self.max_calls,
        }
        return ", ".join(f"{name}={limit:g}" for name, limit in named.items() if limit is not None)


@dataclass(slots=True)
class Spending:
    """A number of calls, and their tokens and dollars as far as known."""

    calls: int = 0
    tokens: float = 0
    cost_usd: float = 0.0

    @classmethod
    def of(cls, metrics: CallMetrics | None, calls: int = 1) -> Spending:
        if metrics is None:
            return cls(calls)
        return cls(calls, metrics.tokens or 0, metrics.cost_usd or 0.0)

    def add(self, other: Spending) -> None:
        self.calls += other.calls
        self.tokens += other.tokens
        self.cost_usd += other.cost_usd

    def take_back(self, other: Spending) -> None:
        self.calls -= other.calls
        self.tokens -= other.tokens
        self.cost_usd -= other.cost_usd


def _format_count(amount: float) -> str:
    return f"{amount:,.0f}"


_LIMITS: Final[tuple[tuple[str, str, Callable[[float], str]], ...]] = (
    ("max_cost_usd", "cost_usd", usd),
    ("max_tokens", "tokens", _format_count),
    ("max_calls", "calls", _format_count),
)


@dataclass(slots=True)
class Account:
    """What the calls of one judge, or of the task, have cost, to estimate the next one."""

    is_task: bool
    answered: int = 0
    spent: Spending = field(default_factory=Spending)
    last: Spending = field(default_factory=Spending)
    measured: set[str] = field(default_factory=set)
    """The units, tokens and dollars, in which any call was measured."""
    in_flight: int = 0
    cost_known: Future[None] | None = None
    """Done when the cost of the next call in flight is known; None while nobody waits for that."""

    def count(self, metrics: CallMetrics | None) -> Spending:
        """Add a call that was answered; return what it cost."""
        metered = metrics is not None and (metrics.tokens is not None or metrics.cost_usd is not None)
        cost = Spending.of(metrics, calls=1 if metered or not self.is_task else 0)
        self.answered += 1
        self.spent.add(cost)
        self.last = cost
        if metrics is not None:
            self.measured |= {"tokens"} if metrics.tokens is not None else set()
            self.measured |= {"cost_usd"} if metrics.cost_usd is not None else set()
        return cost

    def estimate(self) -> Spending:
        """Return what the next call will probably cost; the least possible if no cost is known.

        That is the average call or, while others are in flight, the last one if it cost more. A call that
        goes alone is assumed to be average, so that a single expensive call does not end a run.
        """
        if self.is_task and not self.measured:
            return Spending(0)
        if not self.answered:
            return Spending(1, _LEAST_TOKENS, _LEAST_USD)
        average = Spending(1, self.spent.tokens / self.answered, self.spent.cost_usd / self.answered)
        if not self.in_flight:
            return average
        return Spending(1, max(average.tokens, self.last.tokens), max(average.cost_usd, self.last.cost_usd))


class MemoryLedger:
    """The accounts of one run, in memory: a `CallLedger`.

    A call is allowed if what was spent, what is reserved for calls in flight and its estimate fit into the
    budget. A call that does not fit waits while other calls of the same judge are in flight, which may
    cost less than was reserved for them, and is refused after the last of them. The first call of each judge
    goes alone if tokens or dollars are limited: it shows what a call costs.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.refusal: str | None = None
        """Why the last refused call was refused; None as long as none was."""
        self.spent = Spending()
        self._reserved = Spending()
        self._accounts: dict[str, Account] = {}
        self._mutex = threading.Lock()
        self._by_size = budget.max_cost_usd is not None or budget.max_tokens is not None

    async def reserve(
        self, identity: str, *, nested: bool = False, request: CallRequest | None = None
    ) -> Reservation:
        """Reserve the estimated cost of a call. Raises `BudgetExceededError` if too little is left.

        A `nested` call never waits, or it could deadlock: the call that it would wait for may wait for it.
        """
        while True:
            with self._mutex:
                account = self._account(identity)
                reservation = self._reservation(identity, account, waits=not nested)
                if reservation is not None:
                    return reservation
                # Not a future of asyncio: the calls of one judge may be on several event loops.
                cost_known = account.cost_known = account.cost_known or Future()
            # Shielded, since cancelling one call that waits would cancel the future for all.
            await asyncio.shield(asyncio.wrap_future(cost_known))

    def record(self, identity: str, metrics: CallMetrics | None) -> None:
        """Count a call that an earlier process of the same run made."""
        with self._mutex:
            self.spent.add(self._account(identity).count(metrics))

    def warnings(self) -> list[str]:
        """Return warnings that name what the budget could not limit."""
        sentences = []
        for name, unit, _ in _LIMITS[:2]:
            blind = [
                identity
                for identity, account in self._accounts.items()
                if account.answered
                and unit not in account.measured
                and (account.measured or not account.is_task)
            ]
            if blind and getattr(self.budget, name) is not None:
                what = "price" if unit == "cost_usd" else "number of tokens"
                sentences.append(
                    f"The budget's {name} did not limit {', '.join(blind)}: the {what} is not known."
                )
        return sentences

    def settle(
        self,
        identity: str,
        estimate: Spending,
        metrics: CallMetrics | None,
        *,
        answered: bool,
        made: bool = True,
    ) -> None:
        """Replace the reservation of a call by its actual cost."""
        with self._mutex:
            account = self._account(identity)
            account.in_flight -= 1
            self._reserved.take_back(estimate)
            if answered:
                self.spent.add(account.count(metrics))
            elif made:
                self.spent.calls += estimate.calls  # it was made, whether or not it failed
            cost_known, account.cost_known = account.cost_known, None
        if cost_known is not None:
            # After the lock is free, since the callbacks of a future are called inside set_result.
            cost_known.set_result(None)

    def _account(self, identity: str) -> Account:
        account = self._accounts.get(identity)
        if account is None:
            account = self._accounts[identity] = Account(is_task=identity == TASK)
        return account

    def _reservation(self, identity: str, account: Account, *, waits: bool) -> Reservation | None:
        """Return a reservation, None if a call in flight has to show its cost first."""
        waits = waits and account.in_flight > 0
        if waits and not account.answered and (self._by_size or account.is_task):
            return None
        estimate = account.estimate()
        problem = self._explain_refusal(identity, estimate)
        if problem is None:
            account.in_flight += 1
            self._reserved.add(estimate)
            return Reservation(self, identity, estimate)
        if waits:
            return None
        self.refusal = problem
        raise BudgetExceededError(problem)

    def _explain_refusal(self, identity: str, estimate: Spending) -> str | None:
        for name, unit, format_amount in _LIMITS:
            limit, more = getattr(self.budget, name), getattr(estimate, unit)
            if limit is None or not more:
                continue
            spent, reserved = getattr(self.spent, unit), getattr(self._reserved, unit)
            if spent + reserved + more > limit * (1 + _ROUNDING):
                in_flight = (
                    f" and {format_amount(reserved)} reserved for calls in flight" if reserved > 0 else ""
                )
                return (
                    f"The budget of {name}={limit:g} is used up: {format_amount(spent)} spent{in_flight}; "
                    f"the next call of {identity} would take about {format_amount(more)}."
                )
        return None


class Reservation:
    """The part of the budget that is reserved for one call: a `CallReservation`."""

    __slots__ = ("_estimate", "_identity", "_ledger")

    def __init__(self, ledger: MemoryLedger, identity: str, estimate: Spending) -> None:
        self._ledger = ledger
        self._identity = identity
        self._estimate = estimate

    def settle(self, metrics: CallMetrics | None, outcome: object = None) -> None:
        """Record that the call was answered, and its cost as far as known."""
        self._ledger.settle(self._identity, self._estimate, metrics, answered=True)

    def fail(self, error: BaseException | None = None) -> None:
        """Record that the call was made and not answered."""
        self._ledger.settle(self._identity, self._estimate, None, answered=False)

    async def repeat(self) -> None:
        """Let a further attempt be made: a run counts all attempts of a call as one."""

    def cancel(self) -> None:
        """Release the reservation of a call that was not made."""
        self._ledger.settle(self._identity, self._estimate, None, answered=False, made=False)
