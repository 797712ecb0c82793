"""What judging may cost: per job (or rule and day), per project and day, and per server and day (UTC).

What a call may cost is added to three sums before it is made, and replaced by what it did cost afterwards.
Both happen in a transaction that holds the rows of the three sums: of two servers on one database, the second
reads what the first one has reserved. All amounts are whole numbers, so that sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import Enum
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, Connection, Text, bindparam, select, update

from dokimos._core.number_format import usd
from dokimos.errors import BudgetExceededError
from dokimos.judges import Budget
from dokimos.server._db.clock import DAY, SECOND
from dokimos.server._db.driver_statements import DriverStatement
from dokimos.server._db.inserts import insert_if_absent
from dokimos.server._db.judge_call_tables import JUDGE_BUDGETS
from dokimos.server._judge_settings import JudgeSettings

NANO: Final = 1_000_000_000
"""Amounts of money are in billionths of a dollar."""


class JudgeBudgetExceeded(BudgetExceededError):
    """A call was not made, because a budget of judging is spent; `scope` says which.

    Args:
        message: Which one, and what there is to do.
        scope: What the budget is for.
        never_fits: Whether the call would not fit into the same budget of another day either.
        day: In UTC, that of the budget; None where it is not one of a day.
    """

    def __init__(
        self, message: str, scope: BudgetScope, *, never_fits: bool = False, day: str | None = None
    ) -> None:
        super().__init__(message)
        self.scope = scope
        self.never_fits = never_fits
        self.renewed_at = None if day is None or never_fits else _end_of(day)
        """When there is a new budget into which it may fit, in microseconds since 1970; None for never.

        That is the midnight after the call was refused, which may be over when somebody acts on it.
        """


class BudgetScope(Enum):
    """What a budget is for."""

    JOB = "job"
    RULE = "rule"
    PROJECT = "project"
    SERVER = "server"


class Amount(NamedTuple):
    """Calls, tokens and billionths of a dollar."""

    calls: int = 0
    tokens: int = 0
    nano_usd: int = 0

    def plus(self, other: Amount) -> Amount:
        return Amount(self.calls + other.calls, self.tokens + other.tokens, self.nano_usd + other.nano_usd)


NOTHING: Final = Amount()


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The budgets that hold for a job; None for no limit."""

    job: Budget | None = None
    rule_day: Budget | None = None
    project_day: Budget | None = None
    server_day: Budget | None = None

    @cached_property
    def scope_in_dollars(self) -> BudgetScope | None:
        """The first whose budget limits dollars."""
        for scope in BudgetScope:
            budget = self.of(scope)
            if budget is not None and budget.max_cost_usd is not None:
                return scope
        return None

    @cached_property
    def by_size(self) -> bool:
        """Whether any of them limits what depends on the call: dollars or tokens."""
        budgets = (self.job, self.rule_day, self.project_day, self.server_day)
        limited = [(each.max_cost_usd, each.max_tokens) for each in budgets if each is not None]
        return any(limit is not None for limits in limited for limit in limits)

    def of(self, scope: BudgetScope) -> Budget | None:
        """Return the budget of a scope."""
        return {
            BudgetScope.JOB: self.job,
            BudgetScope.RULE: self.rule_day,
            BudgetScope.PROJECT: self.project_day,
            BudgetScope.SERVER: self.server_day,
        }[scope]


def limits_of(settings: JudgeSettings, job: Budget | None) -> Limits:
    """Return what holds for a job with a budget of its own, or without, on a server with these settings."""
    return Limits(job=job, project_day=settings.project_budget_per_day, server_day=settings.budget_per_day)


def limits_of_rule(settings: JudgeSettings, rule_day: Budget | None) -> Limits:
    """Return what holds for a rule of online evaluation: its own budget is for a day."""
    return Limits(
        rule_day=rule_day, project_day=settings.project_budget_per_day, server_day=settings.budget_per_day
    )


class Sum(NamedTuple):
    """Which row a call counts in."""

    scope: str
    kind: BudgetScope
    job_id: str | None
    project_id: str | None
    day: str | None


@lru_cache(maxsize=256)
def sums_of(job_id: str, project_id: str, day: str) -> tuple[Sum, Sum, Sum]:
    """Return the rows in which a call of a job counts that was reserved on a day, in the order of locking."""
    return (
        Sum(f"all:{day}", BudgetScope.SERVER, None, None, day),
        Sum(f"job:{job_id}", BudgetScope.JOB, job_id, None, None),
        Sum(f"project:{project_id}:{day}", BudgetScope.PROJECT, None, project_id, day),
    )


