"""The rows of spans, and the numbers of their attributes, whatever values they have."""

from collections.abc import Sequence

import pytest
from sqlalchemy import func, select
from tests.server.trace_server import open_traces, span

from dokimos.server._db.trace_tables import SPANS
from dokimos.server._services.traces import attribute_hashes, span_rows
from dokimos.server._services.traces.attribute_hashes import MAX_HASHED, hash_attribute, hash_attributes
from dokimos.server._services.traces.new_spans import NewSpan
from dokimos.server._services.traces.page_filler import PageFiller

KINDS = (
    {},
    {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5", "gen_ai.usage.input_tokens": 7},
    {"gen_ai.operation.name": "execute_tool", "error.type": "TimeoutError"},
    {"gen_ai.operation.name": "chat", "gen_ai.usage.output_tokens": 3},
)


@pytest.mark.parametrize("at_once", [1, 3, 20])
async def test_spans_with_values_in_any_columns_have_them_in_their_rows(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(span_rows, "_ROWS_AT_ONCE", at_once)
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


async def test_what_a_span_lacks_is_null_and_no_number(tmp_path):
    async with open_traces(data_dir=tmp_path) as server:
        assert (await server.send(span(1, 1, None))).accepted == 1
        optional = [column for column in SPANS.c if column.nullable]
        (row,) = await server.read(select(*map(func.typeof, optional)))
        types = dict(zip([column.name for column in optional], row, strict=True))
        present = {name for name, kind in types.items() if kind != "null"}
        assert set(types.values()) <= {"null", "text", "integer", "blob"}
        assert present.isdisjoint({"parent_id", "tokens_in", "cost_usd", "first_chunk_ms", "model", "error"})


async def test_the_rows_of_a_trace_are_one_range_in_whatever_order_they_are(tmp_path):
    async with open_traces(data_dir=tmp_path) as server:
        sent = [span(1, n, 1, **{"input.value": "word " * n * 40}) for n in range(1, 40)]
        other = [span(2, n, 1, **{"input.value": "word " * n * 40}) for n in range(1, 40)]
        assert (await server.send(*sent, *other)).accepted == 78
        rows = await server.read(select(SPANS.c.row, SPANS.c.trace, SPANS.c.span_id).order_by(SPANS.c.row))
        assert [row.row for row in rows] == list(range(1, 79))
        for of_trace in (rows[:39], rows[39:]):
            assert len({row.trace for row in of_trace}) == 1
            assert {int(row.span_id, 16) for row in of_trace} == set(range(1, 40))


def make_spans(*sizes: int) -> list[NewSpan]:
    empty = NewSpan(*[None] * len(NewSpan._fields))
    return [empty._replace(span_id=str(n), body=bytes(size)) for n, size in enumerate(sizes)]


def count_pages(spans: Sequence[NewSpan], room: int = 8150) -> int:
    pages, left = 1, room
    for each in spans:
        size = len(each.body) + 250
        if size > left:
            pages, left = pages + 1, room
        left -= size
    return pages


def test_spans_are_arranged_so_that_they_leave_little_of_each_page_empty():
    sent = make_spans(*[4500] * 4, *[3000] * 4)
    arranged = PageFiller().arrange(sent)
    assert sorted(map(id, arranged)) == sorted(map(id, sent))
    assert (count_pages(sent), count_pages(arranged)) == (6, 4)


def test_the_rest_of_the_page_that_the_last_trace_began_is_filled():
    filler, traces = PageFiller(), (make_spans(5000), make_spans(7000, 2500))
    arranged = [each for trace in traces for each in filler.arrange(trace)]
    assert [len(each.body) for each in arranged] == [5000, 2500, 7000]


def test_spans_that_no_page_has_room_for_are_arranged_too():
    spans = make_spans(9000, 100, 50_000, 8000, 8000)
    arranged = PageFiller().arrange(spans)
    assert sorted(map(id, arranged)) == sorted(map(id, spans))
    assert PageFiller().arrange([]) == []


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
