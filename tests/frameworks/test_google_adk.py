"""Google ADK, with a real agent on LiteLLM."""

import os

import story
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.agents.run_config import RunConfig
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from story import ANSWER, QUESTION, SECOND_ANSWER, SECOND_QUESTION
from tool_calling import ToolCallingServer, Turn

from contract import FrameworkContract
from dokimos import Dataset, Example, evaluate
from dokimos._runtime.concurrency import run_sync
from dokimos.evaluators import Contains
from dokimos.integrations import google_adk

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"


def book_flight(to: str) -> dict:
    """Book a flight to a city."""
    return {"error": story.NO_SEATS}


def agent_on(base_url, **options):
    model = LiteLlm(model="openai/scripted", api_base=base_url, api_key="none", num_retries=0)
    return LlmAgent(
        name="traveller",
        model=model,
        instruction="Help.",
        tools=[story.get_weather, book_flight],
        **options,
    )


class TestGoogleADK(FrameworkContract):
    name = "google_adk"
    package = "google-adk"
    bridge = google_adk
    guide_script = (
        *story.first_turn(),
        *story.first_turn(),
        *story.first_turn(),
    )
    example_script = story.first_turn()

    def agent(self, base_url):
        return agent_on(base_url)

    def limited(self, base_url):
        return self.agent(base_url), {"run_options": {"run_config": RunConfig(max_llm_calls=1)}}

    def scenarios(self):
        return {"transfers": self.transferring, "a sequence": self.sequence}

    def transferring(self, base_url):
        below = agent_on(base_url)
        top = below.clone(update={"name": "greeter", "tools": [], "sub_agents": [below]})
        calls = [
            ("transfer_to_agent", {"agent_name": "traveller"}),
            ("get_weather", {"city": "Rome"}),
            ("transfer_to_agent", {"agent_name": "greeter"}),
        ]
        return top, [*(Turn(calls=(call,)) for call in calls), Turn(ANSWER)], calls

    def sequence(self, base_url):
        asks = agent_on(base_url).clone(
            update={"name": "asks", "tools": [AgentTool(agent_on(base_url, description="Travels."))]}
        )
        agent = SequentialAgent(name="both", sub_agents=[agent_on(base_url), asks])
        calls = [("get_weather", {"city": "Rome"}), ("traveller", {"request": "Rome?"})]
        first, second = (Turn(calls=(call,)) for call in calls)
        return agent, [first, Turn("25 degrees"), second, Turn("25 degrees"), Turn(ANSWER)], calls

    def run(self, agent, question):
        return run_sync(events_of(agent, question))

    def record(self, result):
        kept = {"author", "partial", "content", "usage_metadata", "model_version"}
        return [event.model_dump(mode="json", include=kept, exclude_none=True) for event in result]


async def events_of(agent, question):
    runner = InMemoryRunner(agent=agent)
    session = await runner.session_service.create_session(app_name=runner.app_name, user_id="u")
    message = types.Content(role="user", parts=[types.Part(text=question)])
    where = {"user_id": "u", "session_id": session.id}
    return [event async for event in runner.run_async(**where, new_message=message)]


def test_a_tool_that_raises_is_an_error_of_the_item_unless_a_callback_answers():
    def answer(tool, args, tool_context, error):
        return {"error": str(error)}

    outcomes = []
    for options in ({}, {"on_tool_error_callback": answer}):
        with ToolCallingServer(story.first_turn()) as server:
            agent = agent_on(server.base_url, **options)
            agent.tools = [story.get_weather, story.book_flight]
            dataset = Dataset([Example.of(QUESTION)])
            result = evaluate(dataset, google_adk.as_task(agent), [Contains(values=["Rome"])])
        outcomes.append(result.runs[0].item_results[0])

    assert story.NO_SEATS in outcomes[0].error
    assert outcomes[1].actual_outputs["toolCalls"][2].metadata["error"] == story.NO_SEATS


def test_the_services_of_a_runner_are_used_and_its_sessions_deleted():
    with ToolCallingServer(story.second_turn()) as server:
        runner = InMemoryRunner(agent=agent_on(server.base_url), app_name="travel")
        trace = google_adk.run_and_trace(runner, SECOND_QUESTION)

        left = run_sync(runner.session_service.list_sessions(app_name="travel", user_id="dokimos"))

    assert trace.final_response == SECOND_ANSWER
    assert trace.metadata == {"agent": "traveller"}
    assert left.sessions == []


def test_tools_of_any_kind_are_described():
    (tool,) = google_adk.to_tool_definitions([FunctionTool(book_flight)])

    assert (tool.name, tool.required) == ("book_flight", ("to",))


def test_an_agent_hands_over_to_another():
    script = [Turn(calls=(("transfer_to_agent", {"agent_name": "booker"}),)), Turn("Booked.")]
    with ToolCallingServer(script) as server:
        model = LiteLlm(model="openai/scripted", api_base=server.base_url, api_key="none")
        booker = LlmAgent(name="booker", model=model, description="Books.")
        trace = google_adk.run_and_trace(LlmAgent(name="greeter", model=model, sub_agents=[booker]), QUESTION)

    assert [call.name for call in trace.tool_calls] == ["transfer_to_agent"]
    assert (trace.final_response, trace.metadata["agent"]) == ("Booked.", "booker")
