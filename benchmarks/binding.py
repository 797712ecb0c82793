"""What it costs to bind a verdict to its call by having it repeat the random marker of the fences.

Run with `python benchmarks/binding.py http://localhost:8080/v1#name`. Each prompt is asked with and without a
field `marker` in the reply's schema; the figures are the share of valid replies and the tokens written. The
replies are kept in a file (`--calls`), so that a run that was broken off goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import JudgeReplyError
from dokimos.evaluators._llm.case_sections import material
from dokimos.evaluators._llm.rating import ReasonedRating, Scale, rating_prompt
from dokimos.judges._attack.corpus import corpus, spread
from dokimos.judges._factory import judge as judge_named
from dokimos.judges._fencing import MARKER
from dokimos.judges._judge_calls import complete
from dokimos.judges._protocol import JudgeLM
from dokimos.judges._reply_parser import parse_reply
from dokimos.judges._reply_schema import schema_of
from dokimos.judges._run_call_store import RunCallStore
from dokimos.judges._run_scope import RunScope, enter_scope

CRITERIA: Final = "The actual output answers the input correctly. The expected output shows a correct answer."
PARTS: Final = ("input", "actual_output", "expected_output")
SCALE: Final = Scale(0, 1)
BIND: Final = f'First copy the random marker of the material, "{MARKER}", into "marker".'
MARKER_FIELD: Final = {"type": "string"}
LOST_BUDGET: Final = 2.0
"""Points by which the share of valid replies may fall."""
TOKENS_BUDGET: Final = 0.15
"""Share by which the tokens written may rise."""


@dataclass(frozen=True)
class Outcome:
    """What became of one prompt."""

    valid: bool
    bound: bool
    """Whether the reply has the right marker."""
    tokens: int
    text: str


def cases(attacks: int) -> Iterator[tuple[str, EvalTestCase]]:
    """Yield the right and the wrong answers of the attack corpus, and some of its attacks."""
    for question in {attack.question.id: attack.question for attack in corpus()}.values():
        yield f"{question.id} right", question.right_case()
        yield f"{question.id} wrong", question.honest_case()
    for attack in spread(corpus(), attacks):
        yield attack.id, attack.case()


def prompt_of(case: EvalTestCase, *, bind: bool) -> tuple[str, dict[str, Any]]:
    """Return the prompt that an LLM judge is sent, still with the marker's placeholder, and its schema."""
    schema = schema_of(ReasonedRating)
    question = rating_prompt(CRITERIA, material(case, PARTS), SCALE)
    if bind:
        question += f" {BIND}"
        properties = {"marker": MARKER_FIELD, **schema["properties"]}
        schema = {**schema, "properties": properties, "required": list(properties)}
    request = f"Reply with one JSON object only, valid under this JSON Schema:\n{json.dumps(schema)}"
    return f"{question}\n\n{request}", schema


async def outcome_of(judge: JudgeLM, name: str, case: EvalTestCase, *, bind: bool, hold: bool) -> Outcome:
    """Ask once, without a repair, and look whether the reply can be used."""
    marker = hashlib.sha256(name.encode()).hexdigest()[:8]  # the same in a run that is taken up again
    prompt, schema = prompt_of(case, bind=bind)
    try:
        reply = await complete(judge, prompt.replace(MARKER, marker), schema=schema if hold else None)
    except JudgeReplyError as unusable:
        spent = unusable.metrics.tokens_out if unusable.metrics else None
        return Outcome(False, False, spent or 0, str(unusable))
    tokens = reply.metrics.tokens_out if reply.metrics else None
    try:
        parse_reply(reply.text, ReasonedRating, lambda rating: SCALE.check(rating.score))
        valid = True
    except ValueError:
        valid = False
    return Outcome(valid, f'"{marker}"' in reply.text, tokens or 0, reply.text)


async def measure(judge: JudgeLM, calls: Path, *, attacks: int, hold: bool) -> dict[bool, list[Outcome]]:
    """Ask all prompts both ways, in turn."""
    store = RunCallStore(calls)
    found: dict[bool, list[Outcome]] = {False: [], True: []}
    try:
        enter_scope(RunScope(call_stores=(store,), in_flight={}))
        for name, case in cases(attacks):
            for bind in (False, True):
                outcome = await outcome_of(judge, name, case, bind=bind, hold=hold)
                found[bind].append(outcome)
                mark = "valid" if outcome.valid else f"NOT VALID: {outcome.text!r}"
                print(f"{name}, {'bound' if bind else 'plain'}: {outcome.tokens} tokens, {mark}", flush=True)
    finally:
        store.close()
    return found


def report(found: dict[bool, list[Outcome]]) -> bool:
    """Print the figures; return whether binding costs little enough."""
    shares, tokens = {}, {}
    for bind, outcomes in found.items():
        shares[bind] = 100 * sum(outcome.valid for outcome in outcomes) / len(outcomes)
        tokens[bind] = sum(outcome.tokens for outcome in outcomes)
        right = f", {sum(o.bound for o in outcomes)} with the right marker" if bind else ""
        print(
            f"{'with' if bind else 'without'} binding: {sum(o.valid for o in outcomes)} of {len(outcomes)} "
            f"valid ({shares[bind]:.1f} %){right}; {tokens[bind]} tokens written"
        )
    lost, more = shares[False] - shares[True], tokens[True] / max(tokens[False], 1) - 1
    print(f"valid replies fall by {lost:.1f} points (budget {LOST_BUDGET:g})")
    print(f"tokens written rise by {more:.1%} (budget {TOKENS_BUDGET:.0%})")
    return lost < LOST_BUDGET and more < TOKENS_BUDGET


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="such as http://localhost:8080/v1#name")
    parser.add_argument("--attacks", type=int, default=24, help="so many attacks beside the plain answers")
    parser.add_argument("--hold", action="store_true", help="have the server hold the model to the schema")
    parser.add_argument("--calls", type=Path, default=Path("binding.calls.jsonl"))
    options = parser.parse_args()
    judge = judge_named(options.model, temperature=0, max_tokens=300, timeout=900)
    return not report(asyncio.run(measure(judge, options.calls, attacks=options.attacks, hold=options.hold)))


if __name__ == "__main__":
    raise SystemExit(main())
