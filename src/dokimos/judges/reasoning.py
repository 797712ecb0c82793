"""Where a model reasons aloud in its reply: nothing there is its answer."""

from __future__ import annotations

import re
from typing import Final

_TAG: Final = re.compile(
    r"<\s*(?P<end>/?)\s*(?:think|thinking|thoughts?|reasoning|reflection|scratchpad)\s*>"
    r"|(?P<channel><\|channel\|>\s*(?:analysis|commentary))|(?P<ended><\|end\|>)",
    re.IGNORECASE,
)


def without_reasoning(text: str) -> str:
    """Return a reply with blanks in the place of its reasoning, so that all else stays where it is.

    A block that is not closed goes on to the end. A closing tag without an opening one closes a block that
    began with the reply: many chat templates put the opening tag into the prompt.
    """
    if "<" not in text:
        return text
    parts: list[str] = []
    position = 0
    opened_at: int | None = None
    for tag in _TAG.finditer(text):
        closes = bool(tag["end"] or tag["ended"])
        if not closes:
            opened_at = tag.start() if opened_at is None else opened_at
        elif opened_at is not None:
            parts += text[position:opened_at], _blanks(tag.end() - opened_at)
            position, opened_at = tag.end(), None
        elif not tag["ended"]:
            parts = [_blanks(tag.end())]
            position = tag.end()
    if opened_at is not None:
        return "".join([*parts, text[position:opened_at], _blanks(len(text) - opened_at)])
    return "".join([*parts, text[position:]])


def _blanks(count: int) -> str:
    return " " * count
