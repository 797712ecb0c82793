"""The kinds of changes that should leave an answer the same."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class PerturbationKind(StrEnum):
    """How a perturbed input differs from its original.

    Example:
        >>> PerturbationKind("typos").needs_model, PerturbationKind("paraphrase").needs_model
        (False, True)
    """

    CONTROL = "control"
    """Not at all: how often the answer changes by itself."""
    TYPOS = "typos"
    """A neighbouring key, a dropped, doubled or swapped letter in some words."""
    CASE = "case"
    """All in capitals, all in small letters, or with the two exchanged."""
    WHITESPACE = "whitespace"
    """Doubled blanks, line breaks between words, blanks around the text."""
    PUNCTUATION = "punctuation"
    """Without its last sign, with more of it, or without any."""
    INJECTION = "injection"
    """Followed by an instruction that the application should not follow."""
    PARAPHRASE = "paraphrase"
    """In other words; a model writes it."""
    LANGUAGE = "language"
    """In another language; a model translates it."""

    @property
    def needs_model(self) -> bool:
        """Whether a model writes it."""
        return self in (PerturbationKind.PARAPHRASE, PerturbationKind.LANGUAGE)


WITHOUT_MODEL: Final = tuple(kind for kind in PerturbationKind if not kind.needs_model)
