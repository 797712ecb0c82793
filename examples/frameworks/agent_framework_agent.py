"""An agent of the Microsoft Agent Framework under test; needs agent-framework-openai and OPENAI_API_KEY."""

from agent_framework import Agent
from agent_framework.openai import OpenAIChatCompletionClient

from dokimos import Dataset, Example, evaluate
from dokimos.evaluators import ToolCallValidity, ToolErrors
from dokimos.integrations import agent_framework


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return {"Paris": "21 degrees", "Rome": "25 degrees"}[city]


def book_flight(to: str) -> str:
    """Book a flight to a city."""
    raise RuntimeError("no seats left")


agent = Agent(
    OpenAIChatCompletionClient(model="gpt-5-mini"), name="traveller", tools=[get_weather, book_flight]
)
tools = agent_framework.to_tool_definitions(agent)
question = "What is the weather in Paris and Rome? Book a flight to the warmer one."
examples = Dataset([Example({"input": question}, metadata={"tools": tools})])

result = evaluate(examples, agent_framework.as_task(agent), [ToolCallValidity(), ToolErrors(threshold=0.5)])

item = result.runs[0].item_results[0]
for call in item.actual_outputs["toolCalls"]:
    print(f"{call.name}({dict(call.arguments)}) -> {call.result}")
print(item.actual_outputs["output"])
print(f"pass rate {result.pass_rate:.0%}, {item.metrics.tokens} tokens")
