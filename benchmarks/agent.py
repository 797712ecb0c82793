"""What it costs to compare trajectories and to validate calls.

Trajectories of ten calls each, from raw messages whose arguments are JSON text, beside parsing those
arguments alone in the same run: by pydantic's parser, which is the limit, and by `json.loads`. Trajectories
of thousands of calls; and objects of arguments validated against compiled schemas.

Run with `python benchmarks/agent.py`.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, get_args

from pydantic_core import from_json

from dokimos._core.agent import AgentTrace, ToolCall
from dokimos._core.test_case import EvalTestCase
from dokimos._core.tool_definition import ToolDefinition
from dokimos.evaluators import Evaluator, ToolCallValidity, ToolEfficiency, ToolTrajectory
from dokimos.evaluators._agent.tool_trajectory import TrajectoryMode

STRICT_BUDGET_MS = 0.11
ANY_ORDER_BUDGET_MS = 0.13
REWRITTEN_BUDGET_MS = 0.2
VALIDITY_TARGET = 100_000
TRAJECTORIES = 2_000
CALLS = 10
LONG = (300, 3_000)
GROWTH_BUDGET = 20
ROUNDS = 7

Message = dict[str, Any]
Pair = tuple[list[Message], list[Message]]


def arguments(rng: random.Random, number: int) -> dict[str, Any]:
    """Make the arguments of a search: about 400 characters of JSON, flat and nested values mixed."""
    return {
        "query": f"flights number {number} {rng.randrange(10**9):x} {'with a window seat ' * 3}",
        "origin": "ZRH",
        "destination": rng.choice(["CDG", "LHR", "JFK"]),
        "passengers": rng.randrange(1, 9),
        "max_price": rng.randrange(100, 900) + 0.5,
        "filters": {"cabin": "economy", "stops": [0, 1], "refundable": True, "airlines": ["LX", "AF", "BA"]},
        "dates": ["2026-11-22", "2026-11-30"],
        "note": "please answer in a short sentence and say how sure you are of it",
    }


def messages(calls: Sequence[dict[str, Any]], separators: tuple[str, str] = (", ", ": ")) -> list[Message]:
    """Write calls as a model does: one assistant message each."""
    asked: list[Message] = [{"role": "user", "content": "Find flights."}]
    for number, each in enumerate(calls):
        function = {"name": "search", "arguments": json.dumps(each, separators=separators)}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        asked.append({"role": "assistant", "content": None, "tool_calls": [call]})
    return asked


def pairs(*, shuffled: bool, rewritten: bool) -> list[Pair]:
    """Make pairs of expected and actual messages with the same calls, maybe in another order or spacing."""
    rng = random.Random(7)
    made = []
    for _ in range(TRAJECTORIES):
        calls = [arguments(rng, number) for number in range(CALLS)]
        others = rng.sample(calls, k=CALLS) if shuffled else calls
        made.append((messages(calls), messages(others, (",", ":") if rewritten else (", ", ": "))))
    return made


def parse_only(parse: Callable[[str], Any]) -> Callable[[list[Message], list[Message]], None]:
    def work(expected: list[Message], actual: list[Message]) -> None:
        for message in (*expected, *actual):
            for call in message.get("tool_calls", ()):
                parse(call["function"]["arguments"])

    return work


def compare(evaluator: ToolTrajectory) -> Callable[[list[Message], list[Message]], None]:
    """Return what takes both sides from their messages to a result."""

    def work(expected: list[Message], actual: list[Message]) -> None:
        wanted, made = AgentTrace.from_messages(expected), AgentTrace.from_messages(actual)
        case = EvalTestCase({}, made.to_outputs(), expected_outputs={"toolCalls": wanted.tool_calls})
        assert evaluator.evaluate(case).score == 1

    return work


def cpu_ms(work: Callable[..., None], items: Sequence[Any]) -> float:
    """Return the CPU time of one item in milliseconds."""
    start = time.process_time()
    for item in items:
        work(*item)
    return (time.process_time() - start) / len(items) * 1000


def print_trajectories(
    name: str, evaluator: ToolTrajectory, *, shuffled: bool = False, rewritten: bool = False
) -> None:
    items = pairs(shuffled=shuffled, rewritten=rewritten)
    works = compare(evaluator), parse_only(from_json), parse_only(json.loads)
    rounds = [[cpu_ms(work, items) for work in works] for _ in range(ROUNDS)]  # side by side
    ours, limit, loads = (min(times) for times in zip(*rounds, strict=True))
    budget = STRICT_BUDGET_MS if evaluator.mode == "strict" else ANY_ORDER_BUDGET_MS
    budget = REWRITTEN_BUDGET_MS if rewritten else budget
    verdict = "ok" if ours <= budget else "TOO SLOW"
    print(f"{name:24} {ours:.3f} ms a trajectory (at most {budget}): {verdict}; "
          f"parsing alone {limit:.3f}, x{ours / limit:.2f} of it, json.loads {loads:.3f}")  # fmt: skip


TOOL = ToolDefinition(
    "search",
    input_schema={
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 2},
            "origin": {"type": "string", "pattern": "^[A-Z]{3}$"},
            "destination": {"type": "string", "pattern": "^[A-Z]{3}$"},
            "passengers": {"type": "integer", "minimum": 1, "maximum": 9},
            "max_price": {"type": "number"},
            "filters": {"type": "object", "properties": {"cabin": {"enum": ["economy", "business"]}}},
            "dates": {"type": "array", "items": {"type": "string"}},
            "note": {"type": ["string", "null"]},
        },
        "required": ["query", "origin", "destination"],
        "additionalProperties": False,
    },
)


def print_validity(name: str, tool: Any, evaluator: ToolCallValidity, target: int | None) -> None:
    rng = random.Random(7)
    cases = []
    for _ in range(TRAJECTORIES):
        calls = [ToolCall("search", arguments(rng, number)) for number in range(CALLS)]
        cases.append((EvalTestCase({}, {"toolCalls": calls}, metadata={"tools": [tool]}),))

    def work(case: EvalTestCase) -> None:
        assert evaluator.evaluate(case).score == 1

    rate = CALLS / min(cpu_ms(work, cases) for _ in range(ROUNDS)) * 1000
    verdict = "" if target is None else f" (at least {target:,}): {'ok' if rate >= target else 'TOO SLOW'}"
    print(f"{name:24} {rate:,.0f} arguments objects a second{verdict}")


def print_long(name: str, evaluator: Evaluator) -> None:
    """Print what ten times as many calls cost, half of which are not those expected."""

    def case(calls: int) -> EvalTestCase:
        made = [
            ToolCall("search", {"page": 2 * page, "sort": ["date", {"up": True}]}) for page in range(calls)
        ]
        wanted = [ToolCall("search", {"page": page, "sort": ["date", {"up": True}]}) for page in range(calls)]
        return EvalTestCase({}, {"toolCalls": made[::-1]}, expected_outputs={"toolCalls": wanted})

    short, long = (min(cpu_ms(evaluator.evaluate, [(case(calls),)]) for _ in range(ROUNDS)) for calls in LONG)
    verdict = "ok" if long <= GROWTH_BUDGET * short else "TOO SLOW"
    print(f"{name:24} {short:.1f} ms for {LONG[0]} calls, {long:.1f} ms for {LONG[1]:,}, x{long / short:.1f} "
          f"(at most {GROWTH_BUDGET}): {verdict}")  # fmt: skip


def main() -> None:
    print_trajectories("strict", ToolTrajectory(mode="strict"))
    print_trajectories("in order", ToolTrajectory(mode="in_order"))
    print_trajectories("any order", ToolTrajectory(mode="any_order"))
    print_trajectories("any order, shuffled", ToolTrajectory(mode="any_order"), shuffled=True)
    print_trajectories("strict, rewritten", ToolTrajectory(mode="strict"), rewritten=True)
    print_trajectories("any order, both", ToolTrajectory(mode="any_order"), shuffled=True, rewritten=True)
    for mode in get_args(TrajectoryMode):
        print_long(f"long, {mode}", ToolTrajectory(mode=mode))
    print_long("long, efficiency", ToolEfficiency())
    print_validity("validity", TOOL, ToolCallValidity(), VALIDITY_TARGET)
    print_validity("validity, strict", TOOL, ToolCallValidity(strict=True), VALIDITY_TARGET)
    print_validity("validity, tools as maps", TOOL.to_mcp(), ToolCallValidity(), None)


if __name__ == "__main__":
    main()
