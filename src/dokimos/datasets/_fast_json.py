"""Parse many lines of JSON at once with the parser that pydantic brings, where it is sure to be exact."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias

Row: TypeAlias = dict[str, Any]
LinesParser: TypeAlias = Callable[[Sequence[bytes]], "list[Row] | None"]

_MANY: Final = 16
_SIMPLE: Final = frozenset((str, int, bool, type(None)))


def load_lines_parser() -> LinesParser:
    """Load the parser, which takes 22 ms, and return a function that parses lines of one object each.

    It returns None unless all values are certain to be what the strict parser makes of the lines. That takes
    half of the time of `json.loads`; the strict parser takes as long as that.
    """
    from pydantic_core import from_json  # not at the top: small data sets do without it

    parse = partial(from_json, allow_inf_nan=False, cache_strings="keys")

    def parse_lines(lines: Sequence[bytes]) -> list[Row] | None:
        try:
            rows = list(map(parse, lines))
            is_exact = set(map(type, rows)) == {dict} and _has_all_members(rows, lines)
        except (
            ValueError,
            RecursionError,
        ):  # also for what the strict parser takes: lone surrogates, deep nesting
            return None
        return rows if is_exact else None

    return parse_lines


def _has_all_members(rows: list[Row], lines: Sequence[bytes]) -> bool:
    """Whether each member of the lines is in the rows, so that no object has a key twice.

    A line has one colon for each member, and others only in its texts. A member that is missing from a row
    takes its colon, and those in its texts, from what is counted here, and nothing adds to it.
    """
    members = _count_members(rows)
    if members is None:
        return False
    text = b"".join(lines)
    others = text.count(b":") - members
    # A colon that is written as an escape would be in the rows alone.
    if not others:
        return True
    if b"\\" in text and b"\\u003" in text:  # the first is a search that takes no time
        return False
    # Mostly the colons are in texts of the rows themselves: to find as many as are missing is enough.
    texts = [value for row in rows for value in row.values() if type(value) is str]
    return "".join(texts).count(":") == others or _count_colons(rows) == others


def _count_members(values: Sequence[Any]) -> int | None:
    """Count the members of all objects in values; None if a number is infinite.

    The parser takes a number that is too large for a float for infinity.
    """
    kinds = set(map(type, values))
    if kinds <= _SIMPLE:
        return 0
    # The sum is not finite if one is not. That it may be too large itself does no harm: None is always safe.
    if float in kinds and not math.isfinite(sum(_select(float, values, kinds))):
        return None
    objects, arrays = _select(dict, values, kinds), _select(list, values, kinds)
    count = sum(map(len, objects))
    for inner in (*_split_members(objects), list(chain.from_iterable(arrays))):
        more = _count_members(inner) if inner else 0
        if more is None:
            return None
        count += more
    return count


def _split_members(objects: Sequence[Row]) -> Iterable[Sequence[Any]]:
    """Return the values of many objects by their place, which mostly have one kind, or all together."""
    if len(objects) >= _MANY and len(set(map(len, objects))) == 1:
        return zip(*map(dict.values, objects), strict=True)
    return (list(chain.from_iterable(map(dict.values, objects))),)


def _count_colons(values: Sequence[Any]) -> int:
    """Count the colons in the texts in values, those of keys included."""
    kinds = set(map(type, values))
    objects, arrays = _select(dict, values, kinds), _select(list, values, kinds)
    texts = chain(_select(str, values, kinds), chain.from_iterable(objects))
    inner = (*_split_members(objects), list(chain.from_iterable(arrays)))
    return "".join(texts).count(":") + sum(_count_colons(each) for each in inner if each)


def _select(kind: type, values: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
    if kind not in kinds:
        return ()
    return values if len(kinds) == 1 else [value for value in values if type(value) is kind]
