"""Pages of lists, in the documented envelope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Query

MAX_SIZE: Final = 2000
_LAST_PAGE: Final = 2**53


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which page of a list is asked for."""

    number: int
    size: int

    @property
    def offset(self) -> int:
        """Rows before the page."""
        return self.number * self.size

    def envelope(self, total: int, count: int) -> dict[str, Any]:
        """Return all of the documented envelope but `content`.

        Args:
            total: Rows of the whole list.
            count: Rows on this page.
        """
        pages = -(-total // self.size)
        sort = {"empty": True, "sorted": False, "unsorted": True}
        return {
            "number": self.number,
            "size": self.size,
            "totalElements": total,
            "totalPages": pages,
            "first": self.number == 0,
            "last": self.number >= pages - 1,
            "numberOfElements": count,
            "empty": count == 0,
            "sort": sort,
            "pageable": {
                "offset": self.offset,
                "sort": sort,
                "paged": True,
                "pageNumber": self.number,
                "pageSize": self.size,
                "unpaged": False,
            },
        }


def continue_page(page: PageRequest, count: int) -> dict[str, Any]:
    """Return what differs in the envelope of a page that continues after a cursor.

    How many pages are before it is not known, and nobody who has a cursor asks.
    """
    return {"first": False, "last": count < page.size}


def page_of(content: Sequence[object], total: int, page: PageRequest) -> dict[str, Any]:
    """Return a page of a list with its envelope."""
    return {"content": content, **page.envelope(total, len(content))}


def page_request(default_size: int, max_size: int = MAX_SIZE) -> Any:
    """Return the type of a route's parameter for `page` and `size`, which are clamped rather than refused."""
    # Defaults rather than `Annotated`: the framework reads annotations as text, without the names of a
    # closure.
    page_query: str = Query("0", description="The page, from 0.")
    size_query: str = Query(str(default_size), description=f"Rows of a page, 1 to {max_size}.")

    async def read(page: str = page_query, size: str = size_query) -> PageRequest:
        chosen = min(max(_whole(size, default_size), 1), max_size)
        return PageRequest(min(max(_whole(page, 0), 0), _LAST_PAGE // max_size), chosen)

    return Annotated[PageRequest, Depends(read)]


def _whole(text: str, default: int) -> int:
    """A whole number; what is not one counts as not given, as the documented server has it."""
    try:
        return int(text[:20])
    except ValueError:
        return default
