"""The OpenAI SDK, with a real client: Chat Completions and Responses."""

import json
from dataclasses import replace

import pytest
import story
from openai import AsyncOpenAI, OpenAI
from story import ANSWER, QUESTION
from tool_calling import ToolCallingServer, Turn

from contract import FrameworkContract
from dokimos import Dataset, Example, evaluate
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import IntegrationError
from dokimos.evaluators import ExactMatch
from dokimos.integrations import openai

TOOLS = (story.get_weather, story.book_flight)
BY_NAME = {tool.__name__: tool for tool in TOOLS}


def answered(call_id, name, arguments):
    try:
        return {"role": "tool", "tool_call_id": call_id, "content": BY_NAME[name](**json.loads(arguments))}
    except RuntimeError as error:
        return {"role": "tool", "tool_call_id": call_id, "content": str(error)}


def own_loop(client, question):
    """Call tools as applications do that use nothing but the SDK."""
    messages = [{"role": "user", "content": question}]
    tools = [tool.to_openai() for tool in openai.to_tool_definitions(TOOLS)]
    history = []
    while True:
        response = client.chat.completions.create(model="scripted", messages=messages, tools=tools)
        message = response.choices[0].message
        history.append(response)
        if not message.tool_calls:
            return history
        results = [
            answered(call.id, call.function.name, call.function.arguments) for call in message.tool_calls
        ]
        history += results
        messages += [message, *results]


class TestOpenAI(FrameworkContract):
    name = "openai"
    package = "openai"
    bridge = openai
    failure_is_flagged = False
    api = "chat"
    guide_script = (*story.first_turn(), *story.first_turn(), Turn("Rome."), Turn("Rome."))
    example_script = story.first_turn()

    def agent(self, base_url):
        client = AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0)
        return openai.ToolLoop(client=client, model="scripted", tools=TOOLS, system="Help.", api=self.api)

    def factory(self, base_url):
        """A function is one of the prompt here: there is no agent to be made."""
        client = OpenAI(base_url=base_url, api_key="none")
        return lambda prompt: own_loop(client, prompt)

    def limited(self, base_url):
        return replace(self.agent(base_url), max_rounds=1), {}

    def run(self, agent, question):
        return own_loop(OpenAI(base_url=str(agent.client.base_url), api_key="none"), question)

    def record(self, result):
        return [each if isinstance(each, dict) else each.model_dump(exclude_none=True) for each in result]

    def check_first(self, trace):
        """A loop of ours knows which results are failures; messages do not tell."""
        flagged = bool(trace.tool_calls[2].metadata.get("error"))
        contract = FrameworkContract()
        contract.failure_is_flagged = flagged
        contract.check_first(trace)


class TestResponses(TestOpenAI):
    api = "responses"

    def run(self, agent, question):
        """Ask with `previous items` by hand, as the documentation of the API does."""
        client = OpenAI(base_url=str(agent.client.base_url), api_key="none")
        items = [{"role": "user", "content": question}]
        history = []
        tools = [tool.to_openai("responses") for tool in openai.to_tool_definitions(TOOLS)]
        while True:
            response = client.responses.create(model="scripted", input=items, tools=tools)
            history.append(response)
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return history
            results = [answered(call.call_id, call.name, call.arguments) for call in calls]
            results = [
                {"type": "function_call_output", "call_id": each["tool_call_id"], "output": each["content"]}
                for each in results
            ]
            history += results
            items += [*response.output, *results]

    def write_record(self, result):
        """The results of the other one are recorded."""


def test_a_loop_of_dokimos_says_which_results_are_failures():
    contract = TestOpenAI()
    with ToolCallingServer(story.first_turn()) as server:
        trace = openai.run_and_trace(contract.agent(server.base_url), QUESTION)

    assert [call.metadata.get("error") for call in trace.tool_calls] == [None, None, True]
    assert trace.tool_calls[2].result == "RuntimeError: no seats left"


