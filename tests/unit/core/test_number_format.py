from __future__ import annotations

import pytest

from dokimos._core import number_format


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [(0.1234565, 6, 0.123457), (0.285, 2, 0.29), (-0.5, 0, -1.0), (1e-9, 6, 0.0), (0.8, 6, 0.8)],
)
def test_ties_go_away_from_zero(value, digits, expected):
    assert number_format.round_half_up(value, digits) == expected


@pytest.mark.parametrize(
    ("rate", "text"),
    [(1, "100.0 %"), (0.99999, "99.9 %"), (0.00001, "0.1 %"), (0, "0.0 %"), (0.6249999, "62.5 %")],
)
def test_only_a_whole_share_is_a_hundred_percent(rate, text):
    assert number_format.percent(rate) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0.00 ms"),
        (9.996, "10.0 ms"),
        (412.4, "412 ms"),
        (999.6, "1.00 s"),
        (41_230, "41.2 s"),
        (200_000, "3.33 min"),
        (7_200_000, "2.00 h"),
    ],
)
def test_durations_have_the_unit_that_gives_three_digits(milliseconds, text):
    assert number_format.duration(milliseconds) == text


def test_a_long_text_is_cut_in_the_middle_with_its_length():
    shown = number_format.truncate_middle("a" * 500 + "z" * 500, 100)
    assert len(shown) <= 100
    assert shown.startswith("aaa")
    assert shown.endswith("zzz")
    assert "1,000 characters" in shown


def test_counts_that_are_means_have_a_decimal():
    assert [number_format.format_count(value) for value in (12, 12.0, 1234.25)] == ["12", "12", "1,234.3"]


def test_numbers_beyond_all_bounds_are_written_too():
    assert number_format.round_half_up(1e300) == 1e300
    assert number_format.usd(float("inf")) == "$Infinity"
