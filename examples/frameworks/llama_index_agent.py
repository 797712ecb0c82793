"""An agent of LlamaIndex under test; needs llama-index-llms-openai-like and OPENAI_API_KEY."""

import os

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike

from dokimos import Dataset, Example, evaluate
from dokimos.evaluators import ToolCallValidity, ToolErrors
from dokimos.integrations import llama_index


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return {"Paris": "21 degrees", "Rome": "25 degrees"}[city]


def book_flight(to: str) -> str:
    """Book a flight to a city."""
    raise RuntimeError("no seats left")


llm = OpenAILike(
    model="gpt-5-mini",
    api_base=os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    api_key=os.environ["OPENAI_API_KEY"],
    is_chat_model=True,
    is_function_calling_model=True,
)
agent = FunctionAgent(name="traveller", tools=[get_weather, book_flight], llm=llm)
tools = llama_index.to_tool_definitions(agent)
question = "What is the weather in Paris and Rome? Book a flight to the warmer one."
examples = Dataset([Example({"input": question}, metadata={"tools": tools})])

result = evaluate(examples, llama_index.as_task(agent), [ToolCallValidity(), ToolErrors(threshold=0.5)])

item = result.runs[0].item_results[0]
for call in item.actual_outputs["toolCalls"]:
    print(f"{call.name}({dict(call.arguments)}) -> {call.result}")
print(item.actual_outputs["output"])
print(f"pass rate {result.pass_rate:.0%}, {item.metrics.tokens} tokens")
