"""A queue simulated request by request, which checks the formulas of `queueing.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random


@dataclass(frozen=True, slots=True)
class SimulatedQueue:
    """What became of the requests of a simulation."""

    waits: tuple[float, ...]
    """The seconds that each request waited, in the order of arrival, without those that were refused."""
    responses: tuple[float, ...]
    """The same with its service."""
    refused: int

    @property
    def refused_share(self) -> float:
        return self.refused / (self.refused + len(self.waits))


def simulate_queue(
    *,
    rate: float,
    draw_service: Callable[[Random], float],
    requests: int,
    random: Random,
    servers: int = 1,
    room: int | None = None,
) -> SimulatedQueue:
    """Let requests come as a Poisson process, and serve them in the order in which they came.

    Args:
        rate: Arrivals in a second.
        draw_service: Draws the service time of a request, in seconds.
        requests: How many come.
        random: Where all chance is from.
        servers: How many requests are served at once.
        room: Requests that wait or are served at most; those that come beyond it are refused.
    """
    free_at = [0.0] * servers
    leave_at: list[float] = []  # of those in the queue or in service, as a heap
    waits, responses, refused, now = [], [], 0, 0.0
    for _ in range(requests):
        now += random.expovariate(rate)
        while leave_at and leave_at[0] <= now:
            heappop(leave_at)
        if room is not None and len(leave_at) >= room:
            refused += 1
            continue
        start = max(now, heappop(free_at))
        end = start + draw_service(random)
        heappush(free_at, end)
        heappush(leave_at, end)
        waits.append(start - now)
        responses.append(end - now)
    return SimulatedQueue(tuple(waits), tuple(responses), refused)


@dataclass(frozen=True, slots=True)
class SimulatedGroups:
    """What became of the requests of a server that takes them in groups."""

    responses: tuple[float, ...]
    """The seconds from the arrival of each request to the end of its group."""
    groups: int

    @property
    def mean_size(self) -> float:
        return len(self.responses) / self.groups


def simulate_groups(
    *,
    rate: float,
    draw_service: Callable[[Random, int], float],
    requests: int,
    random: Random,
    most: int = 64,
) -> SimulatedGroups:
    """Let requests come as a Poisson process, and serve those that wait together, all at once.

    Args:
        rate: Arrivals in a second.
        draw_service: Draws the service time of a group of so many requests, in seconds.
        requests: How many come.
        random: Where all chance is from.
        most: Requests that a group may have.
    """
    now = 0.0
    arrivals = [now := now + random.expovariate(rate) for _ in range(requests)]
    responses: list[float] = []
    free_at, groups = 0.0, 0
    while len(responses) < requests:
        start = max(free_at, arrivals[len(responses)])
        first = len(responses)
        size = sum(each <= start for each in arrivals[first : first + most])
        free_at = start + draw_service(random, size)
        groups += 1
        responses.extend(free_at - each for each in arrivals[first : first + size])
    return SimulatedGroups(tuple(responses), groups)
