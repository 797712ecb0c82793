"""A cursor says where a list of traces goes on, whatever its traces are sorted by."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos.server._services.traces.trace_cursors import read_cursor, write_cursor
from dokimos.server._services.traces.trace_filter import TRACE_ORDERS

WHOLE = st.integers(-(2**63) + 1, 2**63 - 1)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
ORDERS = {"startTime": WHOLE, "duration": WHOLE, "tokens": WHOLE, "cost": NUMBERS, "score": NUMBERS}


@pytest.mark.parametrize("name", ORDERS)
@given(data=st.data(), identifier=st.uuids())
def test_a_cursor_is_read_as_it_was_written(name, data, identifier):
    order = TRACE_ORDERS.parse(f"{name},desc")
    key = (data.draw(ORDERS[name]), str(identifier))

    cursor = write_cursor(order, key)

    assert read_cursor(cursor, order).place == key
    assert not set(cursor) & set("+&=#% ")
    assert len(cursor) <= 100
    for other in (*ORDERS, "createdAt"):
        page = read_cursor(cursor, TRACE_ORDERS.parse(other))
        assert page.after == key[-1]
        assert (page.place is not None) is (other == name)


@given(identifier=st.uuids())
def test_a_list_by_creation_goes_on_behind_an_id(identifier: UUID):
    order = TRACE_ORDERS.parse("createdAt,desc")

    assert write_cursor(order, (str(identifier),)) == str(identifier)
    assert read_cursor(str(identifier), order).after == str(identifier)
    assert read_cursor(None, order).after is None
