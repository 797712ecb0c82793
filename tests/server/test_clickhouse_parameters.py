"""Queries of spans as ClickHouse takes them: no value is ever in their text."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from sqlalchemy import and_, func, literal_column, or_, select, tuple_

from dokimos.server._clickhouse_address import parse_clickhouse_url
from dokimos.server._db.clickhouse_parameters import compile_query, format_parameter
from dokimos.server._db.columns import LONG
from dokimos.server._db.trace_tables import SPAN_START, SPANS
from dokimos.server._settings import ServerSettings

START = literal_column(SPAN_START, LONG)
HOSTILE = "'; DROP TABLE spans; --\\"


def test_values_are_parameters_with_the_types_of_their_columns():
    query = select(SPANS.c.name).where(SPANS.c.day == 7, SPANS.c.span_id == HOSTILE).limit(3)
    statement = compile_query(query)
    assert " ".join(statement.text.split()) == (
        "SELECT spans.name FROM spans WHERE spans.day = {p0:Int64} AND spans.span_id = {p1:String}"
        " LIMIT {p2:Int64}"
    )
    assert statement.parameters == {"p0": "7", "p1": "\\'; DROP TABLE spans; --\\\\", "p2": "3"}


def test_lists_and_pairs_are_one_parameter():
    pairs = tuple_(SPANS.c.trace, SPANS.c.span_id).in_([("a", HOSTILE), ("b", "c")])
    statement = compile_query(select(SPANS.c.name).where(pairs, SPANS.c.span_id.in_([])))
    assert "IN {p0:Array(Tuple(String, String))} AND spans.span_id IN {p1:Array(String)}" in statement.text
    assert statement.parameters == {"p0": "[('a','\\'; DROP TABLE spans; --\\\\'),('b','c')]", "p1": "[]"}


def test_a_start_that_is_unknown_has_a_column_and_characters_are_counted_as_such():
    cut = func.substr(SPANS.c.input_text, 1, 501).label("input_text")
    query = select(cut).where(and_(START >= 5, or_(START > 5, SPANS.c.span_id > "q"))).order_by(START)
    text = " ".join(compile_query(query).text.split())
    assert "substringUTF8(spans.input_text, {p0:Int64}, {p1:Int64}) AS input_text" in text
    assert "start_order >= {p2:Int64}" in text
    assert text.endswith("ORDER BY start_order")


def test_a_text_is_escaped_once():
    assert format_parameter("a\tb\\n'\n") == "a\\tb\\\\n\\'\\n"
    assert format_parameter([1, -2]) == "[1,-2]"


def test_what_is_no_value_is_refused():
    with pytest.raises(TypeError, match="dict"):
        format_parameter({})


def test_an_address_names_host_database_and_user():
    address = parse_clickhouse_url("clickhouse://writer:p%40ss@db.example:9000/traces")
    assert (address.url, address.database, address.user, address.password) == (
        "http://db.example:9000",
        "traces",
        "writer",
        "p@ss",
    )
    assert "p@ss" not in f"{address} {address!r}"


def test_an_address_without_more_has_defaults():
    address = parse_clickhouse_url("clickhouse://db.example?secure=true")
    assert (address.url, address.database, address.user) == (
        "https://db.example:8443",
        "default",
        "default",
    )


@pytest.mark.parametrize(
    "url", ["clickhouse://", "clickhouse://host?secure=maybe", "clickhouse://host?tls=1"]
)
def test_other_addresses_are_refused_without_repeating_them(url):
    with pytest.raises(ValueError, match="must look like") as error:
        parse_clickhouse_url(url)
    assert "maybe" not in str(error.value)


def test_the_variable_of_traces_may_name_a_clickhouse():
    url = "clickhouse://host/traces"
    settings = ServerSettings.from_environment({"DOKIMOS_TRACE_DATABASE_URL": url})
    assert (settings.traces.clickhouse_url, settings.traces.database_url) == (url, None)
    assert url not in repr(settings)


def test_the_settings_of_the_page_end_or_limit_each_log():
    page = Path(__file__).parents[2] / "docs" / "guide" / "server-clickhouse.md"
    [text] = re.findall(r"```xml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    logs = {each.tag: each for each in ElementTree.fromstring(text)}
    assert {"query_log", "text_log", "trace_log", "metric_log", "part_log"} <= logs.keys()
    for name, log in logs.items():
        is_kept = log.get("replace") == "1" and "3 DAY" in log.findtext("ttl", "")
        assert name.endswith("_log")
        assert is_kept or log.get("remove") == "1", name
