"""Sanitize foreign text before it is printed: nothing in it may act on a terminal or hide from its reader.

What a model, a data file or a server wrote may hold control characters: one clears the screen and prints a
verdict of its own, another turns the order of what follows round, a third cannot be seen at all. All that we
print, pipe and log goes through `escape_control_characters`, which writes them as escapes.
"""

from __future__ import annotations

import re
import sys
from typing import Final

_CONTROL: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without line breaks and tabs, DEL, C1
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"  # of no width, or of a direction
    "\u2060-\u206f\u3164\ufeff\uffa0"
    "\u2028-\u202e"  # ends of lines and paragraphs, directions
    "\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"  # notes about text, tags
    "\ud800-\udfff"
    "\u200c\u200d"
    "]"  # one set of characters, which is looked for seven times faster than what else decides about some
)
_JOINERS: Final = "\u200c\u200d"
_UNJOINED: Final = re.compile("[\x00-\xa0\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Joiners belong to words of some scripts and to emoji: they stay behind a letter or sign beyond these."""


def escape_control_characters(text: str) -> str:
    r"""Return `text` with control, direction and zero-width characters as escapes, such as `\u001b`.

    Line breaks and tabs stay. The escapes are those of JSON, so that JSON means the same as before.
    """
    if text.isascii() and text.isprintable():
        return text  # a tenth of the work, for most of what is in a report
    return _CONTROL.sub(_escape, text)


def print_line(text: str) -> None:
    """Write a line to standard error; characters that its encoding lacks become question marks."""
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    print(
        escape_control_characters(text).encode(encoding, "replace").decode(encoding),
        file=sys.stderr,
        flush=True,
    )


def _escape(found: re.Match[str]) -> str:
    if _stays(found):
        return found[0]
    code = ord(found[0])
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def _stays(found: re.Match[str]) -> bool:
    """Whether a character does no harm where it stands."""
    text, place = found.string, found.start()
    if found[0] == "\r":
        return text.startswith("\n", place + 1)  # elsewhere it would begin the line anew
    return found[0] in _JOINERS and place > 0 and _UNJOINED.match(text, place - 1) is None
