"""What the annotation of a parameter names, also where it is a text, in part or as a whole."""

from __future__ import annotations

import ast
import types
import typing
from collections.abc import Mapping
from typing import Any, Final

_UNIONS: Final = (typing.Union, types.UnionType)
_MAX_DEPTH: Final = 20
"""How deep the types of an annotation may be nested; a type that is defined by itself ends here."""


def annotation_names(
    annotation: object, target: type, names: frozenset[str], namespace: Mapping[str, Any]
) -> bool:
    """Say whether an annotation is `target` or a subclass of it, alone, generic, annotated or in a union.

    Args:
        annotation: A type, or the text of one.
        target: The type to look for.
        names: What it may be called where a text cannot be looked up, as under `TYPE_CHECKING`.
        namespace: Where a text is looked up.
    """
    return _Search(target, names, namespace).matches(annotation, 0)


class _Search:
    def __init__(self, target: type, names: frozenset[str], namespace: Mapping[str, Any]) -> None:
        self._target = target
        self._names = names
        self._namespace = namespace

    def matches(self, annotation: object, depth: int) -> bool:
        if depth > _MAX_DEPTH:
            return False
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", None)
        if isinstance(text, str):
            return self._text_matches(text, depth)
        if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
            return self._is_target(annotation)
        return any(self.matches(part, depth + 1) for part in _parts(annotation))

    def _is_target(self, kind: type) -> bool:
        try:
            return issubclass(kind, self._target)
        except TypeError:  # a class with a metaclass of its own
            return False

    def _text_matches(self, text: str, depth: int) -> bool:
        try:
            value = eval(text, dict(self._namespace))  # as typing.get_type_hints does, which needs all names
        except Exception:
            try:
                tree = ast.parse(text.strip(), mode="eval")
            except (SyntaxError, ValueError):
                return False
            return self._tree_matches(tree.body, depth + 1)
        return self.matches(value, depth + 1)

    def _tree_matches(self, node: ast.expr, depth: int) -> bool:
        """Look at a text that cannot be evaluated as a whole: at what its parts are, or are called."""
        match node:
            case ast.Constant(value=str() as text):
                return self.matches(text, depth + 1)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self.matches(ast.unparse(left), depth + 1) or self.matches(
                    ast.unparse(right), depth + 1
                )
            case ast.Subscript(value=value, slice=ast.Tuple(elts=parts)):
                return self._subscript_matches(value, parts, depth)
            case ast.Subscript(value=value, slice=part):
                return self._subscript_matches(value, [part], depth)
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return name in self._names
        return False

    def _subscript_matches(self, value: ast.expr, parts: list[ast.expr], depth: int) -> bool:
        name = ast.unparse(value).rpartition(".")[2]
        if name == "Annotated":
            parts = parts[:1]
        elif name not in ("Optional", "Union"):
            return self.matches(ast.unparse(value), depth + 1)
        return any(self.matches(ast.unparse(part), depth + 1) for part in parts)


def _parts(annotation: object) -> tuple[Any, ...]:
    """Return the types that a special form stands for: of `Annotated[T, ...]` and `Final[T]` that is T."""
    origin = typing.get_origin(annotation)
    if origin in _UNIONS:
        return typing.get_args(annotation)
    if origin is typing.Annotated or origin is typing.Final:
        return typing.get_args(annotation)[:1]
    if origin is not None:
        return (origin,)
    named = (getattr(annotation, name, None) for name in ("__value__", "__supertype__", "__bound__"))
    return tuple(part for part in named if part is not None)
