"""Pydantic AI, with a real agent, and the evaluators of pydantic-evals."""

import story
from contract import FrameworkContract
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from story import ANSWER, QUESTION
from tool_calling import ToolCallingServer, Turn

from dokimos.core.concurrency import run_sync
from dokimos.integrations import pydantic_ai


def book_flight(to: str) -> str:
    """Book a flight to a city."""
    raise ModelRetry(story.NO_SEATS)


def model(base_url):
    return OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=base_url, api_key="none"))


class TestPydanticAI(FrameworkContract):
    name = "pydantic_ai"
    package = "pydantic-ai-slim"
    module = pydantic_ai
    guide_script = story.first_turn()
    example_script = story.first_turn()

    def agent(self, base_url):
        return Agent(model(base_url), name="traveller", instructions="Help.", tools=[story.get_weather, book_flight])

    def result(self, agent, question):
        return run_sync(agent.run(question))

    def record(self, result):
        return {
            "new_messages": result.new_messages(),
            "output": result.output,
            "usage": result.usage,
        }

    def test_a_model_is_a_judge(self, server):
        server.turns.extend(self.answered("Yes."))

        judge = pydantic_ai.as_judge(model(server.base_url))

        assert run_sync(judge.complete("Is it?")).text == "Yes."


class City(BaseModel):
    name: str
    country: str


def test_a_structured_output_is_the_output_and_no_tool_call():
    script = [Turn(calls=(("final_result", {"name": "Rome", "country": "Italy"}),))]
    with ToolCallingServer(script) as server:
        agent = Agent(model(server.base_url), output_type=City)
        result = run_sync(agent.run(QUESTION))

    trace = pydantic_ai.to_agent_trace(result)

    assert trace.tool_calls == ()
    assert trace.final_response == '{"name":"Rome","country":"Italy"}'


def test_the_messages_of_a_run_can_be_read_alone():
    contract = TestPydanticAI()
    with ToolCallingServer(story.first_turn()) as server:
        result = run_sync(contract.agent(server.base_url).run(QUESTION))

    trace = pydantic_ai.to_agent_trace(result.all_messages())

    contract.check_first(trace)
    assert trace.final_response == ANSWER
