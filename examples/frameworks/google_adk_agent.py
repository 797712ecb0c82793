"""An agent of Google ADK under test; needs google-adk, litellm, mcp, and OPENAI_API_KEY."""

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm

from dokimos import Dataset, Example, evaluate
from dokimos.evaluators import ToolCallValidity, ToolErrors
from dokimos.integrations import google_adk


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return {"Paris": "21 degrees", "Rome": "25 degrees"}[city]


def book_flight(to: str) -> dict:
    """Book a flight to a city."""
    return {"error": "no seats left"}


agent = LlmAgent(name="traveller", model=LiteLlm("openai/gpt-5-mini"), tools=[get_weather, book_flight])
tools = google_adk.to_tool_definitions(agent)
question = "What is the weather in Paris and Rome? Book a flight to the warmer one."
examples = Dataset([Example({"input": question}, metadata={"tools": tools})])

result = evaluate(examples, google_adk.as_task(agent), [ToolCallValidity(), ToolErrors(threshold=0.5)])

item = result.runs[0].item_results[0]
for call in item.actual_outputs["toolCalls"]:
    print(f"{call.name}({dict(call.arguments)}) -> {call.result}")
print(item.actual_outputs["output"])
print(f"pass rate {result.pass_rate:.0%}, {item.metrics.tokens} tokens")
