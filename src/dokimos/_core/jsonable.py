"""Any value as a JSON tree: for judges, structural comparison, journals and exports."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from json.encoder import encode_basestring as _quoted
from operator import attrgetter
from typing import Any, Final, TypeAlias

JsonValue: TypeAlias = Any
"""None, bool, int, finite float, str, or a list or str-keyed dict of these."""

MAX_DEPTH: Final = 100
MAX_BITS: Final = 13_000
"""Python refuses to write and to read much larger numbers as decimal text."""

TEXTS_OF_DOCUMENTS: Final = ("page_content", "text", "content")
"""Where frameworks keep the text of a retrieved document."""
IDS_OF_DOCUMENTS: Final = ("id", "id_", "node_id", "doc_id")
_ABOUT_DOCUMENTS: Final = (("id", IDS_OF_DOCUMENTS, (str, int)), ("metadata", ("metadata",), Mapping))
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_Path: TypeAlias = tuple[int, ...]
"""The identities of the containers that a value is in, to know a cycle from a repetition."""


@cache
def camel_case(name: str) -> str:
    """Turn `expected_outputs` into `expectedOutputs`."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


WIRE_CONFIG: Final[Any] = {
    "alias_generator": camel_case,
    "validate_by_name": True,
    "validate_by_alias": True,
    "extra": "ignore",
}
"""The `__pydantic_config__` of our own value types: it marks them and gives them camelCase on the wire."""


