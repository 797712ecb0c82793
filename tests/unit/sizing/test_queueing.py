"""The formulas of queues, beside textbook values and beside a simulation of the same queue."""

from __future__ import annotations

import math
from random import Random

import pytest

from dokimos._sizing.queue_simulation import simulate_groups, simulate_queue
from dokimos._sizing.queueing import (
    GroupedService,
    Station,
    blocking_probability,
    count_servers,
    erlang_c,
)

SERVICES = {
    "constant": (0.0, lambda random: 0.01),
    "uniform": (1 / 3, lambda random: random.uniform(0, 0.02)),
    "exponential": (1.0, lambda random: random.expovariate(100)),
}


def quantile(values, share):
    return sorted(values)[int(share * len(values))]


def simulate(utilisation, service, *, servers=1, room=None, requests=200_000, seed=1):
    return simulate_queue(
        rate=utilisation * servers * 100,
        draw_service=SERVICES[service][1],
        requests=requests,
        random=Random(seed),
        servers=servers,
        room=room,
    )


@pytest.mark.parametrize(
    ("servers", "load", "expected"), [(1, 0.8, 0.8), (2, 1.0, 1 / 3), (10, 8.0, 0.40918)]
)
def test_erlang_c_has_the_values_of_the_tables(servers, load, expected):
    assert erlang_c(servers, load) == pytest.approx(expected, abs=1e-4)


def test_many_servers_do_not_overflow():
    assert 0 < erlang_c(5000, 4900.0) < 1


@pytest.mark.parametrize("utilisation", [0.2, 0.5, 0.75])
@pytest.mark.parametrize("service", SERVICES)
def test_one_server_waits_as_simulated(service, utilisation):
    station = Station(rate=utilisation * 100, service=0.01, service_variation=SERVICES[service][0])
    simulated = simulate(utilisation, service)

    assert station.mean_wait == pytest.approx(sum(simulated.waits) / len(simulated.waits), rel=0.05)
    assert station.wait_quantile(0.95) == pytest.approx(quantile(simulated.waits, 0.95), rel=0.15, abs=0.0005)


@pytest.mark.parametrize("utilisation", [0.5, 0.8, 0.9])
def test_several_servers_wait_as_simulated(utilisation):
    station = Station(rate=utilisation * 400, service=0.01, servers=4)
    simulated = simulate(utilisation, "exponential", servers=4, requests=400_000)

    assert station.mean_wait == pytest.approx(sum(simulated.waits) / len(simulated.waits), rel=0.08)
    assert station.wait_quantile(0.95) == pytest.approx(quantile(simulated.waits, 0.95), rel=0.1, abs=0.0005)


def test_the_mean_wait_of_constant_service_is_half_that_of_exponential_service():
    exponential = Station(rate=80, service=0.01)
    constant = Station(rate=80, service=0.01, service_variation=0.0)

    assert exponential.mean_wait == pytest.approx(0.04)
    assert constant.mean_wait == pytest.approx(0.02)


def test_the_response_is_the_wait_and_the_answer_without_load():
    station = Station(rate=75, service=0.01, service_variation=1.0)
    simulated = simulate(0.75, "exponential")
    random = Random(2)
    unloaded = [random.expovariate(100) for _ in range(2000)]

    assert station.response_quantile(0.95, unloaded) == pytest.approx(
        quantile(simulated.responses, 0.95), rel=0.05
    )
    assert station.response_quantile(0.95, [0.5]) == pytest.approx(
        0.5 + station.wait_quantile(0.95), abs=1e-6
    )


def test_without_load_the_response_is_what_was_measured():
    station = Station(rate=0.0, service=0.01)

    assert station.wait_quantile(0.95) == 0
    assert station.response_quantile(0.95, [0.02] * 10 + [0.03]) == pytest.approx(0.03)


@pytest.mark.parametrize("utilisation", [0.9, 1.0, 1.5])
def test_a_full_room_refuses_as_simulated(utilisation):
    simulated = simulate(utilisation, "exponential", room=20)

    assert blocking_probability(utilisation, 20) == pytest.approx(simulated.refused_share, rel=0.1)


def test_servers_that_cannot_keep_up_wait_for_ever():
    station = Station(rate=101, service=0.01)

    assert station.utilisation == pytest.approx(1.01)
    assert math.isinf(station.mean_wait)
    assert math.isinf(station.wait_quantile(0.95))
    assert math.isinf(station.response_quantile(0.95, [0.01]))
    assert blocking_probability(3.0, 10_000) == pytest.approx(2 / 3)


@pytest.mark.parametrize(("rate", "expected"), [(0, 1), (70, 1), (71, 2), (700, 10)])
def test_the_fewest_servers_below_a_utilisation(rate, expected):
    assert count_servers(rate, 0.01, utilisation=0.7) == expected


@pytest.mark.parametrize("level", [0.2, 0.5, 0.75, 0.9])
def test_groups_have_the_size_that_a_simulation_gives(level):
    grouped = GroupedService(fixed=0.002, each=0.003)
    rate = level / grouped.each
    simulated = simulate_groups(
        rate=rate,
        draw_service=lambda random, size: grouped.fixed + size * grouped.each,
        requests=100_000,
        random=Random(3),
    )

    assert grouped.group_size(rate) == pytest.approx(simulated.mean_size, rel=0.15)
    assert grouped.time(rate) == pytest.approx(grouped.each + grouped.fixed / simulated.mean_size, rel=0.03)


def test_a_grouped_service_has_the_times_that_it_was_measured_with():
    grouped = GroupedService.of_measured(alone=0.0040, at_capacity=0.0025, clients=16)

    assert grouped.time(0.0) == pytest.approx(0.0040)
    assert grouped.each + grouped.fixed / 16 == pytest.approx(0.0025)
    assert math.isinf(grouped.group_size(1000))
    assert grouped.time(1000) == grouped.each


def test_the_groups_of_a_simulation_have_a_largest_size():
    simulated = simulate_groups(
        rate=1000, draw_service=lambda random, size: 1.0, requests=1000, random=Random(4), most=10
    )

    assert simulated.mean_size <= 10
    assert len(simulated.responses) == 1000
