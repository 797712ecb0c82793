"""Negation in German, French and Spanish: a few frequent verbs get a "not", or lose it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

Change: TypeAlias = tuple[int, int, str]
"""Where a part of a text begins and ends, and what replaces it."""

_FREQUENT: Final = {
    "en": "the is are of and to in a for with on you it can be not we this that within",
    "de": "der die das und ist sind nicht ein eine mit für auf von den dem zu werden wird kann können im sie "
    "es innerhalb wir ich",
    "fr": "le la les des est sont une un et dans pas ne pour vous nous il elle sur avec au du que ce peut",
    "es": "el la los las es son una un y en no para por con se del que puede pueden está",
}
_LANGUAGE_OF: Final = {language: frozenset(words.split()) for language, words in _FREQUENT.items()}
_WORD: Final = re.compile(r"[^\W\d_]+")
_MOST_READ: Final = 2_000

_GERMAN: Final = re.compile(
    # In small letters: "Waren" are goods.
    # Not at the end of a sentence, where the verb is an infinitive: "können bezahlt werden."
    r"\b(?:ist|sind|war|waren|kann|können|darf|dürfen|wird|werden|muss|müssen|soll|sollen|gilt|gelten)\b"
    r"(?P<no>\s+nicht\b)?(?=\s+\w)",
)
_FRENCH: Final = re.compile(
    r"(?P<no>\b(?:ne\s+|n['’]))?(?P<this>\bc['’])?"
    r"(?<!\bl['’])\b(?P<verb>est|sont|était|étaient|peut|peuvent|doit|doivent|sera|seront)\b(?(no)\s+pas\b)",
    re.IGNORECASE,
)
_SPANISH: Final = re.compile(
    r"(?P<no>\bno\s+)?\b(?P<verb>(?:se\s+)?(?:es|son|está|están|puede|pueden|debe|deben|hay|era|será|tiene|tienen|fue))\b",
    re.IGNORECASE,
)


def guess_language(text: str) -> str:
    """Return the language of a text by its frequent words: de, fr or es, else en."""
    words = [word.casefold() for word in _WORD.findall(text[:_MOST_READ])]
    counts = {language: sum(word in known for word in words) for language, known in _LANGUAGE_OF.items()}
    return max(counts, key=lambda language: counts[language])  # the first of equals, which is English


def negation_changes(text: str, language: str) -> Iterator[Change]:
    """Yield what makes a statement of a text in a language other than English say the opposite."""
    changes = _CHANGES.get(language)
    return iter(()) if changes is None else changes(text)


def _change_german(text: str) -> Iterator[Change]:
    for match in _GERMAN.finditer(text):
        no = match["no"]
        yield (match.end(), match.end(), " nicht") if no is None else (*match.span("no"), "")


def _change_french(text: str) -> Iterator[Change]:
    for match in _FRENCH.finditer(text):
        verb = match["verb"]
        if match["no"] is not None:
            yield (*match.span(), verb)
        elif text[match.end() :].lstrip().lower().startswith("pas "):
            continue
        else:
            negated = f"n'{verb}" if verb[0].lower() in "eé" else f"ne {verb}"
            first = "" if match["this"] is None else ("Ce " if match["this"][0].isupper() else "ce ")
            yield (*match.span(), f"{first}{negated} pas")


def _change_spanish(text: str) -> Iterator[Change]:
    for match in _SPANISH.finditer(text):
        verb = match["verb"]
        if match["no"] is not None:
            yield (*match.span(), verb.capitalize() if match["no"][0].isupper() else verb)
        else:
            yield (*match.span(), f"No {verb[0].lower()}{verb[1:]}" if verb[0].isupper() else f"no {verb}")


_CHANGES: Final[dict[str, Callable[[str], Iterator[Change]]]] = {
    "de": _change_german,
    "fr": _change_french,
    "es": _change_spanish,
}