def jsonable(value: Any, _path: _Path = ()) -> JsonValue:
    """Return `value` as a tree that `json.dumps(..., allow_nan=False)` accepts.

    Our own types get their wire form (camelCase, defaults left out); dataclasses, pydantic models, named
    tuples and objects with `to_dict` become objects under their own field names; enums their value; dates
    ISO 8601; bytes a `data:` URI; NaN and infinities the strings "NaN", "Infinity" and "-Infinity"; two
    surrogates that belong together their character, while a lone one stays; integers of more than 13,000
    bits hexadecimal text; sets a list in a stable order; documents without a `str` of their own a map of
    their `text` and `id`; anything else its `str`. A value that contains itself, or is nested deeper than 100
    levels, is cut with "...".
    """
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _with_whole_characters(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if value.bit_length() <= MAX_BITS else hex(value)
    if kind is float:
        return value if math.isfinite(value) else _non_finite(value)
    return _from_container(value, kind, _path)


def _from_container(value: Any, kind: type, path: _Path) -> JsonValue:
    if len(path) >= MAX_DEPTH or id(value) in path:
        return "..."
    path = (*path, id(value))
    if kind is dict:
        return {_key(k): jsonable(v, path) for k, v in value.items()}
    if kind is list or kind is tuple:
        return [jsonable(item, path) for item in value]
    if is_wire_type(kind):
        return wire_object(value, path)
    return _from_other(value, path)


def text_form(value: object) -> str | None:
    """Return the text in which values are compared: strings verbatim, None as None, the rest compact JSON."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)  # an enum's own `str` would give its name
    return compact_json(jsonable(value))


def compact_json(tree: JsonValue) -> str:
    """Return a tree that `jsonable` gave as JSON text without blanks."""
    return with_escapes(_slow_encode(tree) if _encode is None else "".join(_encode(tree, 0)))


def pretty_json(tree: JsonValue, margin: str = "\n") -> str:
    """Return a tree that `jsonable` gave as JSON text of two blanks for each level.

    That is `json.dumps(tree, ensure_ascii=False, indent=2)`, which builds its encoder for indented text anew
    for each call, of functions in a cycle: for a small map that takes ten times as long, and the collector
    has more to do.

    Args:
        tree: What to write.
        margin: What begins a line at the level of the tree itself.
    """
    kind = type(tree)
    encode_leaf = _LEAVES.get(kind)
    if encode_leaf is not None:
        return encode_leaf(tree)
    inner = margin + "  "
    if kind is dict and tree:
        lines = [f"{inner}{_quoted(key)}: {pretty_json(each, inner)}" for key, each in tree.items()]
        return f"{{{','.join(lines)}{margin}}}"
    if kind is list and tree:
        lines = [f"{inner}{pretty_json(each, inner)}" for each in tree]
        return f"[{','.join(lines)}{margin}]"
    return _slow_encode(tree)


_LEAVES: Final[dict[type, Callable[[Any], str]]] = {str: _quoted, int: int.__repr__, float: float.__repr__}


def with_escapes(json_text: str) -> str:
    """Return JSON text in which lone surrogates are escapes, so that it can be encoded and reads back."""
    if json_text.isascii() or _SURROGATE.search(json_text) is None:
        return json_text
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", json_text)


# CPython's own encoder, made once: json.dumps makes a new one for every call.
_make_encoder: Callable[..., Callable[[JsonValue, int], tuple[str, ...]]] | None = getattr(
    json.encoder, "c_make_encoder", None
)
_slow_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_encode: Final = (
    _make_encoder(None, jsonable, _quoted, None, ":", ",", False, False, False) if _make_encoder else None
)


def is_wire_type(kind: type) -> bool:
    """Say whether `kind` is one of our own value types, with a wire form of its own."""
    return kind.__dict__.get("__pydantic_config__") is WIRE_CONFIG


@cache
def wire_fields(kind: type) -> tuple[tuple[str, str, Any], ...]:
    """Return (attribute, wire name, default) of each field of a value type."""
    return tuple((f.name, camel_case(f.name), _default(f)) for f in dataclasses.fields(kind))


@cache
def _wire_plan(kind: type) -> tuple[Callable[[Any], tuple[Any, ...]], tuple[tuple[str, Any], ...]]:
    """Return what reads all fields of a value type at once, and their wire names and defaults."""
    names, wire_names, defaults = zip(*wire_fields(kind), strict=True)
    read = attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)
    return read, tuple(zip(wire_names, defaults, strict=True))


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def wire_object(value: object, path: _Path = ()) -> dict[str, JsonValue]:
    """Return what `jsonable` returns for one of our own value types."""
    tree: dict[str, JsonValue] = {}
    for wire_name, content in wire_members(value):
        kind = type(content)
        if kind is str:
            plain = content.isascii()
        else:
            plain = kind is bool or (kind is float and -math.inf < content < math.inf)
        tree[wire_name] = content if plain else jsonable(content, path)
    return tree


def wire_members(value: object) -> Iterator[tuple[str, Any]]:
    """Yield wire name and content of each field that does not have its default."""
    kind: Any = type(value)
    read, plan = _wire_plan(kind)
    for (wire_name, default), content in zip(plan, read(value), strict=True):
        # An unequal type is not the default: 1.0 must not pass for True.
        if not (content is default or (type(content) is type(default) and content == default)):
            yield wire_name, content


def wire_json(value: object) -> str:
    """Return what `compact_json` makes of one of our own value types, in a quarter of the time."""
    kind: Any = type(value)
    return wire_writer(kind)(value)


@cache
def wire_writer(kind: type) -> Callable[[Any], str]:
    """Compile what writes a value type: each field is looked at once, and no tree is built."""
    namespace: dict[str, Any] = {
        "_quoted": _quoted, "_leaf": leaf_json, "_map": map_json, "_inf": math.inf, "_large": 1 << MAX_BITS,
        "__name__": __name__,
    }  # fmt: skip
    declared = {field.name: str(field.type) for field in dataclasses.fields(kind)}
    lines = ["def write(value):", " text = ''"]
    for place, (name, wire_name, default) in enumerate(wire_fields(kind)):
        namespace[f"default{place}"], namespace[f"kind{place}"] = default, type(default)
        text = f'{{text}},"{wire_name}":'  # what is there already, and the key
        lines += [
            f" content = value.{name}",
            f" if {_differs_from(default, place)}:",
            "  kind = type(content)",
        ]
        test = "if"
        for condition, written in _leaves_of(declared[name]):
            lines += [f"  {test} {condition}:", f"   text = f'{text}{{{written}}}'"]
            test = "elif"
        lines += ["  else:", f"   text = f'{text}{{_leaf(content)}}'"]
    exec("\n".join([*lines, " return '{' + text[1:] + '}'"]), namespace)
    writer: Callable[[Any], str] = namespace["write"]
    return writer


_PLAIN_LEAVES: Final = {
    "str": ("kind is str and content.isascii()", "_quoted(content)"),
    "float": ("kind is float and -_inf < content < _inf", "content!r"),
    "bool": ("kind is bool", '"true" if content else "false"'),
    "int": ("kind is int and -_large < content < _large", "content"),
}
"""When a field's content is of a plain type, and what writes it."""


def _leaves_of(declared: str) -> list[tuple[str, str]]:
    """Return the plain types, those that a field is declared with first."""
    if declared.startswith("Mapping"):
        return [("kind is dict", "_map(content)")]
    names = sorted(_PLAIN_LEAVES, key=lambda name: not declared.startswith(name))
    return [_PLAIN_LEAVES[name] for name in names]


def _differs_from(default: object, place: int) -> str:
    """Return the quickest expression that says whether `content` is not the default of its field."""
    if default is dataclasses.MISSING:
        return "True"
    if default is None or isinstance(default, bool):
        return f"content is not {default}"
    if not default:  # an empty text or container
        return f"type(content) is not kind{place} or content"
    return f"type(content) is not kind{place} or content != default{place}"


def leaf_json(content: Any) -> str:
    """Return `compact_json(jsonable(content))`, of our own value types and tuples of them much faster."""
    kind: Any = type(content)
    if is_wire_type(kind):
        return wire_writer(kind)(content)
    if kind is tuple and content and is_wire_type(type(content[0])):
        return f"[{','.join(map(leaf_json, content))}]"
    return map_json(content)


def map_json(value: object) -> str:
    """Return `compact_json(jsonable(value))`, of a map of one text, as most outputs are, much faster."""
    if type(value) is dict and len(value) == 1:
        ((key, text),) = value.items()
        if type(key) is str is type(text) and key.isascii() and text.isascii():
            return f"{{{_quoted(key)}:{_quoted(text)}}}"
    return compact_json(jsonable(value))


def _key(key: object) -> str:
    if type(key) is str and key.isascii():
        return key
    content = jsonable(key)
    return content if isinstance(content, str) else compact_json(content)


def _with_whole_characters(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        # A pair of escaped halves is one character; a half without its partner stays what it is.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return text


def _non_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _from_other(value: object, path: _Path) -> JsonValue:
    for types, convert in _CONVERSIONS:
        if isinstance(value, types):
            return convert(value, path)
    if isinstance(value, type):
        return str(value)
    if dataclasses.is_dataclass(value):
        return {f.name: jsonable(getattr(value, f.name), path) for f in dataclasses.fields(value)}
    return _from_object(value, path)


def _from_object(value: object, path: _Path) -> JsonValue:
    """Ask an object of somebody else's for its content; code of theirs that raises must not stop us."""
    for method in ("model_dump", "to_dict", "tolist"):
        try:
            content = getattr(value, method)()
        except Exception:
            continue
        return jsonable(content, path)
    return _document(value, path) or _with_whole_characters(_text_of(value))


def _document(value: object, path: _Path) -> dict[str, JsonValue] | None:
    """Return the text, the id and the metadata of a retrieved document, None for other objects.

    Evaluators read the text from the object: those of a resumed run must find the same. A `__repr__` is for
    developers and no text; a class that has a `__str__` is what that says, unless it has a `page_content`.
    """
    has_text = type(value).__str__ is not object.__str__
    text = _first_of(value, TEXTS_OF_DOCUMENTS[:1] if has_text else TEXTS_OF_DOCUMENTS, str)
    if text is None:
        return None
    parts = {key: _first_of(value, names, types) for key, names, types in _ABOUT_DOCUMENTS}
    about = {key: jsonable(content, path) for key, content in parts.items() if content not in (None, {})}
    return {"text": jsonable(text), **about}


def _first_of(value: object, names: Sequence[str], types: type | tuple[type, ...]) -> Any:
    for name in names:
        try:
            content = getattr(value, name)
        except Exception:
            continue
        if isinstance(content, types):
            return content
    return None


def _text_of(value: object) -> str:
    kind = type(value)
    anonymous = f"<{kind.__module__}.{kind.__qualname__} object>"
    if (kind.__str__, kind.__repr__) == (object.__str__, object.__repr__):
        return anonymous  # without its address, which never repeats
    try:
        return str(value)
    except Exception:
        return anonymous


def _mapping(value: Mapping[Any, Any], path: _Path) -> JsonValue:
    return {_key(k): jsonable(v, path) for k, v in value.items()}


def _sequence(value: Iterable[Any], path: _Path) -> JsonValue:
    if hasattr(value, "_asdict"):
        return _mapping(value._asdict(), path)
    return [jsonable(item, path) for item in value]


def _set(value: Set[Any], path: _Path) -> JsonValue:
    return sorted((jsonable(item, path) for item in value), key=lambda item: json.dumps(item, sort_keys=True))


def _bytes(value: bytes | bytearray | memoryview, path: _Path) -> JsonValue:
    return "data:;base64," + base64.b64encode(value).decode("ascii")


_CONVERSIONS: tuple[tuple[Any, Callable[[Any, _Path], JsonValue]], ...] = (
    (enum.Enum, lambda value, path: jsonable(value.value, path)),
    (str, lambda value, path: jsonable(str.__str__(value))),
    (int, lambda value, path: jsonable(int(value))),
    (float, lambda value, path: jsonable(float(value))),
    ((bytes, bytearray, memoryview), _bytes),
    (Mapping, _mapping),
    (Sequence, _sequence),
    (Set, _set),
    ((datetime.datetime, datetime.date, datetime.time), lambda value, path: value.isoformat()),
)
