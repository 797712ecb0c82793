"""Parse docstrings in the Google, NumPy and Sphinx styles: the purpose and the parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_SECTIONS: Final = (
    "args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters",
    "attributes", "returns", "return", "yields", "raises", "example", "examples", "note", "notes", "warnings",
    "references", "see also", "todo",
)  # fmt: skip
_OF_PARAMETERS: Final = _SECTIONS[:7]

_GOOGLE_HEAD: Final = re.compile(rf"({'|'.join(_SECTIONS)})\s*:\s*$", re.IGNORECASE)
_NUMPY_HEAD: Final = re.compile(rf"({'|'.join(_SECTIONS)})\s*$", re.IGNORECASE)
_RULE: Final = re.compile(r"-{3,}\s*$")
_GOOGLE_ENTRY: Final = re.compile(r"(\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY_ENTRY: Final = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_SPHINX_ENTRY: Final = re.compile(r":param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)")
_SPHINX_FIELD: Final = re.compile(r":\w+(?:\s+[^:]*)?:")


def parse_purpose(docstring: str) -> str:
    """Return what stands before the first section, its lines joined within each paragraph."""
    lines: list[str] = []
    all_lines = docstring.splitlines()
    for index, line in enumerate(all_lines):
        if _is_head(all_lines, index) or _SPHINX_FIELD.match(line.strip()):
            break
        lines.append(line)
    paragraphs = "\n".join(lines).strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def parse_parameter_descriptions(docstring: str) -> dict[str, str]:
    """Return what is said about each parameter; those without a description are omitted."""
    pieces: dict[str, list[str]] = {}
    for names, text in (*_sphinx_entries(docstring), *_section_entries(docstring)):
        for name in names:
            pieces.setdefault(name.lstrip("*"), []).append(text)
    joined = {name: " ".join(" ".join(texts).split()) for name, texts in pieces.items()}
    return {name: text for name, text in joined.items() if text}


def _sphinx_entries(docstring: str) -> Iterator[tuple[list[str], str]]:
    names: list[str] = []
    for line in docstring.splitlines():
        entry = _SPHINX_ENTRY.match(line.strip())
        if entry:
            names = [entry[1]]
            yield names, entry[2]
        elif names and line.startswith(" ") and not _SPHINX_FIELD.match(line.strip()):
            yield names, line
        else:
            names = []


def _section_entries(docstring: str) -> Iterator[tuple[list[str], str]]:
    lines = docstring.splitlines()
    index = 0
    while index < len(lines):
        head, style = _head_of(lines, index)
        if head not in _OF_PARAMETERS:
            index += 1
            continue
        index += 1 if style == "google" else 2
        start = index
        while index < len(lines) and not _is_head(lines, index):
            index += 1
        yield from (_parse_google if style == "google" else _parse_numpy)(lines[start:index])


def _parse_google(body: list[str]) -> Iterator[tuple[list[str], str]]:
    """Entries are indented alike; what is indented further continues the last one."""
    filled = [line for line in body if line.strip()]
    depth = _indent(filled[0]) if filled else 0
    names: list[str] = []
    for line in filled:
        # Text at the margin ends the section, though no other one begins.
        if _indent(line) < depth:
            return
        entry = _GOOGLE_ENTRY.match(line.strip()) if _indent(line) == depth else None
        if entry:
            names = [entry[1]]
            yield names, entry[2]
        else:
            yield names, line


def _parse_numpy(body: list[str]) -> Iterator[tuple[list[str], str]]:
    """Names stand at the margin, what is said about them is indented."""
    names: list[str] = []
    for line in body:
        if line.strip() and _indent(line) == 0:
            entry = _NUMPY_ENTRY.match(line.strip())
            names = [name.strip() for name in entry[1].split(",")] if entry else []
        else:
            yield names, line


def _is_head(lines: list[str], index: int) -> bool:
    return _head_of(lines, index)[1] != ""


def _head_of(lines: list[str], index: int) -> tuple[str, str]:
    """Return the section that starts in a line and its style, empty where none does."""
    line = lines[index].strip()
    google = _GOOGLE_HEAD.fullmatch(line)
    if google:
        return google[1].lower(), "google"
    below = lines[index + 1].strip() if index + 1 < len(lines) else ""
    numpy = _NUMPY_HEAD.fullmatch(line)
    if numpy and _RULE.fullmatch(below):
        return numpy[1].lower(), "numpy"
    return "", ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
