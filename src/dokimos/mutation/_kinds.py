"""The kinds of faults that are put into answers."""

from __future__ import annotations

from enum import StrEnum


class MutationKind(StrEnum):
    """What is wrong with a mutant.

    Example:
        >>> MutationKind("wrong_number").in_words
        'wrong number'
    """

    WRONG_NUMBER = "wrong_number"
    """A number has another digit."""
    DROPPED_CLAUSE = "dropped_clause"
    """A sentence or a clause is missing; of a structured answer, an entry."""
    SWAPPED_ENTITY = "swapped_entity"
    """A name is replaced by one from another answer; a short answer as a whole."""
    NEGATED = "negated"
    """A statement says the opposite: "is" becomes "is not", "yes" becomes "no", true becomes false."""
    WRONG_TOOL = "wrong_tool"
    """A call goes to another tool."""
    WRONG_ARGUMENT = "wrong_argument"
    """An argument of a call has another value."""
    REFUSAL = "refusal"
    """The answer declines."""
    TRUNCATED = "truncated"
    """The answer breaks off."""
    EMPTY = "empty"
    """The answer is empty."""

    @property
    def in_words(self) -> str:
        return self.value.replace("_", " ")
