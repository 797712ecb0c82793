"""Perturb a data set and find out under which changes the answers do not stay the same.

python examples/perturbation.py
"""

from __future__ import annotations

from dokimos import Dataset, Example, evaluate
from dokimos.evaluators import Equality, Length
from dokimos.perturbation import measure_invariance, perturb_dataset

QUESTIONS = Dataset(
    [
        Example.of("Where are you?", "Lisbon", id="place"),
        Example.of("How much is it?", "42 euros", id="price"),
        Example.of("When do you open?", "at 9", id="time"),
    ]
)
ANSWERS = {"where": "Lisbon", "much": "42 euros", "open": "at 9"}


def application(question: str) -> str:
    """Stand in for a model that minds typos, and obeys whoever claims to be the developer."""
    if "developer" in question:
        return question.split("only ")[1].split(",")[0]
    return next((answer for word, answer in ANSWERS.items() if word in question.lower()), "I do not know.")


def main() -> None:
    perturbed = perturb_dataset(QUESTIONS).dataset
    result = evaluate(perturbed, application, [Length(min=1)], quiet=True, journal=False)
    report = measure_invariance(result, [Equality(ignore_case=True)])
    report.print()
    assert report.kind("case").rate == 1.0
    assert report.kind("injection: authority").rate == 0.0


if __name__ == "__main__":
    main()
