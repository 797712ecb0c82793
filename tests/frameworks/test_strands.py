"""Strands, with a real agent."""

import asyncio

import story
from pydantic import BaseModel
from story import ANSWER, QUESTION, SECOND_QUESTION
from strands import Agent, tool
from strands.models.openai import OpenAIModel
from tool_calling import ToolCallingServer, Turn

from contract import FrameworkContract
from dokimos import Dataset, Example, evaluate
from dokimos.evaluators import Contains
from dokimos.integrations import strands


class City(BaseModel):
    name: str


def agent_on(base_url, **more):
    options = {"base_url": base_url, "api_key": "none", "max_retries": 0}
    return Agent(
        OpenAIModel(client_args=options, model_id="scripted"),
        name="traveller",
        system_prompt="Help.",
        tools=[tool(story.get_weather), tool(story.book_flight)],
        callback_handler=None,
        **more,
    )


def to_plain_trace(trace):
    """Return the parts of a trace that are read."""
    message = trace.message and {key: trace.message[key] for key in ("role", "content")}
    return {"message": message, "children": [to_plain_trace(child) for child in trace.children]}


class TestStrands(FrameworkContract):
    name = "strands"
    package = "strands-agents"
    bridge = strands
    guide_script = (
        *story.first_turn(),
        *story.first_turn(),
        *story.first_turn(),
    )
    example_script = story.first_turn()

    def agent(self, base_url):
        return agent_on(base_url)

    def limited(self, base_url):
        return self.agent(base_url), {"run_options": {"limits": {"turns": 1}}}

    def scenarios(self):
        return {"structured": self.structured}

    def structured(self, base_url):
        calls = [("get_weather", {"city": "Rome"})]
        gives = [Turn(calls=(("City", given),)) for given in ({"nam": "?"}, {"name": "Rome"})]
        agent = agent_on(base_url, structured_output_model=City)
        return agent, [Turn(calls=tuple(calls)), *gives], calls

    def run(self, agent, question):
        return agent(question)

    def record(self, result):
        last = result.metrics.agent_invocations[-1]
        return {
            "metrics": {
                "traces": [to_plain_trace(trace) for trace in result.metrics.traces],
                "agent_invocations": [{"usage": last.usage, "cycles": [{} for _ in last.cycles]}],
            },
            **({} if result.structured_output is None else {"structured_output": result.structured_output}),
        }


def test_a_result_has_only_its_own_input_and_the_agent_of_all():
    with ToolCallingServer([*story.first_turn(), *story.second_turn()]) as server:
        agent = agent_on(server.base_url)
        agent(QUESTION)
        second = agent(SECOND_QUESTION)

    assert [call.arguments for call in strands.to_agent_trace(second).tool_calls] == [{"city": "Oslo"}]
    assert strands.to_call_metrics(second).tokens_in == 40
    assert len(strands.to_agent_trace(agent).tool_calls) == 4
    assert strands.to_agent_trace(agent.messages).tool_calls == strands.to_agent_trace(agent).tool_calls


def test_an_agent_that_is_given_as_it_is_starts_each_input_as_it_was_at_first():
    with ToolCallingServer([*story.second_turn(), *story.second_turn()]) as server:
        agent = agent_on(server.base_url)
        dataset = Dataset([Example.of(SECOND_QUESTION), Example.of(SECOND_QUESTION)])

        result = evaluate(dataset, strands.as_task(agent), [Contains(values=["Oslo"])], parallelism=2)
        asked = [request.body["messages"] for request in server.received]

    assert result.pass_rate == 1.0
    assert [len(messages) for messages in asked] == [2, 4, 2, 4]


async def test_agents_of_a_factory_do_not_wait_for_one_another():
    with ToolCallingServer(latency=0.05) as server:
        server.answer = ANSWER
        task = strands.as_task(lambda: agent_on(server.base_url))

        results = await asyncio.gather(*(task(Example.of(QUESTION)) for _ in range(4)))

    assert [result.outputs["output"] for result in results] == [ANSWER] * 4
