"""METEOR: words that the output shares with the expected text by form, stem or meaning, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Final

from dokimos._core.extras import require
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._nlp.stemming import Stemmer
from dokimos.evaluators._nlp.word_sequences import highest, nonblank_reference_texts
from dokimos.evaluators._nlp.wordnet import NoSynonyms, load_wordnet

ALPHA: Final = 0.9
"""Weight of recall against precision."""
BETA: Final = 3
"""How steeply the penalty grows with the number of runs."""
GAMMA: Final = 0.5
"""The penalty of a match that is in pieces."""


@dataclass(frozen=True, kw_only=True)
class Meteor(Evaluator):
    """METEOR (Lavie and Agarwal 2007) as in NLTK, on Treebank words in lower case, 0..1.

    Words match by form, by Porter stem, then by WordNet synonyms; matches that are not in one run are
    penalised, so that equal texts stay a little below 1. Where the expected output is a list of strings, the
    best score over them counts. Needs the extra `nlp` and, for synonyms, WordNet on the machine.

    Example:
        >>> case = EvalTestCase.of("Translate.", "the cats sat", "the cat sat")
        >>> round(Meteor(synonyms=False).evaluate(case).score, 3)
        0.981
    """

    method_source = 'Lavie and Agarwal, "METEOR" (2007), as computed by NLTK.'
    default_name = "METEOR"
    requires: ClassVar[tuple[str, ...]] = ("actual_output", "expected_output")
    extra: ClassVar[str | None] = "nlp"

    synonyms: bool = True
    """Whether WordNet synonyms match; without them no data is needed."""

    def __post_init__(self) -> None:
        require("nltk.translate.meteor_score", extra="nlp")  # here, because it takes seconds
        if self.synonyms:
            load_wordnet()
        super().__post_init__()

    def score(self, case: EvalTestCase) -> Score:
        references = nonblank_reference_texts(case)
        output = _words(case.actual_output or "")
        if not output:
            return Score(0.0, "The output is empty.")
        return highest([self._compare(output, _words(text)) for text in references])

    def _compare(self, output: list[str], expected: list[str]) -> Score:
        align = require("nltk.translate.meteor_score", extra="nlp").align_words
        wordnet = load_wordnet() if self.synonyms else NoSynonyms()
        pairs, _, unmatched = align(output, expected, stemmer=Stemmer(), wordnet=wordnet)
        if not pairs:
            return Score(0.0, f"The output has none of the expected words: {format_list(expected)}.")
        runs = _count_runs(pairs)
        missing = format_list([expected[index] for index, _ in unmatched])
        expected_words = pluralize(len(expected), "expected word")
        return Score(
            meteor(len(pairs), runs, output_size=len(output), expected_size=len(expected)),
            f"The output has {len(pairs)} of {expected_words} among its {len(output)}, "
            f"in {pluralize(runs, 'run')}{f'; missing: {missing}' if missing else ''}.",
        )


def meteor(matches: int, runs: int, *, output_size: int, expected_size: int) -> float:
    """Return the METEOR score of `matches` words (at least one) that stand in `runs` runs in both texts."""
    precision, recall = matches / output_size, matches / expected_size
    mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    return (1 - GAMMA * (runs / matches) ** BETA) * mean


def _count_runs(pairs: Sequence[tuple[int, int]]) -> int:
    """Count the runs of pairs that are neighbours in both texts; `pairs` is sorted."""
    return 1 + sum(later != (index + 1, other + 1) for (index, other), later in pairwise(pairs))


def _words(text: str) -> list[str]:
    words: list[str] = _tokenizer().tokenize(text)
    return words


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    return require("nltk.tokenize", extra="nlp").TreebankWordTokenizer()
