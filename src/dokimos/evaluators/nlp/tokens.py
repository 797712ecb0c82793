"""What the text metrics share: reference texts, words and the measures over sequences of words."""

from __future__ import annotations

import string
from collections.abc import Hashable, Sequence
from typing import Final

from dokimos.core.keys import OUTPUT
from dokimos.core.test_case import EvalTestCase
from dokimos.errors import EvaluationError

_ASCII_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


def reference_texts(case: EvalTestCase) -> tuple[str, ...]:
    """Return the texts to compare with: the expected output, or its elements where it is a list of strings.

    Raises `EvaluationError` when there is none.
    """
    value = case.expected_outputs.get(OUTPUT)
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and all(isinstance(text, str) for text in value):
        if not value:
            raise EvaluationError("The expected output is an empty list; give at least one reference text.")
        return tuple(value)
    text = case.expected_output
    if text is None:
        raise EvaluationError("The case has no expected output to compare with.")
    return (text,)


def nonblank_reference_texts(case: EvalTestCase) -> tuple[str, ...]:
    """Return the reference texts of a metric that says nothing about an empty one.

    Raises `EvaluationError` when there is none, or one is blank.
    """
    texts = reference_texts(case)
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            which = "The expected output" if len(texts) == 1 else f"Reference {number} of {len(texts)}"
            raise EvaluationError(f"{which} is blank ({text!r:.20}), so there is no text to compare with.")
    return texts


def without_punctuation(text: str) -> str:
    """Delete the 32 ASCII punctuation characters; other signs stay."""
    return text.translate(_ASCII_PUNCTUATION)


def f_measure(shared: int, output_size: int, expected_size: int) -> float:
    """Return the harmonic mean of precision and recall; 0.0 if nothing is shared."""
    return 2 * shared / (output_size + expected_size) if shared else 0.0


def common_subsequence_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the length of the longest common subsequence.

    Bit-parallel (Hyyrö 2004): one integer holds a whole row of the table, a bit cleared where the row grows,
    so a step costs three operations on integers of `len(first)` bits.
    """
    positions = _positions(first)
    every = (1 << len(first)) - 1
    row = every
    for element in second:
        places = positions.get(element)
        if places:
            hits = row & places
            row = ((row + hits) | (row - hits)) & every
    return len(first) - row.bit_count()


def _positions(sequence: Sequence[Hashable]) -> dict[Hashable, int]:
    """Map each element to the integer whose bits say where it occurs."""
    positions: dict[Hashable, int] = {}
    for place, element in enumerate(sequence):
        positions[element] = positions.get(element, 0) | (1 << place)
    return positions
