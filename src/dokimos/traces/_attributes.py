"""Parses values of attributes: JSON text, structures, and structures flattened into dotted keys."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias

from dokimos._core.json_object import parse_if_container

Attributes = Mapping[str, Any]

MAX_LITERAL: Final = 100_000
"""Python's own literals are slow to read; longer text than this is not the arguments of a tool."""
MAX_PATH: Final = 32
"""Keys with more steps than this below their prefix belong to no convention, and are ignored."""
_MAX_CACHED_KEY: Final = 256
"""How long a key may be whose path is kept."""
MAX_DIGITS: Final = 9
"""Longer numbers than this are names, not indexes of a list."""


def first_value(attributes: Attributes, keys: Iterable[str]) -> Any:
    """Return the value of the first key that has one; empty text, empty lists and None do not count."""
    for key in keys:
        value = attributes.get(key)
        if value or value in (0, {}):
            return value
    return None


def parse_literal(value: object) -> Any:
    """Parse text as `parse_if_container` does, and also maps as Python prints them, such as `{'a': True}`."""
    value = parse_if_container(value)
    if type(value) is not str or len(value) > MAX_LITERAL or not value.startswith("{'"):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return value


FlatKey: TypeAlias = tuple[str, tuple[str, ...]]
"""The prefix of a flattened structure, and the path below it."""
_Pairs: TypeAlias = list[tuple[tuple[str, ...], Any]]
"""Paths below a prefix, with their values."""


@dataclass(slots=True)
class UnflattenCache:
    """Caches the structures built last, by prefix: what spans repeat is built only once."""

    pairs: dict[str, _Pairs] = field(default_factory=dict)
    trees: dict[str, Any] = field(default_factory=dict)

    def tree(self, prefix: str, pairs: _Pairs) -> Any:
        """Return the structure of the pairs; a cached list grows at its end."""
        rest = self._find_new_pairs(prefix, pairs)
        tree = _build_tree(pairs) if rest is None else self.trees[prefix]
        if rest:
            tree = [*tree, *_build_tree(rest)]
        self.pairs[prefix], self.trees[prefix] = pairs, tree
        return tree

    def _find_new_pairs(self, prefix: str, pairs: _Pairs) -> _Pairs | None:
        """Return the pairs after those of the cached list; None if they do more than extend it."""
        previous = self.pairs.get(prefix)
        if previous is None or pairs[: len(previous)] != previous:
            return None
        rest = pairs[len(previous) :]
        if not rest:
            return rest
        if not all(_is_index(path[0]) for path, _ in (*previous, *rest)):
            return None
        highest = max(int(path[0]) for path, _ in previous)
        return rest if min(int(path[0]) for path, _ in rest) > highest else None


def unflatten(
    attributes: Attributes,
    flat_keys: Iterable[tuple[str, FlatKey]],
    cache: UnflattenCache | None = None,
) -> dict[str, Any]:
    """Rebuild, by prefix, the structure that was flattened: `a.0.b = 1` is `{"a.": [{"b": 1}]}`.

    `flat_keys` are the keys to look at, as `find_flat_keys` returns them.
    """
    by_prefix: dict[str, _Pairs] = {}
    for key, (prefix, path) in flat_keys:
        pairs = by_prefix.get(prefix)
        if pairs is None:
            pairs = by_prefix[prefix] = []
        pairs.append((path, attributes[key]))
    cache = UnflattenCache() if cache is None else cache
    return {prefix: cache.tree(prefix, pairs) for prefix, pairs in by_prefix.items()}


def find_flat_keys(keys: Iterable[str], pattern: re.Pattern[str]) -> tuple[tuple[str, FlatKey], ...]:
    """Return the keys of flattened structures; `pattern` matches their prefixes, the last dot included."""
    return tuple((key, split) for key in keys if (split := _split_key(key, pattern)) is not None)


def _split_key(key: str, pattern: re.Pattern[str]) -> FlatKey | None:
    return _split(key, pattern) if len(key) <= _MAX_CACHED_KEY else _split.__wrapped__(key, pattern)


@lru_cache(maxsize=16_384)  # all spans of an instrumentation have the same keys
def _split(key: str, pattern: re.Pattern[str]) -> FlatKey | None:
    match = pattern.match(key)
    if match is None:
        return None
    path = tuple(key[match.end() :].split("."))
    return None if len(path) > MAX_PATH else (match[0], path)


def _is_index(step: str) -> bool:
    return step.isdecimal() and len(step) <= MAX_DIGITS


def _build_tree(pairs: _Pairs) -> Any:
    tree: dict[str, Any] = {}
    for path, value in pairs:
        _insert(tree, path, value)
    return _to_lists(tree)


def _insert(tree: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    for step in path[:-1]:
        below = tree.get(step)
        if type(below) is not dict:
            below = tree[step] = {}
        tree = below
    last = path[-1]
    # Where both `a` and `a.b` were recorded, the structure says more.
    if type(tree.get(last)) is not dict:
        tree[last] = value


def _to_lists(node: dict[str, Any]) -> Any:
    """Convert maps whose keys are all numbers to lists; missing indexes are skipped."""
    for key, value in node.items():
        if type(value) is dict:
            node[key] = _to_lists(value)
    if node and all(map(_is_index, node)):
        return [node[key] for key in sorted(node, key=int)]
    return node
