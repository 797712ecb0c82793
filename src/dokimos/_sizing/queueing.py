"""How long requests wait for servers that are busy, and how many are refused: closed formulas.

Everything here is a pure function of rates and moments; `queue_simulation.py` checks the formulas.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_BISECTIONS: Final = 60
_ITERATIONS: Final = 10_000
_CLOSE: Final = 1e-9


def erlang_c(servers: int, load: float) -> float:
    """Return the probability that a request has to wait in an M/M/c queue.

    Args:
        servers: How many requests are served at once.
        load: The arrival rate times the mean service time, in Erlang.

    Source: A. K. Erlang, "Solution of some problems in the theory of probabilities of significance in
    automatic telephone exchanges", 1917; here by the recursion of Erlang's B formula, which does not
    overflow.

    Example:
        >>> round(erlang_c(1, 0.5), 3), round(erlang_c(4, 2.0), 3)
        (0.5, 0.174)
    """
    if load >= servers:
        return 1.0
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    return blocked / (1 - load / servers * (1 - blocked))


def blocking_probability(utilisation: float, room: int) -> float:
    """Return the share of requests that an M/M/1/K queue refuses because `room` of them are in it.

    Above a utilisation of 1 it tends to what a fluid would lose, 1 - 1/utilisation, as the room grows.

    Source: D. Gross and C. M. Harris, Fundamentals of Queueing Theory, section 2.5.

    Example:
        >>> round(blocking_probability(2.0, 100), 3), blocking_probability(1.0, 3)
        (0.5, 0.25)
    """
    if utilisation == 1:
        return 1 / (room + 1)
    if utilisation > 1:  # with powers of 1/utilisation, which do not overflow
        inverse = 1 / utilisation
        return (1 - inverse) / (1 - inverse ** (room + 1))
    power = utilisation**room
    return power * (1 - utilisation) / (1 - power * utilisation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """A queue before some servers: first come, first served, with room for all that wait.

    The mean wait is that of M/M/c times (ca² + cs²)/2, where ca² and cs² are the squared coefficients of
    variation of the times between arrivals and of the service times. For Poisson arrivals at one server this
    is the formula of Pollaczek (1930) and Khinchine (1932), which is exact; for exponential service it is
    Erlang's, exact too; in between it is the approximation of Allen and Cunneen (A. O. Allen, Probability,
    Statistics, and Queueing Theory, 2nd edition, 1990, section 5.3).

    The waits of those that wait at all are taken as exponential, which M/M/c has exactly and every such queue
    has in the limit of heavy traffic (J. F. C. Kingman, "The single server queue in heavy traffic", 1961).
    """

    rate: float
    """Arrivals in a second."""
    service: float
    """The mean time of service, in seconds."""
    service_variation: float = 1.0
    """The squared coefficient of variation of the service time: 0 constant, 1 exponential."""
    arrival_variation: float = 1.0
    """That of the time between arrivals; 1 for a Poisson process."""
    servers: int = 1

    @property
    def load(self) -> float:
        """The servers that are busy on average, if there are enough of them."""
        return self.rate * self.service

    @property
    def utilisation(self) -> float:
        """The share of their time in which the servers work; 1 and above where they cannot keep up."""
        return self.load / self.servers

    @property
    def waiting_share(self) -> float:
        """The share of the requests that wait."""
        return erlang_c(self.servers, self.load)

    @property
    def mean_wait(self) -> float:
        """The mean wait of all requests, in seconds; infinite where the servers cannot keep up."""
        if self.utilisation >= 1:
            return math.inf
        spare = self.servers / self.service - self.rate if self.service else math.inf
        return self.waiting_share / spare * (self.arrival_variation + self.service_variation) / 2

    def exceed(self, wait: float) -> float:
        """Return the share of the requests that wait for longer than so many seconds."""
        if self.utilisation >= 1:
            return 1.0
        if wait < 0:
            return 1.0
        if not self.mean_wait:
            return 0.0
        return self.waiting_share * math.exp(-wait * self.waiting_share / self.mean_wait)

    def wait_quantile(self, share: float) -> float:
        """Return the wait, in seconds, that this share of the requests stays within."""
        if self.utilisation >= 1:
            return math.inf
        waiting = self.waiting_share
        if waiting <= 1 - share or not self.mean_wait:
            return 0.0
        return self.mean_wait / waiting * math.log(waiting / (1 - share))

    def response_quantile(self, share: float, unloaded: Sequence[float]) -> float:
        """Return the time from request to answer that this share of the requests stays within.

        It is the wait and, independent of it, the answer time of a server that has nothing else to do.

        Args:
            share: Such as 0.95.
            unloaded: Measured answer times without load, in seconds.
        """
        if self.utilisation >= 1:
            return math.inf
        ordered = sorted(unloaded)
        low, high = 0.0, ordered[-1] + self.wait_quantile(1 - (1 - share) / 100) + self.service
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            if self._share_beyond(middle, ordered) > 1 - share:
                low = middle
            else:
                high = middle
        return high

    def _share_beyond(self, time: float, unloaded: Sequence[float]) -> float:
        quick = bisect_left(unloaded, time)
        beyond = sum(self.exceed(time - one) for one in unloaded[:quick])
        return (beyond + len(unloaded) - quick) / len(unloaded)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedService:
    """The service of a server that takes all requests that wait as one group, as a group commit does.

    A group of n takes `fixed + n * each`, so that a request costs less the more of them come. A server that
    takes whatever waits is the queue of N. T. J. Bailey, "On queueing processes with bulk service", 1954.
    Here is a mean-value approximation of it: a group is what came during the one before, and one request
    where nothing came.
    """

    fixed: float
    """Seconds that each group takes, however small it is."""
    each: float
    """Seconds that each request adds."""

    @classmethod
    def of_measured(cls, *, alone: float, at_capacity: float, clients: int) -> GroupedService:
        """Return the service with these times of a request.

        Args:
            alone: Of one that comes alone, in seconds.
            at_capacity: The mean of so many clients that all wait at once; at most that of one alone.
            clients: How many these are, at least two.
        """
        fixed = max(0.0, (alone - at_capacity) / (1 - 1 / clients))
        return cls(fixed=fixed, each=at_capacity - fixed / clients)

    def group_size(self, rate: float) -> float:
        """Return how many requests a group has on average; infinite where they come faster than they go."""
        if rate * self.each >= 1:
            return math.inf
        size = 1.0
        for _ in range(_ITERATIONS):
            arrivals = rate * (self.fixed + self.each * size)
            following = arrivals + math.exp(-arrivals)
            if abs(following - size) < _CLOSE * size:
                break
            size = following
        return size

    def time(self, rate: float) -> float:
        """Return the seconds that a request takes at a rate of arrivals, its share of the group included."""
        return self.each + self.fixed / self.group_size(rate)


def count_servers(rate: float, service: float, *, utilisation: float) -> int:
    """Return the fewest servers that are busy for no more than this share of their time, at least one."""
    return max(1, math.ceil(rate * service / utilisation - 1e-9))
