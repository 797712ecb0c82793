"""Which traces a list is asked for, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import ColumnElement, func, literal_column

from dokimos.server._db.columns import LONG
from dokimos.server._db.trace_tables import TOKENS, TRACE_EVAL_JOBS, TRACES
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.list_pages import Order, SortKeys
from dokimos.server._services.traces.trace_scores import ScoreFilter

TraceStatus: TypeAlias = Literal["ok", "error"]
TRACE_TOKENS: Final[ColumnElement[int]] = literal_column(TOKENS, LONG)
"""All tokens of a trace, as the index has them."""
HAS_ERROR: Final[ColumnElement[bool]] = literal_column("error_count > 0")  # as the partial index says it
BY_START: Final = "startTime,desc"
"""The order of a list of which a period is asked for."""
TRACE_ORDERS: Final = SortKeys(
    {
        "createdAt": TRACES.c.id,
        "startTime": TRACES.c.start_ns,
        "duration": TRACES.c.duration_ns,
        "cost": TRACES.c.cost_usd,
        "tokens": TRACE_TOKENS,
        "score": TRACE_EVAL_JOBS.c.score,
    },
    ties=(TRACES.c.id,),
    default="createdAt,desc",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFilter:
    """Which traces are asked for; None says nothing."""

    project_id: str | None = None
    trace_id: str | None = None
    start_from: int | None = None
    """Nanoseconds since 1970 at which a trace begins at the earliest."""
    start_to: int | None = None
    """Those before which it begins."""
    min_duration_ns: int | None = None
    max_duration_ns: int | None = None
    status: TraceStatus | None = None
    min_cost: float | None = None
    max_cost: float | None = None
    min_tokens: int | None = None
    max_tokens: int | None = None
    session_id: str | None = None
    user_id: str | None = None
    model: str | None = None
    root_name: str | None = None
    scores: ScoreFilter | None = None
    """What rules said of it."""
    words: tuple[str, ...] = ()
    """Words that one span of it has, as of `split_words`; the last one may be the beginning of one."""
    attributes: tuple[tuple[str, str], ...] = ()
    """Keys and values, all of which the same span has."""

    def merge(self, other: TraceFilter) -> TraceFilter:
        """Return a filter that asks for what both ask for; where both do, the other one counts."""
        default = TraceFilter()
        values = {each.name: getattr(other, each.name) for each in fields(self)}
        return replace(
            self, **{name: value for name, value in values.items() if value != getattr(default, name)}
        )

    @property
    def is_search(self) -> bool:
        """Whether spans have to be searched."""
        return bool(self.words or self.attributes)

    @property
    def is_narrow(self) -> bool:
        """Whether anything but the project is asked for."""
        return self != TraceFilter(project_id=self.project_id)

    @property
    def is_filtered(self) -> bool:
        """Whether anything but a project, a period and a search is asked for."""
        nothing = TraceFilter(
            project_id=self.project_id,
            start_from=self.start_from,
            start_to=self.start_to,
            words=self.words,
            attributes=self.attributes,
        )
        return self != nothing

    def find_indexed(self) -> list[ColumnElement[bool]]:
        """Return the conditions by which an index leads to the rows in the order of their ids.

        One at most: an index that the database chose for another would not lead to them.
        """
        columns = TRACES.c
        for column, value in (
            (columns.trace_id, self.trace_id),
            (columns.session_id, self.session_id),
            (columns.user_id, self.user_id),
        ):
            if value is not None:
                return [column == value]
        project = [] if self.project_id is None else [columns.project_id == self.project_id]
        return [*project, HAS_ERROR] if self.status == "error" else project

    def conditions(self, order: Order) -> list[ColumnElement[bool]]:
        """Return all conditions but those on spans.

        Args:
            order: Of the list: what has no value to sort by is not in it.
        """
        conditions = [*self._compare(is_by_id(order))]
        if not is_by_id(order) and order.values[0] is not TRACE_TOKENS:
            conditions.append(order.values[0].is_not(None))
        return conditions

    def _compare(self, in_order_of_ids: bool) -> Iterator[ColumnElement[bool]]:
        columns = TRACES.c
        if self.project_id is not None:
            pinned = (self.trace_id, self.session_id, self.user_id)
            # A few traces share a session: an expression keeps the database from reading all of the project.
            is_pinned = any(value is not None for value in pinned)
            yield (_hide(columns.project_id) if is_pinned else columns.project_id) == self.project_id
        equal = (
            (columns.trace_id, self.trace_id),
            (columns.session_id, self.session_id),
            (columns.user_id, self.user_id),
            (columns.model, self.model),
            (columns.root_name, self.root_name),
        )
        yield from (each == value for each, value in equal if value is not None)
        ranges: tuple[tuple[ColumnElement[Any], float | None, float | None], ...] = (
            (columns.duration_ns, self.min_duration_ns, self.max_duration_ns),
            (columns.cost_usd, self.min_cost, self.max_cost),
            (TRACE_TOKENS, self.min_tokens, self.max_tokens),
        )
        for column, low, high in ranges:
            # In the order of ids, the index of a measure would have all rows of its range read and sorted.
            measure = _hide(column) if in_order_of_ids else column
            if low is not None:
                yield measure >= low
            if high is not None:
                yield measure <= high
        start = _hide(columns.start_ns) if in_order_of_ids else columns.start_ns
        if self.start_from is not None:
            yield start >= self.start_from
        if self.start_to is not None:
            yield start < self.start_to
        if self.scores is not None:
            yield self.scores.is_met(self.project_id)
        if self.status is not None:
            yield HAS_ERROR if self.status == "error" else columns.error_count == 0


def _hide(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the value of a column as an expression that no index has."""
    return func.coalesce(column, column)


def is_by_id(order: Order) -> bool:
    """Whether a list is in the order of ids, which is that in which the server heard of the traces."""
    return order.values[0] is TRACES.c.id


def is_by_score(order: Order) -> bool:
    """Whether a list is in the order of the scores that are asked for."""
    return order.values[0] is TRACE_EVAL_JOBS.c.score


def check_order(chosen: TraceFilter, order: Order) -> None:
    """Raise `InvalidRequestError` where no index has the traces that are asked for in this order."""
    if chosen.scores is not None:
        chosen.scores.check(chosen.project_id)
    if is_by_id(order):
        return
    scores = chosen.scores
    if is_by_score(order) and (scores is None or scores.evaluator is None or scores.result == "error"):
        raise InvalidRequestError("by score needs evaluator, and another result than error", field="sort")
    if chosen.is_search:
        raise InvalidRequestError("a search is sorted by createdAt", field="sort")
    if chosen.project_id is None and order.values[0] is not TRACES.c.start_ns:
        raise InvalidRequestError("needs a project, unless it is createdAt or startTime", field="sort")
