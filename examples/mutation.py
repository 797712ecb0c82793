"""Find out which mistakes the metrics of a suite would not notice, and add the metric that does.

python examples/mutation.py
"""

from __future__ import annotations

import re

from dokimos import Dataset, Example, evaluate, evaluator
from dokimos.evaluators import TokenF1
from dokimos.mutation import measure_mutation_score

ANSWERS = {
    "What does it cost?": ("42 euros", "It costs 42 euros."),
    "How long can I return it?": ("30 days", "Within 30 days."),
    "How many fit in a box?": ("12 bottles", "It holds 12 bottles."),
}
EXAMPLES = [Example.of(question, expected) for question, (expected, _) in ANSWERS.items()]


@evaluator
def same_numbers(actual_output: str, expected_output: str) -> bool:
    """Passes an answer with the numbers that are expected."""
    return re.findall(r"[0-9]+", actual_output) == re.findall(r"[0-9]+", expected_output)


def answer(question: str) -> str:
    """Stand in for an application that asks a model."""
    return ANSWERS[question][1]


def main() -> None:
    words = TokenF1(threshold=0.3)
    result = evaluate(Dataset(EXAMPLES), answer, [words], quiet=True, journal=False)

    before = measure_mutation_score(result, [words])
    print(before)
    assert before.kind("wrong_number").rate == 0.0, "a metric on words does not mind another number"

    after = measure_mutation_score(result, [words, same_numbers])
    print(after)
    assert after.kind("wrong_number").rate == 1.0


if __name__ == "__main__":
    main()
