"""Redact secrets: cut keys and passwords out of texts before they are stored or shown."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Final, TypeAlias

Redactor: TypeAlias = Callable[[str], str]
"""A function that cuts secrets out of a text."""

REDACTED: Final = "[secret]"
SHORTEST_SECRET: Final = 16
"""A shorter value is not taken for a key: it could be an ordinary word."""

_KEY_STARTS: Final = (
    "sk-", "sk_", "pk_", "hf_", "glpat-", "github_pat_", "xai-", *(f"gh{kind}_" for kind in "pousr"),
    *(f"xox{kind}-" for kind in "abeprs"),
)  # fmt: skip
_OTHER_MARKS: Final = ("AKIA", "AIza", "eyJ", "earer ")
_KEY_LIKE: Final = re.compile(
    rf"(?<=earer )[\w.~+/=-]{{20,}}|\b(?:{'|'.join(_KEY_STARTS)}|gsk_|AKIA|AIza|eyJ)[\w.-]{{16,}}"
)
_DIGIT: Final = re.compile(r"\d")
_SECRET_NAMES: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD")

_registered: Final[set[str]] = set()


def register_secret(value: str) -> None:
    """Redact a value in texts from now on, wherever it came from."""
    _registered.add(value)


def secret_redactor() -> Redactor:
    """Return a function that redacts all known secrets, and whatever looks like a key.

    Known secrets are the values of environment variables that are named like secrets, and the keys that
    models were given.
    """
    named = {os.environ.get(name, "") for name in os.environ if name.upper().endswith(_SECRET_NAMES)}
    long = [value for value in named | _registered if len(value) >= SHORTEST_SECRET]
    values = sorted(long, key=len, reverse=True)  # one may begin with another

    def redact(text: str) -> str:
        for value in values:
            if value in text:
                text = text.replace(value, REDACTED)
        return _KEY_LIKE.sub(_redact_match, text) if _may_hold_key(text) else text

    return redact


def _redact_match(like: re.Match[str]) -> str:
    """Keep names without a digit. Looked for in the pattern, it would take quadratic time."""
    key = like.group()
    is_key = _DIGIT.search(key) or like.string.endswith("earer ", 0, like.start())
    return REDACTED if is_key else key


def _may_hold_key(text: str) -> bool:
    """Look for the start of a key, a tenth as long as the pattern takes: every prompt is looked at."""
    for separator in "-_":
        index = text.find(separator)
        while index >= 0:
            if text.endswith(_KEY_STARTS, 0, index + 1):
                return True
            index = text.find(separator, index + 1)
    for mark in _OTHER_MARKS:  # noqa: SIM110 - a generator takes three times as long
        if mark in text:
            return True
    return False
