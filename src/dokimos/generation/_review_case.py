"""A generated case as it waits for a person: with its source, and what is to be checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dokimos._core.example import Example
from dokimos._core.jsonable import WIRE_CONFIG, text_form
from dokimos._core.keys import INPUT, OUTPUT

GENERATED = "generated"
"""In the metadata of an accepted example: where it comes from."""


class ReviewStatus(StrEnum):
    """What a person has decided about a case.

    Example:
        >>> ReviewStatus("pending")
        <ReviewStatus.PENDING: 'pending'>
    """

    PENDING = "pending"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePassage:
    """Where in a document a case comes from.

    Example:
        >>> SourcePassage(document="terms.md", text="Goods can be returned within 30 days.").start
        0
    """

    document: str
    text: str
    """The passage as it stands there."""
    start: int = 0
    """Its first character in the text of the document, from 0."""
    headings: str = ""

    __pydantic_config__ = WIRE_CONFIG


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewCase:
    """A case that waits for a person, or that one has decided about.

    Example:
        >>> source = SourcePassage(document="terms.md", text="Goods can be returned within 30 days.")
        >>> case = ReviewCase(id="c1", input="How long can I return it?", expected="30 days", source=source)
        >>> case.status, case.to_example().expected_output
        (<ReviewStatus.PENDING: 'pending'>, '30 days')
    """

    id: str
    status: ReviewStatus = ReviewStatus.PENDING
    input: Any
    expected: Any = None
    """The right answer; None where there is none to compare with."""
    category: str = ""
    difficulty: float | None = None
    """The share of its tries in which a weak model failed: 1 is hard; None where it was not measured."""
    check: tuple[str, ...] = ()
    """What a person should look at, beside whether the case is right at all."""
    note: str = ""
    """What the person who decided wants to say."""
    source: SourcePassage

    __pydantic_config__ = WIRE_CONFIG

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", ReviewStatus(self.status))
        object.__setattr__(self, "check", tuple(self.check))

    def to_example(self) -> Example:
        """Return the case as an example of a data set."""
        about: dict[str, Any] = {
            "document": self.source.document,
            "passage": self.source.text,
            "category": self.category,
        }
        if self.difficulty is not None:
            about["difficulty"] = self.difficulty
        inputs = dict(self.input) if isinstance(self.input, Mapping) else {INPUT: self.input}
        return Example(
            inputs,
            {} if self.expected in (None, "") else {OUTPUT: self.expected},
            metadata={"category": self.category, GENERATED: about},
            id=self.id,
        )


def input_text(case: ReviewCase) -> str:
    """Return the input of a case as text."""
    return text_form(case.input) or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejections:
    """Cases of a model that nobody has to look at, by reason.

    Example:
        >>> Rejections(without_passage=2, duplicates=1).total
        3
    """

    without_passage: int = 0
    """The quoted passage does not occur in the document."""
    duplicates: int = 0
    """The same as another case, or nearly so."""
    empty: int = 0
    """There is no input, or no answer where one is needed."""
    invalid: int = 0
    """The input is not valid under the schema."""
    examples: tuple[str, ...] = field(default=())
    """Some of them, in a sentence each."""

    __pydantic_config__ = WIRE_CONFIG

    @property
    def total(self) -> int:
        return self.without_passage + self.duplicates + self.empty + self.invalid
