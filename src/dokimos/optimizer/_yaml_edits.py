"""Values changed inside the text of a YAML file; all the rest of it stays as it is, to the byte.

ruamel.yaml reads the file and writes each new value, which replaces what stands between the marks of the old
one. It does not write the whole file: of the 668 values in the YAML files of this repository, its round trip
left all the rest of the file as it was for 454 with the indentation detected, and for one with its defaults.
What it changes are line breaks inside plain text, aligned values and comments, and spaces between brackets.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from io import StringIO
from typing import Any, Final

from dokimos._core.extras import require
from dokimos._core.yaml_scalars import STR, read_scalar
from dokimos.errors import ConfigurationError
from dokimos.suites._problems import Steps, format_path

EXTRA: Final = "optimize"
_HEADER: Final = re.compile(r"[|>][-+0-9]*([ \t]+#[^\r\n]*)?")
"""How a block of text begins, and the comment behind it."""


def format_scalar(text: str, steps: Steps) -> str | None:
    """Return a scalar as it is written, with its variables; None where there is none."""
    node, _ = _find_node(text, steps)
    return str(node.value) if node is not None and node.id == "scalar" else None


def edit_yaml(text: str, changes: Mapping[Steps, Any]) -> str:
    """Return a file with some values changed, or added to a map that is there.

    Raises:
        ConfigurationError: where a value stands in no place of its own, such as behind an alias.
        MissingExtraError: where ruamel.yaml is not installed.
    """
    splices = sorted((_splice(text, steps, value) for steps, value in changes.items()), reverse=True)
    for start, end, new in splices:
        text = text[:start] + new + text[end:]
    return text


def _splice(text: str, steps: Steps, value: Any) -> tuple[int, int, str]:
    node, parent = _find_node(text, steps)
    if node is None:
        return _insertion(text, parent, steps, value)
    start, end = node.start_mark.index, node.end_mark.index
    if start == end:
        raise ConfigurationError(f"{format_path(steps)} has no value in this file; write null for it.")
    end = start + len(text[start:end].rstrip())
    header = _HEADER.match(text, start) if node.id == "scalar" and node.style in ("|", ">") else None
    is_wanted = isinstance(value, str) and (header is not None or "\n" in value.rstrip("\n"))
    is_last = not text[end:].partition("\n")[0].strip()
    in_map = parent is not None and parent.id == "mapping" and not parent.flow_style
    block = _block(text, parent, value, header) if is_wanted and is_last and in_map else None
    anchor = f"&{node.anchor} " if node.anchor else ""
    return start, end, anchor + (block or _entry("k", value).removeprefix("k: "))


def _find_node(text: str, steps: Steps) -> tuple[Any, Any]:
    """Return the node at some steps, None where only its key is missing, and the one around it."""
    node = _compose(text)
    parent: Any = None
    for index, step in enumerate(steps):
        parent = node
        node, earliest = _child(parent, step)
        if node is None and index < len(steps) - 1:
            raise ConfigurationError(f"{format_path(steps[: index + 1])} is not in this file.")
        if node is not None and node.start_mark.index < earliest:
            raise ConfigurationError(
                f"{format_path(steps)} is written through an alias and cannot be changed on its own; "
                "write the value out."
            )
    return node, parent


@lru_cache(maxsize=1)  # each axis is looked up in the same file, and ruamel.yaml reads 200 KB in a second
def _compose(text: str) -> Any:
    library: Any = require("ruamel.yaml", extra=EXTRA)
    try:
        return library.YAML(typ="safe", pure=True).compose(text)
    except library.error.YAMLError as error:
        why = " ".join(str(error).split())
        raise ConfigurationError(f"ruamel.yaml, which edits this file, cannot read it: {why}") from None


def _child(node: Any, step: str | int) -> tuple[Any, int]:
    """Return what a node has at a step, and where it begins at the earliest unless it is an alias."""
    if node.id == "sequence" and isinstance(step, int) and step < len(node.value):
        ends = [earlier.end_mark.index for earlier in node.value[:step]]
        return node.value[step], max([node.start_mark.index, *ends])
    if node.id == "mapping":
        for key, value in node.value:
            if key.id == "scalar" and _key(key) == step:
                return value, key.end_mark.index
    return None, 0


def _key(node: Any) -> Any:
    return node.value if node.style or node.tag == STR else read_scalar(node.value)


def _insertion(text: str, parent: Any, steps: Steps, value: Any) -> tuple[int, int, str]:
    if parent is None or parent.id != "mapping":
        raise ConfigurationError(f"{format_path(steps)} is not in this file.")
    entry = _entry(steps[-1], value)
    if not parent.value:
        start = parent.start_mark.index + 1
        return start, start, entry
    first = parent.value[0][0].start_mark  # the map itself begins with its anchor, where it has one
    separator = ", " if parent.flow_style else f"{_newline(text)}{' ' * first.column}"
    return first.index, first.index, f"{entry}{separator}"


def _block(text: str, parent: Any, value: str, header: re.Match[str] | None) -> str | None:
    """Return a text as a literal block; None where its ends or its characters do not allow one."""
    literal = require("ruamel.yaml.scalarstring", extra=EXTRA).LiteralScalarString(value)
    block = _dump({"k": literal}, flow=False)
    is_printable = re.sub(r"[\n\t]", "", value).isprintable()
    if not value[:1].strip() or not is_printable or block.endswith("\n...\n"):
        return None
    first, *lines = block.removeprefix("k: ").removesuffix("\n").split("\n")
    comment = header[1] or "" if header else ""
    indent = " " * parent.value[0][0].start_mark.column
    return _newline(text).join([first + comment, *(indent + line if line else "" for line in lines)])


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _entry(key: str | int, value: object) -> str:
    """Return a key and its value on one line, as they may stand in any map."""
    return _dump({key: value}, flow=True).removeprefix("{").removesuffix("}\n")


def _dump(value: Mapping[str | int, object], *, flow: bool) -> str:
    writer = require("ruamel.yaml", extra=EXTRA).YAML()
    writer.version = (1, 1)  # quotes around what is a text to YAML 1.2 only, such as no and 18:30
    writer.default_flow_style = flow
    writer.brace_single_entry_mapping_in_flow_sequence = True
    writer.width = sys.maxsize
    stream = StringIO()
    writer.dump(_quote(value), stream)
    return stream.getvalue().partition("---")[2][1:]


def _quote(value: object) -> Any:
    """Return a value whose texts get quotes where they need escapes, or may be a number to YAML 1.2 only."""
    quoted = require("ruamel.yaml.scalarstring", extra=EXTRA).DoubleQuotedScalarString
    if type(value) is str:
        return value if value.isprintable() and value[:1].isalpha() else quoted(value)
    if isinstance(value, Mapping):
        return {_quote(key): _quote(entry) for key, entry in value.items()}
    return [_quote(entry) for entry in value] if isinstance(value, list | tuple) else value
