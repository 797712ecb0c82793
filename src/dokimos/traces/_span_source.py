"""A span whose attributes, events and flattened structures are normalized, ready to be parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dokimos._core.json_object import parse_if_container
from dokimos._messages.neutral import NeutralMessage
from dokimos.traces import _adk_attributes as adk_attributes
from dokimos.traces import _langfuse_attributes as langfuse_attributes
from dokimos.traces import _vercel_attributes as vercel_attributes
from dokimos.traces._attributes import Attributes, first_value, unflatten
from dokimos.traces._semconv import (
    CHOICE,
    CHOICE_COUNT,
    DETAILS,
    ELIDED,
    EVENT_ROLES,
    FINISH_REASONS,
    FLAT_INPUTS,
    FLAT_OUTPUTS,
    FLATTENED,
    INPUT_MESSAGES,
    OUTPUT_MESSAGES,
    PLAIN_INPUTS,
    PLAIN_OUTPUTS,
    REDACTED,
)
from dokimos.traces._span import Span, SpanEvent
from dokimos.traces._span_messages import MessageCache, join_text, parse_messages


@dataclass(frozen=True)
class SpanSource:
    """A span with the attributes of its events, and with flattened structures rebuilt."""

    span: Span
    attributes: Attributes
    cache: MessageCache | None = None

    @classmethod
    def of(cls, span: Span, cache: MessageCache | None = None) -> SpanSource:
        attributes = span.attributes
        for event in span.events:
            if event.name in DETAILS:
                body = event.body if isinstance(event.body, dict) else {}
                attributes = {**body, **event.attributes, **attributes}
        if "openinference.span.kind" in attributes and REDACTED in attributes.values():
            attributes = {key: value for key, value in attributes.items() if value != REDACTED}
        # A span of the AI SDK that was sent to Langfuse has attributes of both; the SDK's come first.
        if adk_attributes.EVENT_ID in attributes:
            attributes = adk_attributes.normalize_attributes(attributes)
        if vercel_attributes.OPERATION in attributes:
            attributes = vercel_attributes.normalize_attributes(attributes)
        if langfuse_attributes.is_observation(attributes):
            attributes = langfuse_attributes.normalize_attributes(attributes)
        return cls(span, attributes, cache)

    def get(self, key: str) -> Any:
        return self.attributes.get(key)

    def first(self, keys: Iterable[str]) -> Any:
        return first_value(self.attributes, keys)

    @cached_property
    def structures(self) -> dict[str, Any]:
        """What was flattened into dotted keys, by prefix."""
        return unflatten(self.attributes, FLATTENED, self.cache.flat if self.cache else None)

    @cached_property
    def events(self) -> tuple[tuple[str, Any], ...]:
        """The name and the content of each event that is a message, in order, if its content was captured."""
        messages = [(event.name, _content(event)) for event in self.span.events if _is_message(event.name)]
        messages = [(name, content) for name, content in messages if content.get("content") != ELIDED]
        recorded = parse_if_container(self.get("events"))
        for event in recorded if isinstance(recorded, list) else ():
            if isinstance(event, dict) and _is_message(event.get("event.name")):
                messages.append((event["event.name"], event))
        return tuple(messages)

    @cached_property
    def is_cut_off(self) -> bool:
        """Whether the finish reason is an error: only the start of the answer may be there."""
        reasons = parse_if_container(self.first(FINISH_REASONS))
        if (reasons[:1] if isinstance(reasons, list) else [reasons]) == ["error"]:
            return True
        answers = first_value(self.structures, FLAT_OUTPUTS) or self.first(OUTPUT_MESSAGES)
        if isinstance(answers, str):
            # Answers are long, and are parsed here only if they may say so.
            answers = parse_if_container(answers) if '"error"' in answers else None
        choices = (content for name, content in self.events if name == CHOICE)
        candidates = [*(answers if isinstance(answers, list) else [answers]), *choices]
        last = next((each for each in reversed(candidates) if isinstance(each, dict)), {})
        return last.get("finish_reason") == "error"

    @cached_property
    def inputs(self) -> tuple[NeutralMessage, ...]:
        messages = self._messages(
            INPUT_MESSAGES, self._find_event_inputs, FLAT_INPUTS, PLAIN_INPUTS, role="user"
        )
        instructions = join_text(self.get("gen_ai.system_instructions"))
        return (NeutralMessage("system", instructions), *messages) if instructions else messages

    @cached_property
    def outputs(self) -> tuple[NeutralMessage, ...]:
        return self._messages(
            OUTPUT_MESSAGES, self._find_event_choices, FLAT_OUTPUTS, PLAIN_OUTPUTS, role="assistant"
        )

    def _messages(
        self,
        keys: Iterable[str],
        events: Callable[[], Any],
        flat: Iterable[str],
        plain: Iterable[str],
        *,
        role: str,
    ) -> tuple[NeutralMessage, ...]:
        """Return the messages of the first source that has any."""
        count = self.first(CHOICE_COUNT) if role == "assistant" else None
        choices = isinstance(count, int) and count > 1
        sources: tuple[Callable[[], Any], ...] = (
            lambda: self.first(keys),
            events,
            lambda: first_value(self.structures, flat),
            lambda: self.first(plain),
        )
        cache = self.cache if role == "user" else None
        for read_source in sources:
            messages = parse_messages(read_source(), role, choices=choices, cache=cache)
            if messages:
                return messages[:1] if choices else messages
        return ()

    def _find_event_inputs(self) -> list[dict[str, Any]]:
        return [{"role": EVENT_ROLES[name], **content} for name, content in self.events if name != CHOICE]

    def _find_event_choices(self) -> list[Mapping[str, Any]]:
        choices = [content for name, content in self.events if name == CHOICE]
        return [content for content in choices if not content.get("index")]


def _is_message(name: object) -> bool:
    return isinstance(name, str) and (name in EVENT_ROLES or name == CHOICE)


def _content(event: SpanEvent) -> Mapping[str, Any]:
    """Return the content of an event, without the attributes that only describe it."""
    content = parse_if_container(
        event.body if event.body is not None else event.attributes.get("gen_ai.event.content")
    )
    if content is None:
        return {key: value for key, value in event.attributes.items() if not key.startswith("gen_ai.")}
    if not isinstance(content, dict):
        return {"content": content}
    inner = content.get("content")
    if isinstance(inner, dict) and "parts" in inner:  # a whole message of Gemini's
        return {**{key: value for key, value in content.items() if key != "content"}, **inner}
    return content
