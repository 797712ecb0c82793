"""What a person should look at in a generated case: signs that are wrong often enough to be named."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

_NUMBER: Final = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
_MENTION: Final = re.compile(
    r"\b(?:according to|in|from|per) (?:the|this) (?:text|document|passage|source|excerpt|article)\b"
    r"|\b(?:the|this) (?:source|passage|excerpt)\b"
    r"|\b(?:the|this) (?:text|document|article) (?:state|say|mention|describe|explain|specif|mean)",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(r"^(?:it|they|this|that|these|those|he|she)\b", re.IGNORECASE)
_LONG_ANSWER: Final = 400
_SHARED_WORDS: Final = 0.5
_LONG_WORD: Final = 4
HARD: Final = "the weak model never got it right: is the expected answer right?"


def find_doubts(text: str, answer: str, passage: str) -> Iterator[str]:
    """Yield what is doubtful about a case, in a few words each."""
    if missing := [number for number in _NUMBER.findall(answer) if number not in passage]:
        yield f"the answer has numbers that the passage lacks: {', '.join(missing[:3])}"
    if answer and _share_of_words(answer, passage) < _SHARED_WORDS:
        yield "most words of the answer are not in the passage"
    if _MENTION.search(text):
        yield "the input speaks of the source, which a user does not know"
    if _REFERENCE.search(text.strip()):
        yield "the input starts with a word that refers to something unsaid"
    normalized = normalize(answer)
    if len(normalized) > _LONG_WORD and f" {normalized} " in f" {normalize(text)} ":
        yield "the input contains the answer"
    if len(answer) > _LONG_ANSWER:
        yield f"the answer has {len(answer)} characters: is all of it needed?"


def normalize(text: str) -> str:
    """Return the letters and digits of a text in small letters, a blank between words."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(sign if sign.isalnum() else " " for sign in folded).split())


def _share_of_words(answer: str, passage: str) -> float:
    """Return the share of the longer words of an answer that the passage has, by their starts."""
    words = [word for word in normalize(answer).split() if len(word) >= _LONG_WORD]
    if not words:
        return 1.0
    known = normalize(passage)
    return sum(word[:_LONG_WORD] in known for word in words) / len(words)
