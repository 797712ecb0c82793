"""Where the next page of a list of traces begins, as answers name it and requests send it back.

A list by creation goes on behind the id of a trace, which says when that was. In every other order the value
is named as well, so that the list goes on where it was also when that trace has been removed meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from dokimos.server._db.trace_tables import TRACE_EVAL_JOBS, TRACES
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.list_pages import ListPage, Order
from dokimos.server._services.traces.trace_filter import TRACE_TOKENS, is_by_id

_MARK: Final = "_"
_LARGEST: Final = 2**63 - 1
_ORDERS: Final[tuple[tuple[Any, str, Callable[[str], float]], ...]] = (
    (TRACES.c.start_ns, "start", int),
    (TRACES.c.duration_ns, "duration", int),
    (TRACES.c.cost_usd, "cost", float),
    (TRACE_TOKENS, "tokens", int),
    (TRACE_EVAL_JOBS.c.score, "score", float),
)
"""Each value that lists are sorted by, other than the id, with its name in cursors and its type."""


def write_cursor(order: Order, key: Sequence[Any]) -> str:
    """Return the cursor behind a trace of a list.

    Args:
        order: Of the list.
        key: The values of the trace by which it is sorted, the last of which is its id.
    """
    identifier: str = key[-1]
    if is_by_id(order):
        return identifier
    name, convert = _find_kind(order)
    value = repr(convert(key[0])).replace("+", "")  # which would be a space in a URL
    return _MARK.join((name, value, identifier))


def read_cursor(text: str | None, order: Order) -> ListPage:
    """Return the page of a list that a cursor asks for, or the first one where that is None.

    The id of a trace alone is a cursor as well, and so is that of a list in another order: where the list
    goes on is then looked up.

    Raises:
        InvalidRequestError: It is not a cursor.
    """
    if text is None:
        return ListPage(order)
    name, _, rest = text.rpartition(_MARK)[0].partition(_MARK)
    try:
        identifier = str(UUID(text.rpartition(_MARK)[2]))
        if _MARK not in text:
            return ListPage(order, after=identifier)
        convert = {each: convert for _, each, convert in _ORDERS}[name]
        value = convert(rest)
    except (ValueError, KeyError):
        raise InvalidRequestError("is not what a list has named as nextAfter", field="after") from None
    if abs(value) > _LARGEST if convert is int else not math.isfinite(value):
        raise InvalidRequestError("is not what a list has named as nextAfter", field="after")
    if is_by_id(order) or name != _find_kind(order)[0]:
        return ListPage(order, after=identifier)
    return ListPage(order, after=identifier, place=(value, identifier))


def _find_kind(order: Order) -> tuple[str, Callable[[str], float]]:
    return next((name, convert) for value, name, convert in _ORDERS if value is order.values[0])
