"""The Anthropic SDK, with a real client."""

from dataclasses import replace

import pytest
import story
from anthropic import Anthropic, AsyncAnthropic
from story import ANSWER, QUESTION
from tool_calling import ToolCallingServer, Turn

from contract import FrameworkContract
from dokimos import Dataset, Example, evaluate
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import IntegrationError
from dokimos.evaluators import ExactMatch
from dokimos.integrations import anthropic

TOOLS = (story.get_weather, story.book_flight)
BY_NAME = {tool.__name__: tool for tool in TOOLS}


def answered(block):
    result = {"type": "tool_result", "tool_use_id": block.id}
    try:
        return {**result, "content": BY_NAME[block.name](**block.input)}
    except RuntimeError as error:
        return {**result, "content": [{"type": "text", "text": str(error)}], "is_error": True}


def own_loop(client, question):
    """Call tools as applications do that use nothing but the SDK."""
    messages = [{"role": "user", "content": question}]
    tools = [tool.to_anthropic() for tool in anthropic.to_tool_definitions(TOOLS)]
    history = []
    while True:
        response = client.messages.create(model="scripted", max_tokens=100, messages=messages, tools=tools)
        history.append(response)
        calls = [block for block in response.content if block.type == "tool_use"]
        if not calls:
            return history
        results = {"role": "user", "content": [answered(block) for block in calls]}
        history.append(results)
        messages += [{"role": "assistant", "content": response.content}, results]


class TestAnthropic(FrameworkContract):
    name = "anthropic"
    package = "anthropic"
    bridge = anthropic
    guide_script = (*story.first_turn(), *story.first_turn(), Turn("Rome."))
    example_script = story.first_turn()

    def agent(self, base_url):
        client = AsyncAnthropic(base_url=base_url.removesuffix("/v1"), api_key="none", max_retries=0)
        return anthropic.ToolLoop(client=client, model="scripted", tools=TOOLS, system="Help.")

    def factory(self, base_url):
        """A function is one of the prompt here: there is no agent to be made."""
        client = Anthropic(base_url=base_url.removesuffix("/v1"), api_key="none")
        return lambda prompt: own_loop(client, prompt)

    def limited(self, base_url):
        return replace(self.agent(base_url), max_rounds=1), {}

    def run(self, agent, question):
        return own_loop(Anthropic(base_url=str(agent.client.base_url), api_key="none"), question)

    def record(self, result):
        return [each if isinstance(each, dict) else each.model_dump(exclude_none=True) for each in result]


def test_a_function_with_its_own_loop_is_a_task():
    with ToolCallingServer(story.first_turn()) as server:
        client = Anthropic(base_url=server.url, api_key="none")
        task = anthropic.as_task(lambda question: own_loop(client, question))
        result = evaluate(Dataset([Example.of(QUESTION, ANSWER)]), task, [ExactMatch()])

    item = result.runs[0].item_results[0]
    assert result.pass_rate == 1.0
    assert len(item.actual_outputs["toolCalls"]) == 3
    assert (item.metrics.tokens_in, item.metrics.cached_tokens_in) == (60, 12)


@pytest.mark.parametrize("kind", [Anthropic, AsyncAnthropic])
def test_a_client_and_a_model_are_a_task(kind):
    with ToolCallingServer([Turn("Rome.")]) as server:
        task = anthropic.as_task(kind(base_url=server.url, api_key="none"), model="claude")
        result = evaluate(Dataset([Example.of("Capital of Italy?", "Rome.")]), task, [ExactMatch()])

    assert result.pass_rate == 1.0


def test_a_judge_is_held_to_the_schema_and_asked_without_it_where_that_is_refused():
    with ToolCallingServer([Turn(status=400), Turn("Yes."), Turn("{}")]) as server:
        judge = anthropic.as_judge(Anthropic(base_url=server.url, api_key="none"), model="m")
        refused = run_sync(judge.complete("Is it?", schema={"type": "object"}))
        run_sync(judge.complete("Is it?", schema={"type": "object"}))
        first, second, third = [each.body for each in server.received]

    assert refused.text == "Yes."
    assert "output_config" not in second
    assert first["output_config"] == third["output_config"]


def test_a_client_without_a_model_is_refused():
    with pytest.raises(IntegrationError, match="model="):
        anthropic.as_task(Anthropic(api_key="none"))
