"""Lists of traces with filters, in other orders, page by page, and with a search."""

import random
from datetime import UTC, datetime

import pytest
from tests.server.test_traces import TRACES, ids
from tests.server.trace_requests import NOW, SECOND, export, make_project, send, span

from dokimos.server._services.traces import trace_lists, trace_search


def chosen(api, **parameters):
    return ids(api.get(TRACES, params=parameters))


def moment(seconds):
    return datetime.fromtimestamp(NOW // SECOND + seconds, UTC).isoformat()


@pytest.fixture(scope="module")
def filled(shared_server):
    """A server with six traces of a project, and one of none."""
    api = shared_server
    make_project(api, "chat")
    usage = {"gen_ai__usage__output_tokens": 1}
    for number in range(1, 7):
        send(
            api,
            span(
                number,
                name=f"root {number % 2}",
                start=NOW + number * SECOND,
                seconds=number / 10,
                error=number == 3,
                session__id=f"s{number % 3}",
                user__id=f"u{number % 2}",
                input=f"Question {number} about Zürich and example.com/path_{number}",
                tier=number,
            ),
            span(
                number,
                2,
                parent=1,
                start=NOW + number * SECOND,
                seconds=0.01,
                gen_ai__operation__name="chat",
                gen_ai__request__model=f"m{number % 2}",
                gen_ai__usage__input_tokens=number * 100,
                gen_ai__usage__cost=number / 100,
                **usage,
            ),
            project="chat",
            region="eu" if number < 4 else "us",
        )
    send(api, span(7, name="alone", start=NOW))
    return api


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, [7, 6, 5, 4, 3, 2, 1]),
        ({"project": "chat"}, [6, 5, 4, 3, 2, 1]),
        ({"status": "error"}, [3]),
        ({"status": "ok", "project": "chat"}, [6, 5, 4, 2, 1]),
        ({"sessionId": "s1"}, [4, 1]),
        ({"sessionId": "s1", "project": "chat", "minDurationMs": 200}, [4]),
        ({"userId": "u0"}, [6, 4, 2]),
        ({"model": "m1"}, [5, 3, 1]),
        ({"rootName": "root 1", "maxDurationMs": 400}, [3, 1]),
        ({"minDurationMs": 250, "maxDurationMs": 450}, [4, 3]),
        ({"minTokens": 301}, [6, 5, 4, 3]),
        ({"minTokens": 302, "maxTokens": 401}, [4]),
        ({"project": "chat", "sort": "duration"}, None),
        ({"project": "chat", "sort": "duration,desc"}, [6, 5, 4, 3, 2, 1]),
        ({"project": "chat", "sort": "duration,asc", "minDurationMs": 250}, [3, 4, 5, 6]),
        ({"project": "chat", "sort": "tokens,asc", "status": "ok"}, [1, 2, 4, 5, 6]),
        ({"sort": "startTime,asc"}, [7, 1, 2, 3, 4, 5, 6]),
        ({"search": "question"}, [6, 5, 4, 3, 2, 1]),
        ({"search": "QUESTION 4"}, [4]),
        ({"search": "about zür"}, [6, 5, 4, 3, 2, 1]),
        ({"search": "example path_5"}, [5]),
        ({"search": "question", "project": "chat", "status": "error"}, [3]),
        ({"search": "alone"}, [7]),
        ({"search": "it failed"}, [3]),
        ({"search": "nothing of this"}, []),
        ({"attribute": "tier=2"}, [2]),
        ({"attribute": ["tier=2", "region=eu"]}, [2]),
        ({"attribute": ["tier=2", "region=us"]}, []),
        ({"attribute": "region=us", "search": "question"}, [6, 5, 4]),
        ({"attribute": "region=us", "sort": "createdAt,asc"}, [4, 5, 6]),
    ],
)
def test_filters_and_orders(filled, parameters, expected):
    if expected is None:
        answer = filled.get(TRACES, params=parameters)
        assert ids(answer) == [1, 2, 3, 4, 5, 6]
        return
    assert chosen(filled, **parameters) == expected


