"""The rows of spans, and the numbers of their attributes, whatever values they have."""

import pytest
from sqlalchemy import select
from tests.server.trace_server import open_traces, span

from dokimos.server._db.trace_tables import SPANS
from dokimos.server._services.traces import attribute_hashes, span_rows
from dokimos.server._services.traces.attribute_hashes import MAX_HASHED, hash_attribute, hash_attributes

KINDS = (
    {},
    {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5", "gen_ai.usage.input_tokens": 7},
    {"gen_ai.operation.name": "execute_tool", "error.type": "TimeoutError"},
    {"gen_ai.operation.name": "chat", "gen_ai.usage.output_tokens": 3},
)


@pytest.mark.parametrize("most", [0, 2, 64])
async def test_spans_with_values_in_any_columns_have_them_in_their_rows(tmp_path, monkeypatch, most):
    monkeypatch.setattr(span_rows, "_MAX_INSERTS", most)
    monkeypatch.setattr(span_rows, "_inserts", {})
    columns = ("parent_id", "role", "model", "tokens_in", "tokens_out", "input_text", "output_text", "error")
    query = select(SPANS.c.span_id, *(SPANS.c[name] for name in columns)).order_by(SPANS.c.span_id)
    async with open_traces(data_dir=tmp_path) as server:
        sent = [span(1, n, None if n < 3 else 1, **KINDS[n % 4]) for n in range(1, 9)]
        assert (await server.send(*sent)).accepted == 8
        for row in await server.read(query):
            number = int(row.span_id, 16)
            assert row.parent_id == (None if number < 3 else f"{1:016x}")
            assert (row.input_text, row.output_text) == ("question 1", f"answer {number}")
            expected = [
                ("other", None, None, None, None),
                ("model", "gpt-5", 7, None, None),
                ("tool", None, None, None, "TimeoutError"),
                ("model", None, None, 3, None),
            ]
            found = (row.role, row.model, row.tokens_in, row.tokens_out, row.error)
            assert found == expected[number % 4]


def test_the_number_of_an_attribute_is_the_one_of_the_stored_indexes():
    for _ in range(2):
        assert hash_attribute("gen_ai.request.model", "gpt-5") == 6264956829519713862
        assert hash_attribute("user.id", "Zo\u00eb \ud800") == 4830655562784792289


def test_the_number_of_an_attribute_does_not_depend_on_what_is_remembered(monkeypatch):
    pairs = [(f"key {n % 7}", f"value {n % 11}") for n in range(200)]
    expected = [hash_attribute(*pair) for pair in pairs]
    monkeypatch.setattr(attribute_hashes, "_MAX_KEYS", 2)
    monkeypatch.setattr(attribute_hashes, "_MAX_VALUES", 2)
    assert [hash_attributes({key: value}) for key, value in pairs] == [[number] for number in expected]


def test_short_texts_whole_numbers_and_flags_can_be_searched_for():
    attributes = {"text": "a", "number": 5, "flag": True, "ratio": 0.5, "list": ["a"], "long": "a" * 300}
    pairs = (("text", "a"), ("number", "5"), ("flag", "true"))
    assert hash_attributes(attributes) == [hash_attribute(*pair) for pair in pairs]
    assert len(hash_attributes({f"key {n}": "a" for n in range(1000)})) == MAX_HASHED
