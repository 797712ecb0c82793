"""The filters of Nunjucks for lists and maps, and its tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from dokimos.importers._promptfoo.nunjucks.members import find_member
from dokimos.importers._promptfoo.nunjucks.operators import add, apply, remainder
from dokimos.importers._promptfoo.nunjucks.values import (
    UNDEFINED,
    SafeText,
    TemplateRefused,
    Value,
    equals,
    is_nothing,
    is_true,
    kind,
    order_keys,
    refuse_environment,
    sort_key,
    to_number,
    to_text,
    units,
)


def entries(value: Value) -> list[Value]:
    """Return a list. Raises `TemplateRefused` where it is something else."""
    if not isinstance(value, list):
        raise TemplateRefused("one of its filters gets something that is not a list")
    return value


def attributes(value: Value, name: Value) -> list[Value]:
    """Return a member of each entry of a list."""
    found = []
    for entry in entries(value):
        if is_nothing(entry):
            raise TemplateRefused("one of its filters looks into an entry that is null")
        found.append(find_member(entry, name))
    return found


def _positive(value: Value) -> int:
    if not isinstance(value, float) or not value.is_integer() or value < 1:
        raise TemplateRefused("one of its filters gets a number of parts that is not a whole one")
    return int(value)


def _batch(value: Value, count: Value, fill: Value) -> list[Value]:
    size = _positive(count)
    values = entries(value)
    rows: list[Value] = [values[start : start + size] for start in range(0, len(values), size)]
    if rows and is_true(fill):
        if size > 10_000:
            raise TemplateRefused("its filter batch makes too many entries")
        rows[-1] = rows[-1] + [fill] * (size - len(rows[-1]))
    return rows


def _slice(value: Value, count: Value, fill: Value) -> list[Value]:
    parts, values = _positive(count), entries(value)
    if parts > 10_000:
        raise TemplateRefused("its filter slice makes too many lists")
    size, extra = divmod(len(values), parts)
    rows: list[Value] = []
    start = 0
    for index in range(parts):
        end = start + size + (index < extra)
        rows.append(values[start:end] + ([fill] if is_true(fill) and index >= extra else []))
        start = end
    return rows


def _sort_by(values: list[Value], keys: list[Value], *, reverse: bool, case_sensitive: bool) -> list[Value]:
    """Return values in the order of their keys, which have to be of one type."""
    kinds = {kind(key) for key in keys}
    has_nan = any(isinstance(key, float) and math.isnan(key) for key in keys)
    if has_nan or len(kinds) > 1 or not kinds <= {"string", "number", "boolean"}:
        raise TemplateRefused("it sorts what are not all texts or all numbers")
    if kinds == {"string"}:
        keys = [sort_key(key if case_sensitive else key.lower()) for key in keys]
    order = sorted(range(len(values)), key=keys.__getitem__, reverse=reverse)
    return [values[index] for index in order]


def _sort(value: Value, reverse: Value, case_sensitive: Value, attribute: Value) -> list[Value]:
    values = entries(value)
    keys = values
    if is_true(attribute):
        parts = to_text(attribute).split(".") if isinstance(attribute, str) else [attribute]
        for part in parts:
            if not all(isinstance(one, dict) for one in keys):
                raise TemplateRefused("its filter sort looks into what is not a map")
            keys = [find_member(one, part) for one in keys]
    return _sort_by(values, keys, reverse=is_true(reverse), case_sensitive=is_true(case_sensitive))


def _dictsort(value: Value, case_sensitive: Value, by: Value) -> list[Value]:
    if not isinstance(value, dict) or by not in (UNDEFINED, "key", "value"):
        raise TemplateRefused("its filter dictsort gets something that is not a map, or another order")
    pairs: list[Value] = [[key, one] for key, one in value.items()]
    keys = [pair[by == "value"] for pair in pairs]
    if not is_true(case_sensitive):
        keys = [key.upper() if isinstance(key, str) else key for key in keys]
    return _sort_by(pairs, keys, reverse=False, case_sensitive=True)


def _first(value: Value) -> Value:
    return _at(value, 0)


def _last(value: Value) -> Value:
    return _at(value, -1)


def _at(value: Value, index: int) -> Value:
    if not isinstance(value, list | str):
        raise TemplateRefused("its filter first or last gets something that is not a list or a text")
    return (units(value) if isinstance(value, str) else value)[index] if value else UNDEFINED


def _list(value: Value) -> list[Value]:
    if isinstance(value, str):
        return list(units(value))
    if isinstance(value, dict):
        return [{"key": key, "value": one} for key, one in value.items()]
    return entries(value)


def _reverse(value: Value) -> Value:
    return units(value)[::-1] if isinstance(value, str) else entries(value)[::-1]


def _sum(value: Value, attribute: Value, start: Value) -> Value:
    total: Value = 0.0
    for one in attributes(value, attribute) if is_true(attribute) else entries(value):
        total = add(total, one)
    return add(0.0 if start is UNDEFINED else start, total)


def _groupby(value: Value, attribute: Value) -> dict[str, Value]:
    groups: dict[str, Value] = {}
    for entry in entries(value):
        if not isinstance(entry, dict) or not isinstance(attribute, str) or "." in attribute:
            raise TemplateRefused("its filter groupby gets what are not maps, or a path")
        key = to_text(find_member(entry, attribute))
        if key == "__proto__":
            raise TemplateRefused("its filter groupby makes a key that maps of JavaScript have")
        groups.setdefault(key, []).append(entry)
    return order_keys(groups)


def _select(*, expected: bool) -> Callable[..., Value]:
    def select(value: Value, test: Value, argument: Value) -> list[Value]:
        name = "truthy" if test is UNDEFINED else to_text(test)
        _find_test(name)  # also where the list is empty
        return [one for one in entries(value) if run_test(name, one, argument) is expected]

    return select


def _select_by(*, expected: bool) -> Callable[..., Value]:
    def select(value: Value, attribute: Value) -> list[Value]:
        members = attributes(value, attribute)
        return [one for one, member in zip(value, members, strict=True) if is_true(member) is expected]

    return select


def run_test(name: str, value: Value, argument: Value = UNDEFINED) -> bool:
    """Return whether `value is name(argument)`.

    Raises:
        TemplateRefused: There is no such test, or the value is not one for it.
    """
    refuse_environment(value, argument)
    return _find_test(name)(value, argument)


def _find_test(name: str) -> Callable[[Value, Value], bool]:
    test = _TESTS.get(name)
    if test is None:
        raise TemplateRefused(f"there is no test {name!r:.40} that is rendered")
    return test


def _compare(operator: str) -> Callable[[Value, Value], bool]:
    return lambda value, argument: bool(apply(operator, value, argument))


def _case(change: Callable[[str], str]) -> Callable[[Value, Value], bool]:
    def test(value: Value, _: Value) -> bool:
        if not isinstance(value, str):
            raise TemplateRefused("it tests the case of something that is not a text")
        return change(value) == value

    return test


def _is_mapping(value: Value, _: Value) -> bool:
    return kind(value) == "object" and value is not None and not isinstance(value, list)


def _is_iterable(value: Value, _: Value) -> bool:
    if is_nothing(value):
        raise TemplateRefused("it tests whether nothing is iterable")
    return isinstance(value, str | list | SafeText)


_TESTS: Final[dict[str, Callable[[Value, Value], bool]]] = {
    "callable": lambda value, _: kind(value) == "function",
    "defined": lambda value, _: value is not UNDEFINED,
    "divisibleby": lambda value, by: remainder(to_number(value), to_number(by)) == 0,
    "escaped": lambda value, _: isinstance(value, SafeText),
    **dict.fromkeys(("eq", "equalto", "sameas"), lambda value, one: equals(value, one, strict=True)),
    "even": lambda value, _: remainder(to_number(value), 2) == 0,
    "falsy": lambda value, _: not is_true(value),
    "ge": _compare(">="),
    **dict.fromkeys(("gt", "greaterthan"), _compare(">")),
    "iterable": _is_iterable,
    "le": _compare("<="),
    **dict.fromkeys(("lt", "lessthan"), _compare("<")),
    "lower": _case(str.lower),
    "mapping": _is_mapping,
    "ne": lambda value, one: not equals(value, one, strict=True),
    "null": lambda value, _: value is None,
    "number": lambda value, _: kind(value) == "number",
    "odd": lambda value, _: remainder(to_number(value), 2) == 1,
    "string": lambda value, _: kind(value) == "string",
    "truthy": lambda value, _: is_true(value),
    "undefined": lambda value, _: value is UNDEFINED,
    "upper": _case(str.upper),
}

LIST_FILTERS: Final[dict[str, tuple[Callable[..., Any], int, tuple[str, ...]]]] = {
    "batch": (_batch, 2, ()),
    "dictsort": (_dictsort, 2, ()),
    "first": (_first, 0, ()),
    "groupby": (_groupby, 1, ()),
    "last": (_last, 0, ()),
    "list": (_list, 0, ()),
    "reject": (_select(expected=False), 2, ()),
    "rejectattr": (_select_by(expected=False), 1, ()),
    "reverse": (_reverse, 0, ()),
    "select": (_select(expected=True), 2, ()),
    "selectattr": (_select_by(expected=True), 1, ()),
    "slice": (_slice, 2, ()),
    "sort": (_sort, 3, ("reverse", "case_sensitive", "attribute")),
    "sum": (_sum, 2, ()),
}
