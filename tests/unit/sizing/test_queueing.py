"""The formulas of queues, beside textbook values and beside a simulation of the same queue."""

from __future__ import annotations

import math
from random import Random

import pytest

from dokimos._sizing.answer_time import CLIENTS, RequestKind, predict_p95
from dokimos._sizing.queue_simulation import find_quantile, simulate_answers, simulate_queue
from dokimos._sizing.queueing import (
    CallQueue,
    blocking_probability,
    count_needed,
    erlang_c,
    find_call_queue,
)


def simulate(utilisation, *, servers=1, places=None, requests=200_000, seed=1):
    return simulate_queue(
        rate=utilisation * servers * 100,
        draw_service=lambda random: random.expovariate(100),
        requests=requests,
        random=Random(seed),
        servers=servers,
        places=places,
    )


@pytest.mark.parametrize(
    ("servers", "offered", "expected"), [(1, 0.8, 0.8), (2, 1.0, 1 / 3), (10, 8.0, 0.40918)]
)
def test_erlang_c_has_the_values_of_the_tables(servers, offered, expected):
    assert erlang_c(servers, offered) == pytest.approx(expected, abs=1e-4)


def test_the_limit_for_many_servers_continues_the_recursion():
    assert erlang_c(10_001, 9_900.0) == pytest.approx(erlang_c(10_000, 9_899.0), rel=0.02)
    assert erlang_c(20_000, 0.0) == 0


@pytest.mark.parametrize("utilisation", [0.5, 0.8, 0.9])
def test_calls_wait_as_simulated(utilisation):
    queue = CallQueue(rate=utilisation * 400, service=0.01, servers=4)
    simulated = simulate(utilisation, servers=4, requests=400_000)

    assert queue.wait_quantile(0.95) == pytest.approx(
        find_quantile(simulated.waits, 0.95), rel=0.1, abs=0.0005
    )


def test_more_calls_than_servers_wait_without_end():
    assert math.isinf(CallQueue(rate=400, service=0.01, servers=4).wait_quantile(0.95))


@pytest.mark.parametrize("rate", [1e-6, 0.3, 40, 2_500, 1e7, 1e10])
def test_the_fewest_servers_with_which_calls_wait_for_so_long(rate):
    queue = find_call_queue(rate, 2.0, share=0.95, wait=1.0)

    assert queue.wait_quantile(0.95) <= 1.0
    assert CallQueue(rate=rate, service=2.0, servers=queue.servers - 1).wait_quantile(0.95) > 1.0


@pytest.mark.parametrize("utilisation", [0.9, 1.0, 1.5])
def test_a_queue_with_few_places_refuses_as_many_as_simulated(utilisation):
    simulated = simulate(utilisation, places=10)

    assert blocking_probability(utilisation, 10) == pytest.approx(simulated.refused_share, rel=0.06)


def test_a_long_queue_refuses_what_a_fluid_would_lose():
    assert blocking_probability(4.0, 100_000) == pytest.approx(0.75)
    assert blocking_probability(0.5, 100_000) == 0


@pytest.mark.parametrize(("amount", "expected"), [(0, 1), (0.7, 1), (0.71, 2), (7.0, 10)])
def test_the_fewest_machines_of_which_so_much_is_usable(amount, expected):
    assert count_needed(amount, 0.7) == expected


@pytest.mark.parametrize("utilisation", [0.2, 0.5, 0.75])
def test_answers_of_exponential_requests_are_those_of_mm1(utilisation):
    predicted = predict_p95([RequestKind(utilisation * 100, 0.01)], lone_factor=1.0, variation=1.0)

    assert predicted == pytest.approx(math.log(20) / (100 - utilisation * 100), rel=0.06)


@pytest.mark.parametrize("utilisation", [0.2, 0.5, 0.75])
def test_the_mean_answer_of_two_kinds_is_that_of_pollaczek_and_khinchine(utilisation):
    # As many of 2 ms as of 10 ms, each constant: a mean of 6 ms, and a second moment of 52 ms².
    rate = utilisation / 0.006
    answers = simulate_answers(
        rate=rate,
        draw_service=lambda random: random.choice((0.002, 0.010)),
        requests=200_000,
        random=Random(5),
    )

    wait = rate * 52e-6 / (2 * (1 - utilisation))
    assert sum(answers) / len(answers) == pytest.approx(0.006 + wait, rel=0.05)


def simulate_bulk_service(*, rate, seconds, each, largest, variation, ticks):
    """Simulate bulk service in small steps of time, without the code that is tested."""
    random, step = Random(11), 0.0002
    waiting, served, left, answers = [], [], 0.0, []
    for tick in range(ticks):
        if random.random() < rate * step:
            waiting.append(tick)
        left -= step
        if left <= 0:
            answers += [(tick - one) * step for one in served]
            served, waiting = waiting[:largest], waiting[largest:]
            adds = [random.gammavariate(1 / variation, each * variation) for _ in served]
            left = seconds + sum(adds) if served else 0.0
    return answers


@pytest.mark.parametrize("level", [0.2, 0.5, 0.75])
def test_answers_of_groups_are_those_of_bulk_service(level):
    predicted = predict_p95([RequestKind(level * 100, 0.01)], lone_factor=1.5, variation=1.0)

    # Alone a request takes 15 ms, and 16 of them 160 ms: f + e = 15, f + 16 e = 160.
    each = (0.160 - 0.015) / 15
    answers = simulate_bulk_service(
        rate=level * 100, seconds=0.015 - each, each=each, largest=CLIENTS, variation=1.0, ticks=4_000_000
    )
    assert predicted == pytest.approx(find_quantile(answers, 0.95), rel=0.1)


def test_the_same_load_has_the_same_answer_time():
    kinds = [RequestKind(50, 0.005), RequestKind(5, 0.02)]

    assert predict_p95(kinds, lone_factor=1.5, variation=1.0) == predict_p95(
        kinds, lone_factor=1.5, variation=1.0
    )


def test_no_answer_time_is_given_where_nothing_comes_or_too_much():
    assert predict_p95([], lone_factor=1.5, variation=1.0) is None
    assert predict_p95([RequestKind(100, 0.01)], lone_factor=1.5, variation=1.0) is None
