"""An agent of smolagents under test; needs smolagents[openai], and OPENAI_API_KEY or OPENAI_BASE_URL."""

import os

from smolagents import OpenAIModel, ToolCallingAgent, tool

from dokimos import Dataset, Example, evaluate
from dokimos.evaluators import ToolCallValidity, ToolErrors
from dokimos.integrations import smolagents


@tool
def get_weather(city: str) -> str:
    """Tell the weather in a city.

    Args:
        city: The city.
    """
    return {"Paris": "21 degrees", "Rome": "25 degrees"}[city]


@tool
def book_flight(to: str) -> str:
    """Book a flight to a city.

    Args:
        to: The city.
    """
    raise RuntimeError("no seats left")


def agent():
    """Make an agent that remembers nothing yet."""
    model = OpenAIModel("gpt-5-mini", api_base=os.environ.get("OPENAI_BASE_URL"))
    return ToolCallingAgent(tools=[get_weather, book_flight], model=model, verbosity_level=0)


tools = smolagents.to_tool_definitions(agent)
question = "What is the weather in Paris and Rome? Book a flight to the warmer one."
examples = Dataset([Example({"input": question}, metadata={"tools": tools})])

result = evaluate(examples, smolagents.as_task(agent), [ToolCallValidity(), ToolErrors(threshold=0.5)])

item = result.runs[0].item_results[0]
for call in item.actual_outputs["toolCalls"]:
    print(f"{call.name}({dict(call.arguments)}) -> {call.result}")
print(item.actual_outputs["output"])
print(f"pass rate {result.pass_rate:.0%}, {item.metrics.tokens} tokens")
