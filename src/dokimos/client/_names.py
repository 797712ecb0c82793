"""Names as a server accepts them: of at most 255 characters, without control characters."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

MOST_CHARACTERS: Final = 255
_DIGEST: Final = 12


def fit_name(name: str, *, empty: str, note: Callable[[str], None]) -> str:
    """Return a name that a server accepts: the same one, else one that is as near as possible and unique.

    Args:
        name: A name of any kind.
        empty: What stands for a name that is blank.
        note: Receives what was changed, in a few words.
    """
    if not name.strip():
        return empty
    fitting = name
    if not name.isprintable():
        fitting = "".join(sign if sign.isprintable() else _escape(sign) for sign in name)
        if fitting != name:
            note("control characters in names were escaped")
    if fitting in (".", ".."):
        note("a name of dots was put in brackets")
        fitting = f"({fitting})"
    if len(fitting) > MOST_CHARACTERS:
        note(f"names of more than {MOST_CHARACTERS} characters were shortened")
        # With a digest, so that two long names that begin alike stay two.
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
        fitting = f"{fitting[: MOST_CHARACTERS - _DIGEST - 1]}~{digest}"
    return fitting


def shorten_text(text: str | None) -> str | None:
    """Return a text of at most 255 characters, such as the name of a branch; None for a blank one."""
    if text is None or not text.strip():
        return None
    return "".join(sign if sign.isprintable() else _escape(sign) for sign in text)[:MOST_CHARACTERS]


def _escape(sign: str) -> str:
    # Other signs that are not printable, such as marks of direction and odd spaces, are part of languages.
    code = ord(sign)
    if code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000:
        return f"\\u{code:04x}"
    return sign
