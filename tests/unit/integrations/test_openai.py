"""What clients of OpenAI and Anthropic give, and the loop that calls tools, on clients of our own."""

import asyncio
from types import SimpleNamespace

import pytest

from dokimos import Dataset, Example, evaluate
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import IntegrationError
from dokimos.evaluators import ToolErrors
from dokimos.integrations import anthropic, openai


class Answers:
    """Gives its responses one after another, and keeps what it was asked."""

    def __init__(self, *responses):
        self.responses = list(responses)
        self.requests = []

    async def create(self, **request):
        self.requests.append(request)
        response = self.responses.pop(0)
        if isinstance(response, Exception):
            raise response
        return response


class Plain(SimpleNamespace):
    def model_dump(self, **options):
        return {"role": getattr(self, "role", None), "content": getattr(self, "content", None)}


def chat(text=None, *calls):
    requested_calls = [
        Plain(id=i, function=Plain(name=name, arguments=arguments)) for i, name, arguments in calls
    ]
    message = Plain(role="assistant", content=text, tool_calls=requested_calls or None)
    return Plain(
        choices=[Plain(message=message)], usage=Plain(prompt_tokens=2, completion_tokens=1), model="m"
    )


def client(*responses):
    answers = Answers(*responses)
    return SimpleNamespace(chat=SimpleNamespace(completions=answers)), answers


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def broken() -> str:
    """Always fail."""
    raise ValueError("broken")


def test_a_loop_runs_what_is_called_and_asks_again():
    fake, answers = client(chat(None, ("1", "add", '{"a": 1, "b": 2}'), ("2", "broken", "")), chat("3"))
    loop = openai.ToolLoop(client=fake, model="m", tools=[add, broken], system="Count.")

    trace = openai.run_and_trace(loop, "1 + 2?")

    assert [call.result for call in trace.tool_calls] == ["3", "ValueError: broken"]
    assert [call.metadata.get("error") for call in trace.tool_calls] == [None, True]
    assert trace.final_response == "3"
    sent = answers.requests[1]["messages"]
    assert [message.get("role") for message in sent] == ["system", "user", "assistant", "tool", "tool"]
    assert sent[-1] == {"role": "tool", "tool_call_id": "2", "content": "ValueError: broken"}
    assert [tool["function"]["name"] for tool in answers.requests[0]["tools"]] == ["add", "broken"]


def test_a_parameter_of_a_tool_may_be_called_function():
    def plot(function: str) -> str:
        """Draw a function."""
        return f"drawn: {function}"

    fake, _ = client(
        chat(None, ("1", "plot", '{"function": "x"}'), ("2", "erase", "{}")), chat("There you are.")
    )

    trace = openai.run_and_trace(openai.ToolLoop(client=fake, model="m", tools=[plot]), "?")

    assert [call.result for call in trace.tool_calls] == ["drawn: x", "There is no tool 'erase'."]


def test_the_calls_of_one_answer_run_at_the_same_time():
    both = asyncio.Event()
    waiting = []

    async def meet(name: str) -> str:
        """Wait for the other one."""
        waiting.append(name)
        if len(waiting) == 2:
            both.set()
        await asyncio.wait_for(both.wait(), 60)
        return name

    fake, _ = client(chat(None, ("1", "meet", '{"name": "a"}'), ("2", "meet", '{"name": "b"}')), chat("ok"))

    trace = openai.run_and_trace(openai.ToolLoop(client=fake, model="m", tools=[meet]), "?")

    assert [call.result for call in trace.tool_calls] == ["a", "b"]


def test_settings_go_into_each_request():
    fake, answers = client(chat("yes"))

    openai.run_and_trace(openai.ToolLoop(client=fake, model="m", settings={"temperature": 0.5}), "?")

    assert answers.requests[0]["temperature"] == 0.5
    assert "tools" not in answers.requests[0]


def test_a_model_that_never_stops_calling_is_an_error_beside_its_calls():
    fake, _ = client(*(chat(None, (str(n), "add", '{"a": 1, "b": 1}')) for n in range(2)))

    trace = openai.run_and_trace(openai.ToolLoop(client=fake, model="m", tools=[add], max_rounds=2), "?")

    assert trace.error == "TurnLimit: The model 'm' still called tools after 2 rounds."
    assert [(call.name, call.result, call.metadata["id"]) for call in trace.tool_calls] == [
        ("add", "2", "0"),
        ("add", "2", "1"),
    ]


