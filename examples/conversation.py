"""Simulated conversations without a network: a shop's assistant, three customers, a judge that is a function.

A model's name, such as "openai:gpt-5-mini", may take the place of `play` and `judge`.

python examples/conversation.py
"""

from __future__ import annotations

import json
import re

from dokimos import ConversationTrajectory, Message, ToolCall, evaluate, evaluator
from dokimos.evaluators import KnowledgeRetention, PerTurn, Regex, Trajectory
from dokimos.simulation import Scenario, Simulation

ORDERS = {"A-17": "on Monday", "B-2": "tomorrow"}


def assistant(trajectory: ConversationTrajectory) -> Message:
    """The application under test: it looks orders up, and forgets who it is talking to."""
    last = trajectory.last_user_message
    said = last.content if last else ""
    order = re.search(r"\b[A-Z]-\d+\b", said)
    if order is None:
        return Message.assistant("Which order is it? It looks like A-17.")
    arrival = ORDERS.get(order[0])
    call = ToolCall("find_order", {"id": order[0]}, result=arrival or "unknown")
    if arrival is None:
        return Message.assistant(f"There is no order {order[0]}.", [call])
    return Message.assistant(f"Your order {order[0]} arrives {arrival}.", [call])


def play(prompt: str) -> str:
    """Play a customer who knows an order number and wants to know when it comes."""
    number = re.search(r"- order number: (\S+)", prompt)
    so_far = re.findall(r"^\| \[\d+\] Assistant: (.*)$", prompt, re.MULTILINE)
    if not so_far:
        return reply("open", "Where is my parcel?", "Nothing has been said.")
    if "arrives" in so_far[-1]:
        return reply("reached", "Thank you!", "It has told me the day.")
    if "no order" in so_far[-1]:
        return reply("given_up", "Never mind then.", "It cannot find it.")
    return reply("open", f"It is {number[1] if number else 'lost'}.", "It asked for the number.")


def reply(goal: str, message: str, reason: str) -> str:
    return json.dumps({"reason": reason, "goal": goal, "human_says": message})


def judge(prompt: str) -> str:
    """Answer like a model that reads the conversation; asked for JSON, it gives the shape asked for."""
    replies = re.findall(r"^\| \[\d+\] ASSISTANT: (.*)$", prompt, re.MULTILINE)
    if '"verdicts"' in prompt:
        asked_again = [n > 0 and "Which order" in text for n, text in enumerate(replies)]
        return json.dumps([{"verdict": "no" if again else "yes", "reason": "Read."} for again in asked_again])
    helped = "arrives" in replies[-1]
    return json.dumps(
        {"reason": "It named the day." if helped else "It did not help.", "score": float(helped)}
    )


@evaluator
def ended_well(outputs: dict[str, ConversationTrajectory]) -> bool:
    """How the simulated user saw it."""
    return outputs["trajectory"].metadata["endReason"] in ("goal_reached", "user_done")


def main() -> None:
    wish = {"description": "A parcel is late.", "goal": "Know the day on which the parcel arrives."}
    scenarios = [
        Scenario(**wish, facts={"order number": "A-17"}).to_example(id="known order"),
        Scenario(**wish, facts={"order number": "Z-9"}).to_example(id="unknown order"),
        Scenario(script=("B-2, when does it come?", "And my name is Ada.")).to_example(id="script"),
    ]
    simulation = Simulation(application=assistant, judge=play, max_turns=5)
    evaluators = [
        Trajectory(criteria=("goal_completion",), judge=judge),
        KnowledgeRetention(judge=judge),
        PerTurn(evaluator=Regex(name="One sentence or two", pattern=r"^[^.?!]+[.?!]( [^.?!]+[.?!])?$")),
        ended_well,
    ]
    result = evaluate(scenarios, simulation, evaluators, parallelism=3)
    for item in result.runs[0].item_results:
        talk = item.actual_outputs["trajectory"]
        print(f"== {item.example.id}: {talk.metadata['endReason']}\n{talk.to_text()}\n")
        for found in item.eval_results:
            print(f"  {found.name}: {found.score}  {found.reason or found.error or ''}")
        print()
    assert result.average_score("Trajectory") == 1 / 3
    assert result.average_score("Ended Well") == 2 / 3
    assert result.error_count == 0


if __name__ == "__main__":
    main()
