"""A crew of CrewAI under test; needs crewai, and OPENAI_API_KEY or OPENAI_BASE_URL."""

import os

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TRACING_ENABLED="false")  # before the import

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool

from dokimos import Dataset, Example, evaluate
from dokimos.evaluators import ToolCallValidity, ToolErrors
from dokimos.integrations import crewai


@tool
def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return {"Paris": "21 degrees", "Rome": "25 degrees"}[city]


@tool
def book_flight(to: str) -> str:
    """Book a flight to a city."""
    raise RuntimeError("no seats left")


agent = Agent(
    role="Traveller",
    goal="Help people to travel.",
    backstory="You know every city.",
    llm=LLM(model="openai/gpt-5-mini", base_url=os.environ.get("OPENAI_BASE_URL")),
    tools=[get_weather, book_flight],
)
crew = Crew(agents=[agent], tasks=[Task(description="{input}", expected_output="An answer.", agent=agent)])
tools = crewai.to_tool_definitions(crew)
question = "What is the weather in Paris and Rome? Book a flight to the warmer one."
examples = Dataset([Example({"input": question}, metadata={"tools": tools})])

result = evaluate(examples, crewai.as_task(crew), [ToolCallValidity(), ToolErrors(threshold=0.5)])

item = result.runs[0].item_results[0]
for call in item.actual_outputs["toolCalls"]:
    print(f"{call.name}({dict(call.arguments)}) -> {call.result}")
print(item.actual_outputs["output"])
print(f"pass rate {result.pass_rate:.0%}, {item.metrics.tokens} tokens")
