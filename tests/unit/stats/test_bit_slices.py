import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos.stats._bit_slices import add_up, at_least, place_of, powers_of_two, weighted_sum

DRAWS = 9
VECTORS = st.integers(0, 2**DRAWS - 1)


def numbers(slices):
    """The number of every draw."""
    return [sum((part >> draw & 1) << power for power, part in enumerate(slices)) for draw in range(DRAWS)]


@given(st.lists(VECTORS, max_size=40))
def test_ones_are_counted_in_every_draw(vectors):
    counted = numbers(add_up({0: vectors}))

    assert counted == [sum(vector >> draw & 1 for vector in vectors) for draw in range(DRAWS)]


@given(st.dictionaries(st.integers(1, 1000), st.lists(VECTORS, max_size=5), max_size=8))
def test_weights_add_up_in_every_draw(groups):
    summed = numbers(weighted_sum(groups))

    assert summed == [
        sum(weight * (vector >> draw & 1) for weight, vectors in groups.items() for vector in vectors)
        for draw in range(DRAWS)
    ]


@given(st.lists(VECTORS, max_size=6), st.integers(-2, 80))
def test_numbers_are_compared_in_every_draw(slices, bound):
    found = at_least(slices, bound, 2**DRAWS - 1)

    assert [found >> draw & 1 for draw in range(DRAWS)] == [number >= bound for number in numbers(slices)]


@given(st.integers(1, 2**200 - 1), st.data())
def test_the_place_of_a_hit_is_where_counting_reaches_it(vector, data):
    hit = data.draw(st.integers(1, vector.bit_count()))
    counted = [place for place in range(200) if vector >> place & 1]

    assert place_of(hit, vector) == counted[hit - 1] + 1


@pytest.mark.parametrize("number", [1, 5, 8, 1023])
def test_powers_of_two_add_up(number):
    assert sum(1 << power for power in powers_of_two(number)) == number


def test_gaps_between_the_columns_are_empty_slices():
    assert add_up({3: [0b1]}) == [0, 0, 0, 1]


def test_many_vectors_are_counted():
    draw = random.Random(1)
    vectors = [draw.getrandbits(DRAWS) for _ in range(5_000)]

    assert numbers(add_up({0: vectors}))[4] == sum(vector >> 4 & 1 for vector in vectors)
