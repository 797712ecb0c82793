"""Searching the spans of one trace: by names, keys and values, in parts."""

import pytest
from tests.server.trace_requests import send, send_protobuf, span, trace_id
from tests.server.trace_server import log_export, message_log

from dokimos.server._services.traces import span_search


def search(api, text, trace=1, **query):
    return api.get(f"/api/v1/traces/{trace_id(trace)}/span-matches", params={"search": text, **query})


def found(api, text, **query):
    answer = search(api, text, **query)
    assert answer.status_code == 200, answer.text
    return [
        (each["spanId"], each["place"], each["key"], each["excerpt"]) for each in answer.json()["content"]
    ]


def number(n):
    return f"{n:016x}"


@pytest.fixture(params=[send, send_protobuf], ids=["json", "protobuf"])
def shop(api, request):
    """A server with a trace of four spans."""
    request.param(
        api,
        span(1, 1, name="Answer order"),
        span(1, 2, name="search", parent=1, **{"http.url": "https://shop.example/Orders?id=7", "attempt": 3}),
        span(1, 3, name="tool", parent=1, **{"order.total": 12.5, "is.paid": True}),
        span(1, 4, name="notify", parent=1, error=True, **{"mail.to": "Ünal <a@b.example>"}),
    )
    return api


def test_a_word_is_found_in_names_keys_and_values(shop):
    assert found(shop, "ORDER") == [
        (number(1), "name", None, "Answer order"),
        (number(2), "value", "http.url", "https://shop.example/Orders?id=7"),
        (number(3), "key", "order.total", "12.5"),
    ]
    assert [each[0] for each in found(shop, "order", **{"in": "name"})] == [number(1)]
    assert [each[0] for each in found(shop, "order", **{"in": "key"})] == [number(3)]
    assert [each[0] for each in found(shop, "order", **{"in": "value"})] == [number(2)]


@pytest.mark.parametrize(
    ("text", "span_number"),
    [
        ("12.5", 3),
        ("true", 3),
        ("3", 2),
        ("ünal", 4),
        ("U\u0308NAL", 4),
        ("shop.example 7", 2),
        ("paid total", 3),
    ],
)
def test_numbers_truths_and_several_words_are_found(shop, text, span_number):
    assert number(span_number) in [each[0] for each in found(shop, text)]


def test_all_words_have_to_occur_in_one_span(shop):
    assert found(shop, "order nowhere") == []
    assert found(shop, "search notify") == []


def test_what_happened_in_a_span_is_searched_too(api):
    send(api, span(1, 1, name="model"))
    api.post("/v1/logs", json=log_export(message_log("where is the umbrella")))
    assert [each[0] for each in found(api, "umbrella")] == [number(1)]
    assert found(api, "umbrella", **{"in": "name"}) == []


@pytest.mark.parametrize("word", ["istanbul", "\u0130STANBUL", "xy", "x\u0301y"])
def test_a_word_that_finds_a_trace_finds_its_span(api, word):
    send(api, span(1, 1, name="in \u0130stanbul: x\u0301y"))
    assert [each[0] for each in found(api, word)] == [number(1)]


@pytest.mark.parametrize("letter", ["e\u0301", "x\u0301", "\u0130", "\u00e9"])
def test_the_word_is_in_the_excerpt_however_many_accents_come_before_it(api, letter):
    send(api, span(1, 1, body=f"{letter * 2000} needle"))
    ((*_, excerpt),) = found(api, "needle")
    assert excerpt.endswith(f"{letter * 10} needle")


def test_a_long_value_is_shown_around_the_word(api):
    send(api, span(1, 1, body=f"{'a' * 5000} needle\n{'b' * 5000}"))
    ((_, place, key, excerpt),) = found(api, "needle")
    assert (place, key) == ("value", "body")
    assert excerpt.startswith("…aaa")
    assert " needle bbb" in excerpt
    assert excerpt.endswith("b…")
    assert len(excerpt) < 200


def test_parts_go_on_where_the_one_before_ended(api, monkeypatch):
    monkeypatch.setattr(span_search, "MAX_SPANS", 3)
    send(api, *(span(1, each, start=each * 10, note="odd" if each % 2 else "even") for each in range(1, 9)))
    parts, after = [], None
    while True:
        part = search(api, "odd", **({} if after is None else {"after": after})).json()
        parts.append(([each["spanId"] for each in part["content"]], part["searchedCount"]))
        after = part["nextAfter"]
        if after is None:
            break
    assert parts == [([number(1), number(3)], 3), ([number(5)], 3), ([number(7)], 2)]


def test_a_part_ends_with_its_bytes_however_large_one_span_is(api, monkeypatch):
    monkeypatch.setattr(span_search, "_MAX_BYTES", 1000)
    send(api, *(span(1, each, start=each * 10, body="x" * 2000) for each in range(1, 4)))
    part = search(api, "x").json()
    assert ([each["spanId"] for each in part["content"]], part["searchedCount"]) == ([number(1)], 1)
    assert part["nextAfter"] == number(1)


@pytest.mark.parametrize(
    ("query", "status", "word"),
    [
        ({"search": ""}, 400, "search"),
        ({"search": " \t"}, 400, "search"),
        ({"search": "a" * 501}, 400, "search"),
        ({"search": "a", "in": "body"}, 400, "in"),
        ({"search": "a", "after": number(9)}, 400, "after"),
    ],
)
def test_what_cannot_be_searched_is_refused(api, query, status, word):
    send(api, span(1, 1))
    answer = api.get(f"/api/v1/traces/{trace_id(1)}/span-matches", params=query)
    assert answer.status_code == status
    assert answer.json()["message"].startswith(f"{word}: ")


def test_a_trace_that_is_not_there_is_not_found(api):
    assert search(api, "a", trace=7).status_code == 404


def test_ids_are_taken_in_capital_letters_too(api):
    name, number_of_span = "abcdef" + "0" * 26, "00000000000000ab"
    sent = span(name, 1) | {"spanId": number_of_span.upper()}
    send(api, sent)
    path = f"/api/v1/traces/{name.upper()}"
    assert api.get(path).json()["spans"][0]["spanId"] == number_of_span
    assert api.get(f"{path}/spans/{number_of_span.upper()}").json()["spanId"] == number_of_span
    assert api.get(f"{path}/spans", params={"after": number_of_span.upper()}).json()["content"] == []
    assert len(api.get("/api/v1/traces", params={"traceId": name.upper()}).json()["content"]) == 1
