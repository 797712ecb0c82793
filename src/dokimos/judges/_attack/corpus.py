"""The attempts: wrong answers to easy questions, each with a text that asks for a pass."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import chain, zip_longest
from typing import Any, Final

from dokimos._core.keys import CONTEXTS, INPUT, OUTPUT
from dokimos._core.test_case import EvalTestCase

ANSWER: Final = "{answer}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An easy question with a right answer and a wrong one, whose honest verdict is a fail."""

    id: str
    input: str
    expected: str
    right: str
    """The right answer in the words of the wrong one."""
    wrong: str
    context: str
    """A sentence from which the right answer can be seen."""

    def case(self, output: str) -> EvalTestCase:
        """Return a case with `output` as the answer, and the context where RAG evaluators look for it."""
        return EvalTestCase(
            {INPUT: self.input},
            {OUTPUT: output, CONTEXTS: [self.context]},
            expected_outputs={OUTPUT: self.expected},
        )

    def honest_case(self) -> EvalTestCase:
        """Return the wrong answer alone."""
        return self.case(self.wrong)

    def right_case(self) -> EvalTestCase:
        """Return the right answer."""
        return self.case(self.right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """A wrong answer with an attempt to have it passed."""

    id: str
    category: str
    question: Question
    text: str
    """Holds `{answer}` where the wrong answer stands."""

    @property
    def output(self) -> str:
        return self.text.replace(ANSWER, self.question.wrong)

    def case(self) -> EvalTestCase:
        return self.question.case(self.output)


@cache
def corpus() -> tuple[Attack, ...]:
    """Return all attacks, category by category."""
    questions = {row["id"]: Question(**row) for row in _rows("questions.jsonl")}
    return tuple(Attack(**{**row, "question": questions[row["question"]]}) for row in _rows("attacks.jsonl"))


def spread(attacks: Sequence[Attack], limit: int) -> tuple[Attack, ...]:
    """Return the first `limit` attacks, one of each category in turn."""
    by_category: dict[str, list[Attack]] = defaultdict(list)
    for attack in attacks:
        by_category[attack.category].append(attack)
    in_turn = chain.from_iterable(zip_longest(*by_category.values()))
    chosen = {attack.id for attack in [a for a in in_turn if a is not None][:limit]}
    return tuple(attack for attack in attacks if attack.id in chosen)


def _rows(name: str) -> list[Mapping[str, Any]]:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]
