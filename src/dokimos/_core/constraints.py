"""Describe in plain English what a value has to be, for each kind of error that pydantic finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

Bounds = Mapping[str, float]
"""The limits of a number: `gt`, `ge`, `lt`, `le`."""

_BOUNDS: Final = ("gt", "ge", "lt", "le")
_BOUND_OF: Final = {
    "greater_than": "gt",
    "greater_than_equal": "ge",
    "less_than": "lt",
    "less_than_equal": "le",
}

# For each type of error that pydantic has. Its own messages name Python's types ("a valid dictionary"), which
# whoever writes a suite in YAML or rows in JSON need not know.
_SENTENCES: Final = {
    "arguments_type": "must be a list or a map",
    "assertion_error": "is not as it has to be: {error}",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "bytes_invalid_encoding": "must be bytes in {encoding}",
    "bytes_too_long": "must be at most {max_length} bytes long",
    "bytes_too_short": "must be at least {min_length} bytes long",
    "bytes_type": "must be bytes",
    "callable_type": "must be a function",
    "complex_str_parsing": "must be a complex number",
    "complex_type": "must be a complex number",
    "counter_type": "must be a map of counts",
    "dataclass_exact_type": "must be a {class_name}",
    "dataclass_type": "must be a map",
    "date_from_datetime_inexact": "must be a date without a time",
    "date_from_datetime_parsing": "must be a date, such as 2026-03-01",
    "date_future": "must lie in the future",
    "date_parsing": "must be a date, such as 2026-03-01",
    "date_past": "must lie in the past",
    "date_type": "must be a date, such as 2026-03-01",
    "datetime_from_date_parsing": "must be a date and time, such as 2026-03-01T12:30:00",
    "datetime_future": "must lie in the future",
    "datetime_object_invalid": "must be a date and time: {error}",
    "datetime_parsing": "must be a date and time, such as 2026-03-01T12:30:00",
    "datetime_past": "must lie in the past",
    "datetime_type": "must be a date and time, such as 2026-03-01T12:30:00",
    "decimal_max_digits": "must have at most {max_digits} digits",
    "decimal_max_places": "must have at most {decimal_places} decimals",
    "decimal_parsing": "must be a number",
    "decimal_type": "must be a number",
    "decimal_whole_digits": "must have at most {whole_digits} digits before the point",
    "default_factory_not_called": "has no default where something else is wrong",
    "deque_type": "must be a list",
    "dict_type": "must be a map",
    "ellipsis_error": "must be `...`",
    "enum": "must be {expected}",
    "extra_forbidden": "is not known here",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "fraction_parsing": "must be a fraction, such as 1/3",
    "fraction_type": "must be a fraction, such as 1/3",
    "frozen_dict_type": "must be a map",
    "frozen_field": "cannot be changed",
    "frozen_instance": "cannot be changed",
    "frozen_set_type": "must be a list of different values",
    "get_attribute_error": "cannot be read: {error}",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number of fewer digits",
    "int_type": "must be a whole number",
    "invalid_key": "must have texts as keys",
    "is_instance_of": "must be a {class}",
    "is_subclass_of": "must be a class derived from {class}",
    "iterable_type": "must be a list",
    "iteration_error": "cannot be gone through: {error}",
    "json_invalid": "must be JSON: {error}",
    "json_type": "must be JSON as a text",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "mapping_type": "must be a map",
    "missing": "is missing",
    "missing_argument": "is missing",
    "missing_keyword_only_argument": "is missing",
    "missing_positional_only_argument": "is missing",
    "missing_sentinel_error": "must be missing",
    "model_attributes_type": "must be a map",
    "model_type": "must be a map",
    "multiple_argument_values": "is given twice",
    "multiple_of": "must be a multiple of {multiple_of}",
    "named_tuple_type": "must be a list or a {class_name}",
    "needs_python_object": "must be an object of Python",
    "no_such_attribute": "has nothing called {attribute}",
    "none_required": "must be null",
    "ordered_dict_type": "must be a map",
    "recursion_depth_exceeded": "is nested too deeply",
    "recursion_loop": "contains itself",
    "set_item_not_hashable": "must be of simple values",
    "set_type": "must be a list of different values",
    "string_not_ascii": "must be of ASCII characters",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_long": "must be at most {max_length} characters long",
    "string_too_short": "must be at least {min_length} characters long",
    "string_type": "must be a text",
    "string_unicode": "must be a text",
    "time_delta_parsing": "must be a duration, such as PT30S",
    "time_delta_type": "must be a duration, such as PT30S",
    "time_parsing": "must be a time, such as 12:30",
    "time_type": "must be a time, such as 12:30",
    "timezone_aware": "must have a time zone",
    "timezone_naive": "must have no time zone",
    "timezone_offset": "must be of another time zone",
    "too_long": "must have at most {max_length} entries, not {actual_length}",
    "too_short": "must have at least {min_length} entries, not {actual_length}",
    "tuple_type": "must be a list",
    "unexpected_keyword_argument": "is not known here",
    "unexpected_positional_argument": "is one too many",
    "union_tag_invalid": "must have as {discriminator} one of {expected_tags}",
    "union_tag_not_found": "must say its {discriminator}",
    "url_parsing": "must be a URL",
    "url_scheme": "must be a URL that begins with {expected_schemes}",
    "url_syntax_violation": "must be a URL",
    "url_too_long": "must be a URL of at most {max_length} characters",
    "url_type": "must be a URL",
    "uuid_parsing": "must be a UUID",
    "uuid_type": "must be a UUID",
    "uuid_version": "must be a UUID of version {expected_version}",
    "value_error": "is not as it has to be: {error}",
}


class _FaultContext(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return f"its {key.replace('_', ' ')}"


def describe_requirement(fault: Mapping[str, Any], bounds: Bounds | None = None) -> str:
    """Return what a value has to be: `must be 0 to 1`, `must be a whole number`.

    Args:
        fault: The kind of fault and its context, as pydantic reports them: `type`, `ctx`, `msg`.
        bounds: All limits of a number, where they are known; else only the one that it oversteps.
    """
    kind, context = str(fault["type"]), _FaultContext(fault.get("ctx") or {})
    if kind in _BOUND_OF:
        bound = _BOUND_OF[kind]
        return f"must be {describe_range(bounds or {bound: context[bound]})}"
    if kind in ("value_error", "assertion_error"):
        return str(context["error"]) or "is not as it has to be"
    sentence = _SENTENCES.get(kind)
    return str(fault["msg"]) if sentence is None else sentence.format_map(context)


def describe_range(bounds: Bounds) -> str:
    """Return limits of a number in words: `0 to 1`, `more than 0`, `at least 1`."""
    low = _limit(bounds, "ge", "at least ") or _limit(bounds, "gt", "more than ")
    high = _limit(bounds, "le", "at most ") or _limit(bounds, "lt", "less than ")
    if set(bounds) == {"ge", "le"}:
        return f"{bounds['ge']:g} to {bounds['le']:g}"
    if set(bounds) == {"gt", "lt"}:
        return f"between {bounds['gt']:g} and {bounds['lt']:g}, and neither of them"
    return " and ".join(filter(None, (low, high)))


def _limit(bounds: Bounds, name: str, words: str) -> str:
    return f"{words}{bounds[name]:g}" if name in bounds else ""


def collect_bounds(annotation: object, fault: Mapping[str, Any]) -> Bounds | None:
    """Return all limits that stand beside the one a number oversteps, somewhere in the type of a field."""
    bound = _BOUND_OF.get(str(fault["type"]))
    if bound is None:
        return None
    limit = fault["ctx"][bound]
    return next((bounds for bounds in _all_bounds(annotation) if bounds.get(bound) == limit), None)


def _all_bounds(annotation: object) -> Iterator[dict[str, float]]:
    metadata = list(getattr(annotation, "__metadata__", ()))
    metadata += [inner for each in metadata for inner in getattr(each, "metadata", ())]
    if bounds := bounds_of(metadata):
        yield bounds
    for argument in get_args(annotation):
        yield from _all_bounds(argument)


def bounds_of(metadata: list[Any]) -> dict[str, float]:
    """Return the limits that the annotations of one type set."""
    return {
        name: value
        for name in _BOUNDS
        for each in metadata
        if (value := getattr(each, name, None)) is not None
    }
