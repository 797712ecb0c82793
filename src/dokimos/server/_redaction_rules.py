"""Rules about what is replaced in spans before they are stored."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

REDACTED: Final = "[redacted]"
"""What takes the place of what is removed, where a rule says nothing else."""
MAX_RULES: Final = 50
_MAX_PATTERN: Final = 1000
_MAX_NAME: Final = 100
_MAX_REPLACEMENT: Final = 100
_FIELDS: Final = frozenset(("name", "pattern", "keys", "replacement"))


@dataclass(frozen=True)
class RedactionRule:
    """A rule: either a pattern, for each text of a span, or keys, whose values are replaced as a whole."""

    name: str
    pattern: str | None = None
    """A regular expression, as Python writes them."""
    keys: tuple[str, ...] = ()
    """Keys of attributes in any case, in which `*` stands for anything."""
    replacement: str = REDACTED

    @cached_property
    def key_pattern(self) -> re.Pattern[str]:
        """What the keys are compared with."""
        parts = (re.escape(key).replace(r"\*", ".*") for key in self.keys)
        return re.compile("|".join(f"(?:{part})" for part in parts), re.IGNORECASE | re.DOTALL)

    def __str__(self) -> str:
        return self.name

    def describe(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        own = {"name": self.name, "pattern": self.pattern, "keys": list(self.keys) or None}
        return {**{key: value for key, value in own.items() if value}, "replacement": self.replacement}


def parse_rules(values: object) -> tuple[RedactionRule, ...]:
    """Return rules from a list of maps, as JSON has them.

    Raises:
        ValueError: It is something else; the message names the rule.
    """
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise ValueError("rules must be a list")
    if len(values) > MAX_RULES:
        raise ValueError(f"there may be {MAX_RULES} rules at most, not {len(values)}")
    rules = tuple(_parse_rule(value, f"rules[{place}]") for place, value in enumerate(values))
    names = [rule.name for rule in rules]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"two rules have the name '{twice}'")
    return rules


@lru_cache(maxsize=256)
def load_rules(text: str) -> tuple[RedactionRule, ...]:
    """Return rules from JSON; raises ValueError."""
    return parse_rules(json.loads(text))


def _parse_rule(value: object, where: str) -> RedactionRule:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} must be an object")
    unknown = sorted(set(map(str, value)) - _FIELDS)
    if unknown:
        raise ValueError(f"{where} has the unknown field '{unknown[0]}'")
    name = _parse_text(value.get("name"), f"{where}.name", _MAX_NAME)
    replacement = REDACTED
    if value.get("replacement") is not None:
        replacement = _parse_text(value["replacement"], f"{where}.replacement", _MAX_REPLACEMENT)
    pattern, keys = value.get("pattern"), value.get("keys")
    if (pattern is None) == (not keys):
        raise ValueError(f"{where} must have either 'pattern' or 'keys'")
    if pattern is not None:
        return RedactionRule(name, _parse_pattern(pattern, f"{where}.pattern"), (), replacement)
    if not isinstance(keys, Sequence) or isinstance(keys, str) or len(keys) > _MAX_PATTERN:
        raise ValueError(f"{where}.keys must be a list of texts")
    parsed = tuple(_parse_text(key, f"{where}.keys", _MAX_PATTERN) for key in keys)
    return RedactionRule(name, None, parsed, replacement)


def _parse_text(value: object, where: str, longest: int) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > longest:
        raise ValueError(f"{where} must be a text of 1 to {longest} characters")
    if not value.isprintable():
        raise ValueError(f"{where} must not hold control characters")
    return value


def _parse_pattern(value: object, where: str) -> str:
    if not isinstance(value, str) or not value or len(value) > _MAX_PATTERN:
        raise ValueError(f"{where} must be a text of 1 to {_MAX_PATTERN} characters")
    try:
        pattern = re.compile(value)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{where} is not a regular expression: {error}") from None
    if pattern.search("") is not None:
        raise ValueError(f"{where} matches the empty text, and so everywhere")
    return value
