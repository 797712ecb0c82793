"""ROUGE: words, word pairs or a common subsequence that the output shares with the expected text."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final, Literal, TypeAlias

from dokimos._core.extras import require
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._nlp.stemming import porter_stem
from dokimos.evaluators._nlp.word_sequences import (
    common_subsequence_length,
    f_measure,
    highest,
    nonblank_reference_texts,
)
from dokimos.evaluators._setting_checks import check_option

RougeVariant = Literal["rouge1", "rouge2", "rougeL"]
Units: TypeAlias = Sequence[Hashable]

_NAMES: Final = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
_UNITS: Final = {
    "rouge1": ("word", "words", ""),
    "rouge2": ("word pair", "word pairs", ""),
    "rougeL": ("word", "words", " in the same order"),
}
_WORD_BYTES: Final = frozenset((string.ascii_letters + string.digits).encode())
_BLANKED: Final = bytes(byte if byte in _WORD_BYTES else ord(" ") for byte in range(256)).lower()
"""Translates every byte of UTF-8 that is not part of a word to a blank, and the others to lower case."""
_SHORTEST_STEMMED: Final = 4


@dataclass(frozen=True, kw_only=True)
class Rouge(Evaluator):
    """F-measure of the words (rouge1), word pairs (rouge2) or longest common subsequence (rougeL), 0..1.

    Words are runs of a-z and 0-9 after lower-casing, as in the package rouge-score, whose values these are:
    text in other scripts has no words and scores 0 even against itself. Where the expected output is a list
    of strings, the best score over them counts. Stemming needs the extra `nlp`.

    Example:
        >>> case = EvalTestCase.of("Summarise.", "The cat sat", "The cat sat down")
        >>> round(Rouge(variant="rougeL").evaluate(case).score, 3)
        0.857
    """

    method_source = 'Lin, "ROUGE" (2004), as computed by the package rouge-score.'
    default_name = "ROUGE-L"
    requires: ClassVar[tuple[str, ...]] = ("actual_output", "expected_output")

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
        output = self._units(case.actual_output or "")
        return highest([self._compare(output, self._units(text)) for text in nonblank_reference_texts(case)])

    def _units(self, text: str) -> Units:
        """Return what is counted: words, as bytes where they need no stem, or pairs of them."""
        # Other letters first: some have an ASCII letter for their small one.
        encoded = text.encode() if text.isascii() else text.lower().encode("utf-8", "replace")
        # Translating bytes takes a quarter of the time of a regular expression over text.
        blanked = encoded.translate(_BLANKED)
        words: Units = list(map(_stem, blanked.decode().split())) if self.use_stemmer else blanked.split()
        return list(pairwise(words)) if self.variant == "rouge2" else words

    def _compare(self, output: Units, expected: Units) -> Score:
        unit, units, how = _UNITS[self.variant]
        if not output or not expected:
            side = "expected text" if output else "output"
            return Score(0.0, f"The {side} has no {units} that ROUGE counts (letters a-z and digits).")
        count = common_subsequence_length if self.variant == "rougeL" else _count_shared
        shared, in_output, in_expected = count(expected, output), len(output), len(expected)
        return Score(
            f_measure(shared, in_output, in_expected),
            f"The output has {in_output} and the expected text {in_expected} "
            f"{unit if in_expected == 1 else units}; they share {shared}{how}.",
        )


def _stem(word: str) -> str:
    return porter_stem(word) if len(word) >= _SHORTEST_STEMMED else word


def _count_shared(first: Units, second: Units) -> int:
    return (Counter(first) & Counter(second)).total()
