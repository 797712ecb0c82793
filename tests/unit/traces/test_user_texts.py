"""The last text of a user is the same whether earlier messages are remembered or not."""

import json
import random

from dokimos.traces import Span, derive_text
from dokimos.traces._span_digest import digest_span
from dokimos.traces._span_messages import MessageCache

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
