"""Rows as ClickHouse's HTTP interface takes and returns them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos.server._db.row_binary import read_rows, write_rows

LONGS = st.integers(-(2**63), 2**63 - 1)
TYPES = {
    "String": st.binary(max_size=300),
    "Int64": LONGS,
    "UInt8": st.integers(0, 255),
    "Float64": st.floats(allow_nan=False),
    "Nullable(Int64)": st.none() | LONGS,
    "Array(Int64)": st.lists(LONGS, max_size=200),
    "LowCardinality(Nullable(String))": st.none() | st.binary(max_size=5),
}


def answer(types, rows):
    """An answer of ClickHouse: with the names and types of its columns before the rows."""
    head = write_rows(["UInt8"], [[len(types)]])
    names = b"".join(write_rows(["String"], [[f"c{number}"]]) for number in range(len(types)))
    return (
        head + names + b"".join(write_rows(["String"], [[name]]) for name in types) + write_rows(types, rows)
    )


@given(st.lists(st.tuples(*TYPES.values()), max_size=5))
def test_rows_are_read_as_they_were_written(rows):
    assert read_rows(answer(list(TYPES), rows)) == rows


def test_a_row_has_the_bytes_that_the_format_says():
    assert write_rows(["String", "Nullable(Int64)", "Array(UInt8)"], [["é", None, [1, 2]]]) == (
        b"\x02\xc3\xa9\x01\x02\x01\x02"
    )
    assert write_rows(["String"], [["x" * 200]])[:2] == b"\xc8\x01"


def test_no_answer_has_no_rows():
    assert read_rows(b"") == []


@pytest.mark.parametrize("lost", range(1, 12))
def test_an_answer_that_ends_too_early_is_refused(lost):
    whole = answer(["String", "Int64"], [["text", 7]])
    with pytest.raises(ValueError, match="too early"):
        read_rows(whole[:-lost])


def test_an_unknown_type_is_refused():
    with pytest.raises(ValueError, match="Decimal"):
        read_rows(answer(["Int64"], []).replace(b"\x05Int64", b"\x0dDecimal(9, 2)"))
