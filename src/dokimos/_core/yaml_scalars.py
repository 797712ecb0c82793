"""YAML 1.2 by its core schema, on top of a library that resolves scalars as YAML 1.1 does."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import cache
from itertools import accumulate
from typing import Any, Final, cast

_TAG: Final = "tag:yaml.org,2002:"
BOOL, FLOAT, INT, MERGE, NULL, STR = (
    _TAG + name for name in ("bool", "float", "int", "merge", "null", "str")
)

# The core schema, https://yaml.org/spec/1.2.2/#103-core-schema, as one expression.
_CORE: Final = re.compile(
    r"""(?P<null>~|null|Null|NULL|)
    |(?P<bool>true|True|TRUE|false|False|FALSE)
    |(?P<decimal>[-+]?[0-9]+)
    |(?P<octal>0o[0-7]+)
    |(?P<hexadecimal>0x[0-9a-fA-F]+)
    |(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)
    |(?P<infinity>[-+]?\.(?:inf|Inf|INF))
    |(?P<nan>\.(?:nan|NaN|NAN))""",
    re.VERBOSE,
)
CORE_TAGS: Final = frozenset({BOOL, FLOAT, INT, NULL, STR})
_NUMBER_FIRST: Final = frozenset("-+.0123456789")
"""What a number begins with."""
_KINDS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "null": (NULL, lambda text: None),
    "bool": (BOOL, lambda text: text in ("true", "True", "TRUE")),
    "decimal": (INT, int),
    "octal": (INT, lambda text: int(text[2:], 8)),
    "hexadecimal": (INT, lambda text: int(text[2:], 16)),
    "float": (FLOAT, float),
    "infinity": (FLOAT, lambda text: float(text.replace(".", ""))),
    "nan": (FLOAT, lambda text: float("nan")),
}
_BOOLEAN_WORDS: Final = {
    **dict.fromkeys(("yes", "on", "true"), True),
    **dict.fromkeys(("no", "off", "false"), False),
}
_OLD: Final = re.compile(
    r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF"
    r"|[-+]?0[0-9_]+|[-+]?0b[01_]+|[-+]?0x[0-9a-fA-F_]+"
    r"|[-+]?[0-9.][0-9._]*_[0-9._]*(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"
)
"""What YAML 1.1 reads otherwise, and little else."""
MOST_LEVELS: Final = 1000
_BRACKET: Final = re.compile(r"[\[\]{}]")
_DASHES: Final = re.compile(rf"(?:[-?] +){{{MOST_LEVELS}}}")


def read_scalar(text: str) -> Any:
    """Return what a scalar without quotes is: None, a bool, an int, a float, or else the text.

    Raises:
        ValueError: for a number of more digits than Python reads.
    """
    kind = _kind_of(text)
    return text if kind is None else _KINDS[kind][1](text)


def read_boolean(value: object) -> Any:
    """Return a bool for a text such as `no` or `On`, which a field that is boolean takes; else the value."""
    return _BOOLEAN_WORDS.get(value.lower(), value) if isinstance(value, str) else value


def read_scalar_1_1(text: str, value: object) -> Any:
    """Return what YAML 1.1 makes of a scalar without quotes that YAML 1.2 reads as `value`.

    That is `value` itself where both agree, and where only 1.2 has a number (`1e-6`).
    """
    if not _OLD.fullmatch(text):
        return value
    import yaml

    loader = yaml.SafeLoader("")
    tag = cast("Any", loader).resolve(yaml.ScalarNode, text, (True, False))
    if tag not in (BOOL, INT, FLOAT):
        return text if type(value) is int else value  # 018 is neither octal nor decimal there
    return loader.construct_object(yaml.ScalarNode(tag, text))


def load_yaml(text: str, *, texts: Collection[str] = ()) -> Any:
    """Return the value of a YAML document; below the top-level keys `texts` scalars stay as written.

    Raises:
        yaml.YAMLError: for text that is not YAML.
        ValueError: for a scalar that cannot be read, or half a character.
    """
    loader = make_loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        for key, value in node.value if node.id == "mapping" else ():
            if key.value in texts and value.id == "scalar" and value.tag != NULL:
                value.tag = STR
        return loader.construct_document(node)
    finally:
        loader.dispose()


def make_loader(text: str) -> Any:
    """Return a PyYAML loader of a text: the one in C where there is one.

    Raises:
        yaml.YAMLError: for text that is nested so deeply that the loader in C would end the process.
    """
    if _may_be_deep(text):
        _refuse_deep(text)
    return _loader_class()(text)


def _may_be_deep(text: str) -> bool:
    """Whether brackets or dashes open so many levels, if none of them is inside a text."""
    levels = accumulate(1 if mark in "[{" else -1 for mark in _BRACKET.findall(text))
    return max(levels, default=0) > MOST_LEVELS or _DASHES.search(text) is not None


def _refuse_deep(text: str) -> None:
    import yaml

    loader, level = _loader_class()(text), 0
    try:
        while loader.check_event():
            event = loader.get_event()
            level += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if level > MOST_LEVELS:
                raise yaml.MarkedYAMLError(problem="it is nested too deeply", problem_mark=event.start_mark)
    finally:
        loader.dispose()


def read_tagged(tag: str, text: str) -> Any:
    """Return a scalar of one of the core schema's tags, whether it was given or found.

    Raises:
        ValueError: for a text that is not such a scalar, such as `!!int abc`.
    """
    if tag == STR:
        return text
    value = read_scalar(text)
    kind = type(value)
    if tag == FLOAT and kind is int:
        return float(value)
    if _TYPES[tag] is not kind:
        raise ValueError(f"this is not a value of the type {tag.removeprefix(_TAG)}")
    return value


_TYPES: Final = {NULL: type(None), BOOL: bool, INT: int, FLOAT: float}


def _tag_of(text: str) -> str:
    kind = _kind_of(text)
    if kind is not None:
        return _KINDS[kind][0]
    # Not of the core schema, and in everybody's files; where it is not a key it is text.
    return MERGE if text == "<<" else STR


def _kind_of(text: str) -> str | None:
    """Return which part of the core schema a scalar belongs to, None for a text."""
    if text[:1] not in _NUMBER_FIRST:
        return _KIND_OF_WORD.get(text)
    match = _CORE.fullmatch(text)
    return None if match is None else match.lastgroup


_KIND_OF_WORD: Final = {
    word: found.lastgroup
    for name in ("", "~", "null", "true", "false")
    for word in (name, name.capitalize(), name.upper())
    if (found := _CORE.fullmatch(word))
}
"""The words of the core schema, so that most texts need no search."""


@cache
def _loader_class() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", None) or _python_loader()

    class Loader(base):  # type: ignore[misc] # the C loader is there or not
        def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
            if kind is yaml.ScalarNode:
                return _tag_of(value) if implicit[0] else STR
            return _TAG + ("seq" if kind is yaml.SequenceNode else "map")

    # A subclass has its own table of constructors: PyYAML's SafeLoader stays as the application knows it.
    for tag in _TYPES:
        Loader.add_constructor(tag, lambda loader, node: _construct(node))
    Loader.add_constructor(MERGE, lambda loader, node: node.value)
    return Loader


def _construct(node: Any) -> Any:
    from yaml.constructor import ConstructorError

    try:
        return read_tagged(node.tag, node.value)
    except ValueError as error:
        raise ConstructorError(None, None, f"{node.value!r:.80}: {error}", node.start_mark) from None


def _python_loader() -> Any:
    """Return the loader in Python, but let `?` stand inside a text in a flow list, as the one in C does."""
    import yaml

    class Loader(yaml.SafeLoader):
        _in_plain = False

        def scan_plain(self) -> Any:
            self._in_plain = True
            try:
                return super().scan_plain()
            finally:
                self._in_plain = False

        def peek(self, index: int = 0) -> str:
            char: str = super().peek(index)
            return "x" if char == "?" and self._in_plain else char

    return Loader


@cache
def dumper_class() -> Any:
    """Return a dumper of PyYAML that puts quotes around each text that YAML 1.1 or 1.2 reads otherwise.

    What occurs twice is written in full both times.
    """
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True

    Dumper.add_implicit_resolver(
        FLOAT, re.compile(f"(?:{_CORE.pattern})$", re.VERBOSE), [*_NUMBER_FIRST, *"~nNtTfF"]
    )
    return Dumper
