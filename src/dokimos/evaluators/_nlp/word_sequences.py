"""Shared by the text metrics: reference texts, tokenization, and measures over sequences of words."""

from __future__ import annotations

import string
from collections.abc import Hashable, Sequence
from operator import attrgetter
from typing import Final

from dokimos._core.keys import OUTPUT
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import EvaluationError

MOST_CELLS: Final = 20_000_000_000
"""Pairs of words that are compared in order: 140,000 words against as many take about three seconds."""
PUNCTUATION: Final = string.punctuation.encode()


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
    if all(map(str.strip, texts)):
        return texts
    number, text = next((number, text) for number, text in enumerate(texts, start=1) if not text.strip())
    which = "The expected output" if len(texts) == 1 else f"Reference {number} of {len(texts)}"
    raise EvaluationError(f"{which} is blank ({text!r:.20}), so there is no text to compare with.")


def highest(scores: Sequence[Score]) -> Score:
    """Return the score with the highest value, the first of equals."""
    return scores[0] if len(scores) == 1 else max(scores, key=attrgetter("value"))


def without_punctuation(text: str) -> str:
    """Delete the 32 ASCII punctuation characters; other signs stay."""
    # As bytes, because it takes a third of the time, and no other sign of UTF-8 contains an ASCII byte.
    left = text.encode("utf-8", "surrogatepass").translate(None, PUNCTUATION)
    return left.decode("utf-8", "surrogatepass")


def f_measure(shared: int, output_size: int, expected_size: int) -> float:
    """Return the harmonic mean of precision and recall; 0.0 if nothing is shared."""
    return 2 * shared / (output_size + expected_size) if shared else 0.0


def common_subsequence_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the length of the longest common subsequence.

    Raises:
        EvaluationError: for sequences so long that it would take minutes.
    """
    start = 0  # what both begin or end with belongs to it, and is quickly counted
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        start += 1
    end, most = 0, min(len(first), len(second)) - start
    while end < most and first[-1 - end] == second[-1 - end]:
        end += 1
    one, other = first[start : len(first) - end], second[start : len(second) - end]
    # Without a limit, two long texts would block the run for minutes; an error is better than a hang.
    if len(one) * len(other) > MOST_CELLS:
        raise EvaluationError(
            f"The texts are too long for their longest common subsequence: where they differ, they have "
            f"{len(one):,} and {len(other):,} words. Compare shorter texts, or choose token_f1 or rouge1."
        )
    rest = _subsequence_length(one, other)
    return start + rest + end


def _subsequence_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Count by bits (Hyyrö 2004): one integer holds a row of the table, a bit cleared where the row grows.

    The carry that leaves the row when it grows is kept above it, one more bit each time.
    """
    masks: dict[Hashable, int] = {}  # the bits of each element say where it occurs
    bit = 1
    for element in first:
        if element in masks:
            masks[element] |= bit
        else:
            masks[element] = bit
        bit += bit
    row = bit - 1
    for hits in map(masks.get, second):
        if hits:
            hits &= row
            row = (row + hits) | (row - hits)
    return row.bit_length() - len(first)
