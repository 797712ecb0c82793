"""The OpenAI Agents SDK, with a real agent."""

import story
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunHooks,
    Runner,
    function_tool,
    handoff,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel
from story import ANSWER, QUESTION
from tool_calling import ToolCallingServer, Turn

from contract import FrameworkContract
from dokimos._runtime.concurrency import run_sync
from dokimos.evaluators import ToolErrors
from dokimos.integrations import openai_agents

set_tracing_disabled(True)


class City(BaseModel):
    name: str


class TestOpenAIAgents(FrameworkContract):
    name = "openai_agents"
    package = "openai-agents"
    bridge = openai_agents
    failure = "An error occurred while running the tool"
    model = OpenAIResponsesModel
    guide_script = (*story.first_turn(), *story.first_turn())
    example_script = story.first_turn()

    def agent(self, base_url):
        client = AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0)
        tools = [function_tool(story.get_weather), function_tool(story.book_flight)]
        return Agent(
            "traveller", instructions="Help.", tools=tools, model=self.model("scripted", openai_client=client)
        )

    def limited(self, base_url):
        return self.agent(base_url), {"run_options": {"max_turns": 1}}

    def scenarios(self):
        return {"handoffs": self.handing_over, "structured": self.structured, "agents as tools": self.asking}

    def handing_over(self, base_url):
        booker, greeter = self.agent(base_url), self.agent(base_url).clone(name="greeter", tools=[])
        greeter.handoffs = [handoff(booker)]
        booker.handoffs = [greeter]
        calls = [
            ("transfer_to_traveller", {}),
            ("get_weather", {"city": "Rome"}),
            ("transfer_to_greeter", {}),
        ]
        return greeter, [*(Turn(calls=(call,)) for call in calls), Turn(ANSWER)], calls

    def structured(self, base_url):
        agent = self.agent(base_url).clone(output_type=City)
        calls = [("get_weather", {"city": "Rome"})]
        return agent, [Turn(calls=tuple(calls)), Turn('{"name": "Rome"}')], calls

    def asking(self, base_url):
        inner = self.agent(base_url)
        asks = inner.as_tool("ask_traveller", "Asks the traveller.")
        calls = [("ask_traveller", {"input": "Rome?"})]
        within = [Turn(calls=(("get_weather", {"city": "Rome"}),)), Turn("25 degrees")]
        return inner.clone(tools=[asks]), [Turn(calls=tuple(calls)), *within, Turn(ANSWER)], calls

    def run(self, agent, question):
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


def test_a_tool_that_raises_and_arguments_that_are_not_json_are_failed_calls():
    script = [Turn(calls=(("get_weather", '{"city": '), ("book_flight", {"to": "Rome"}))), Turn(ANSWER)]
    with ToolCallingServer(script) as server:
        trace = openai_agents.run_and_trace(TestOpenAIAgents().agent(server.base_url), QUESTION)

    assert [bool(call.metadata.get("error")) for call in trace.tool_calls] == [True, True]
    assert trace.tool_calls[0].invalid_arguments == '{"city": '
    assert ToolErrors().evaluate(trace.to_test_case(QUESTION)).score == 0.0


def test_arguments_that_are_not_json_fail_whatever_the_tool_says_of_failures():
    def tell(context, error):
        return "Never mind."

    tool = function_tool(story.get_weather, failure_error_function=tell)
    with ToolCallingServer([Turn(calls=(("get_weather", "Rome"),)), Turn(ANSWER)]) as server:
        agent = TestOpenAIAgents().agent(server.base_url).clone(tools=[tool])
        (call,) = openai_agents.run_and_trace(agent, QUESTION).tool_calls

    assert call.metadata["error"] is True


def test_a_tool_that_is_let_raise_breaks_the_run_off_after_what_was_done():
    tools = [
        function_tool(story.get_weather),
        function_tool(story.book_flight, failure_error_function=None),
    ]
    script = [Turn(calls=(("get_weather", {"city": "Rome"}), ("book_flight", {"to": "Rome"})))]
    with ToolCallingServer(script) as server:
        agent = TestOpenAIAgents().agent(server.base_url).clone(tools=tools)
        trace = openai_agents.run_and_trace(agent, QUESTION)

    assert [call.result for call in trace.tool_calls] == ["25 degrees", None]
    assert trace.error == f"UserError: Error running tool book_flight: {story.NO_SEATS}"


def test_hooks_of_the_user_are_called():
    hook_calls = []

    class Hooks(RunHooks):
        async def on_tool_end(self, context, agent, tool, result):
            hook_calls.append((tool.name, result))

    contract = TestOpenAIAgents()
    with ToolCallingServer(story.first_turn()) as server:
        trace = openai_agents.run_and_trace(contract.agent(server.base_url), QUESTION, hooks=Hooks())

    contract.check_first(trace)
    assert hook_calls[:2] == [("get_weather", "21 degrees"), ("get_weather", "25 degrees")]


def test_a_streamed_run_is_read_when_it_has_ended():
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
