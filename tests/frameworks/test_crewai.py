"""CrewAI, with a real crew, agent and model."""

import os

os.environ.update(
    CREWAI_DISABLE_TELEMETRY="true",
    CREWAI_DISABLE_TRACKING="true",
    CREWAI_TRACING_ENABLED="false",
    OTEL_SDK_DISABLED="true",
)

import asyncio

import pytest
import story
from crewai import LLM, Agent, Crew, Process, Task
from crewai.tools import tool
from pydantic import BaseModel
from story import ANSWER, QUESTION
from tool_calling import ToolCallingServer, Turn

from contract import FrameworkContract
from dokimos import Example
from dokimos.errors import IntegrationError
from dokimos.integrations import crewai


def llm(base_url):
    return LLM(model="openai/scripted", base_url=base_url, api_key="none", max_retries=0)


def agent_on(model):
    return Agent(
        role="Traveller",
        goal="Help people to travel.",
        backstory="You travel.",
        llm=model,
        tools=[tool(story.get_weather), tool(story.book_flight)],
    )


def crew_on(base_url, tasks=1):
    agent = agent_on(llm(base_url))
    texts = ["{input} Said before: {conversation}", "Sum up."][:tasks]
    return Crew(
        agents=[agent],
        tasks=[Task(description=text, expected_output="An answer.", agent=agent) for text in texts],
    )


class City(BaseModel):
    name: str


class TestCrew(FrameworkContract):
    name = "crewai"
    package = "crewai"
    bridge = crewai
    guide_script = (
        *story.first_turn(),
        *story.first_turn(),
        *story.first_turn(),
    )
    example_script = story.first_turn()

    def agent(self, base_url):
        return crew_on(base_url)

    def scenarios(self):
        return {"delegation": self.delegating, "a manager": self.managed, "structured": self.structured}

    def delegating(self, base_url, **options):
        boss = Agent(
            role="Boss", goal="Help.", backstory="You lead.", llm=llm(base_url), allow_delegation=True
        )
        below = agent_on(llm(base_url))
        given = {"agents": [boss, below]} if not options else {"agents": [below], **options}
        task = Task(
            description="{input}", expected_output="An answer.", **({} if options else {"agent": boss})
        )
        hands = {"task": "Rome?", "context": "Weather.", "coworker": "Traveller"}
        calls = [("delegate_work_to_coworker", hands)]
        within = [Turn(calls=(("get_weather", {"city": "Rome"}),)), Turn("25 degrees")]
        return Crew(tasks=[task], **given), [Turn(calls=tuple(calls)), *within, Turn(ANSWER)], calls

    def managed(self, base_url):
        return self.delegating(base_url, process=Process.hierarchical, manager_llm=llm(base_url))

    def structured(self, base_url):
        crew = crew_on(base_url)
        crew.tasks[0].output_pydantic = City
        calls = [("get_weather", {"city": "Rome"})]
        return crew, [Turn(calls=tuple(calls)), Turn('{"name": "Rome"}')], calls

    def run(self, agent, question):
        return agent.kickoff({"input": question, "conversation": ""})

    def record(self, result):
        kept = {"messages", "tool_failures", "agent"}
        return {
            "raw": result.raw,
            "tasks_output": [output.model_dump(mode="json", include=kept) for output in result.tasks_output],
            "token_usage": result.token_usage.model_dump(),
        }


class TestAgent(TestCrew):
    def scenarios(self):
        return {}

    def agent(self, base_url):
        return agent_on(llm(base_url))

    def run(self, agent, question):
        return agent.kickoff(question)

    def record(self, result):
        kept = {"raw", "agent_role", "messages", "tool_failures", "usage_metrics"}
        return result.model_dump(mode="json", include=kept)

    def write_record(self, server):
        """The results of a crew are recorded."""


async def test_kickoffs_at_once_that_share_a_model_are_counted_apart():
    with ToolCallingServer(latency=0.02) as server:
        server.answer = ANSWER
        task = crewai.as_task(crew_on(server.base_url, tasks=2))

        results = await asyncio.gather(*(task(Example.of(QUESTION)) for _ in range(4)))

    assert [result.metrics.tokens_in for result in results] == [40] * 4
    assert {result.metrics.model for result in results} == {"scripted"}


def test_calls_that_a_model_writes_as_text_are_calls():
    class WithoutFunctions(type(llm("http://localhost"))):
        def supports_function_calling(self):
            return False

    script = [
        Turn('Thought: I look.\nAction: get_weather\nAction Input: {"city": "Paris"}'),
        Turn('Thought: I look.\nAction: get_weather\nAction Input: {"city": "Rome"}'),
        Turn('Thought: I book.\nAction: book_flight\nAction Input: {"to": "Rome"}'),
        Turn(f"Thought: I now know the final answer\nFinal Answer: {ANSWER}"),
    ]
    with ToolCallingServer(script) as server:
        model = WithoutFunctions(model="scripted", base_url=server.base_url, api_key="none")
        trace = crewai.run_and_trace(agent_on(model), QUESTION)

    TestCrew().check_first(trace)


def test_a_crew_in_which_placeholders_are_filled_in_is_refused():
    with ToolCallingServer([Turn(ANSWER)]) as server:
        crew = crew_on(server.base_url)
        crew.kickoff({"input": QUESTION, "conversation": ""})

    with pytest.raises(IntegrationError, match="Pass a fresh crew"):
        crewai.as_task(crew)


def test_a_model_is_a_judge_and_counted():
    with ToolCallingServer([Turn("yes")]) as server:
        reply = asyncio.run(crewai.as_judge(llm(server.base_url)).complete("Is it?"))

    assert (reply.text, reply.metrics.tokens_in) == ("yes", 20)
