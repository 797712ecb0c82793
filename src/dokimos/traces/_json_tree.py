"""JSON of unknown shape: maps, lists of maps, and values that are nested no deeper than spans may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dokimos.traces._span import MAX_DEPTH


def as_map(value: object) -> Mapping[str, Any]:
    """Return a value that is a map; an empty one in place of anything else."""
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def iterate_maps(value: object) -> Iterator[Mapping[str, Any]]:
    """Go through the maps of a list; nothing in place of anything else."""
    if isinstance(value, list):
        for each in value:
            # To ask for the type first takes a tenth of the time.
            if type(each) is dict or isinstance(each, Mapping):
                yield each


def to_plain(value: object, depth: int = 0) -> Any:
    """Return a value with its maps and sequences, of whatever type, as dicts and lists.

    What is nested deeper than `MAX_DEPTH` becomes null.
    """
    if depth > MAX_DEPTH:
        return None
    if type(value) is str:
        return value
    if isinstance(value, Mapping):
        return {str(key): to_plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [to_plain(each, depth + 1) for each in value]
    return value
