"""The texts of a span are the same whether messages are made to find them or not."""

import json
import random

import pytest

from dokimos._messages.parsing import find_spoken_text, parse_recorded_messages
from dokimos.traces import Span, SpanEvent, _semconv, derive_text
from dokimos.traces._attribute_plan import AttributePlan
from dokimos.traces._semconv import Names
from dokimos.traces._span_digest import digest_span
from dokimos.traces._span_messages import MessageCache
from dokimos.traces._span_source import SpanSource
from dokimos.traces._span_text import derive_source_text, last_text

ELEMENTS = [
    {"role": "user", "parts": [{"type": "text", "content": "asked"}]},
    {"role": "user", "content": "asked plainly"},
    {"role": "user", "content": ""},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "got"}]},
    {"role": "human", "content": "asked by a human"},
    {"role": "assistant", "content": "answered"},
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "f", "arguments": {}}]},
    {"role": "assistant", "message": {"role": "user", "content": "asked within"}},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "got"}]},
    {"role": "system", "content": "told"},
    {"role": ["user"], "content": "of no role"},
    {"content": "of nobody"},
    {"messages": [{"role": "user", "content": "asked in a wrapper"}]},
    '{"role": "user", "content": "asked in text"}',
    "said",
    {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
    7,
    None,
]


def chat(number, history):
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(history)}
    return Span("t", str(number), name="chat", attributes=attributes)


def test_a_growing_history_has_the_text_that_its_messages_have():
    pick = random.Random(4)
    for _ in range(300):
        cache, history = MessageCache(), []
        for number in range(6):
            if pick.random() < 0.15:
                history = []  # of another conversation
            history = [*history, *(pick.choice(ELEMENTS) for _ in range(pick.randint(1, 3)))]
            span = chat(number, history)

            assert digest_span(span, cache).input_text == derive_text(span)[0]


PARTS = [
    {"type": "text", "content": "said"},
    {"type": "text", "content": ""},
    {"type": "text", "content": " "},
    {"type": "text", "content": 7},
    {"type": "text", "text": "said elsewhere"},
    {"type": "text", "content": "said", "thought": True},
    {"type": "tool_call", "id": "1", "name": "f", "arguments": {}},
    {"type": "tool_call", "id": "1", "name": " ", "arguments": {}},
    {"type": "tool_call", "id": None, "name": "f", "arguments": {}},
    {"type": "tool_call", "id": "1", "name": "f", "arguments": {}, "result": "got"},
    {"type": "tool_call_response", "id": "1", "response": "got"},
    {"type": "reasoning", "content": "thought"},
    {"content": "of no type"},
    "said plainly",
    None,
    *4 * [{"type": "text", "content": "said"}],
    *4 * [{"type": "tool_call", "id": "1", "name": "f", "arguments": {}}],
]
ROLES = [*2 * ["assistant"], "user", "system", "tool", "model", "thinking", "human", ["assistant"], None]


def make_answer(pick):
    """One message of the GenAI conventions, or something like it."""
    message = {"role": pick.choice(ROLES), "parts": [pick.choice(PARTS) for _ in range(pick.randint(0, 3))]}
    for key in ("finish_reason", "message", "content"):
        if pick.random() < 0.1:
            message[key] = pick.choice(["stop", "", dict(message)])
    return message


def test_the_text_of_a_message_is_the_one_that_its_parts_have():
    pick, known = random.Random(5), 0
    for _ in range(5000):
        value = [make_answer(pick)]
        text = find_spoken_text(value)
        if text is not None:
            known += 1
            messages = parse_recorded_messages(value, "assistant")
            assert messages
            assert (last_text(messages) or "") == text
    assert known > 200


@pytest.mark.parametrize("value", [None, "said", {}, [], [[]], ["said"], [{"parts": []}], [{}, {}]])
def test_the_text_of_anything_else_is_not_known(value):
    assert find_spoken_text(value) is None


def test_an_answer_has_the_text_that_its_messages_have():
    pick = random.Random(6)
    for _ in range(2000):
        answers = [make_answer(pick) for _ in range(pick.choice((0, 1, 1, 1, 2)))]
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.output.messages": pick.choice((answers, json.dumps(answers))),
            "traceloop.entity.output": "returned",
        }
        for name, values in {"gen_ai.request.choice.count": (1, 2), "gen_ai.completion": ("said",)}.items():
            if pick.random() < 0.2:
                attributes[name] = pick.choice(values)
        span = Span("t", "s", name="chat", attributes=attributes)
        source = SpanSource(span)
        expected = attributes.get("gen_ai.completion") or last_text(source.outputs) or "returned"
        assert derive_text(span)[1] == expected


def test_a_span_has_no_texts_where_its_keys_say_so():
    names = {name for value in vars(_semconv).values() if isinstance(value, Names) for name in value}
    names |= {"traceloop.entity.input", "traceloop.entity.output", "events", "llm.prompts.0.content"}
    silent = 0
    for name in names:
        span = Span("t", "s", name="x", attributes={name: '[{"role": "user", "content": "said"}]'})
        source = SpanSource(span)
        if not source.plan.has_texts:
            silent += 1
            source.plan = AttributePlan(tuple(source.attributes))
            source.plan.has_texts = True
            assert derive_source_text(source) == (None, None), name
    assert silent < len(names)
    event = SpanEvent("gen_ai.choice", {"gen_ai.event.content": '{"content": "said"}'})
    assert derive_text(Span("t", "s", name="x", events=(event,))) == (None, "said")
