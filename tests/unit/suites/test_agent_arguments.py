"""What the Python function of a suite is called with."""

import pytest

from dokimos.errors import ConfigurationError

APP = """
from __future__ import annotations
import functools
from typing import TYPE_CHECKING
from dokimos import takes_example, takes_input
if TYPE_CHECKING:
    from dokimos import Example

def retry(function):
    @functools.wraps(function)
    def again(*args, **kwargs):
        return function(*args, **kwargs)
    return again

def shown(example):
    return f"{example.inputs['input']} {example.id} {dict(example.expected_outputs)}"

def by_name(example): return shown(example)
def by_annotation(row: Example | None): return shown(row)
def text_called_example(example: str): return example
def with_session(row: Example, turn_index): return f"{shown(row)} {turn_index}"
def only_messages(messages): return messages[-1]["content"]
@takes_example
def marked(row): return shown(row)
@takes_input
def marked_input(example): return example
@retry
def retried(question, turn_index): return f"{question} {turn_index}"
@retry
def retried_example(row: Example): return shown(row)

class Desk:
    async def __call__(self, example): return shown(example)

def inner(client, question): return client + question
def with_client(function):
    @functools.wraps(function)
    def filled(*args, **kwargs):
        return function("client ", *args, **kwargs)
    return filled
filled = with_client(inner)
"""

ONE = """
agent: args_app:{name}
evaluations:
  metrics: [{{type: standard, metric: equality}}]
test_cases: [{{name: greeting, input: hi, ground_truth: ho}}]
"""
WHOLE = "hi greeting {'output': 'ho'}"


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("by_name", WHOLE),
        ("by_annotation", WHOLE),
        ("with_session", f"{WHOLE} 0"),
        ("marked", WHOLE),
        ("retried_example", WHOLE),
        ("Desk", WHOLE),
        ("text_called_example", "hi"),
        ("marked_input", "hi"),
        ("only_messages", "hi"),
        ("retried", "hi 0"),
        ("filled", "client hi"),
    ],
)
def test_a_callable_gets_what_it_names_as_a_task_does(folder, name, reply):
    folder.write("args_app.py", APP)
    assert folder.item(ONE.format(name=name)).actual_output == reply


def test_in_a_conversation_the_example_is_that_of_the_turn(folder):
    folder.write("args_app.py", APP)
    item = folder.item("""
agent: args_app:by_name
evaluations:
  metrics: [{type: standard, metric: equality}]
test_cases:
  - name: talk
    turns: [{input: hi, ground_truth: ho}, {input: bye}]
""")
    replies = [turn["output"] for turn in item.actual_outputs["turns"]]
    assert replies == ["hi talk {'output': 'ho'}", "bye talk {}"]


def test_a_parameter_that_nothing_fills_is_refused(folder):
    folder.write("args_app.py", APP + "\ndef needs_more(example, client): return ''\n")
    with pytest.raises(ConfigurationError, match="a turn has no part called 'client'"):
        folder.suite(ONE.format(name="needs_more"))
