"""An agent of Pydantic AI under test; needs pydantic-ai, and OPENAI_API_KEY or OPENAI_BASE_URL."""

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_evals.evaluators import Contains

from dokimos import Dataset, Example, evaluate
from dokimos.evaluators import ToolErrors
from dokimos.integrations import pydantic_ai, pydantic_evals


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return {"Paris": "21 degrees", "Rome": "25 degrees"}.get(city, "unknown")


def book_flight(to: str) -> str:
    """Book a flight to a city."""
    raise ModelRetry("no seats left")


agent = Agent(OpenAIChatModel("gpt-5-mini"), name="traveller", tools=[get_weather, book_flight])
question = "What is the weather in Paris and Rome? Book a flight to the warmer one."

result = evaluate(
    Dataset([Example.of(question)]),
    pydantic_ai.as_task(agent),
    [ToolErrors(threshold=0.5), pydantic_evals.as_evaluator(Contains("Rome"), name="Names Rome")],
)

item = result.runs[0].item_results[0]
for call in item.actual_outputs["toolCalls"]:
    print(f"{call.name}({dict(call.arguments)}) -> {call.result}")
print(item.actual_outputs["output"])
print(f"pass rate {result.pass_rate:.0%}, {item.metrics.tokens} tokens")
