"""Queues simulated request by request: the answer times of a server, and a check of the formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random


@dataclass(frozen=True, slots=True)
class SimulatedQueue:
    """What became of the requests of a simulation."""

    waits: tuple[float, ...]
    """The seconds that each request waited, in the order of arrival, without those that were refused."""
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
    places: int | None = None,
) -> SimulatedQueue:
    """Let requests come as a Poisson process, and serve them in the order in which they came.

    Args:
        rate: Arrivals in a second.
        draw_service: Draws the service time of a request, in seconds.
        requests: How many come.
        random: Where all chance is from.
        servers: How many requests are served at once.
        places: Requests that wait or are served at most; those that come beyond it are refused.
    """
    free_at = [0.0] * servers
    leave_at: list[float] = []  # of those in the queue or in service, as a heap
    waits, refused, now = [], 0, 0.0
    for _ in range(requests):
        now += random.expovariate(rate)
        while leave_at and leave_at[0] <= now:
            heappop(leave_at)
        if places is not None and len(leave_at) >= places:
            refused += 1
            continue
        start = max(now, heappop(free_at))
        end = start + draw_service(random)
        heappush(free_at, end)
        heappush(leave_at, end)
        waits.append(start - now)
    return SimulatedQueue(tuple(waits), refused)


def simulate_answers(
    *,
    rate: float,
    draw_service: Callable[[Random], float],
    requests: int,
    random: Random,
    group_seconds: float = 0.0,
    largest_group: int = 1,
) -> list[float]:
    """Return how long each request takes, from its arrival to its answer.

    Requests come as a Poisson process at one server, which takes those that wait as one group (a group
    commit) and answers all of them at its end: the queue with bulk service of N. T. J. Bailey, "On queueing
    processes with bulk service", 1954.

    Args:
        rate: Arrivals in a second.
        draw_service: Draws what a request adds to the time of its group, in seconds.
        requests: How many come.
        random: Where all chance is from.
        group_seconds: What each group takes, however small it is.
        largest_group: Requests that a group may have.
    """
    now = 0.0
    arrivals = [now := now + random.expovariate(rate) for _ in range(requests)]
    answers: list[float] = []
    free_at, first = 0.0, 0
    while first < requests:
        start, last = max(free_at, arrivals[first]), first + 1
        while last < min(requests, first + largest_group) and arrivals[last] <= start:
            last += 1
        free_at = start + group_seconds + sum(draw_service(random) for _ in range(first, last))
        answers.extend(free_at - each for each in arrivals[first:last])
        first = last
    return answers


def find_quantile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of the values stays within."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]
