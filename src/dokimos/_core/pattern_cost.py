"""How many steps a regular expression may need: an upper bound, read from its text."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final, NamedTuple

MOST_STEPS: Final = 1e8
"""So many steps of backtracking take `re` about a second."""
_MAX_LENGTH: Final = 2**40

_QUANTIFIER: Final = re.compile(
    r"(?:(?P<sign>[*+?])|\{(?!\})(?P<low>\d*)(?P<comma>,)?(?P<high>\d*)\})(?P<mode>[?+]?)"
)
_LITERAL: Final = re.compile(r"\\(?P<sign>[^\w\s])|(?P<plain>[^\\.^$*+?{}\[\]|()#\s])")
_REFERENCE: Final = re.compile(r"\\[1-9](?![0-7]{2})\d?|\(\?P=\w+\)")
_ESCAPE: Final = re.compile(
    r"\\(?:N\{[^}]*\}|x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8}|0[0-7]{0,2}|[1-3][0-7]{2}|.)", re.DOTALL
)
_CLASS: Final = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)
_COMMENT: Final = re.compile(r"\(\?#[^)]*\)")
_WHITE: Final = re.compile(r"(?:\s+|#[^\n]*)+")
_SETTING: Final = re.compile(r"\(\?[aiLmsux]+\)")
_OPENING: Final = re.compile(r"\((?:\?(?:(?P<atomic>>|=|!|<=|<!)|P<\w+>|:|\(\w+\)))?")


class _UnreadableError(Exception):
    """The text has something that this reader does not know."""


class _Cost(NamedTuple):
    ways: float
    """In how many ways a part may match from one position, each of which backtracking may come to."""
    steps: float
    """What trying all of them takes."""
    length: float = 1
    """How long the longest text is that it may match."""


_ONE: Final = _Cost(1, 1)


def longest_safe_text(pattern: re.Pattern[str], *, whole: bool = False) -> int:
    """Return a length of text up to which a search surely takes few steps: the largest such power of two.

    The bound does not know the text, so that it is often far too high: a part that may repeat, or be one of
    several, inside a part that repeats counts as exponential; several repeats in a row as a polynomial of
    that degree. Atomic and possessive parts have one way only, and so has a repeat that has to be followed by
    a character that it cannot match, as in `[a-z]+@`.
    """
    return _longest_safe_text(pattern.pattern, pattern.flags, whole)


@lru_cache(1024)
def _longest_safe_text(pattern: str, flags: int, whole: bool) -> int:
    length = 1
    try:
        while length < _MAX_LENGTH and _steps(pattern, flags, whole, length) <= MOST_STEPS:
            length *= 2
    except (_UnreadableError, RecursionError):
        return 0
    return length // 2


def _steps(pattern: str, flags: int, whole: bool, length: int) -> float:
    reader = _Reader(pattern, flags, length)
    cost = reader.read_alternatives()
    if reader.position != len(pattern):
        raise _UnreadableError
    return cost.steps * (1 if whole else length + 1)  # a search starts at each position


class _Reader:
    """Reads the text of a pattern that compiles, for texts of one length."""

    def __init__(self, pattern: str, flags: int, length: int) -> None:
        self.position = 0
        self._pattern = pattern
        self._flags = flags
        self._length = length
        self._longest_group = 0.0

    def read_alternatives(self) -> _Cost:
        """Read up to the end of the group: any branch may be the one that matches."""
        ways = steps = longest = 0.0
        while True:
            branch = self._read_sequence()
            ways, steps = ways + branch.ways, steps + branch.steps
            longest = max(longest, branch.length)
            if self._take("|") is None:
                return _Cost(ways, steps, longest)

    def _read_sequence(self) -> _Cost:
        ways, steps, length = 1.0, 1.0, 0.0
        while (part := self._read_part()) is not None:
            # Backtracking tries each way of the next part after each way of those before it.
            ways, steps, length = ways * part.ways, steps + ways * part.steps, length + part.length
        return _Cost(ways, steps, min(length, self._length))

    def _read_part(self) -> _Cost | None:
        self._skip_ignored()
        if self.position == len(self._pattern) or self._pattern[self.position] in "|)":
            return None
        start = self.position
        cost = self._read_atom()
        atom = self._pattern[start : self.position]
        self._skip_ignored()
        while (quantifier := self._match(_QUANTIFIER)) is not None:
            self._skip_ignored()
            cost = self._repeat(cost, quantifier)
            if quantifier["mode"] == "+" or self._must_end_after(atom):
                cost = cost._replace(ways=1)
        return cost

    def _read_atom(self) -> _Cost:
        if self._match(_REFERENCE) is not None:
            # Compared character by character with what the group has matched.
            return _Cost(1, max(self._longest_group, 1), self._longest_group)
        if self._pattern[self.position] == "(":
            return self._read_group()
        if self._match(_ESCAPE) is None and self._match(_CLASS) is None:
            self.position += 1
        return _ONE

    def _read_group(self) -> _Cost:
        if self._match(_SETTING) is not None:
            return _ONE
        opening = self._match(_OPENING)
        if opening is None or self._pattern.startswith("?", self.position):
            raise _UnreadableError
        cost = self.read_alternatives()
        if self._take(")") is None:
            raise _UnreadableError
        self._longest_group = max(self._longest_group, cost.length)
        return cost if opening["atomic"] is None else cost._replace(ways=1)

    def _repeat(self, body: _Cost, quantifier: re.Match[str]) -> _Cost:
        """Return the cost of a part that repeats: each number of times, each time in any of its ways."""
        low, high = self._times(quantifier)
        choices = high - low + 1
        try:
            combinations = math.pow(body.ways, high)
        except OverflowError:
            combinations = math.inf
        steps = max(1, high) * combinations * body.steps
        return _Cost(choices * combinations, steps, min(high * body.length, self._length))

    def _must_end_after(self, atom: str) -> bool:
        """Say whether repeats of a character have to be followed by one that is not among them."""
        literal = self._peek_literal()
        if literal is None or atom.startswith("("):
            return False
        following = literal["sign"] or literal["plain"]
        if following.isalpha() and self._flags & re.IGNORECASE:
            return False
        try:
            return re.fullmatch(atom, following, self._flags & ~(re.VERBOSE | re.DEBUG)) is None
        except re.error:  # a reference to a group
            return False

    def _peek_literal(self) -> re.Match[str] | None:
        """Return the character that follows, None unless it has to be there."""
        position = self.position
        literal = self._match(_LITERAL)
        self._skip_ignored()
        quantifier = self._match(_QUANTIFIER)
        self.position = position
        return literal if quantifier is None or quantifier["sign"] == "+" else None

    def _times(self, quantifier: re.Match[str]) -> tuple[int, int]:
        """Return how often a part repeats at least and at most: once for each character, no oftener."""
        sign = quantifier["sign"]
        if sign is not None:
            low, high = (1 if sign == "+" else 0), (1 if sign == "?" else self._length)
        elif quantifier["comma"] is None:
            low = high = int(quantifier["low"])
        else:
            low, high = int(quantifier["low"] or 0), int(quantifier["high"] or self._length)
        return min(low, self._length), max(1, min(high, self._length))

    def _skip_ignored(self) -> None:
        """Skip comments, and blanks where they mean nothing: a quantifier is that of the part before them."""
        while self._match(_COMMENT) is not None or (
            self._flags & re.VERBOSE and self._match(_WHITE) is not None
        ):
            pass

    def _match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        match = expression.match(self._pattern, self.position)
        if match is not None:
            self.position = match.end()
        return match

    def _take(self, character: str) -> str | None:
        if not self._pattern.startswith(character, self.position):
            return None
        self.position += 1
        return character
