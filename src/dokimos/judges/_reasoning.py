"""Blanking out the reasoning in a model's reply, such as `<think>`: nothing in it is the answer."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_NAMES: Final = "(?:think|thinking|thoughts?|reasoning|reflection|scratchpad)"
# The second form is that of gpt-oss (Harmony), which some servers let through.
_TAG: Final = re.compile(
    rf"<\s*(?P<end>/?)\s*{_NAMES}\s*>"
    r"|<\|channel\|>\s*(?:analysis|commentary)|(?P<ended><\|end\|>)",
    re.IGNORECASE,
)
_CLOSING: Final = re.compile(rf"/\s*{_NAMES}\b", re.IGNORECASE)
"""A closing tag, even if its brackets are written in another way."""


class Spoken(NamedTuple):
    """A reply without its reasoning."""

    text: str
    """The reply with blanks instead of its reasoning, so that positions in the rest stay the same."""
    ends_reasoning: bool = True
    """False if the reply ends in the middle of a block of reasoning."""


def closes_reasoning(text: str) -> bool:
    """Say whether a text may have a closing tag of reasoning."""
    return "/" in text and _CLOSING.search(text) is not None


def without_reasoning(text: str, *, may_begin_inside: bool = True) -> Spoken:
    """Blank out the reasoning in a reply.

    A block that is not closed extends to the end. A closing tag without an opening one closes a block that
    began with the reply, unless `may_begin_inside` is false: many chat templates put the opening tag into the
    prompt.
    """
    if "<" not in text:
        return Spoken(text)
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
        elif may_begin_inside and not tag["ended"]:
            parts = [_blanks(tag.end())]
            position = tag.end()
    if opened_at is not None:
        rest = _blanks(len(text) - opened_at)
        return Spoken("".join([*parts, text[position:opened_at], rest]), ends_reasoning=False)
    return Spoken("".join([*parts, text[position:]]))


def _blanks(count: int) -> str:
    return " " * count
