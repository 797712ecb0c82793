"""Excerpts of files for error messages: a line with a caret below the position."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from dokimos._runtime.redaction import secret_redactor
from dokimos._runtime.terminal_text import escape_control_characters

_ROOM: Final = 72
"""Characters of a line that are shown."""
_BEFORE: Final = 40
"""Characters that are shown before the place, of a long line."""
_SECRET: Final = re.compile(
    r"""((?:[\w-]*(?:api[_-]?key|password|secret)|(?<![\w-])(?:token|authorization))["']?\s*[:=]\s*)"""
    r"""(?!["']?\$\{)([^\s,}\]]+(?:\s+[A-Za-z0-9._~+/=-]{12,})?)""",
    re.IGNORECASE,
)
"""A key or password and what is said of it; a variable may be shown."""


def format_excerpt(text: str, line: int, column: int) -> str:
    """Return a line of a text and a caret below a column of it; nothing where there is no such line.

    Keys and passwords in it are not shown, nor is anything that would act on a terminal.

    Args:
        text: The whole text.
        line: Its number, from 1.
        column: The number of the character, from 1.
    """
    lines = text.split("\n", max(line, 0))
    if not 0 < line <= len(lines):
        return ""
    whole = lines[line - 1].rstrip("\r")
    if not whole.strip():
        return ""
    visible, start = _window(_mask_secrets(whole), column - 1)
    gutter = f"{line:>6} | "
    before = escape_control_characters(visible[: max(column - 1 - start, 0)])
    caret = " " * (len(gutter) - 2) + "| " + " " * sum(map(_width, before)) + "^"
    return f"{gutter}{escape_control_characters(visible)}\n{caret}"


def append_excerpt(message: str, text: str, at: int, line: int) -> str:
    """Return a message with the line of a position in a text, or in the piece of one that is in memory.

    Args:
        message: What is wrong there.
        text: The text, or the piece.
        at: The position in it, from 0.
        line: The number of the line in the whole text, from 1.
    """
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    whole = text[start:] if end < 0 else text[start:end]
    visible = format_excerpt("\n" * (line - 1) + whole, line, at - start + 1)
    return f"{message}\n{visible}" if visible else message


def _mask_secrets(line: str) -> str:
    """Return a line with as many stars as its secrets are long, so that columns stay where they are."""
    hidden = _SECRET.sub(lambda match: match[1] + "*" * len(match[2]), line.replace("\t", " "))
    return hidden if secret_redactor()(hidden) == hidden else "*" * len(hidden)


def _window(line: str, at: int) -> tuple[str, int]:
    """Return the part of a long line around a place, and where it begins."""
    if len(line) <= _ROOM:
        return line, 0
    start = max(0, min(at - _BEFORE, len(line) - _ROOM))
    part = line[start : start + _ROOM]
    if start:
        part = "…" + part[1:]
    return (part[:-1] + "…" if start + _ROOM < len(line) else part), start


def _width(char: str) -> int:
    """Return the columns that a character takes on a terminal."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
