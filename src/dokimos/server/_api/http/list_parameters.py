"""The parameters `sort`, `limit` and `after` of lists."""

from __future__ import annotations

from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Query

from dokimos.server._services.list_pages import ListPage, SortKeys

MAX_ROWS: Final = 2000
_AFTER: Final = "The id of the last row of the page before this one."


def sort_query(keys: SortKeys) -> Any:
    """Return the parameter `sort` of a route, whose values are those that a list can be sorted by."""
    description = f"What to sort by, alone or with `,asc` or `,desc`; by default `{keys.default}`."
    return Query(None, max_length=100, description=description, json_schema_extra={"enum": keys.choices})


def cursor_request(keys: SortKeys) -> Any:
    """Return the type of a route's parameter for `sort` and `after` of a list that is paged."""
    # Defaults rather than `Annotated`, for the reason that `page_request` gives.
    sort_parameter: str | None = sort_query(keys)
    after_parameter: UUID | None = Query(None, description=_AFTER)

    async def read(sort: str | None = sort_parameter, after: UUID | None = after_parameter) -> ListPage:
        return ListPage(keys.parse(sort), None, None if after is None else str(after))

    return Annotated[ListPage, Depends(read)]


def list_request(keys: SortKeys, default_limit: int | None = None) -> Any:
    """Return the type of a route's parameter for `sort`, `limit` and `after` of a list.

    Args:
        keys: What it can be sorted by.
        default_limit: Rows of a page unless asked for otherwise, None for all.
    """
    sort_parameter: str | None = sort_query(keys)
    most = f"Rows at most; {'all' if default_limit is None else default_limit} by default."
    limit_parameter: int | None = Query(default_limit, ge=1, le=MAX_ROWS, description=most)
    after_parameter: UUID | None = Query(None, description=_AFTER)

    async def read(
        sort: str | None = sort_parameter,
        limit: int | None = limit_parameter,
        after: UUID | None = after_parameter,
    ) -> ListPage:
        return ListPage(keys.parse(sort), limit, None if after is None else str(after))

    return Annotated[ListPage, Depends(read)]
