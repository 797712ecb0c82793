"""Values and JSON text as trees that can be compared exactly.

A tree is None, bool, int, Decimal, str, or a list or str-keyed dict of trees; it holds no binary floats.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Hashable, Mapping
from decimal import Decimal, DecimalException
from typing import Any, Final, Literal, TypeAlias

from dokimos._core.jsonable import MAX_DEPTH, is_wire_type, jsonable
from dokimos._core.text import quote, shorten

Tree: TypeAlias = Any
Mode: TypeAlias = Literal["strict", "lenient"]

_SCALARS: Final = frozenset((type(None), bool, str))


def parse_json(text: str) -> Tree:
    """Parse strict JSON with exact numbers.

    Raises:
        ValueError: for text that is not JSON, NaN and infinities, a key that occurs twice, or nesting
            deeper than 100 levels.
    """
    try:
        tree = json.loads(
            text,
            parse_int=Decimal,
            parse_float=Decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object,
        )
        return tree_of(tree)
    except DecimalException:
        raise ValueError("it holds a number that is out of range") from None
    except RecursionError:
        raise ValueError(_too_deep()) from None


def tree_of(value: Any, depth: int = 0) -> Tree:
    """Return any value as a tree; strings stay strings.

    Raises:
        ValueError: for a NaN or an infinity, or for nesting deeper than 100 levels.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is int:
        return value if value.bit_length() <= 64 else Decimal(value)  # longer ones may have no text form
    # Through repr: 0.1 is meant as the decimal 0.1, not as the binary fraction nearest to it.
    if isinstance(value, float | Decimal):
        return _exact_decimal(value)
    if depth >= MAX_DEPTH:
        raise ValueError(_too_deep())
    if isinstance(value, Mapping):
        return {_key(key): tree_of(item, depth + 1) for key, item in value.items()}
    # A named tuple is a record: its fields have names and no order.
    if isinstance(value, list | tuple) and not hasattr(value, "_asdict"):
        return [tree_of(item, depth + 1) for item in value]
    return _tree_of_other(value, depth)


def leaf_count(tree: Tree) -> int:
    """Count the leaves: scalars, and containers with nothing in them."""
    if not isinstance(tree, dict | list) or not tree:
        return 1
    return sum(leaf_count(child) for child in (tree.values() if isinstance(tree, dict) else tree))


def render_tree(tree: Tree, limit: int = 60) -> str:
    """Return a tree as JSON text for a reason."""
    return shorten(_render(tree), limit)


class Keys:
    """Numbers the trees that it sees, so that equal ones have equal numbers (hash consing).

    1 and 1.0 are equal, True and 1 are not; in lenient mode the order of arrays does not count. The trees
    must stay alive as long as this object, which knows containers again by their identity.
    """

    def __init__(self, mode: Mode = "strict") -> None:
        self._mode = mode
        self._numbers: dict[Hashable, int] = {}
        self._seen: dict[int, int] = {}

    def of(self, tree: Tree) -> int:
        if not isinstance(tree, dict | list):
            return self._numbers.setdefault(scalar_key(tree), len(self._numbers))
        if id(tree) not in self._seen:
            self._seen[id(tree)] = self._numbers.setdefault(self._shape(tree), len(self._numbers))
        return self._seen[id(tree)]

    def _shape(self, tree: dict[str, Tree] | list[Tree]) -> Hashable:
        if isinstance(tree, dict):
            return ("object", frozenset([(key, self.of(child)) for key, child in tree.items()]))
        children = [self.of(child) for child in tree]
        return ("array", tuple(children) if self._mode == "strict" else frozenset(Counter(children).items()))


def scalar_key(tree: Tree) -> Hashable:
    """Return what equal scalars share: numbers compare by value, and a bool is not a number."""
    # With the kind, since True == 1 in Python and both have the same hash.
    return ("number" if _is_number(tree) else type(tree).__name__, tree)


def identity_key(value: object) -> Hashable:
    """Return what equal values share, for sets: True and 1 are different, NaN equals itself."""
    try:
        return _hashable(tree_of(value))
    except ValueError:
        return ("text", json.dumps(jsonable(value), sort_keys=True))


def _hashable(tree: Tree) -> Hashable:
    if isinstance(tree, dict):
        return ("object", frozenset([(key, _hashable(child)) for key, child in tree.items()]))
    if isinstance(tree, list):
        return ("array", tuple([_hashable(child) for child in tree]))
    return scalar_key(tree)


def _exact_decimal(value: float | Decimal) -> Decimal:
    number = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    if not number.is_finite():
        raise ValueError(f"it holds {value}, a non-finite number")
    return number


def _tree_of_other(value: object, depth: int) -> Tree:
    # Ours have a JSON form of their own, which `jsonable` knows.
    if dataclasses.is_dataclass(value) and not is_wire_type(type(value)) and not isinstance(value, type):
        return tree_of({f.name: getattr(value, f.name) for f in dataclasses.fields(value)}, depth)
    dump = getattr(value, "model_dump", None) or getattr(value, "_asdict", None)
    simple = dump() if callable(dump) and not isinstance(value, type) else jsonable(value)
    return tree_of(simple, depth if type(simple) is not type(value) else depth + 1)


def _key(key: object) -> str:
    return key if type(key) is str else next(iter(jsonable({key: None})))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {quote(twice)} occurs twice in one object")
    return members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"it holds {name}, a non-finite number")


def _is_number(tree: Tree) -> bool:
    return isinstance(tree, int | Decimal) and not isinstance(tree, bool)


def _render(tree: Tree) -> str:
    if isinstance(tree, dict):
        return "{" + ", ".join([f"{_render(key)}: {_render(child)}" for key, child in tree.items()]) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join([_render(child) for child in tree]) + "]"
    return str(tree) if isinstance(tree, Decimal) else json.dumps(tree, ensure_ascii=False)


def _too_deep() -> str:
    return f"it is nested deeper than {MAX_DEPTH} levels"
