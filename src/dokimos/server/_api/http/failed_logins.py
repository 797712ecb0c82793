"""How many wrong keys one address may try, so that nobody guesses a key that a person has chosen."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_MINUTE: Final = 60.0
_MAX_ADDRESSES: Final = 10_000
"""Addresses that are remembered; more of them together are what `_OVERALL` is for."""
_MAX_KEYS: Final = 10_000
"""Wrong keys that are remembered."""
_OVERALL: Final = 25
"""How many times the failures of one address may happen at all addresses together."""


class FailedLogins:
    """Counts wrong keys by address, in memory that does not grow.

    An address may fail so many times at once, and then again each time that its allowance has grown back (the
    generic cell rate algorithm: one number for each address). Where all addresses together fail often, each
    has only one attempt; an address that has not failed can always try, whatever the others do.

    A wrong key that an address sends again is not another guess, and counts once: one job that still has an
    old key must not lock out all others behind the same address.

    Args:
        per_minute: Failures of one address in a minute; 0 sets no limit.
        clock: Returns seconds.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._used_up_until: OrderedDict[str, float] = OrderedDict()
        """By address, when the last of its failures will be forgotten."""
        self._all_used_up_until = 0.0
        self.count = 0
        """How many failures there were, each wrong key of an address once."""
        self._wrong_keys: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Networks with the hash of a wrong key that came from there."""

    def has_failed_with(self, address: str, key_hash: str) -> bool:
        """Return whether a key was wrong before, when it came from the same address."""
        entry = network_of(address), key_hash
        if entry not in self._wrong_keys:
            return False
        self._wrong_keys.move_to_end(entry)
        return True

    def seconds_to_wait(self, address: str) -> float:
        """Return how long an address has to wait until it may try again; 0 where it may now."""
        if not self._used_up_until:  # the usual case, on the way of every request
            return 0.0
        until = self._used_up_until.get(network_of(address))
        if until is None:
            return 0.0
        moment = self._clock()
        interval = _MINUTE / self._per_minute
        are_many = self._all_used_up_until - moment > _MINUTE - interval / _OVERALL
        allowance = 0.0 if are_many else _MINUTE - interval
        return max(0.0, until - moment - allowance)

    def note_failure(self, address: str, key_hash: str) -> None:
        """Count a wrong key, given its hash."""
        self.count += 1
        if not self._per_minute:
            return
        moment = self._clock()
        interval = _MINUTE / self._per_minute
        network = network_of(address)
        until = self._used_up_until.pop(network, 0.0)
        self._used_up_until[network] = max(until, moment) + interval  # now the last one of the order
        self._all_used_up_until = max(self._all_used_up_until, moment) + interval / _OVERALL
        if len(self._used_up_until) > _MAX_ADDRESSES:
            self._used_up_until.popitem(last=False)
        self._wrong_keys[network, key_hash] = None
        if len(self._wrong_keys) > _MAX_KEYS:
            self._wrong_keys.popitem(last=False)


def network_of(address: str) -> str:
    """Return an address, or of IPv6 the network that one customer has: who has it can change addresses."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, 64), strict=False))
