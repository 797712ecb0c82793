"""Values of attributes: JSON text, structures, and structures that were flattened into dotted keys."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias

from dokimos.core.json_object import structured

Attributes = Mapping[str, Any]

MAX_LITERAL: Final = 100_000
"""Python's own literals are slow to read; longer text than this is no tool's arguments."""
MAX_PATH: Final = 32
"""Keys with more steps than this below their prefix are no convention's, and are left out."""
MAX_DIGITS: Final = 9
"""Longer numbers than this are names, not places in a list."""


def first(attributes: Attributes, keys: Iterable[str]) -> Any:
    """Return the value of the first key that has one; empty text, empty lists and None are none."""
    for key in keys:
        value = attributes.get(key)
        if value or value in (0, {}):
            return value
    return None


def literal(value: Any) -> Any:
    """Return text as `structured` does, also where it is how Python prints a map, such as `{'a': True}`."""
    value = structured(value)
    if type(value) is not str or len(value) > MAX_LITERAL or not value.startswith("{'"):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return value


_Pairs: TypeAlias = list[tuple[tuple[str, ...], Any]]
"""Paths below a prefix, and what is there."""


@dataclass(slots=True)
class FlatMemory:
    """What was put together last, by prefix: what spans repeat is put together only once."""

    pairs: dict[str, _Pairs] = field(default_factory=dict)
    trees: dict[str, Any] = field(default_factory=dict)

    def tree(self, prefix: str, pairs: _Pairs) -> Any:
        """Return what the pairs make; a list that is known grows at its end."""
        rest = self._new_places(prefix, pairs)
        tree = _put_together(pairs) if rest is None else self.trees[prefix]
        if rest:
            tree = [*tree, *_put_together(rest)]
        self.pairs[prefix], self.trees[prefix] = pairs, tree
        return tree

    def _new_places(self, prefix: str, pairs: _Pairs) -> _Pairs | None:
        """Return the pairs after those of the known list, None if they do not only add places to it."""
        known = self.pairs.get(prefix)
        if known is None or pairs[: len(known)] != known:
            return None
        rest = pairs[len(known) :]
        if not rest:
            return rest
        if not all(_is_place(path[0]) for path, _ in (*known, *rest)):
            return None
        highest = max(int(path[0]) for path, _ in known)
        return rest if min(int(path[0]) for path, _ in rest) > highest else None


def unflattened(
    attributes: Attributes, pattern: re.Pattern[str], memory: FlatMemory | None = None
) -> dict[str, Any]:
    """Return, by prefix, what was flattened below it: `a.0.b = 1` is `{"a.": [{"b": 1}]}`.

    `pattern` matches the prefixes, the last dot included.
    """
    found: dict[str, _Pairs] = {}
    for key, value in attributes.items():
        split = _split(key, pattern)
        if split is not None:
            pairs = found.get(split[0])
            if pairs is None:
                pairs = found[split[0]] = []
            pairs.append((split[1], value))
    memory = FlatMemory() if memory is None else memory
    return {prefix: memory.tree(prefix, pairs) for prefix, pairs in found.items()}


@lru_cache(maxsize=16_384)  # all spans of an instrumentation have the same keys
def _split(key: str, pattern: re.Pattern[str]) -> tuple[str, tuple[str, ...]] | None:
    found = pattern.match(key)
    if found is None:
        return None
    path = tuple(key[found.end() :].split("."))
    return None if len(path) > MAX_PATH else (found[0], path)


def _is_place(step: str) -> bool:
    return step.isdecimal() and len(step) <= MAX_DIGITS


def _put_together(pairs: _Pairs) -> Any:
    tree: dict[str, Any] = {}
    for path, value in pairs:
        _insert(tree, path, value)
    return _listed(tree)


def _insert(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for step in path[:-1]:
        below = tree.get(step)
        if type(below) is not dict:
            below = tree[step] = {}
        tree = below
    last = path[-1]
    if type(tree.get(last)) is not dict:
        tree[last] = value


def _listed(node: dict[str, Any]) -> Any:
    """Make lists of maps whose keys are all numbers; places that are missing are closed up."""
    for key, value in node.items():
        if type(value) is dict:
            node[key] = _listed(value)
    if node and all(map(_is_place, node)):
        return [node[key] for key in sorted(node, key=int)]
    return node
