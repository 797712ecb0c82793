"""The OpenAI Agents SDK, with a real agent."""

import story
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from story import ANSWER, QUESTION
from tool_calling import Turn

from contract import FrameworkContract
from dokimos.core.concurrency import run_sync
from dokimos.integrations import openai_agents

set_tracing_disabled(True)


class TestOpenAIAgents(FrameworkContract):
    name = "openai_agents"
    package = "openai-agents"
    module = openai_agents
    failure = "An error occurred while running the tool"
    failure_is_flagged = False
    model = OpenAIResponsesModel
    guide_script = (*story.first_turn(), *story.first_turn())
    example_script = story.first_turn()

    def agent(self, base_url):
        client = AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0)
        tools = [function_tool(story.get_weather), function_tool(story.book_flight)]
        return Agent(
            "traveller", instructions="Help.", tools=tools, model=self.model("scripted", openai_client=client)
        )

    def result(self, agent, question):
        return run_sync(Runner.run(agent, question))

    def record(self, result):
        return {
            "new_items": [
                {
                    "type": item.type,
                    "raw_item": item.raw_item
                    if isinstance(item.raw_item, dict)
                    else item.raw_item.model_dump(),
                    **({"output": item.output} if hasattr(item, "output") else {}),
                }
                for item in result.new_items
            ],
            "final_output": result.final_output,
            "last_agent": {"name": result.last_agent.name},
            "context_wrapper": {"usage": result.context_wrapper.usage},
        }


class TestOnChatCompletions(TestOpenAIAgents):
    model = OpenAIChatCompletionsModel

    def write_record(self, result):
        """The results of the other one are recorded."""


def test_a_handoff_is_a_call_of_its_own(tmp_path):
    from tool_calling import ToolCallingServer

    script = [Turn(calls=(("transfer_to_booker", {}),)), Turn("Booked.")]
    with ToolCallingServer(script) as server:
        client = AsyncOpenAI(base_url=server.base_url, api_key="none")
        model = OpenAIResponsesModel("scripted", openai_client=client)
        booker = Agent("booker", instructions="Book.", model=model)
        greeter = Agent("greeter", instructions="Greet.", handoffs=[booker], model=model)

        trace = openai_agents.run_and_trace(greeter, QUESTION)

    assert [call.name for call in trace.tool_calls] == ["transfer_to_booker"]
    assert trace.tool_calls[0].result is not None
    assert trace.metadata["agent"] == "booker"
    assert [tool.name for tool in openai_agents.to_tool_definitions(greeter)] == ["transfer_to_booker"]


def test_a_streamed_run_is_read_when_it_has_ended():
    from tool_calling import ToolCallingServer

    async def streamed(agent):
        result = Runner.run_streamed(agent, QUESTION)
        async for _ in result.stream_events():
            pass
        return openai_agents.to_agent_trace(result)

    contract = TestOpenAIAgents()
    with ToolCallingServer(story.first_turn()) as server:
        trace = run_sync(streamed(contract.agent(server.base_url)))

    contract.check_first(trace)
    assert trace.final_response == ANSWER
