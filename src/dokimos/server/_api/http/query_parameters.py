"""Names in the query of a request that its route does not know.

Documented clients may send any: the documented server ignores them. But a filter with a misspelt name would
silently match everything. So a name that is almost one of the route's is refused, and the answer names
the others in a header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final
from weakref import WeakKeyDictionary

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import Request

from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.request_context import note_ignored_parameters

_SIMILARITY: Final = 0.8
"""`limits` is close to `limit`, `serach` to `search`; `offset` and `pageSize` are close to nothing."""
_MAX_NAMES: Final = 20
"""How many unknown names are looked at: each is compared with all that the route has."""
_MAX_CHARACTERS: Final = 100
_SIGNS: Final = re.compile(r"[\W_]+")
_known: Final[WeakKeyDictionary[Callable[..., Any], frozenset[str]]] = WeakKeyDictionary()
"""The parameters of routes by their functions, which outlive the applications that have them."""


async def check_query(request: Request) -> None:
    """Note the parameters of a request that its route ignores.

    Raises:
        InvalidRequestError: One of them is a misspelt parameter of the route.
    """
    if not request.scope["query_string"]:
        return
    known = parameters_of(request.scope["route"])
    names = (name for name in request.query_params if name and name not in known)
    unknown = list(islice(names, _MAX_NAMES))
    for name in unknown:
        meant = find_similar(name[:_MAX_CHARACTERS], known)
        if meant is not None:
            raise InvalidRequestError(
                f"is not a parameter of this address; did you mean {meant!r}?", field=name[:_MAX_CHARACTERS]
            )
    note_ignored_parameters([name[:_MAX_CHARACTERS] for name in unknown])


def parameters_of(route: APIRoute) -> frozenset[str]:
    known = _known.get(route.endpoint)
    if known is None:
        known = _known[route.endpoint] = frozenset(_walk(route.dependant))
    return known


def _walk(dependant: Dependant) -> Iterator[str]:
    """Yield the parameters of a route's function, and of all that it depends on."""
    yield from (parameter.alias for parameter in dependant.query_params)
    for each in dependant.dependencies:
        yield from _walk(each)


def find_similar(name: str, known: frozenset[str]) -> str | None:
    """Return the parameter that a name was probably meant to be, whatever its case and its underscores."""
    plain = {_simplify(each): each for each in sorted(known)}
    matches = get_close_matches(_simplify(name), plain, n=1, cutoff=_SIMILARITY)
    return plain[matches[0]] if matches else None


def _simplify(name: str) -> str:
    return _SIGNS.sub("", name).lower()
