"""What a set of attribute keys says about its spans: worked out once for all spans that have these keys.

The spans of one instrumentation have few different sets of keys, while each value has many names in the
conventions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from dokimos.traces import _adk_attributes as adk_attributes
from dokimos.traces import _langfuse_attributes as langfuse_attributes
from dokimos.traces import _vercel_attributes as vercel_attributes
from dokimos.traces._attributes import Attributes, find_flat_keys
from dokimos.traces._semconv import (
    ENTITY_INPUT,
    ENTITY_OUTPUT,
    ERROR_TYPE,
    EVENTS,
    FLATTENED,
    INPUT_MESSAGES,
    INPUT_TEXT,
    INSTRUCTIONS,
    OPENINFERENCE_KIND,
    OUTPUT_MESSAGES,
    OUTPUT_TEXT,
    PLAIN_INPUTS,
    PLAIN_OUTPUTS,
    ROLE_TABLES,
    Names,
    SpanRole,
)

_Normalizer: TypeAlias = Callable[[Attributes], Attributes]

_MAX_KEYS: Final = 256
"""Spans with more attributes share no plan, so that no plan that is kept is large."""
_MAX_LENGTH: Final = 16_384
"""The same for the characters of their keys, which whoever sends spans may choose."""
_MAX_PLANS: Final = 256
"""Flattened messages have another set of keys for each length of a history."""


class _TooLargeError(Exception):
    """There are too many keys to keep their plan."""


class AttributePlan(dict[Names, tuple[str, ...]]):
    """By the names of a value, those that are among the keys, in order of precedence."""

    __slots__ = (
        "_keys",
        "flat_keys",
        "has_events",
        "has_inputs",
        "has_outputs",
        "has_texts",
        "may_be_redacted",
        "may_have_failed",
        "normalizers",
        "role_tables",
    )

    def __init__(self, keys: tuple[str, ...]) -> None:
        super().__init__()
        self._keys = frozenset(keys)
        self.flat_keys = find_flat_keys(keys, FLATTENED)
        """The keys of flattened structures, each with its prefix and its path."""
        self.role_tables: tuple[tuple[str, Mapping[str, SpanRole]], ...] = tuple(
            (key, roles) for key, roles in ROLE_TABLES if key in self._keys
        )
        self.may_be_redacted = OPENINFERENCE_KIND in self._keys
        self.may_have_failed = not self._keys.isdisjoint((ERROR_TYPE, langfuse_attributes.LEVEL))
        """Whether an attribute may say so; the status of a span may too."""
        self.has_events = EVENTS in self._keys
        flat = bool(self.flat_keys)
        self.has_inputs = flat or bool(self[INPUT_MESSAGES] or self[PLAIN_INPUTS] or self[INSTRUCTIONS])
        self.has_outputs = flat or bool(self[OUTPUT_MESSAGES] or self[PLAIN_OUTPUTS])
        self.has_texts = (
            self.has_inputs
            or self.has_outputs
            or self.has_events
            or bool(self[INPUT_TEXT] or self[OUTPUT_TEXT])
            or not self._keys.isdisjoint((ENTITY_INPUT, ENTITY_OUTPUT))
        )
        """Whether they may have an input or an output as text; events may too."""
        self.normalizers = self._find_normalizers()

    @classmethod
    def of(cls, attributes: Attributes) -> AttributePlan:
        """Return the plan of the keys of a span, which other spans may share."""
        keys = tuple(attributes)
        try:
            return _find_plan(keys)
        except _TooLargeError:
            return cls(keys)

    def __missing__(self, names: Names) -> tuple[str, ...]:
        present = self[names] = tuple(name for name in names if name in self._keys)
        return present

    def _find_normalizers(self) -> tuple[_Normalizer, ...]:
        normalizers: list[_Normalizer] = []
        # A span of the AI SDK that was sent to Langfuse has attributes of both; the SDK's come first.
        if adk_attributes.EVENT_ID in self._keys:
            normalizers.append(adk_attributes.normalize_attributes)
        if vercel_attributes.OPERATION in self._keys:
            normalizers.append(vercel_attributes.normalize_attributes)
        if langfuse_attributes.is_observation(self._keys):
            normalizers.append(langfuse_attributes.normalize_attributes)
        return tuple(normalizers)


@lru_cache(maxsize=_MAX_PLANS)
def _find_plan(keys: tuple[str, ...]) -> AttributePlan:
    # The size is checked here, and not for each span; what is raised is not kept.
    if len(keys) > _MAX_KEYS or sum(map(len, keys)) > _MAX_LENGTH:
        raise _TooLargeError
    return AttributePlan(keys)
