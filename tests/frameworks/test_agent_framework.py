"""Microsoft Agent Framework, with a real agent and chat client."""

import story
from agent_framework import Agent, tool
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from pydantic import BaseModel
from story import QUESTION
from tool_calling import ToolCallingServer, Turn

from contract import FrameworkContract
from dokimos import Example
from dokimos._runtime.concurrency import run_sync
from dokimos.integrations import agent_framework


class Weather(BaseModel):
    degrees: int


def client(base_url, kind=OpenAIChatCompletionClient):
    return kind(model="scripted", api_key="none", base_url=base_url)


class TestAgentFramework(FrameworkContract):
    name = "agent_framework"
    package = "agent-framework-core"
    bridge = agent_framework
    failure = "Error: Function failed."
    client = OpenAIChatCompletionClient
    guide_script = (
        *story.first_turn(),
        *story.first_turn(),
        *story.first_turn(),
    )
    example_script = story.first_turn()

    def agent(self, base_url):
        tools = [story.get_weather, story.book_flight]
        return Agent(client(base_url, self.client), name="traveller", instructions="Help.", tools=tools)

    def limited(self, base_url):
        agent = self.agent(base_url)
        agent.client.function_invocation_configuration["max_iterations"] = 1
        return agent, {}

    def scenarios(self):
        return {"structured": self.structured}

    def structured(self, base_url):
        calls = [("get_weather", {"city": "Rome"})]
        agent = Agent(
            client(base_url, self.client), tools=[story.get_weather],
            default_options={"response_format": Weather},
        )  # fmt: skip
        return agent, [Turn(calls=tuple(calls)), Turn('{"degrees": 25}')], calls

    def run(self, agent, question):
        async def run():
            return await agent.run(question)

        return run_sync(run())

    def record(self, result):
        kept = ("type", "text", "name", "arguments", "call_id", "result", "exception")
        messages = [
            {
                "author_name": message.author_name,
                "contents": [
                    {key: getattr(content, key) for key in kept if getattr(content, key) is not None}
                    for content in message.contents
                ],
            }
            for message in result.messages
        ]
        return {"messages": messages, "usage_details": result.usage_details}


class TestOnResponses(TestAgentFramework):
    client = OpenAIChatClient

    def write_record(self, server):
        """The results of the other one are recorded."""


def test_a_chat_client_is_a_task_too():
    with ToolCallingServer([Turn("21 degrees")]) as server:
        result = run_sync(agent_framework.as_task(client(server.base_url))(Example.of(QUESTION)))

    assert result.outputs["output"] == "21 degrees"
    assert result.metrics.model == "scripted"


def test_a_structured_answer_is_the_output_and_one_that_is_not_stays_text():
    options = {"options": {"response_format": Weather}}
    with ToolCallingServer([Turn('{"degrees": 21}'), Turn("It is warm.")]) as server:
        task = agent_framework.as_task(client(server.base_url), run_options=options)
        outputs = [run_sync(task(Example.of(QUESTION))).outputs["output"] for _ in range(2)]

    assert outputs == [Weather(degrees=21), "It is warm."]


def test_a_call_that_waits_for_an_approval_has_no_result():
    @tool(approval_mode="always_require")
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    with ToolCallingServer([Turn(calls=(("pay", {"amount": 3}),))]) as server:
        trace = agent_framework.run_and_trace(Agent(client(server.base_url), tools=[pay]), "Pay 3.")

    assert [(call.name, call.arguments, call.result) for call in trace.tool_calls] == [
        ("pay", {"amount": 3}, None)
    ]
