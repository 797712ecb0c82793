"""Word error rate: how many words must change to turn the output into the expected text."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import ClassVar

from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize, quote
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._edit_distance import edit_distance
from dokimos.evaluators._nlp.word_sequences import reference_texts, without_punctuation


@dataclass(frozen=True, kw_only=True)
class WordErrorRate(Evaluator):
    """Word insertions, deletions and substitutions per expected word; at most 1, and lower is better.

    Words are what stands between white space. With nothing expected, an empty output scores 0 and any
    other 1. Where the expected output is a list of strings, the lowest rate over them counts. The metadata
    holds `edits` and `expected_words`, for a rate over many items.

    Example:
        >>> case = EvalTestCase.of("Transcribe.", "turn the light on", "turn the lights on")
        >>> WordErrorRate().evaluate(case).score
        0.25
    """

    method_source = "The usual measure of speech recognition: Levenshtein (1966), on words."
    default_name = "WER"
    requires: ClassVar[tuple[str, ...]] = ("actual_output", "expected_output")
    lower_is_better = True

    ignore_case: bool = False
    """Ignore upper and lower case."""
    ignore_punctuation: bool = False
    """Whether ASCII punctuation is deleted before words are compared."""

    def score(self, case: EvalTestCase) -> Score:
        output = self._words(case.actual_output or "")
        scores = [_compare(output, self._words(text)) for text in reference_texts(case)]
        return min(scores, key=attrgetter("value"))

    def _words(self, text: str) -> list[str]:
        if self.ignore_case:
            text = text.casefold()
        return (without_punctuation(text) if self.ignore_punctuation else text).split()


def _compare(output: list[str], expected: list[str]) -> Score:
    edits = edit_distance(*_as_characters(output, expected))
    metadata = {"edits": edits, "expected_words": len(expected)}
    if not expected:
        statement = f"No words were expected, and the output has {len(output) or 'none'}."
        return Score(1.0 if output else 0.0, statement, metadata=metadata)
    rate = edits / len(expected)
    capped = f", counted as 1 instead of {rate:.2f}" if rate > 1 else ""
    statement = (
        f"The output is {pluralize(edits, 'word edit')} away from {pluralize(len(expected), 'expected word')}"
    )
    first = _first_difference(output, expected)
    return Score(min(1.0, rate), f"{statement}{capped}{first}.", metadata=metadata)


def _first_difference(output: list[str], expected: list[str]) -> str:
    for number, (got, expected_word) in enumerate(zip(output, expected, strict=False), start=1):
        if got != expected_word:
            return f"; word {number} is {quote(got)} instead of {quote(expected_word)}"
    if len(output) < len(expected):
        return f"; the output ends before {quote(expected[len(output)])}"
    return (
        f"; the output continues with {quote(output[len(expected)])}" if len(output) > len(expected) else ""
    )


def _as_characters(output: list[str], expected: list[str]) -> tuple[str, str]:
    """Turn equal words into equal characters, so that the distance of words is one of strings."""
    distinct = dict.fromkeys(chain(output, expected))
    # Any characters will do, also surrogates: the texts are only compared, and never written.
    character_of = dict(zip(distinct, map(chr, range(len(distinct))), strict=True)).__getitem__
    return "".join(map(character_of, output)), "".join(map(character_of, expected))
