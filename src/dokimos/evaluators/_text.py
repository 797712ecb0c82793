"""Evaluators that compare or search the text of the output."""

from __future__ import annotations

import re
import string
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, Literal

from dokimos._core.patterns import search_within_limit
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize, quote
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.errors import ConfigurationError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._edit_distance import common_start, edit_distance
from dokimos.evaluators._setting_checks import check_option, check_text

_ASCII_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, kw_only=True)
class ExactMatch(Evaluator):
    """Passes when the text of the output equals the expected text, character by character.

    Example:
        >>> ExactMatch().evaluate(EvalTestCase.of("Capital of France?", "Paris", "Paris")).score
        1.0
    """

    method_source = "Equality of texts."
    default_name = "Exact Match"
    requires: ClassVar[tuple[str, ...]] = ("actual_output", "expected_output")

    threshold: float | None = 1.0

    def score(self, case: EvalTestCase) -> Score:
        expected, actual = case.expected_output or "", case.actual_output or ""
        if expected == actual:
            return Score(1.0, "The output is exactly the expected text.")
        return Score(0.0, _difference(expected, actual))


@dataclass(frozen=True, kw_only=True)
class Equality(Evaluator):
    """Passes when the output is the expected text, after both are normalized as the parameters say.

    Normalization ignores, in this order: case (full case folding, so "ß" is "ss"), the 32 ASCII punctuation
    characters, and runs of white space. Unicode is not normalized.

    Example:
        >>> case = EvalTestCase.of("Capital of France?", " PARIS!", "Paris")
        >>> Equality(ignore_case=True, strip_punctuation=True, strip_whitespace=True).evaluate(case).score
        1.0
    """

    method_source = (
        "Equality of texts after normalization, as exact match is usually computed for question answering."
    )
    default_name = "Equality"
    requires: ClassVar[tuple[str, ...]] = ("actual_output", "expected_output")

    ignore_case: bool = False
    """Ignore upper and lower case."""
    strip_whitespace: bool = False
    """Strip both texts, and treat every run of white space as one blank."""
    strip_punctuation: bool = False
    """Ignore ASCII punctuation."""
    threshold: float | None = 1.0

    def score(self, case: EvalTestCase) -> Score:
        expected = self._normalize(case.expected_output or "")
        actual = self._normalize(case.actual_output or "")
        if expected == actual:
            return Score(1.0, "The output equals the expected text.")
        return Score(0.0, _difference(expected, actual))

    def _normalize(self, text: str) -> str:
        if self.ignore_case:
            text = text.casefold()
        if self.strip_punctuation:
            text = text.translate(_ASCII_PUNCTUATION)
        return " ".join(text.split()) if self.strip_whitespace else text


@dataclass(frozen=True, kw_only=True)
class Regex(Evaluator):
    """Passes when a regular expression matches in the output, or with `negate` when it does not.

    A search that is not decided after 2 s of CPU time is an error: write repeats within repeats as possessive
    (`(a++)+`) or atomic (`(?>a+)`).

    Example:
        >>> case = EvalTestCase.of("When did you ship it?", "It left on 2026-03-14.")
        >>> Regex(pattern="[0-9]{4}-[0-9]{2}-[0-9]{2}").evaluate(case).score
        1.0
    """

    method_source = "Regular expressions of Python's `re`."
    default_name = "Regex Match"
    requires: ClassVar[tuple[str, ...]] = ("actual_output",)

    pattern: str
    """A regular expression in Python's syntax; `(?m)` and `(?s)` at its start work."""
    ignore_case: bool = False
    """Ignore upper and lower case."""
    full_match: bool = False
    """The whole output must match, not only a part of it."""
    negate: bool = False
    """Pass when the pattern does not match."""
    threshold: float | None = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.pattern, re.Pattern):
            raise ConfigurationError(
                f"{self.default_name}: pattern must be text, not {self.pattern!r:.80}: give what "
                "it was compiled from, with the flags at the start, such as (?i).",
                setting="pattern",
            )
        super().__post_init__()
        # Compile now: a wrong pattern is an error of the configuration, not of each case.
        _ = self._regex
        if self.threshold == 0 and not self.negate:
            warnings.warn(
                escape_control_characters(
                    f"{self.name}: with a threshold of 0 every output passes; "
                    "use negate=True for a pattern that must not match."
                ),
                UserWarning,
                stacklevel=3,
            )

    def score(self, case: EvalTestCase) -> Score:
        text = case.actual_output or ""
        span = search_within_limit(self._regex, text, whole=self.full_match)
        passed = (span is None) if self.negate else (span is not None)
        return Score(float(passed), self._reason(text, None if span is None else text[slice(*span)]))

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        try:
            return re.compile(self.pattern, re.IGNORECASE if self.ignore_case else 0)
        except (re.error, TypeError, RecursionError, OverflowError) as error:
            raise ConfigurationError(
                f"{self.name}: pattern {quote(self.pattern)} is not a regular expression: {error}.",
                setting="pattern",
            ) from None

    def _reason(self, text: str, match: str | None) -> str:
        pattern = quote(self.pattern)
        subject = "The whole output" if self.full_match else "The output"
        if match is None:
            ending = ", as it should be" if self.negate else f": {quote(text)}"
            return f"{subject} does not match the pattern {pattern}{ending}."
        ending = ", which it must not" if self.negate else ""
        return f"{subject} matches the pattern {pattern} with {quote(match)}{ending}."


