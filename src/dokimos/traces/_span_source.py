"""A span whose attributes, events and flattened structures are normalized, ready to be parsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dokimos._core.json_object import parse_if_container
from dokimos._messages.neutral import NeutralMessage
from dokimos._messages.parsing import find_spoken_text
from dokimos.traces._attribute_plan import AttributePlan
from dokimos.traces._attributes import Attributes, first_value, unflatten
from dokimos.traces._semconv import (
    CHOICE,
    CHOICE_COUNT,
    DETAILS,
    ELIDED,
    EVENT_ROLES,
    EVENTS,
    FINISH_REASONS,
    FLAT_INPUTS,
    FLAT_OUTPUTS,
    INPUT_MESSAGES,
    INSTRUCTIONS,
    OUTPUT_MESSAGES,
    PLAIN_INPUTS,
    PLAIN_OUTPUTS,
    REDACTED,
    Names,
)
from dokimos.traces._span import Span, SpanEvent
from dokimos.traces._span_messages import MessageCache, join_text, parse_messages


class SpanSource:
    """A span with the attributes of its events, and with flattened structures rebuilt."""

    __slots__ = ("_events", "_inputs", "_outputs", "_structures", "attributes", "cache", "plan", "span")

    def __init__(self, span: Span, cache: MessageCache | None = None) -> None:
        self.span = span
        self.cache = cache
        attributes = _with_details(span) if span.events else span.attributes
        plan = AttributePlan.of(attributes)
        if plan.may_be_redacted and REDACTED in attributes.values():
            attributes = {key: value for key, value in attributes.items() if value != REDACTED}
            plan = AttributePlan.of(attributes)
        if plan.normalizers:
            for normalize in plan.normalizers:
                attributes = normalize(attributes)
            plan = AttributePlan.of(attributes)
        self.attributes = attributes
        self.plan = plan
        self._structures: dict[str, Any] | None = None
        self._events: tuple[tuple[str, Any], ...] | None = None
        self._inputs: tuple[NeutralMessage, ...] | None = None
        self._outputs: tuple[NeutralMessage, ...] | None = None

    def get(self, key: str) -> Any:
        """Return an attribute, None if the span does not have it."""
        return self.attributes.get(key)

    def first(self, names: Names) -> Any:
        """Return the value of the first name that has one, as `first_value` does."""
        for name in self.plan[names]:
            value = self.attributes[name]
            if value or value in (0, {}):
                return value
        return None

    @property
    def structures(self) -> dict[str, Any]:
        """What was flattened into dotted keys, by prefix."""
        if self._structures is None:
            flat_keys = self.plan.flat_keys
            cache = self.cache.flat if self.cache else None
            self._structures = unflatten(self.attributes, flat_keys, cache) if flat_keys else {}
        return self._structures

    @property
    def events(self) -> tuple[tuple[str, Any], ...]:
        """The name and the content of each event that is a message, in order, if its content was captured."""
        if self._events is None:
            has_events = self.span.events or self.plan.has_events
            self._events = tuple(self._find_events()) if has_events else ()
        return self._events

    def _find_events(self) -> Iterator[tuple[str, Any]]:
        for event in self.span.events:
            if _is_message(event.name):
                content = _content(event)
                if content.get("content") != ELIDED:
                    yield event.name, content
        recorded = parse_if_container(self.get(EVENTS))
        for each in recorded if isinstance(recorded, list) else ():
            if isinstance(each, dict) and _is_message(each.get("event.name")):
                yield each["event.name"], each

    def is_cut_off(self) -> bool:
        """Whether the finish reason is an error: only the start of the answer may be there."""
        if self.plan[FINISH_REASONS]:
            reasons = parse_if_container(self.first(FINISH_REASONS))
            if (reasons[:1] if isinstance(reasons, list) else [reasons]) == ["error"]:
                return True
        answers = self.plan.flat_keys and first_value(self.structures, FLAT_OUTPUTS)
        answers = answers or self.first(OUTPUT_MESSAGES)
        if isinstance(answers, str):
            # Answers are long, and are parsed here only if they may say so.
            answers = parse_if_container(answers) if '"error"' in answers else None
        if answers is None and not self.events:
            return False
        choices = (content for name, content in self.events if name == CHOICE)
        candidates = [*(answers if isinstance(answers, list) else [answers]), *choices]
        last = next((each for each in reversed(candidates) if isinstance(each, dict)), {})
        return last.get("finish_reason") == "error"

    @property
    def inputs(self) -> tuple[NeutralMessage, ...]:
        """What a model or agent was sent."""
        if self._inputs is None and not (self.plan.has_inputs or self.events):
            self._inputs = ()
        if self._inputs is None:
            messages: tuple[NeutralMessage, ...] = ()
            for value in self._find_inputs():
                messages = parse_messages(value, cache=self.cache)
                if messages:
                    break
            instructions = self._join_instructions(self.first(INSTRUCTIONS))
            self._inputs = (NeutralMessage("system", instructions), *messages) if instructions else messages
        return self._inputs

    def find_user_text(self) -> str | None:
        """Return the last text of a user in `inputs` where that is known without parsing them, else None."""
        if self.cache is None or self._inputs is not None or not self.plan[INPUT_MESSAGES]:
            return None
        return self.cache.find_user_text(self.first(INPUT_MESSAGES))

    @property
    def outputs(self) -> tuple[NeutralMessage, ...]:
        """What it answered; of several choices, the first."""
        if self._outputs is None and not (self.plan.has_outputs or self.events):
            self._outputs = ()
        if self._outputs is None:
            count = self.first(CHOICE_COUNT)
            choices = isinstance(count, int) and count > 1
            messages: tuple[NeutralMessage, ...] = ()
            for value in self._find_outputs():
                messages = parse_messages(value, "assistant", choices=choices)
                if messages:
                    break
            self._outputs = messages[:1] if choices else messages
        return self._outputs

    def find_answer_text(self) -> str | None:
        """Return the last text in `outputs` where that is known without making messages of them.

        "" where they have no text, None where they have to be looked at.
        """
        if self._outputs is not None or not self.plan[OUTPUT_MESSAGES] or self.plan[CHOICE_COUNT]:
            return None
        return find_spoken_text(parse_if_container(self.first(OUTPUT_MESSAGES)))

    def _join_instructions(self, recorded: object) -> str:
        if recorded is None:
            return ""
        return join_text(recorded) if self.cache is None else self.cache.join_text(recorded)

    def _find_inputs(self) -> Iterator[Any]:
        """Yield what may hold the messages that were sent, the best source first."""
        plan = self.plan
        if plan[INPUT_MESSAGES]:
            yield self.first(INPUT_MESSAGES)
        if self.events:
            yield [{"role": EVENT_ROLES[name], **content} for name, content in self.events if name != CHOICE]
        if plan.flat_keys:
            yield first_value(self.structures, FLAT_INPUTS)
        if plan[PLAIN_INPUTS]:
            yield self.first(PLAIN_INPUTS)

    def _find_outputs(self) -> Iterator[Any]:
        """Yield what may hold the answers, the best source first."""
        plan = self.plan
        if plan[OUTPUT_MESSAGES]:
            yield self.first(OUTPUT_MESSAGES)
        if self.events:
            choices = [content for name, content in self.events if name == CHOICE]
            yield [content for content in choices if not content.get("index")]
        if plan.flat_keys:
            yield first_value(self.structures, FLAT_OUTPUTS)
        if plan[PLAIN_OUTPUTS]:
            yield self.first(PLAIN_OUTPUTS)


def _with_details(span: Span) -> Attributes:
    """Return the attributes of a span, with those of events that only carry what it holds."""
    attributes = span.attributes
    for event in span.events:
        if event.name in DETAILS:
            body = event.body if isinstance(event.body, dict) else {}
            attributes = {**body, **event.attributes, **attributes}
    return attributes


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