def test_a_function_with_its_own_loop_is_a_task():
    with ToolCallingServer(story.first_turn()) as server:
        client = OpenAI(base_url=server.base_url, api_key="none")
        task = openai.as_task(lambda question: own_loop(client, question))
        result = evaluate(Dataset([Example.of(QUESTION, ANSWER)]), task, [ExactMatch()])

    item = result.runs[0].item_results[0]
    assert result.pass_rate == 1.0
    assert len(item.actual_outputs["toolCalls"]) == 3
    assert item.metrics.tokens_in == 60
    assert item.metrics.model == "scripted"


@pytest.mark.parametrize("kind", [OpenAI, AsyncOpenAI])
def test_a_client_and_a_model_are_a_task(kind):
    with ToolCallingServer([Turn("Rome.")]) as server:
        client = kind(base_url=server.base_url, api_key="none")
        task = openai.as_task(client, model="gpt-5-mini", price_table=lambda model, i, o: len(model) / 10)
        result = evaluate(Dataset([Example.of("Capital of Italy?", "Rome.")]), task, [ExactMatch()])

    assert result.pass_rate == 1.0
    assert result.runs[0].item_results[0].metrics.cost_usd == 1.0


def test_a_call_that_nobody_answers_is_not_a_blank_reply():
    script = [Turn(calls=(("get_weather", {"city": "Paris"}),))]
    with ToolCallingServer(script) as server:
        loop = openai.ToolLoop(client=OpenAI(base_url=server.base_url, api_key="none"), model="scripted")
        result = run_sync(openai.as_task(loop)(Example.of(QUESTION)))

    assert result.outputs["toolCalls"][0].result is None
    assert result.outputs["output"] == ""


def test_a_judge_is_held_to_the_schema_and_asked_without_it_where_that_is_refused():
    with ToolCallingServer([Turn(status=400), Turn("Yes."), Turn("{}")]) as server:
        judge = openai.as_judge(OpenAI(base_url=server.base_url, api_key="none"), model="m")
        schema = {"type": "object", "properties": {"n": {"type": "number", "minimum": 0}}}
        refused = run_sync(judge.complete("Is it?", schema=schema))
        run_sync(judge.complete("Is it?", schema=schema))
        first, second, third = [each.body for each in server.received]

    assert refused.text == "Yes."
    assert "response_format" not in second
    for body in (first, third):
        sent = body["response_format"]["json_schema"]["schema"]
        assert sent == {"type": "object", "properties": {"n": {"type": "number"}}}


def test_a_model_that_never_stops_calling_is_an_error():
    script = [Turn(calls=(("get_weather", {"city": "Paris"}),))] * 3
    with ToolCallingServer(script) as server:
        client = OpenAI(base_url=server.base_url, api_key="none")
        loop = openai.ToolLoop(client=client, model="m", tools=TOOLS, max_rounds=3)
        trace = openai.run_and_trace(loop, QUESTION)

    assert "still called tools after 3 rounds" in trace.error
    assert len(trace.tool_calls) == 3
    assert trace.final_response is None


def test_a_model_gets_the_error_of_a_wrong_call():
    script = [
        Turn(calls=(("fly", {}), ("get_weather", "no json"), ("get_weather", {"town": "x"}))),
        Turn("Sorry."),
    ]
    with ToolCallingServer(script) as server:
        client = OpenAI(base_url=server.base_url, api_key="none")
        trace = openai.run_and_trace(openai.ToolLoop(client=client, model="m", tools=TOOLS), QUESTION)

    unknown, unreadable, wrong = trace.tool_calls
    assert unknown.result == "There is no tool 'fly'."
    assert unreadable.invalid_arguments == "no json"
    assert "unexpected keyword argument 'town'" in wrong.result
    assert all(call.metadata["error"] for call in trace.tool_calls)


def test_a_client_without_a_model_is_refused():
    with pytest.raises(IntegrationError, match="model="):
        openai.as_task(OpenAI(api_key="none"))