def sums_of_rule(rule_id: str, project_id: str, day: str) -> tuple[Sum, Sum, Sum]:
    """Return the rows in which a call for a rule counts that was reserved on a day."""
    return (
        Sum(f"all:{day}", BudgetScope.SERVER, None, None, day),
        Sum(f"project:{project_id}:{day}", BudgetScope.PROJECT, None, project_id, day),
        Sum(f"rule:{rule_id}:{day}", BudgetScope.RULE, None, project_id, day),
    )


def day_of(moment: int) -> str:
    """Return the day of a time in microseconds, in UTC, such as `2026-11-23`."""
    return _format_day(moment // DAY)


@lru_cache(maxsize=256)
def _format_day(days: int) -> str:
    return datetime.fromtimestamp(days * DAY // SECOND, UTC).date().isoformat()


def _end_of(day: str) -> int:
    return (date.fromisoformat(day).toordinal() - date(1970, 1, 1).toordinal() + 1) * DAY


@dataclass(slots=True)
class State:
    """What a sum holds, and how a transaction changes it."""

    spent: Amount = NOTHING
    reserved: Amount = NOTHING
    more_spent: Amount = NOTHING
    more_reserved: Amount = NOTHING
    unpriced: int = 0
    lost: int = 0


@dataclass(slots=True)
class LockedSums:
    """The sums that a transaction holds until its end; no other changes them meanwhile."""

    states: dict[Sum, State] = field(default_factory=dict)

    @classmethod
    def lock(cls, connection: Connection, sums: Iterable[Sum]) -> LockedSums:
        """Lock the rows of sums, in one order for all transactions, and add those that are not there yet."""
        ordered = sorted(set(sums))
        locked = cls({each: State() for each in ordered})
        by_scope = {each.scope: each for each in ordered}
        rows = _read(connection, by_scope)
        if len(rows) < len(ordered):
            for each in ordered:
                insert_if_absent(
                    connection,
                    JUDGE_BUDGETS,
                    scope=each.scope,
                    job_id=each.job_id,
                    project_id=each.project_id,
                    day=each.day,
                )
            rows = _read(connection, by_scope)
        for scope, spent, reserved in rows:
            state = locked.states[by_scope[scope]]
            state.spent, state.reserved = spent, reserved
        return locked

    def reserve(self, sums: Iterable[Sum], amount: Amount) -> None:
        """Add what a call may cost."""
        for each in sums:
            state = self.states[each]
            state.more_reserved = state.more_reserved.plus(amount)

    def settle(
        self, sums: Iterable[Sum], reserved: Amount, spent: Amount, *, unpriced: int = 0, lost: int = 0
    ) -> None:
        """Replace what was reserved for a call by what it cost.

        Args:
            sums: Those in which it was reserved.
            reserved: What was reserved.
            spent: What it cost.
            unpriced: 1 where its cost in dollars is not known.
            lost: 1 where nobody knows how it ended.
        """
        for each in sums:
            state = self.states[each]
            state.more_reserved = state.more_reserved.plus(_negative(reserved))
            state.more_spent = state.more_spent.plus(spent)
            state.unpriced += unpriced
            state.lost += lost

    def find_exceeded(self, sums: Iterable[Sum], limits: Limits, more: Amount) -> Exceeded | None:
        """Return the first limit that a further call would exceed, None where it fits."""
        for each in sums:
            budget = limits.of(each.kind)
            if budget is None:
                continue
            state = self.states[each]
            spent = state.spent.plus(state.more_spent)
            reserved = state.reserved.plus(state.more_reserved)
            for index, limit in enumerate(_limits_of(budget)):
                if limit is not None and more[index] and spent[index] + reserved[index] + more[index] > limit:
                    return Exceeded(each, index, limit, spent[index], reserved[index], more[index])
        return None

    def cut(self, sums: Iterable[Sum], limits: Limits, more: Amount) -> Amount:
        """Return as much of an amount as still fits, of each unit one at least."""
        cut = list(more)
        for each in sums:
            budget, state = limits.of(each.kind), self.states[each]
            if budget is None:
                continue
            taken = state.spent.plus(state.more_spent).plus(state.reserved).plus(state.more_reserved)
            for index, limit in enumerate(_limits_of(budget)):
                if limit is not None and cut[index]:
                    cut[index] = max(1, min(cut[index], limit - taken[index]))
        return Amount(*cut)

    def store(self, connection: Connection) -> None:
        """Write what has changed."""
        rows = [
            {
                "of_scope": each.scope,
                **_name_amounts("spent", state.more_spent),
                **_name_amounts("reserved", state.more_reserved),
                "unpriced": state.unpriced,
                "lost": state.lost,
            }
            for each, state in self.states.items()
            if state.more_spent != NOTHING or state.more_reserved != NOTHING
        ]
        if rows:
            _ADD.execute_many(connection, rows)


class Exceeded(NamedTuple):
    """A limit that a call does not fit into."""

    sum: Sum
    unit: int
    limit: int
    spent: int
    reserved: int
    more: int

    @property
    def is_final(self) -> bool:
        """Whether it would not fit either if all calls in flight cost nothing."""
        return self.spent + self.more > self.limit

    def error(self, identity: str) -> JudgeBudgetExceeded:
        """Return the error that says so."""
        name, unit = _NAMES[self.unit], self.unit
        reserved = (
            f" and {_format(self.reserved, unit)} reserved for calls in flight" if self.reserved > 0 else ""
        )
        what, remedy = _DESCRIPTIONS[self.sum.kind]
        when = "" if self.sum.day is None else f" for {self.sum.day} (UTC)"
        never_fits = self.sum.day is not None and self.more > self.limit
        problem = "is too small for one call" if never_fits else "is used up"
        return JudgeBudgetExceeded(
            f"The budget of {what}{when}, {name}={_format(self.limit, unit)}, {problem}: "
            f"{_format(self.spent, unit)} spent{reserved}; the next call of {identity} may take "
            f"{_format(self.more, unit)}. {_LARGER if never_fits else remedy}",
            self.sum.kind,
            never_fits=never_fits,
            day=self.sum.day,
        )


_NAMES: Final = ("max_calls", "max_tokens", "max_cost_usd")
_DESCRIPTIONS: Final[Mapping[BudgetScope, tuple[str, str]]] = {
    BudgetScope.JOB: ("this job", "Give the job a larger budget to go on."),
    BudgetScope.RULE: ("this rule", "It goes on the next day, or with a larger budget of the rule."),
    BudgetScope.PROJECT: (
        "this project",
        "It goes on the next day, or with a larger DOKIMOS_JUDGE_PROJECT_BUDGET_*_PER_DAY.",
    ),
    BudgetScope.SERVER: (
        "this server",
        "It goes on the next day, or with a larger DOKIMOS_JUDGE_BUDGET_*_PER_DAY.",
    ),
}
_LARGER: Final = "It would not fit on another day either: raise the limit or lower maxOutputTokens."
_COLUMN: Final = JUDGE_BUDGETS.c
_AMOUNTS: Final = ("calls", "tokens", "nano_usd")


def _limits_of(budget: Budget) -> tuple[int | None, int | None, int | None]:
    dollars = budget.max_cost_usd
    return budget.max_calls, budget.max_tokens, None if dollars is None else round(dollars * NANO)


def _format(amount: int, unit: int) -> str:
    return usd(amount / NANO) if unit == 2 else f"{amount:,}"


def _negative(amount: Amount) -> Amount:
    return Amount(-amount.calls, -amount.tokens, -amount.nano_usd)


def _name_amounts(prefix: str, amount: Amount) -> dict[str, object]:
    return {f"{prefix}_{name}": value for name, value in zip(_AMOUNTS, amount, strict=True)}


def _read(connection: Connection, scopes: Iterable[str]) -> list[tuple[str, Amount, Amount]]:
    ordered = sorted(scopes)
    found: list[tuple[str, Amount, Amount]] = []
    for start in range(0, len(ordered), _AT_ONCE):
        chosen = ordered[start : start + _AT_ONCE]
        # A scope that is named twice is found once.
        chosen += chosen[-1:] * (_AT_ONCE - len(chosen))
        rows = _LOCK.all(connection, {f"scope_{place}": scope for place, scope in enumerate(chosen)})
        found += [(row[0], Amount(*row[1:4]), Amount(*row[4:7])) for row in rows]
    return found


_AT_ONCE: Final = 3
"""As many sums as a call counts in: those of a group are nearly always the same ones."""
_LOCK: Final = DriverStatement(
    lambda _: (
        select(
            _COLUMN.scope, *(_COLUMN[f"{kind}_{name}"] for kind in ("spent", "reserved") for name in _AMOUNTS)
        )
        .where(_COLUMN.scope.in_([bindparam(f"scope_{place}", type_=Text()) for place in range(_AT_ONCE)]))
        .order_by(_COLUMN.scope)
        .with_for_update()
    )
)
_ADD: Final = DriverStatement(
    lambda _: (
        update(JUDGE_BUDGETS)
        .where(_COLUMN.scope == bindparam("of_scope"))
        .values(
            {
                f"{kind}_{name}": _COLUMN[f"{kind}_{name}"] + bindparam(f"{kind}_{name}", type_=BigInteger())
                for kind in ("spent", "reserved")
                for name in _AMOUNTS
            }
            | {
                "unpriced_calls": _COLUMN.unpriced_calls + bindparam("unpriced", type_=BigInteger()),
                "lost_calls": _COLUMN.lost_calls + bindparam("lost", type_=BigInteger()),
            }
        )
    )
)
