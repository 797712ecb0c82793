"""An agent of the OpenAI Agents SDK under test.

Needs openai-agents, and OPENAI_API_KEY or OPENAI_BASE_URL.
"""

from agents import Agent, function_tool, set_tracing_disabled

from dokimos import Dataset, Example, evaluate
from dokimos.evaluators import ToolCallValidity, ToolEfficiency
from dokimos.integrations import openai_agents

set_tracing_disabled(True)


@function_tool
def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return {"Paris": "21 degrees", "Rome": "25 degrees"}.get(city, "unknown")


@function_tool
def book_flight(to: str) -> str:
    """Book a flight to a city."""
    return '{"error": "no seats left"}'


agent = Agent(
    "traveller", instructions="Help with travel.", tools=[get_weather, book_flight], model="gpt-5-mini"
)
tools = openai_agents.to_tool_definitions(agent)
question = "What is the weather in Paris and Rome? Book a flight to the warmer one."
examples = Dataset([Example({"input": question}, metadata={"tools": tools})])

result = evaluate(examples, openai_agents.as_task(agent), [ToolCallValidity(), ToolEfficiency()])

item = result.runs[0].item_results[0]
for call in item.actual_outputs["toolCalls"]:
    print(f"{call.name}({dict(call.arguments)}) -> {call.result}")
print(item.actual_outputs["output"])
print(f"pass rate {result.pass_rate:.0%}, {item.metrics.tokens} tokens")
