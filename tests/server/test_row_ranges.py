"""Searches know the traces of rows from ranges of them, and from the spans where there are none."""

import pytest
from sqlalchemy import select
from tests.server.test_trace_search import chosen
from tests.server.trace_exports import read
from tests.server.trace_requests import send, span

from dokimos.server._db.trace_tables import TRACES
from dokimos.server._services.traces import row_ranges


@pytest.fixture
def database_settings(tmp_path):
    """Of SQLite alone, which has them."""
    return {"data_dir": tmp_path}


def list_ranges(api):
    """The first and last row of each range of the one day of a server."""
    table = row_ranges.range_table(day_of(api))
    return read(api, lambda c: [tuple(row) for row in c.exec_driver_sql(f"SELECT first, last FROM {table}")])


def day_of(api):
    return read(api, lambda connection: connection.execute(select(TRACES.c.day)).scalars().first())


def write(api, statement):
    api.portal.call(api.app.state.traces.write, lambda connection: connection.exec_driver_sql(statement))


def test_spans_of_a_trace_that_come_together_share_a_range(api):
    send(api, *(span(1, place, input="apple") for place in (1, 2, 3)), span(2, input="apple"))
    send(api, span(1, 4, input="apple"))

    assert list_ranges(api) == [(1, 3), (4, 4), (5, 5)]


def test_the_other_spans_of_a_trace_are_found_when_one_was_replaced(api):
    send(api, *(span(1, place, input=f"fruit{place} apple") for place in (1, 2, 3)), span(2, input="apple"))
    send(api, span(1, 2, input="banana", seconds=2))

    assert list_ranges(api) == [(4, 4), (5, 5)]
    for word in ("fruit1", "fruit3", "banana"):
        assert chosen(api, search=word) == [1], word
    assert chosen(api, search="fruit2") == []
    assert chosen(api, search="apple") == [2, 1]


def test_a_search_reads_no_span_to_know_its_trace(api, monkeypatch):
    send(api, *(span(number, input="apple") for number in (1, 2)), span(1, 2, input="pear"))
    statements = []
    original = row_ranges.all_rows
    monkeypatch.setattr(
        row_ranges, "all_rows", lambda *given: statements.append(given[1]) or original(*given)
    )

    assert chosen(api, search="apple") == [2, 1]

    assert len(statements) == 1
    assert "spans " not in statements[0]


def test_a_day_that_was_stored_without_ranges_is_searched_as_well(api):
    send(api, span(1, input="apple"), span(2, input="pear"), span(1, 2, input="apple pear"))
    write(api, f"DROP TABLE {row_ranges.range_table(day_of(api))}")

    assert chosen(api, search="apple") == [1]
    assert chosen(api, search="pear") == [2, 1]


def test_a_day_with_ranges_of_some_rows_is_searched_as_well(api):
    send(api, *(span(number, input="apple") for number in range(1, 6)))
    write(api, f"DELETE FROM {row_ranges.range_table(day_of(api))} WHERE first IN (1, 3)")

    assert chosen(api, search="apple") == [5, 4, 3, 2, 1]


def test_more_rows_than_fit_into_a_statement_are_known(api):
    for first in range(1, 2401, 400):
        send(api, *(span(number, input="apple") for number in range(first, first + 400)))

    day, rows = day_of(api), list(range(1, 2401))
    found = read(api, lambda connection: row_ranges.find_traces_of_rows(connection, day, rows))

    assert len(found) == 2400