def test_items_of_the_responses_api_are_read_turn_by_turn():
    items = [
        {"type": "reasoning", "summary": [{"text": "Think."}]},
        {"type": "function_call", "call_id": "1", "name": "a", "arguments": "{}"},
        {"type": "function_call", "call_id": "2", "name": "b", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "2", "output": "second"},
        {"type": "function_call", "call_id": "1", "name": "c", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "third"},
        {"type": "web_search_call", "id": "w", "action": {"query": "x"}},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ]

    trace = openai.to_agent_trace(items)

    assert [(call.name, call.result) for call in trace.tool_calls] == [
        ("a", None), ("b", "second"), ("c", "third"), ("web_search", None),
    ]  # fmt: skip
    assert (trace.final_response, trace.reasoning_steps) == ("Done.", ("Think.",))


def test_a_function_may_return_text_alone():
    result = run_sync(openai.as_task(lambda question: "Rome")(Example.of("?")))

    assert (result.outputs["output"], result.metrics) == ("Rome", None)


def test_a_refusal_is_what_the_model_said():
    message = {"role": "assistant", "content": None, "refusal": "I will not."}

    assert openai.to_agent_trace([message]).final_response == "I will not."


@pytest.mark.parametrize("module", [openai, anthropic])
def test_what_can_not_be_asked_is_refused(module):
    with pytest.raises(IntegrationError, match="client or a function"):
        module.as_task("gpt-5")


class Refused(Exception):
    status_code = 400


def test_a_judge_without_a_schema_is_asked_where_the_schema_is_refused():
    fake, answers = client(Refused(), chat("Yes."))

    reply = run_sync(openai.as_judge(fake, model="m").complete("?", schema={"type": "object"}))

    assert reply.text == "Yes."
    assert ["response_format" in each for each in answers.requests] == [True, False]


def blocks(*content):
    usage = Plain(input_tokens=1, cache_read_input_tokens=4, cache_creation_input_tokens=2, output_tokens=3)
    return Plain(content=[Plain(**block) for block in content], usage=usage, model="claude", role="assistant")


def test_a_loop_of_anthropic_marks_what_failed():
    called = {"type": "tool_use", "id": "1", "name": "broken", "input": {}}
    answers = Answers(
        blocks({"type": "thinking", "thinking": "Hm."}, called), blocks({"type": "text", "text": "Sorry."})
    )
    loop = anthropic.ToolLoop(
        client=SimpleNamespace(messages=answers), model="m", tools=[broken], system="Be."
    )

    task = anthropic.as_task(loop)
    result = evaluate(Dataset([Example.of("?")]), task, [ToolErrors()])

    item = result.runs[0].item_results[0]
    assert result.average_score("Tool Error") == 0.0
    assert item.actual_outputs["reasoningSteps"] == ["Hm."]
    assert (item.metrics.tokens_in, item.metrics.cached_tokens_in, item.metrics.tokens_out) == (14, 8, 6)
    sent = answers.requests[1]["messages"][-1]["content"][0]
    assert (sent["is_error"], sent["content"]) == (True, "ValueError: broken")
    assert (answers.requests[0]["system"], answers.requests[0]["max_tokens"]) == ("Be.", 4096)


def test_tools_are_described_as_they_are_given():
    assert openai.to_tool_definitions([add])[0].required == ("a", "b")
    assert anthropic.to_tool_definitions([{"name": "x", "input_schema": {}}])[0].name == "x"
    loop = openai.ToolLoop(client=None, model="m", tools=[add])
    assert [tool.name for tool in openai.to_tool_definitions(loop)] == ["add"]


def test_options_of_a_run_are_settings_of_each_request_and_arguments_of_a_function():
    fake, answers = client(chat("a"), chat("b"))
    loop = openai.ToolLoop(client=fake, model="m", settings={"seed": 1, "temperature": 1})

    openai.run_and_trace(fake, "Hello", model="m", temperature=0)
    run_sync(openai.as_task(loop, run_options={"temperature": 0})(Example.of("Hello")))

    assert [(each["model"], each["temperature"], each.get("seed")) for each in answers.requests] == [
        ("m", 0, None),
        ("m", 0, 1),
    ]
    trace = openai.run_and_trace(lambda text, suffix: text + suffix, "Hello", suffix="!")
    assert trace.final_response == "Hello!"
