"""A Bloom filter of the keys of calls: which of them were never stored, in two megabytes."""

from __future__ import annotations

from typing import Final

_WIDTH: Final = 24
_BITS: Final = 1 << _WIDTH
_DIGITS: Final = 18  # of the hexadecimal key: three numbers below `_BITS`


class KeyFilter:
    """Says of a key that it is not in a set, or that it may be.

    A job of a million calls asks the database in vain for 1 of 200 of them; a set of their keys would take
    more than a hundred megabytes. The keys are hashes already, so that their digits are the hashes.
    """

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        self._bits = bytearray(_BITS // 8)

    def add(self, key: str) -> None:
        """Add a key: a text of hexadecimal digits, 18 at least."""
        for place in _places(key):
            self._bits[place >> 3] |= 1 << (place & 7)

    def may_have(self, key: str) -> bool:
        """Return False for a key that was not added."""
        return all(self._bits[place >> 3] & (1 << (place & 7)) for place in _places(key))


def _places(key: str) -> tuple[int, int, int]:
    number = int(key[:_DIGITS], 16)
    return number & (_BITS - 1), (number >> _WIDTH) & (_BITS - 1), number >> 2 * _WIDTH
