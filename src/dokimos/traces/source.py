"""A span with all that it says within reach: attributes, events, and what was flattened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dokimos.core.json_object import structured
from dokimos.messages.neutral import NeutralMessage
from dokimos.traces import adk, langfuse, vercel
from dokimos.traces.attributes import Attributes, first, unflattened
from dokimos.traces.messages import History, parse_messages, text_of
from dokimos.traces.semconv import (
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
from dokimos.traces.span import Span, SpanEvent


@dataclass(frozen=True)
class SpanSource:
    """A span with the attributes that its events carry, and what was flattened put together again."""

    span: Span
    attributes: Attributes
    history: History | None = None

    @classmethod
    def of(cls, span: Span, history: History | None = None) -> SpanSource:
        attributes = span.attributes
        for event in span.events:
            if event.name in DETAILS:
                body = event.body if isinstance(event.body, dict) else {}
                attributes = {**body, **event.attributes, **attributes}
        if "openinference.span.kind" in attributes and REDACTED in attributes.values():
            attributes = {key: value for key, value in attributes.items() if value != REDACTED}
        if adk.EVENT_ID in attributes:
            attributes = adk.conventional(attributes)
        if vercel.OPERATION in attributes:
            attributes = vercel.conventional(attributes)
        if langfuse.is_observation(attributes):
            attributes = langfuse.conventional(attributes)
        return cls(span, attributes, history)

    def get(self, key: str) -> Any:
        return self.attributes.get(key)

    def first(self, keys: Iterable[str]) -> Any:
        return first(self.attributes, keys)

    @cached_property
    def flattened(self) -> dict[str, Any]:
        return unflattened(self.attributes, FLATTENED, self.history.flat if self.history else None)

    @cached_property
    def events(self) -> tuple[tuple[str, Any], ...]:
        """The name and the content of each event that is a message, in order, if its content was captured."""
        told = [(event.name, _content(event)) for event in self.span.events if _is_message(event.name)]
        told = [(name, content) for name, content in told if content.get("content") != ELIDED]
        listed = structured(self.get("events"))
        for event in listed if isinstance(listed, list) else ():
            if isinstance(event, dict) and _is_message(event.get("event.name")):
                told.append((event["event.name"], event))
        return tuple(told)

    @cached_property
    def is_broken_off(self) -> bool:
        """Whether the model says that an error ended its answer, of which the start may be there."""
        reasons = structured(self.first(FINISH_REASONS))
        if (reasons[:1] if isinstance(reasons, list) else [reasons]) == ["error"]:
            return True
        answers = first(self.flattened, FLAT_OUTPUTS) or self.first(OUTPUT_MESSAGES)
        if isinstance(answers, str):
            answers = structured(answers) if '"error"' in answers else None
        chosen = (content for name, content in self.events if name == CHOICE)
        told = [*(answers if isinstance(answers, list) else [answers]), *chosen]
        last = next((each for each in reversed(told) if isinstance(each, dict)), {})
        return last.get("finish_reason") == "error"

    @cached_property
    def inputs(self) -> tuple[NeutralMessage, ...]:
        given = self._messages(INPUT_MESSAGES, self._given_in_events, FLAT_INPUTS, PLAIN_INPUTS, role="user")
        instructions = text_of(self.get("gen_ai.system_instructions"))
        return (NeutralMessage("system", instructions), *given) if instructions else given

    @cached_property
    def outputs(self) -> tuple[NeutralMessage, ...]:
        return self._messages(
            OUTPUT_MESSAGES, self._chosen_in_events, FLAT_OUTPUTS, PLAIN_OUTPUTS, role="assistant"
        )

    def _messages(
        self,
        structures: Iterable[str],
        events: Callable[[], Any],
        flat: Iterable[str],
        plain: Iterable[str],
        *,
        role: str,
    ) -> tuple[NeutralMessage, ...]:
        """Return the messages of the first place that has any."""
        count = self.first(CHOICE_COUNT) if role == "assistant" else None
        choices = isinstance(count, int) and count > 1
        places: tuple[Callable[[], Any], ...] = (
            lambda: self.first(structures),
            events,
            lambda: first(self.flattened, flat),
            lambda: self.first(plain),
        )
        history = self.history if role == "user" else None
        for place in places:
            found = parse_messages(place(), role, choices=choices, history=history)
            if found:
                return found[:1] if choices else found
        return ()

    def _given_in_events(self) -> list[dict[str, Any]]:
        return [{"role": EVENT_ROLES[name], **content} for name, content in self.events if name != CHOICE]

    def _chosen_in_events(self) -> list[Mapping[str, Any]]:
        chosen = [content for name, content in self.events if name == CHOICE]
        return [content for content in chosen if not content.get("index")]


def _is_message(name: Any) -> bool:
    return isinstance(name, str) and (name in EVENT_ROLES or name == CHOICE)


def _content(event: SpanEvent) -> Mapping[str, Any]:
    """Return what an event says, without the attributes that only describe it."""
    content = structured(
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
