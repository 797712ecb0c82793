"""Values changed inside the text of a YAML file; all the rest of it stays as it is, to the byte.

A new value is put between the two positions that PyYAML gives for the old one. ruamel.yaml, which is made
for round trips, writes the whole file anew: of 64 values in the YAML files of this repository, it left the
rest of the file as it was for 56 where it was told the indentation, and for none where it was not. What it
loses are aligned values and comments, spaces between brackets, line breaks inside plain text, and escapes
in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from dokimos._core.yaml_scalars import (
    CORE_TAGS,
    dumper_class,
    make_loader,
    read_scalar,
    read_scalar_1_1,
    read_tagged,
)
from dokimos.errors import ConfigurationError
from dokimos.suites._problems import Steps, format_path

_PLAIN: Final = re.compile(r"[A-Za-z][\w./-]*")
_HEADER: Final = re.compile(r"[|>][-+0-9]*([ \t]+#[^\r\n]*)?")
"""How a block of text begins, and the comment behind it."""
_BREAKS: Final = "\x85\u2028\u2029"
"""What YAML takes for line breaks too."""


def format_scalar(text: str, steps: Steps) -> str | None:
    """Return a scalar as it is written, with its variables; None where there is none."""
    node, _ = _find_node(text, steps)
    return str(node.value) if node is not None and node.id == "scalar" else None


def edit_yaml(text: str, changes: Mapping[Steps, Any]) -> str:
    """Return a file with some values changed, or added to a map that is there.

    Raises:
        ConfigurationError: where a value stands in no place of its own, such as behind an alias.
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
    end = start + len(text[start:end].rstrip())
    header = _HEADER.match(text, start) if node.id == "scalar" and node.style in ("|", ">") else None
    is_wanted = isinstance(value, str) and (header is not None or "\n" in value.rstrip("\n"))
    is_last = not text[end:].partition("\n")[0].strip()
    in_map = parent is not None and parent.id == "mapping" and not parent.flow_style
    if is_wanted and is_last and in_map and _fits_a_block(value):
        return start, end, _block(text, parent, value, comment=header[1] or "" if header else "")
    return start, end, _flow(value)


def _find_node(text: str, steps: Steps) -> tuple[Any, Any]:
    """Return the node at some steps, None where only its key is missing, and the one around it."""
    loader = make_loader(text)
    try:
        node: Any = loader.get_single_node()
    finally:
        loader.dispose()
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
    return read_tagged(node.tag, node.value) if node.tag in CORE_TAGS else node.value


def _insertion(text: str, parent: Any, steps: Steps, value: Any) -> tuple[int, int, str]:
    if parent is None or parent.id != "mapping":
        raise ConfigurationError(f"{format_path(steps)} is not in this file.")
    entry = f"{_flow(steps[-1])}: {_flow(value)}"
    if not parent.value:
        start = parent.start_mark.index + 1
        return start, start, entry
    first = parent.value[0][0].start_mark  # the map itself begins with its anchor, where it has one
    separator = ", " if parent.flow_style else f"{_newline(text)}{' ' * first.column}"
    return first.index, first.index, f"{entry}{separator}"


def _block(text: str, parent: Any, value: str, *, comment: str) -> str:
    """Return a text as a literal block."""
    indent = " " * (parent.value[0][0].start_mark.column + 2)
    lines = [indent + line if line else "" for line in value.rstrip("\n").split("\n")]
    return _newline(text).join([("|" if value.endswith("\n") else "|-") + comment, *lines])


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _fits_a_block(value: str) -> bool:
    body = value.rstrip("\n")
    if not body or body[0] in " \t\n" or value not in (body, body + "\n"):
        return False
    return all(char in "\n\t" or (char.isprintable() and char not in _BREAKS) for char in body)


def _flow(value: object) -> str:
    """Return a value on one line, as it may stand anywhere."""
    import yaml

    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and _is_text_to_all(value) else _quote(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    dumped: str = yaml.dump(value, Dumper=dumper_class())
    return dumped.removesuffix("\n").removesuffix("\n...")


def _is_text_to_all(text: str) -> bool:
    """Whether YAML 1.2 and 1.1 read this as text where it has no quotes."""
    value = read_scalar(text)
    return isinstance(value, str) and isinstance(read_scalar_1_1(text, value), str)


def _quote(text: str) -> str:
    named = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(named.get(char) or _escape(char) for char in text) + '"'


def _escape(char: str) -> str:
    return char if char.isprintable() and char not in _BREAKS else f"\\U{ord(char):08x}"