def test_a_period_is_in_the_order_of_the_starts(filled):
    assert chosen(filled, **{"from": moment(2), "to": moment(5)}) == [4, 3, 2]
    assert chosen(filled, **{"from": moment(-1), "to": moment(2)}) == [1, 7]
    page = filled.get(TRACES, params={"from": moment(2), "size": 2, "project": "chat"}).json()
    assert [int(each["traceId"], 16) for each in page["content"]] == [6, 5]
    rest = chosen(filled, **{"from": moment(2), "project": "chat", "after": page["nextAfter"]})
    assert rest == [4, 3, 2]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sort": "cost"}, "sort: needs a project"),
        ({"sort": "startTime", "search": "a"}, "sort: a search is sorted"),
        ({"sort": "name"}, "sort: must be"),
        ({"search": "?!"}, "search: holds no letter"),
        ({"search": " ".join(["a"] * 21)}, "search: must be at most 20 words"),
        ({"attribute": "x"}, "attribute: must be a key and a value"),
        ({"attribute": "x=" + "y" * 300}, "attribute: must have at most"),
        ({"minCostUsd": "nan"}, "minCostUsd"),
        ({"minTokens": 2**64}, "minTokens"),
        ({"status": "bad"}, "status"),
        ({"sort": "startTime", "after": "018f0000-0000-7000-8000-000000000000"}, "after: is not the id"),
    ],
)
def test_a_filter_that_cannot_be_used_is_refused(filled, parameters, message):
    answer = filled.get(TRACES, params=parameters)

    assert answer.status_code == 400, answer.text
    assert message in answer.json()["message"]


def test_an_unknown_project_is_not_found(filled):
    assert filled.get(TRACES, params={"project": "nobody"}).status_code == 404


def walk(api, **parameters):
    """All traces of a list, read page by page, and how many pages there were."""
    found, pages, after = [], 0, None
    while True:
        page = {} if after is None else {"after": after}
        answer = api.get(TRACES, params={**parameters, **page})
        found += ids(answer)
        pages, after = pages + 1, answer.json()["nextAfter"]
        assert answer.json()["last"] is (after is None)
        if after is None:
            return found, pages


def test_pages_go_on_behind_traces_that_a_filter_leaves_out(api, monkeypatch):
    monkeypatch.setattr(trace_lists, "WINDOW", 10)
    make_project(api, "chat")
    draw = random.Random(3)
    values = {number: draw.randrange(5) for number in range(1, 61)}
    spans = [
        span(number, name=f"n{value}", seconds=value, start=NOW + value * SECOND, input="word")
        for number, value in values.items()
    ]
    for number in range(0, 60, 20):
        api.post(TRACES, json=export(*spans[number : number + 20], project="chat"))
    newest = sorted(values, key=order_of(api), reverse=True)

    for parameters in ({}, {"project": "chat"}, {"search": "word"}):
        found, pages = walk(api, rootName="n2", size=4, **parameters)
        assert found == [number for number in newest if values[number] == 2]
        assert pages > 1
    by_duration = sorted(values, key=lambda number: (values[number], order_of(api)(number)))
    found, _ = walk(api, rootName="n3", size=4, project="chat", sort="duration,asc")
    assert found == [number for number in by_duration if values[number] == 3]
    assert walk(api, size=7, project="chat", sort="duration,asc")[0] == by_duration
    assert walk(api, size=7, **{"from": moment(-1)})[0] == by_duration[::-1]
    nothing, pages = walk(api, rootName="none", size=4)
    assert (nothing, pages) == ([], 7)


def order_of(api):
    """By trace, the id of its row."""
    rows = api.get(TRACES, params={"size": 200}).json()["content"]
    places = {int(row["traceId"], 16): row["id"] for row in rows}
    return places.__getitem__


def test_what_occurs_in_many_spans_is_found_in_the_same_order(api, monkeypatch):
    """A word of which there are too many to read all is looked for in one trace after the other."""
    monkeypatch.setattr(trace_search, "_RARE", 5)
    monkeypatch.setattr(trace_search, "_BATCH", 7)
    make_project(api, "chat")
    for number in range(1, 41):
        words = " ".join(word for word, each in (("two", 2), ("five", 5)) if number % each == 0)
        send(api, span(number, input=f"all {words}"), project="chat" if number % 3 else None)
    send(api, span(1, 2, parent=1, input="five"))  # late, of the oldest trace

    fives = [number for number in range(40, 0, -1) if number % 5 == 0] + [1]
    for size in (3, 50):
        assert walk(api, search="five", size=size)[0] == fives
        assert walk(api, search="all", size=size)[0] == list(range(40, 0, -1))
        assert walk(api, search="all", sort="createdAt,asc", size=size)[0] == list(range(1, 41))
        outside = [number for number in range(40, 0, -1) if number % 6 == 0]
        inside = [number for number in range(40, 0, -1) if number % 3 and number % 2 == 0]
        assert walk(api, search="two", size=size, project="chat")[0] == inside
        assert sorted(outside + inside, reverse=True) == walk(api, search="two", size=size)[0]


def test_a_replaced_span_is_found_by_its_new_words_alone(api):
    send(api, span(1, input="apple"))
    send(api, span(1, input="banana", seconds=2))

    assert chosen(api, search="banana") == [1]
    assert chosen(api, search="apple") == []
