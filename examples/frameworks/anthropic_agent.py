"""A model with tools on the Anthropic SDK under test.

Needs anthropic, and ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL.
"""

from anthropic import AsyncAnthropic

from dokimos import Dataset, Example, evaluate
from dokimos.evaluators import ToolCallValidity, ToolErrors
from dokimos.integrations import anthropic as bridge


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return {"Paris": "21 degrees", "Rome": "25 degrees"}.get(city, "unknown")


def book_flight(to: str) -> str:
    """Book a flight to a city."""
    raise RuntimeError("no seats left")


agent = bridge.ToolLoop(
    client=AsyncAnthropic(),
    model="claude-sonnet-5",
    tools=(get_weather, book_flight),
    system="Help with travel.",
)
question = "What is the weather in Paris and Rome? Book a flight to the warmer one."
examples = Dataset([Example({"input": question}, metadata={"tools": agent.definitions})])

result = evaluate(examples, bridge.as_task(agent), [ToolCallValidity(), ToolErrors(threshold=0.5)])

item = result.runs[0].item_results[0]
for call in item.actual_outputs["toolCalls"]:
    print(f"{call.name}({dict(call.arguments)}) -> {call.result}")
print(item.actual_outputs["output"])
print(f"pass rate {result.pass_rate:.0%}, {item.metrics.tokens} tokens")
