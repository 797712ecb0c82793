"""`from dokimos import *` brings names that type checkers know."""

from __future__ import annotations

from dokimos import *

assert_type_of_result: ExperimentResult = evaluate(
    [Example.of("a", "a")], str.upper, [evaluators.ExactMatch()]
)
score: Score = Score(1.0)
undefined_name  # error
