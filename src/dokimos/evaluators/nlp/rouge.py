"""ROUGE: words, word pairs or a common subsequence that the output shares with the expected text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, Literal, cast

from dokimos.core.extras import require
from dokimos.core.results import Score
from dokimos.core.test_case import EvalTestCase
from dokimos.core.text import counted
from dokimos.evaluators.base import Evaluator
from dokimos.evaluators.checks import check_option
from dokimos.evaluators.nlp.tokens import common_subsequence_length, f_measure, nonblank_reference_texts

RougeVariant = Literal["rouge1", "rouge2", "rougeL"]

_NAMES: Final = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
_UNITS: Final = {
    "rouge1": ("word", ""),
    "rouge2": ("word pair", ""),
    "rougeL": ("word", " in the same order"),
}
_WORD: Final = re.compile(r"[a-z0-9]+")
_SHORTEST_STEMMED: Final = 4


@dataclass(frozen=True, kw_only=True)
class Rouge(Evaluator):
    """F-measure of the words (rouge1), word pairs (rouge2) or longest common subsequence (rougeL), 0..1.

    Words are runs of a-z and 0-9 after lower-casing, as in the package rouge-score, whose values these are:
    text in other scripts has no words and scores 0 even against itself. Where the expected output is a list
    of strings, the best score over them counts. Stemming needs the extra `nlp`.
    """

    default_name = "ROUGE-L"
    requires = ("actual_output", "expected_output")

    variant: RougeVariant = "rougeL"
    """What is counted: words, word pairs or the longest common subsequence."""
    use_stemmer: bool = False
    """Whether words longer than three letters are compared by their Porter stem."""

    def __post_init__(self) -> None:
        check_option(self, "variant", self.variant, tuple(_NAMES))
        if self.use_stemmer:
            require("nltk.stem.porter", extra="nlp")  # here, because it takes seconds
        if not self.name:
            object.__setattr__(self, "name", _NAMES[self.variant])
        super().__post_init__()

    def score(self, case: EvalTestCase) -> Score:
        output = self._words(case.actual_output or "")
        scores = (self._compared(output, self._words(text)) for text in nonblank_reference_texts(case))
        return max(scores, key=lambda score: score.value)

    def _words(self, text: str) -> list[str]:
        words = _WORD.findall(text.lower())
        return [_stem(word) for word in words] if self.use_stemmer else words

    def _compared(self, output: list[str], expected: list[str]) -> Score:
        if not output or not expected:
            side = "expected text" if output else "output"
            return Score(0.0, f"The {side} has no words that ROUGE counts (letters a-z and digits).")
        shared, in_output, in_expected = _COUNTS[self.variant](output, expected)
        unit, how = _UNITS[self.variant]
        return Score(
            f_measure(shared, in_output, in_expected),
            f"The output has {in_output} and the expected text {counted(in_expected, unit)}; "
            f"they share {shared}{how}.",
        )


def _subsequence_counts(output: list[str], expected: list[str]) -> tuple[int, int, int]:
    return common_subsequence_length(expected, output), len(output), len(expected)


def _word_counts(output: list[str], expected: list[str]) -> tuple[int, int, int]:
    return _shared(output, expected), len(output), len(expected)


def _pair_counts(output: list[str], expected: list[str]) -> tuple[int, int, int]:
    return _shared(list(pairwise(output)), list(pairwise(expected))), len(output) - 1, len(expected) - 1


_COUNTS: Final[dict[str, Callable[[list[str], list[str]], tuple[int, int, int]]]] = {
    "rouge1": _word_counts,
    "rouge2": _pair_counts,
    "rougeL": _subsequence_counts,
}


def _shared(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    return (Counter(first) & Counter(second)).total()


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    if len(word) < _SHORTEST_STEMMED:
        return word
    return cast("str", _stemmer().stem(word))


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    return require("nltk.stem.porter", extra="nlp").PorterStemmer()
