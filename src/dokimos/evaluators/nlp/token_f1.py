"""Token F1: how many words the output shares with the expected answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from dokimos.core.results import Score
from dokimos.core.test_case import EvalTestCase
from dokimos.core.text import counted, listed
from dokimos.evaluators.base import Evaluator
from dokimos.evaluators.nlp.tokens import f_measure, highest, reference_texts, without_punctuation

_ARTICLES: Final = frozenset({"a", "an", "the"})
_ARTICLE: Final = re.compile(r"\b(?:an?|the)\b")


@dataclass(frozen=True, kw_only=True)
class TokenF1(Evaluator):
    """F1 of the words that the output and the expected answer share, counted with repetition, 0..1.

    Words are normalised as for the SQuAD question answering set: lower case, without ASCII punctuation and
    English articles, split at white space. Two texts without words agree (1.0); one alone scores 0.0.
    Where the expected output is a list of strings, the best score over them counts.
    """

    default_name = "F1 Score"
    requires = ("actual_output", "expected_output")

    drop_articles: bool = True
    """Whether "a", "an" and "the" are left out; turn it off for other languages."""

    def score(self, case: EvalTestCase) -> Score:
        output = self._words(case.actual_output or "")
        return highest([_compared(output, self._words(text)) for text in reference_texts(case)])

    def _words(self, text: str) -> list[str]:
        text = without_punctuation(text.lower())
        if not self.drop_articles:
            return text.split()
        if text.isascii():  # then an article can only touch white space, and this is twice as fast
            return [word for word in text.split() if word not in _ARTICLES]
        return _ARTICLE.sub(" ", text).split()


def _compared(output: list[str], expected: list[str]) -> Score:
    if not expected:
        return _compared_with_nothing(output)
    if not output:
        return Score(0.0, f"The output has no words; expected {listed(expected)}.")
    missing, surplus = _differences(output, expected)
    shared = len(output) - len(surplus)
    wanted = counted(len(expected), "expected word")
    found = f"The output has {shared} of {wanted} among its {len(output)}"
    found += f"; missing: {listed(missing)}" if missing else ""
    found += f"; surplus: {listed(surplus)}" if surplus else ""
    return Score(f_measure(shared, len(output), len(expected)), f"{found}.")


def _compared_with_nothing(output: list[str]) -> Score:
    if not output:
        return Score(1.0, "Neither the output nor the expected answer has words.")
    return Score(0.0, f"No words were expected, but the output has {listed(output)}.")


def _differences(output: list[str], expected: list[str]) -> tuple[list[str], list[str]]:
    """Return the distinct expected words that the output lacks, and all its words that were not expected."""
    unmatched: dict[str, int] = {}
    count_of = unmatched.get
    for word in expected:
        unmatched[word] = count_of(word, 0) + 1
    surplus = []
    for word in output:
        if count := count_of(word):
            unmatched[word] = count - 1
        else:
            surplus.append(word)
    return [word for word, count in unmatched.items() if count], surplus
