"""What a run may spend, reserved before each call is made."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from dokimos.core.figures import usd
from dokimos.core.metrics import CallMetrics
from dokimos.errors import BudgetExceededError, ConfigurationError

TASK: Final = "the task"
"""Under which the calls of a run's own task are accounted for."""
_ROUNDING: Final = 1e-9
"""Sums of floats may exceed a limit by this share."""
_LEAST_TOKENS: Final = 1
_LEAST_USD: Final = 1e-6
"""What the first call of a judge is taken to cost at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits on what the calls of a run may cost, task and judges together. None is no limit.

    A call of the task counts where it says what it cost or how many tokens it took.
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
    """Calls with the tokens and dollars that are known of them."""

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


def _dollars(amount: float) -> str:
    return usd(amount)


def _whole(amount: float) -> str:
    return f"{amount:,.0f}"


_LIMITS: Final[tuple[tuple[str, str, Callable[[float], str]], ...]] = (
    ("max_cost_usd", "cost_usd", _dollars),
    ("max_tokens", "tokens", _whole),
    ("max_calls", "calls", _whole),
)


@dataclass(slots=True)
class _Account:
    """What calls of one judge, or of the task, have cost, to tell what the next one will."""

    is_task: bool
    answered: int = 0
    spent: Spending = field(default_factory=Spending)
    last: Spending = field(default_factory=Spending)
    measured: set[str] = field(default_factory=set)
    """Which of tokens and dollars were ever known."""
    in_flight: int = 0
    settled: Future[None] | None = None
    """Done when the next call in flight has shown what it costs; None while nobody waits for that."""

    def count(self, metrics: CallMetrics | None) -> Spending:
        """Take up a call that was answered; return what it cost."""
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
        """What the next call will probably cost; the least possible where no cost is known.

        That is an average call, and beside others in flight the last one if that was dearer. A call that
        goes alone is taken for an average one, so that a single dear call does not end a run.
        """
        if self.is_task and not self.measured:
            return Spending(0)
        if not self.answered:
            return Spending(1, _LEAST_TOKENS, _LEAST_USD)
        average = Spending(1, self.spent.tokens / self.answered, self.spent.cost_usd / self.answered)
        if not self.in_flight:
            return average
        return Spending(1, max(average.tokens, self.last.tokens), max(average.cost_usd, self.last.cost_usd))


class Ledger:
    """Keeps the accounts of one run.

    A call is let through if what was spent, what is reserved for the calls in flight and what it will
    probably cost itself fit into the budget. One that does not fit waits while other calls of the same judge
    are in flight, which may cost less than was reserved for them, and is refused after the last of them. To
    learn what a call costs, the first one of each judge goes alone where tokens or dollars are limited.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.refusal: str | None = None
        """Why the last call that was refused was, None as long as none was."""
        self.spent = Spending()
        self._reserved = Spending()
        self._accounts: dict[str, _Account] = {}
        self._mutex = threading.Lock()
        self._by_size = budget.max_cost_usd is not None or budget.max_tokens is not None

    async def reserve(self, identity: str, *, nested: bool = False) -> Reservation:
        """Set aside what a call will cost. Raises `BudgetExceededError` where too little is left.

        A call `nested` in another one never waits: the one that it would wait for may wait for it.
        """
        while True:
            with self._mutex:
                account = self._account(identity)
                reservation = self._reservation(identity, account, waits=not nested)
                if reservation is not None:
                    return reservation
                settled = account.settled = account.settled or Future()
            await asyncio.shield(asyncio.wrap_future(settled))

    def note(self, identity: str, metrics: CallMetrics | None) -> None:
        """Count a call that an earlier process of the same run has made."""
        with self._mutex:
            self.spent.add(self._account(identity).count(metrics))

    def warnings(self) -> list[str]:
        """Name what the budget could not limit."""
        found = []
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
                found.append(
                    f"The budget's {name} did not limit {', '.join(blind)}: the {what} is not known."
                )
        return found

    def settle(
        self,
        identity: str,
        estimate: Spending,
        metrics: CallMetrics | None,
        *,
        answered: bool,
        made: bool = True,
    ) -> None:
        """Put what a call did cost in the place of what was reserved for it."""
        with self._mutex:
            account = self._account(identity)
            account.in_flight -= 1
            self._reserved.take_back(estimate)
            if answered:
                self.spent.add(account.count(metrics))
            elif made:
                self.spent.calls += estimate.calls  # whatever came of it
            settled, account.settled = account.settled, None
        if settled is not None:
            settled.set_result(None)

    def _account(self, identity: str) -> _Account:
        account = self._accounts.get(identity)
        if account is None:
            account = self._accounts[identity] = _Account(is_task=identity == TASK)
        return account

    def _reservation(self, identity: str, account: _Account, *, waits: bool) -> Reservation | None:
        """None where a call in flight has to show its cost first."""
        waits = waits and account.in_flight > 0
        if waits and not account.answered and (self._by_size or account.is_task):
            return None
        estimate = account.estimate()
        problem = self._problem(identity, estimate)
        if problem is None:
            account.in_flight += 1
            self._reserved.add(estimate)
            return Reservation(self, identity, estimate)
        if waits:
            return None
        self.refusal = problem
        raise BudgetExceededError(problem)

    def _problem(self, identity: str, estimate: Spending) -> str | None:
        for name, unit, shown in _LIMITS:
            limit, more = getattr(self.budget, name), getattr(estimate, unit)
            if limit is None or not more:
                continue
            spent, reserved = getattr(self.spent, unit), getattr(self._reserved, unit)
            if spent + reserved + more > limit * (1 + _ROUNDING):
                in_flight = f" and {shown(reserved)} reserved for calls in flight" if reserved > 0 else ""
                return (
                    f"The budget of {name}={limit:g} is used up: {shown(spent)} spent{in_flight}; "
                    f"the next call of {identity} would take about {shown(more)}."
                )
        return None


class Reservation:
    """What is set aside for one call."""

    __slots__ = ("_estimate", "_identity", "_ledger")

    def __init__(self, ledger: Ledger, identity: str, estimate: Spending) -> None:
        self._ledger = ledger
        self._identity = identity
        self._estimate = estimate

    def settle(self, metrics: CallMetrics | None) -> None:
        """The call was answered, at this cost as far as it is known."""
        self._ledger.settle(self._identity, self._estimate, metrics, answered=True)

    def fail(self) -> None:
        """The call was not answered."""
        self._ledger.settle(self._identity, self._estimate, None, answered=False)

    def cancel(self) -> None:
        """The call was not made."""
        self._ledger.settle(self._identity, self._estimate, None, answered=False, made=False)
