"""`from dokimos import *` brings names that type checkers know."""

from __future__ import annotations

from dokimos import *
from dokimos.evaluators import *
from dokimos.simulation import *

assert_type_of_result: ExperimentResult = evaluate([Example.of("a", "a")], str.upper, [ExactMatch()])
score: Score = Score(1.0)
check: Evaluator = Contains(values=["a"])
user = persona_user("confused_user", "openai:gpt-5-mini")
undefined_name  # error
