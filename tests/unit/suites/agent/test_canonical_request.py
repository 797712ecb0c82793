"""The canonical form of a request: what makes it the same, and what does not."""

import datetime
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    RetryInfo,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from dokimos.suites._agent.canonical_request import canonical_request

LATER = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


def canonical(*messages, settings=None, **parameters):
    return canonical_request(messages, settings, ModelRequestParameters(**parameters))


def asked(text, **more):
    return ModelRequest([UserPromptPart(text)], **more)


def called(call_id, result="2"):
    return (
        ModelResponse([ToolCallPart("add", {"a": 1}, tool_call_id=call_id)]),
        ModelRequest([ToolReturnPart("add", result, tool_call_id=call_id)]),
    )


def test_when_and_in_which_run_something_was_said_does_not_matter():
    then = ModelRequest(
        [UserPromptPart("hi", timestamp=LATER)], timestamp=LATER, run_id="r", conversation_id="c"
    )

    assert canonical(then) == canonical(asked("hi"))


def test_how_a_provider_numbers_calls_does_not_matter():
    assert canonical(asked("hi"), *called("call_x")) == canonical(asked("hi"), *called("toolu_y"))


def test_arguments_are_the_same_as_text_and_as_a_map():
    one = ModelResponse([ToolCallPart("add", {"a": 1, "b": None}, tool_call_id="1")])
    other = ModelResponse([ToolCallPart("add", '{"b": null, "a": 1}', tool_call_id="1")])

    assert canonical(one) == canonical(other)


def test_which_result_belongs_to_which_call_matters():
    calls = ModelResponse([ToolCallPart("add", {"a": n}, tool_call_id=str(n)) for n in (1, 2)])
    straight = [ToolReturnPart("add", "x", tool_call_id=str(n)) for n in (1, 2)]

    assert canonical(calls, ModelRequest(straight)) != canonical(calls, ModelRequest(straight[::-1]))


def test_a_retry_without_a_call_is_the_same_each_time():
    one, other = (RetryFeedbackPart("again", retry=RetryInfo(cause="output")) for _ in range(2))

    assert canonical(ModelRequest([one])) == canonical(ModelRequest([other]))


def test_instructions_settings_tools_and_texts_matter():
    plain = canonical(asked("hi"))
    tool = ToolDefinition(name="add", description="Adds.", parameters_json_schema={"type": "object"})
    others = [
        canonical(asked("hello")),
        canonical(asked("hi", instructions="Be kind.")),
        canonical(asked("hi"), settings={"temperature": 0.3}),
        canonical(asked("hi"), function_tools=[tool]),
        canonical(asked("hi"), function_tools=[replace(tool, defer_loading=True)]),
        canonical(asked("hi"), ModelResponse([TextPart("hello")])),
    ]

    assert len({plain, *others}) == 7


def test_timeouts_do_not_matter():
    assert canonical(asked("hi"), settings={"timeout": 3, "max_retries": 2}) == canonical(asked("hi"))


def test_a_file_is_told_by_its_hash():
    image = BinaryContent(b"\x89PNG" + b"x" * 100_000, media_type="image/png")
    other = BinaryContent(b"\x89PNG" + b"y" * 100_000, media_type="image/png")

    told = canonical(ModelRequest([UserPromptPart(["look", image])]))

    assert len(told) < 500
    assert '"bytes": 100004' in told
    assert told != canonical(ModelRequest([UserPromptPart(["look", other])]))


@given(st.text(), st.text())
def test_two_texts_are_never_taken_for_one(one, other):
    assert (canonical(asked(one)) == canonical(asked(other))) == (one == other)
