"""Faults in a text: each function returns the text with one fault, None where the text offers no place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from dokimos.mutation._kinds import MutationKind
from dokimos.mutation._negation import guess_language, negation_changes
from dokimos.mutation._vocabulary import Vocabulary, find_names, is_label

# Not the digits of a name such as A4, of a citation such as [2], or of a numbered list.
_NUMBER: Final = re.compile(r"(?<![\w.,])(?<!\[)\d+(?:[.,:٫٬]\d+)*")
_LIST_MARK: Final = re.compile(r"(?m)^[ \t]*[0-9]+[.)](?=\s)")
_NUMBER_WORDS: Final = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve")
_NUMBER_WORD: Final = re.compile(rf"\b(?:{'|'.join(_NUMBER_WORDS)})\b", re.IGNORECASE)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?؟۔।])\s+(?=\S)|(?<=[。！？])(?=\S)|\s*\n\s*(?=\S)")
_CLAUSE: Final = re.compile(
    r"[,;:]\s+(?:(?:and|but|because|which|while)\s+)?|\s+(?:and|but|or|because|which|while|although)\s+"
    r"|\s+(?:und|aber|oder|weil|et|mais|ou|y|pero|o)\s+|[，；、،؛]",
    re.IGNORECASE,
)
_LAST_SIGNS: Final = re.compile(r"[.!?。！？؟۔।\s]*\Z")
_AUXILIARY: Final = re.compile(
    r"\b(?:can['’]t|won['’]t|cannot|(?:is|are|was|were|can|could|will|would|should|must|may|might|does|do|did|has|have|had)"
    r"(?:n['’]t|\s+not)?|(?:it|that|he|she|there|they|we|you|I)['’](?:s|re|m|ll))(?!\w)",
    re.IGNORECASE,
)
_CONTRACTED: Final = {"can't": "can", "won't": "will", "cannot": "can"}
_OPPOSITES: Final = {
    "yes": "no", "true": "false", "always": "never", "ja": "nein", "oui": "non", "sí": "no",
    "correct": "incorrect", "possible": "impossible", "allowed": "forbidden", "included": "excluded",
}  # fmt: skip
_OPPOSITE_OF: Final = {"no": "yes", **{other: word for word, other in _OPPOSITES.items() if other != "no"}}
_POLAR: Final = re.compile(
    # "no" is an answer only where it stands alone: "no later than" has no opposite of one word.
    r"\b(?:" + "|".join({*_OPPOSITES, *_OPPOSITE_OF} - {"no"}) + r")\b(?!-)|\bno\b(?=\s*(?:[,.;:!?]|$))",
    re.IGNORECASE,
)
_REFUSAL_SIGNS: Final = re.compile(
    r"\b(?:can(?:no|['’])t|unable to|not able to|not going to)\s+(?:\w+\s+)?(?:help|assist|answer|provide)"
    r"|\b(?:do not|don['’]t)\s+(?:know\b|have\b[\w\s]*\b(?:information|answer|access)\b)"
    r"|\bno information\b|\boutside (?:of )?(?:my|the) (?:scope|area)",
    re.I,
)
REFUSALS: Final = (
    "I'm sorry, but I can't help with that.",
    "I cannot answer this question.",
    "As an AI model, I am not able to assist with this request.",
)
_SHORTEST_CUT: Final = 12
"""A text with fewer characters is not cut off: what is left would say little."""

TextFault: TypeAlias = Callable[[str, Random, Vocabulary], str | None]


@dataclass(frozen=True, slots=True)
class _Edit:
    """A part of a text, and what replaces it."""

    start: int
    end: int
    text: str

    def apply(self, text: str) -> str:
        return f"{text[: self.start]}{self.text}{text[self.end :]}"


def change_number(text: str, random: Random, vocabulary: Vocabulary) -> str | None:
    """Give a number another digit, or replace a number in words."""
    marks = {match.end() - 1 for match in _LIST_MARK.finditer(text)}
    numbers = [match for match in _NUMBER.finditer(text) if match.end() not in marks]
    if numbers:
        match = random.choice(numbers)
        return _Edit(*match.span(), change_digits(match[0], random)).apply(text)
    words = list(_NUMBER_WORD.finditer(text))
    if not words:
        return None
    match = random.choice(words)
    other = random.choice([word for word in _NUMBER_WORDS if word != match[0].lower()])
    return _Edit(*match.span(), _with_case_of(match[0], other)).apply(text)


def change_digits(number: str, random: Random) -> str:
    """Return a number with another digit where it counts: the first or last of its whole part."""
    whole = re.match(r"\d+", number)
    end = len(number) if whole is None else whole.end()
    first = next((place for place, sign in enumerate(number) if sign.isdecimal() and int(sign)), 0)
    places = [first] if first >= end else sorted({first, end - 1})
    # Of a year, the century stays: 2019 becomes 2014, which a reader would believe.
    if len(number) == end == 4 and int(number[0]) in (1, 2):
        places = [2, 3]
    place = random.choice(places)
    lowest, was = int(place == 0 and end > 1), int(number[place])
    digit = random.choice([d for d in range(lowest, 10) if d != was])
    # Of the same script: ٤ becomes ٧.
    sign = chr(ord(number[place]) - was + digit)
    return f"{number[:place]}{sign}{number[place + 1 :]}"


def drop_clause(text: str, random: Random, vocabulary: Vocabulary) -> str | None:
    """Leave out one sentence; where there is one only, a clause of it."""
    sentences = _spans(text, _SENTENCE_END)
    if len(sentences) > 1:
        index = random.randrange(len(sentences))
        start, end = sentences[index]
        # With the white space between it and its neighbour, so that no gap shows where something was.
        if index + 1 < len(sentences):
            end = sentences[index + 1][0]
        else:
            start = sentences[index - 1][1]
        return _Edit(start, end, "").apply(text).strip()
    clauses = list(_CLAUSE.finditer(text))
    last = _last_signs(text)
    clauses = [match for match in clauses if match.start() > 0 and match.end() < last]
    if not clauses:
        return None
    index = random.randrange(len(clauses))
    end = clauses[index + 1].start() if index + 1 < len(clauses) else last
    return _Edit(clauses[index].start(), end, "").apply(text)


def swap_name(text: str, random: Random, vocabulary: Vocabulary) -> str | None:
    """Replace a name by one from another answer; an answer of few words as a whole, as a label is."""
    if is_label(text):
        others = vocabulary.other_labels(text)
        if others:
            return random.choice(others)
    names = list(find_names(text))
    if not names:
        return None
    start, end = random.choice(names)
    others = vocabulary.other_names(text[start:end], text)
    return _Edit(start, end, random.choice(others)).apply(text)


def negate(text: str, random: Random, vocabulary: Vocabulary) -> str | None:
    """Make a statement say the opposite, in English, German, French or Spanish."""
    language = guess_language(text)
    # The verbs of one language are other words of another: "was" is "what" in German.
    verbs = _auxiliary_edits(text) if language == "en" else _foreign_edits(text, language)
    edits = [*_polar_edits(text), *verbs]
    return random.choice(edits).apply(text) if edits else None


def refuse(text: str, random: Random, vocabulary: Vocabulary) -> str | None:
    """Decline to answer."""
    if not text.strip() or (_REFUSAL_SIGNS.search(text) and len(text) < 200):
        return None
    return random.choice(REFUSALS)


def cut_off(text: str, random: Random, vocabulary: Vocabulary) -> str | None:
    """Break off in the middle, at a word where words are apart."""
    whole = text.strip()
    if len(whole) < _SHORTEST_CUT:
        return None
    cut = int(len(whole) * random.uniform(0.4, 0.7))
    space = whole.rfind(" ", len(whole) // 4, cut)
    return whole[: cut if space < 0 else space].rstrip()


def make_empty(text: str, random: Random, vocabulary: Vocabulary) -> str | None:
    """Say nothing."""
    return "" if text.strip() else None


TEXT_FAULTS: Final[dict[MutationKind, TextFault]] = {
    MutationKind.WRONG_NUMBER: change_number,
    MutationKind.DROPPED_CLAUSE: drop_clause,
    MutationKind.SWAPPED_ENTITY: swap_name,
    MutationKind.NEGATED: negate,
    MutationKind.REFUSAL: refuse,
    MutationKind.TRUNCATED: cut_off,
    MutationKind.EMPTY: make_empty,
}


def _spans(text: str, separator: re.Pattern[str]) -> Sequence[tuple[int, int]]:
    """Return where the parts of a text between separators begin and end."""
    spans, start = [], 0
    for match in separator.finditer(text):
        spans.append((start, match.start()))
        start = match.end()
    spans.append((start, len(text)))
    return [(start, end) for start, end in spans if text[start:end].strip()]


def _last_signs(text: str) -> int:
    match = _LAST_SIGNS.search(text)
    return len(text) if match is None else match.start()


def _polar_edits(text: str) -> Iterator[_Edit]:
    for match in _POLAR.finditer(text):
        word = match[0].lower()
        yield _Edit(*match.span(), _with_case_of(match[0], _OPPOSITES.get(word) or _OPPOSITE_OF[word]))


def _auxiliary_edits(text: str) -> Iterator[_Edit]:
    for match in _AUXILIARY.finditer(text):
        verb = match[0]
        plain = verb.lower().replace("’", "'")
        if plain in _CONTRACTED:
            yield _Edit(*match.span(), _with_case_of(verb, _CONTRACTED[plain]))
        elif plain.endswith("n't"):
            yield _Edit(match.start(), match.end(), verb[:-3])
        elif plain.split()[-1] == "not":
            yield _Edit(match.start(), match.end(), verb.split()[0])
        elif not text[match.end() : match.end() + 8].lstrip().lower().startswith("not "):
            yield _Edit(match.end(), match.end(), " not")


def _foreign_edits(text: str, language: str) -> Iterator[_Edit]:
    for start, end, replacement in negation_changes(text, language):
        yield _Edit(start, end, replacement)


def _with_case_of(pattern: str, word: str) -> str:
    if pattern.isupper() and len(pattern) > 1:
        return word.upper()
    return word.capitalize() if pattern[0].isupper() else word
