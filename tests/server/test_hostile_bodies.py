"""Bodies that are within every limit and made to hurt."""

import json
import tracemalloc
from contextlib import contextmanager

import pytest
from pydantic import ValidationError

from dokimos.server._api.datasets.dataset_schemas import CreateVersionBody, EditVersionBody, PromoteBody
from dokimos.server._api.http.json_text import _object, dump_json, parse_json
from dokimos.server._api.runs.item_bodies import ITEMS_BODY
from dokimos.server._services.errors import InvalidRequestError

LONG_KEY_ABOVE_MANY = {"k" * 10_000: [0] * 1000}


class CountedKey(str):
    """A text that counts how often any is compared."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        CountedKey.comparisons += 1
        return str.__eq__(self, other)


def test_a_key_given_twice_is_found_in_one_pass_over_the_keys():
    count = 2000
    members = [(CountedKey(number), 0) for number in [*range(count), count - 1]]
    assert _object(members).key == str(count - 1)
    assert CountedKey.comparisons < 20 * count


@contextmanager
def at_most_allocated(size):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


def least_allocated(call, times=3):
    """The least that is allocated at once during one of some calls; a server's workers allocate as well."""
    peaks = []
    for _ in range(times):
        tracemalloc.start()
        try:
            call()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(peaks)


def test_a_long_key_above_many_values_is_not_copied_for_each():
    body = json.dumps({**LONG_KEY_ABOVE_MANY, "text": "\0"}).encode()
    with at_most_allocated(1_000_000):
        parse_json(body)
    with at_most_allocated(1_000_000):
        dump_json({**LONG_KEY_ABOVE_MANY, "text": "Infinity"}, "items[0].inputs")


@pytest.mark.parametrize(
    "body",
    [
        b'{"%b": [NaN]}' % (b"k" * 100_000),
        b'{"%b": 1, "%b": 2}' % (b"k" * 100_000, b"k" * 100_000),
        b'{"%b\\u0000": 1}' % (b"k" * 100_000),
        b'{"%b":' % (b"k" * 10_000) * 100 + b"NaN" + b"}" * 100,
    ],
)
def test_a_message_shows_the_beginning_of_a_long_key(body):
    with pytest.raises(InvalidRequestError) as refusal:
        parse_json(body)
    assert "kkk" in str(refusal.value)
    assert len(str(refusal.value)) < 600


def test_the_first_fault_of_a_list_ends_the_check_of_it():
    score = {"name": 1, "score": "high", "success": 3}
    for body in ({"items": [0] * 1000}, {"items": [{"evalResults": [score] * 1000}] * 1000}):
        with pytest.raises(ValidationError) as refusal:
            ITEMS_BODY.validate_python(body)
        assert refusal.value.error_count() <= 3


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (CreateVersionBody, {"items": [0] * 1000}),
        (CreateVersionBody, {"examples": [0] * 1000}),
        (EditVersionBody, {"changes": [0] * 1000}),
        (PromoteBody, {"datasetName": "d", "items": [0] * 1000}),
    ],
)
def test_the_first_fault_of_a_list_about_datasets_ends_the_check_of_it(model, body):
    with pytest.raises(ValidationError) as refusal:
        model.model_validate(body)
    assert refusal.value.error_count() == 1
