"""Token F1: how many words the output shares with the expected answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._nlp.word_sequences import (
    PUNCTUATION,
    f_measure,
    highest,
    reference_texts,
    without_punctuation,
)

_ARTICLES: Final = frozenset({"a", "an", "the"})
_LOWER_CASE_TABLE: Final = bytes(range(256)).lower()
_ARTICLE: Final = re.compile(r"\b(?:an?|the)\b")


@dataclass(frozen=True, kw_only=True)
class TokenF1(Evaluator):
    """F1 of the words that the output and the expected answer share, counted with repetition, 0..1.

    Words are normalised as for the SQuAD question answering set: lower case, without ASCII punctuation and
    English articles, split at white space. Two texts without words agree (1.0); one alone scores 0.0.
    Where the expected output is a list of strings, the best score over them counts.

    Example:
        >>> TokenF1().evaluate(EvalTestCase.of("Who?", "Ada Lovelace", "Countess Ada Lovelace")).score
        0.8
    """

    method_source = 'Rajpurkar et al., "SQuAD" (2016).'
    default_name = "F1 Score"
    requires: ClassVar[tuple[str, ...]] = ("actual_output", "expected_output")

    drop_articles: bool = True
    """Whether "a", "an" and "the" are left out; turn it off for other languages."""

    def score(self, case: EvalTestCase) -> Score:
        output = self._words(case.actual_output or "")
        ignored = _ARTICLES if self.drop_articles else frozenset[str]()
        return highest([_compare(output, self._words(text), ignored) for text in reference_texts(case)])

    def _words(self, text: str) -> list[str]:
        if text.isascii():  # articles can only touch white space; they are ignored later, which is faster
            return text.encode().translate(_LOWER_CASE_TABLE, PUNCTUATION).decode().split()
        text = without_punctuation(text.lower())
        return (_ARTICLE.sub(" ", text) if self.drop_articles else text).split()


def _compare(output: list[str], expected: list[str], ignored: frozenset[str]) -> Score:
    """Compare two lists of words, of which the ignored ones do not count."""
    unmatched = _occurrences(expected)
    expected_size = len(expected) - sum([unmatched.pop(word, 0) for word in ignored])
    left_over = _find_surplus(output, unmatched)
    shared = len(output) - len(left_over)
    surplus = [word for word in left_over if word not in ignored]
    missing = [word for word, count in unmatched.items() if count]
    size = shared + len(surplus)
    value = f_measure(shared, size, expected_size) if size or expected_size else 1.0
    return Score(value, _reason(shared, size, expected_size, missing, surplus))


def _occurrences(words: list[str]) -> dict[str, int]:
    occurrences: dict[str, int] = {}
    count_of = occurrences.get
    for word in words:
        occurrences[word] = count_of(word, 0) + 1
    return occurrences


def _find_surplus(words: list[str], unmatched: dict[str, int]) -> list[str]:
    """Take the words away from the unmatched ones; return those that are not there, or no longer."""
    count_of, left_over = unmatched.get, []
    for word in words:
        if count := count_of(word):
            unmatched[word] = count - 1
        else:
            left_over.append(word)
    return left_over


def _reason(shared: int, size: int, expected_size: int, missing: list[str], surplus: list[str]) -> str:
    if not expected_size:
        if not size:
            return "Neither the output nor the expected answer has words."
        return f"No words were expected, but the output has {format_list(surplus)}."
    if not size:
        return f"The output has no words; expected {format_list(missing)}."
    statement = f"The output has {shared} of {pluralize(expected_size, 'expected word')} among its {size}"
    statement += f"; missing: {format_list(missing)}" if missing else ""
    statement += f"; surplus: {format_list(surplus)}" if surplus else ""
    return f"{statement}."
