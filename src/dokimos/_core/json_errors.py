"""Explain errors in JSON text in plain English."""

from __future__ import annotations

import json
from typing import Final

# The keys are CPython's messages, or how they begin: its decoder has no codes. An unknown one is passed on.
_SENTENCES: Final = {
    "Expecting value": "a value is expected here",
    "Expecting property name enclosed in double quotes": "a key in double quotes is expected here",
    "Expecting ',' delimiter": "a comma or a closing bracket is expected here",
    "Expecting ':' delimiter": "a colon is expected here",
    "Unterminated string starting at": "the text that begins here has no closing quote",
    "Invalid control character at": "a text must not contain line breaks; write \\n",
    "Invalid \\escape": "a backslash in a text is written as \\\\",
    "Invalid \\uXXXX escape": "four hexadecimal digits are expected after \\u",
    "Extra data": "there is something after the end of the JSON value",
    "Unexpected UTF-8 BOM (decode using utf-8-sig)": "the text begins with a byte order mark",
}


def describe_json_error(error: json.JSONDecodeError) -> str:
    """Return what a person has to change, as the middle of a sentence."""
    rest = error.doc[error.pos :].lstrip()
    before = error.doc[: error.pos].rstrip()
    if rest[:1] in ("]", "}") and (before.endswith(",") or error.msg == "Expecting value"):
        return f"take away the comma before the closing {rest[0]}"
    if before.endswith(",") and rest.startswith(","):
        return "there are two commas"
    if rest.startswith("'"):
        return "texts and keys are in double quotes, not in single ones"
    return _SENTENCES.get(error.msg) or next(
        (advice for start, advice in _SENTENCES.items() if error.msg.startswith(start)), error.msg
    )
