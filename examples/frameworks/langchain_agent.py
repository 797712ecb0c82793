"""An agent of LangChain under test.

Needs langchain and langchain-openai, and OPENAI_API_KEY or OPENAI_BASE_URL.
"""

from langchain.agents import create_agent
from langchain_core.tools import StructuredTool, ToolException
from langchain_openai import ChatOpenAI

from dokimos import Dataset, Example, evaluate
from dokimos.evaluators import ToolCallValidity, ToolErrors
from dokimos.integrations import langchain


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return {"Paris": "21 degrees", "Rome": "25 degrees"}.get(city, "unknown")


def book_flight(to: str) -> str:
    """Book a flight to a city."""
    raise ToolException("no seats left")


weather = StructuredTool.from_function(get_weather)
flight = StructuredTool.from_function(book_flight, handle_tool_error=True)
agent = create_agent(ChatOpenAI(model="gpt-5-mini"), [weather, flight], system_prompt="Help with travel.")
tools = langchain.to_tool_definitions(agent)
question = "What is the weather in Paris and Rome? Book a flight to the warmer one."
examples = Dataset([Example({"input": question}, metadata={"tools": tools})])

result = evaluate(examples, langchain.as_task(agent), [ToolCallValidity(), ToolErrors(threshold=0.5)])

item = result.runs[0].item_results[0]
for call in item.actual_outputs["toolCalls"]:
    print(f"{call.name}({dict(call.arguments)}) -> {call.result}")
print(item.actual_outputs["output"])
print(f"pass rate {result.pass_rate:.0%}, {item.metrics.tokens} tokens")
