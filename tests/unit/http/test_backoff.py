from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from dokimos._http.backoff import parse_duration, rate_limit_pause, retry_after


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_retry_after_is_read_in_every_spelling(headers, seconds):
    assert retry_after(headers) == seconds


def test_retry_after_may_be_a_date():
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)

    assert 85 <= retry_after({"retry-after": later}) <= 90


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("120ms", 0.12),
        ("1h2m3.5s", 3723.5),
        ("2", 2.0),
        ("", None),
        ("1x", None),
    ],
)
def test_durations_are_read_as_providers_write_them(text, seconds):
    assert parse_duration(text) == seconds


def test_nothing_is_paused_while_something_is_left():
    assert (
        rate_limit_pause({"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "9s"}, 1)
        is None
    )


def test_a_used_up_limit_pauses_for_the_share_that_the_calls_in_flight_need():
    headers = {
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "60s",
        "x-ratelimit-limit-requests": "600",
    }

    assert rate_limit_pause(headers, in_flight=10) == pytest.approx(1.0)
    assert rate_limit_pause(headers, in_flight=6000) == 60.0


def test_anthropic_gives_the_time_of_its_reset():
    reset = (datetime.now(UTC) + timedelta(seconds=20)).isoformat().replace("+00:00", "Z")
    headers = {
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": reset,
        "anthropic-ratelimit-requests-limit": "1",
    }

    assert 18 <= rate_limit_pause(headers, in_flight=1) <= 20
