"""Run a candidate offline against a recorded trace: the same agent, and one that asks something else.

python examples/replay.py
"""

from __future__ import annotations

import json
from typing import Any

from dokimos import Dataset, Example, evaluate
from dokimos.evaluators import ExactMatch
from dokimos.replay import Replay, record_calls, replay_task
from dokimos.traces import Span

QUESTION = {"role": "user", "content": "What is the weather in Paris?"}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
}
ASKED = {"role": "assistant", "tool_calls": [CALL]}
GOT = {"role": "tool", "tool_call_id": "call_1", "content": '{"degrees": 21}'}
ANSWER = {"role": "assistant", "content": "It is 21 degrees."}


def chat(number: int, inputs: list[Any], output: dict[str, Any]) -> Span:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(inputs),
        "gen_ai.output.messages": json.dumps([output]),
    }
    return Span("trace-1", str(number), name="chat", start_ns=number, end_ns=number, attributes=attributes)


TOOL = Span(
    "trace-1",
    "2",
    name="execute_tool get_weather",
    start_ns=2,
    end_ns=2,
    attributes={
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_weather",
        "gen_ai.tool.call.arguments": '{"city": "Paris"}',
        "gen_ai.tool.call.result": '{"degrees": 21}',
    },
)
SPANS = [chat(1, [QUESTION], ASKED), TOOL, chat(3, [QUESTION, ASKED, GOT], ANSWER)]


def get_weather(city: str) -> dict[str, int]:
    """Return the weather of a city."""
    raise RuntimeError(f"This would ask a service about {city}.")


def run_agent(question: str, replay: Replay, *, unit: str = "") -> str:
    """Run the loop of an agent; only what answers its calls is different from production."""
    tools = {"get_weather": replay.tool(get_weather)}
    messages: list[Any] = [{"role": "user", "content": question + unit}]
    while True:
        message = replay.complete_chat({"model": "any", "messages": messages})["choices"][0]["message"]
        messages.append(message)
        if "tool_calls" not in message:
            return str(message["content"])
        for call in message["tool_calls"]:
            function = call["function"]
            result = tools[function["name"]](**json.loads(function["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})


def main() -> None:
    example = Example.of(QUESTION["content"], "It is 21 degrees.", recorded=record_calls(SPANS))
    items = Dataset([example])

    same = evaluate(items, replay_task(run_agent), [ExactMatch()], quiet=True, journal=False)
    print(f"The agent as it is: {same.pass_rate:.0%} passed.")

    def in_fahrenheit(question: str, replay: Replay) -> str:
        return run_agent(question, replay, unit=" Answer in Fahrenheit.")

    changed = evaluate(items, replay_task(in_fahrenheit), [ExactMatch()], quiet=True, journal=False)
    print(f"With another question: {changed.item_results[0].error}")


if __name__ == "__main__":
    main()