@dataclass(frozen=True, kw_only=True)
class Contains(Evaluator):
    """Passes when the output contains any, all or none of the given texts.

    Example:
        >>> case = EvalTestCase.of("Opening hours?", "Monday to Friday, 9 to 5.")
        >>> Contains(values=["Monday", "Saturday"], mode="all").evaluate(case).reason
        "The output lacks 'Saturday'."
    """

    method_source = "Search for texts; defined by dokimos."
    default_name = "Contains"
    requires: ClassVar[tuple[str, ...]] = ("actual_output",)

    values: str | Sequence[str]
    """The texts to look for."""
    mode: Literal["any", "all", "none"] = "any"
    """How many of them must be there."""
    ignore_case: bool = False
    """Ignore upper and lower case."""
    threshold: float | None = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        values = (self.values,) if isinstance(self.values, str) else tuple(self.values)
        if not values:
            raise ConfigurationError("Contains: values must name at least one text to look for.")
        for index, value in enumerate(values):
            check_text(self, f"values[{index}]", value)
        object.__setattr__(self, "values", values)
        check_option(self, "mode", self.mode, ("any", "all", "none"))

    def score(self, case: EvalTestCase) -> Score:
        text = self._fold_case(case.actual_output or "")
        present = [value for value in self.values if self._fold_case(value) in text]
        missing = [value for value in self.values if self._fold_case(value) not in text]
        metadata = {"found": present, "missing": missing}
        match self.mode:
            case "any":
                return Score(float(bool(present)), _reason_for_any(present, missing), metadata=metadata)
            case "all":
                return Score(float(not missing), _reason_for_all(present, missing), metadata=metadata)
            case "none":
                return Score(float(not present), _reason_for_none(present, missing), metadata=metadata)

    def _fold_case(self, text: str) -> str:
        return text.casefold() if self.ignore_case else text


@dataclass(frozen=True, kw_only=True)
class Levenshtein(Evaluator):
    """Similarity to the expected text: 1 minus the edits between them over the length of the longer.

    An edit inserts, deletes or replaces one character (Levenshtein 1966).

    Example:
        >>> Levenshtein().evaluate(EvalTestCase.of("Name?", "kitten", "mitten")).reason
        '1 edit between the output of 6 characters and the expected text of 6.'
    """

    method_source = (
        'Levenshtein, "Binary codes capable of correcting deletions, insertions, and reversals" (1966).'
    )
    default_name = "Levenshtein"
    requires: ClassVar[tuple[str, ...]] = ("actual_output", "expected_output")

    ignore_case: bool = False
    """Ignore upper and lower case."""

    def score(self, case: EvalTestCase) -> Score:
        expected, actual = case.expected_output or "", case.actual_output or ""
        if self.ignore_case:
            expected, actual = expected.casefold(), actual.casefold()
        distance = edit_distance(expected, actual)
        longer = max(len(expected), len(actual))
        reason = (
            f"{pluralize(distance, 'edit')} between the output of {pluralize(len(actual), 'character')} "
            f"and the expected text of {len(expected)}."
        )
        # One division, and so one rounding: 9 of 10 is exactly the float 0.9.
        return Score((longer - distance) / longer if longer else 1.0, reason, metadata={"distance": distance})


def _difference(expected: str, actual: str) -> str:
    if not actual:
        return f"The output is empty; expected {quote(expected)}."
    if not expected:
        return f"The expected text is empty; the output is {quote(actual)}."
    at = common_start(expected, actual)
    return f"Expected {quote(expected)}, got {quote(actual)}: {_describe_difference(expected, actual, at)}."


def _describe_difference(expected: str, actual: str, at: int) -> str:
    if expected.split() == actual.split():
        return f"only white space differs, first at character {at + 1}"
    if expected.casefold() == actual.casefold():
        return f"only upper and lower case differ, first at character {at + 1}"
    if at == len(actual):
        return f"the output ends after {pluralize(at, 'character')}, before {_excerpt(expected, at)}"
    if at == len(expected):
        return f"the output continues after character {at} with {_excerpt(actual, at)}"
    return f"they differ from character {at + 1} on, {_excerpt(expected, at)} against {_excerpt(actual, at)}"


def _excerpt(text: str, at: int) -> str:
    return repr(text[at : at + 20] + ("…" if len(text) > at + 20 else ""))


def _reason_for_any(present: Sequence[str], missing: Sequence[str]) -> str:
    if present:
        return f"The output contains {format_list(tuple(present))}."
    return f"The output contains none of {format_list(tuple(missing))}."


def _reason_for_all(present: Sequence[str], missing: Sequence[str]) -> str:
    if not missing:
        return f"The output contains {format_list(tuple(present))}."
    return f"The output lacks {format_list(tuple(missing))}."


def _reason_for_none(present: Sequence[str], missing: Sequence[str]) -> str:
    if not present:
        return f"The output contains none of {format_list(tuple(missing))}, as it should be."
    return f"The output contains {format_list(tuple(present))}, which it must not."
