"""How long calls wait for their turn, and how many requests are refused: closed formulas.

`queue_simulation.py` checks them, in the tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

_MOST_OF_RECURSION: Final = 10_000
"""Servers for which the recursion is used; beyond it the limit for many servers is off by less than 1 %."""


def erlang_c(servers: int, offered: float) -> float:
    """Return the probability that a call has to wait in an M/M/c queue.

    Args:
        servers: How many calls are served at once.
        offered: The arrival rate times the mean service time, in Erlang.

    Source: A. K. Erlang, "Solution of some problems in the theory of probabilities of significance in
    automatic telephone exchanges", 1917; here by the recursion of Erlang's B formula, which does not
    overflow. For very many servers: S. Halfin and W. Whitt, "Heavy-traffic limits for queues with many
    exponential servers", 1981.

    Example:
        >>> round(erlang_c(1, 0.5), 3), round(erlang_c(4, 2.0), 3)
        (0.5, 0.174)
    """
    if offered >= servers:
        return 1.0
    if servers > _MOST_OF_RECURSION:
        return _many_servers_limit((servers - offered) / math.sqrt(offered)) if offered else 0.0
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = offered * blocked / (count + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


def _many_servers_limit(spare: float) -> float:
    """Return the probability of a wait with `spare` servers more than are busy, in standard deviations."""
    below = (1 + math.erf(spare / math.sqrt(2))) / 2
    density = math.exp(-(spare**2) / 2) / math.sqrt(2 * math.pi)
    return density / (density + spare * below)


def blocking_probability(utilisation: float, places: int) -> float:
    """Return the share of requests that an M/M/1/K queue refuses because `places` of them are in it.

    Source: D. Gross and C. M. Harris, Fundamentals of Queueing Theory, section 2.5.

    Example:
        >>> round(blocking_probability(0.5, 2), 3), blocking_probability(1.0, 3)
        (0.143, 0.25)
    """
    if utilisation == 1:
        return 1 / (places + 1)
    if utilisation > 1:  # with powers of 1/utilisation, which do not overflow
        inverse = 1 / utilisation
        return (1 - inverse) / (1 - inverse ** (places + 1))
    power = utilisation**places
    return power * (1 - utilisation) / (1 - power * utilisation)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallQueue:
    """Calls that come at random (Poisson) and take exponential times, so many of them at once (M/M/c)."""

    rate: float
    """Arrivals in a second."""
    service: float
    """The mean time of a call, in seconds."""
    servers: int

    @property
    def offered_load(self) -> float:
        """The calls that are under way on average, if enough may be."""
        return self.rate * self.service

    def wait_quantile(self, share: float) -> float:
        """Return the wait, in seconds, that this share of the calls stays within."""
        if self.offered_load >= self.servers:
            return math.inf
        waiting = erlang_c(self.servers, self.offered_load)
        if waiting <= 1 - share:
            return 0.0
        # The waits of those that wait are exponential.
        return math.log(waiting / (1 - share)) / (self.servers / self.service - self.rate)


def find_call_queue(rate: float, service: float, *, share: float, wait: float) -> CallQueue:
    """Return the queue with the fewest servers of which this share of the calls waits for at most so long."""
    offered = rate * service
    low, high = int(offered), int(offered + 5 * math.sqrt(offered)) + 5  # 5 deviations leave no wait
    while high - low > 1:
        middle = (low + high) // 2
        if CallQueue(rate=rate, service=service, servers=middle).wait_quantile(share) <= wait:
            high = middle
        else:
            low = middle
    return CallQueue(rate=rate, service=service, servers=high)


def count_needed(amount: float, usable: float) -> int:
    """Return the fewest machines, or processes, of which each has so much that may be used, at least one."""
    return max(1, math.ceil(amount / usable - 1e-9))
