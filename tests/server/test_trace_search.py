"""Lists of traces with filters, in other orders, page by page, and with a search."""

import random
import re
from datetime import UTC, datetime

import pytest
from sqlalchemy import Engine, event
from tests.server.test_traces import TRACES, ids
from tests.server.trace_requests import NOW, SECOND, export, make_project, send, span

from dokimos.server._db import ids as row_ids
from dokimos.server._services.traces import search_scope, span_store, trace_lists, trace_search


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
        ({"minTokens": 302, "maxTokens": 2**40}, [6, 5, 4]),
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


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"project": "chat"},
        {"project": "chat", "sort": "createdAt,asc"},
        {"status": "error"},
        {"status": "error", "project": "chat"},
        {"sort": "startTime,asc"},
        {"project": "chat", "sort": "startTime,desc", "from": moment(0.5), "to": moment(4.5)},
        {"project": "chat", "sort": "duration,desc", "minDurationMs": 1500},
        {"project": "chat", "sort": "tokens,asc"},
        {"project": "chat", "sort": "cost,desc"},
    ],
    ids=[
        "all",
        "project",
        "oldest first",
        "errors",
        "errors of a project",
        "start",
        "period",
        "duration",
        "tokens",
        "cost",
    ],
)
@pytest.mark.parametrize("most_removed", [1000, 3])
def test_pages_by_number_are_those_of_the_whole_list(api, monkeypatch, parameters, most_removed):
    """Whether an index counts the traces before a page, without those that are removed, or they are read."""
    monkeypatch.setattr(trace_lists, "_NEAR", 0)
    monkeypatch.setattr(trace_lists, "_MOST_REMOVED", most_removed)
    make_project(api, "chat")
    draw = random.Random(5)
    for project in ("chat", None):
        spans = [
            span(
                number + (project is None) * 100, start=NOW + draw.randrange(6) * SECOND,
                seconds=draw.randrange(4), error=draw.random() < 0.5, gen_ai__operation__name="chat",
                gen_ai__usage__cost=draw.choice((0.5, 1.0)), gen_ai__usage__input_tokens=draw.randrange(3),
            )
            for number in range(1, 26)
        ]  # fmt: skip
        send(api, *spans, project=project)
    rows = api.get(TRACES, params={"size": 200}).json()["content"]
    for row in draw.sample(rows, 12):
        assert api.delete(f"{TRACES}/{row['id']}").status_code == 204

    whole = ids(api.get(TRACES, params={**parameters, "size": 200}))
    assert len(whole) > 4
    for size in (1, 3, 7):
        for number in range(-(-len(whole) // size) + 2):
            answer = api.get(TRACES, params={**parameters, "size": size, "page": number})
            part = whole[number * size : (number + 1) * size]
            assert ids(answer) == part
            goes_on = len(whole) > (number + 1) * size
            assert (answer.json()["nextAfter"] is not None) is goes_on
            if goes_on:
                last = answer.json()["content"][-1]["id"]
                assert answer.json()["nextAfter"].rpartition("_")[2] == last


@pytest.mark.parametrize("sort", ["createdAt", "startTime", "duration", "cost", "tokens"])
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_a_list_goes_on_behind_a_trace_that_was_deleted(api, sort, direction):
    make_project(api, "chat")
    draw = random.Random(9)
    for number in range(1, 10):
        cost, tokens = draw.choice((0.1, 1e-7)), 1 + number // 3
        usage = {"gen_ai__usage__cost": cost, "gen_ai__usage__input_tokens": tokens}
        start = NOW + draw.randrange(4) * SECOND
        called = span(number, start=start, seconds=number % 3, gen_ai__operation__name="chat", **usage)
        send(api, called, project="chat")
    list_ = {"project": "chat", "sort": f"{sort},{direction}"}
    whole = ids(api.get(TRACES, params=list_))
    assert len(whole) == 9

    after = {}
    for place in range(0, 9, 2):
        page = api.get(TRACES, params={**list_, "size": 2, **after})
        assert ids(page) == whole[place : place + 2]
        after = {"after": page.json()["nextAfter"]}
        for row in page.json()["content"]:
            assert api.delete(f"{TRACES}/{row['id']}").status_code == 204
    assert after == {"after": None}


def test_a_cursor_of_another_order_or_an_id_goes_on_behind_its_trace(filled):
    by_duration = {"project": "chat", "sort": "duration,asc"}
    page = filled.get(TRACES, params={**by_duration, "size": 2}).json()
    last = page["content"][-1]["id"]
    assert page["nextAfter"] == f"duration_200000000_{last}"

    assert chosen(filled, **by_duration, after=last) == [3, 4, 5, 6]
    assert chosen(filled, project="chat", sort="tokens,desc", after=page["nextAfter"]) == [1]
    assert chosen(filled, project="chat", after=page["nextAfter"]) == [1]
    assert chosen(filled, project="chat", sort="tokens,asc", after=f"tokens_{2**40}_{last}") == []
    assert chosen(filled, project="chat", search="question", after=page["nextAfter"]) == [1]


@pytest.mark.parametrize(
    "after",
    [
        "x", "duration_200", "duration_x_{id}", "size_2_{id}", "cost_nan_{id}", "cost_1e999_{id}",
        "start_9223372036854775808_{id}", "duration_1.5_{id}", "_1_{id}", "duration__{id}",
    ],
)  # fmt: skip
def test_what_is_no_cursor_is_refused(filled, after):
    text = after.replace("{id}", "018f0000-0000-7000-8000-000000000000")

    answer = filled.get(TRACES, params={"project": "chat", "sort": "duration", "after": text})

    assert answer.status_code == 400
    assert "after: is not what a list has named as nextAfter" in answer.json()["message"]


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


WORDS = ("every", "half", "seldom", "once", "zürich", "größe", "日本", "don", "t")
SEARCHES = (
    "every",
    "eve",
    "half",
    "seldom",
    "once",
    "absent",
    "every half",
    "seldom every",
    "half seldom eve",
    "zür",
    "größe zürich",
    "日本",
    "don't",
    '"half seldom"',
    "every AND half",
    "late",
)
DAY_SECONDS = 86_400


def draw_spans(draw, days):
    """Traces of some days, the newest last: each with its day, its project, its start and its texts."""
    shares = (1.0, 0.5, 0.1, 0.02, 0.2, 0.3, 0.2, 0.3, 0.3)
    traces = []
    for number in range(1, 91):
        day = number * days // 91
        texts = [
            [word for word, share in zip(WORDS, shares, strict=True) if draw.random() < share]
            for _ in range(draw.randrange(1, 4))
        ]
        began_days_before = draw.choice((0, 0, 0, 0, 0, 5))
        start = NOW + (day - days + 1 - began_days_before) * DAY_SECONDS * SECOND + number * SECOND
        traces.append((day, draw.choice(("chat", None)), start, texts, draw.random() < 0.1))
    return traces


def store_days(api, monkeypatch, traces, days):
    """Send traces on their days, and one more span of some of them on the last one."""
    for day in range(days):
        moment = (NOW // SECOND + (day - days + 1) * DAY_SECONDS) * 1_000_000
        for module in (span_store, row_ids):
            monkeypatch.setattr(module, "now", lambda moment=moment: moment)
        for project in ("chat", None):
            spans = [
                span(number, place, start=start, input=" ".join(words), error=is_error)
                for number, (of_day, of_project, start, texts, is_error) in enumerate(traces, 1)
                if (of_day, of_project) == (day, project)
                for place, words in enumerate(texts, 1)
            ]
            send(api, *spans, project=project)
    for number in range(1, len(traces), 9):
        _, project, start, texts, _ = traces[number - 1]
        send(api, span(number, 9, start=start, input="late every"), project=project)
        texts.append(["late", "every"])


def scan(traces, search):
    """The numbers of the traces one span of which has all words of a search."""
    *whole, begun = re.split(r"\W+", search.strip('"').lower())
    return [
        number
        for number, (*_, texts, is_error) in enumerate(traces, 1)
        if any(
            set(whole) <= set(words) and any(word.startswith(begun) for word in words)
            for words in ([*each, "step", *(("it", "failed") if is_error else ())] for each in texts)
        )
    ]


def test_a_search_finds_what_a_scan_of_all_spans_finds(api, monkeypatch):
    days = 6
    traces = draw_spans(random.Random(11), days)
    make_project(api, "chat")
    store_days(api, monkeypatch, traces, days)
    ids_of = order_of(api)
    middle = {"from": moment(-4.5 * DAY_SECONDS), "to": moment(-2 * DAY_SECONDS)}
    bounds = [NOW - 4.5 * DAY_SECONDS * SECOND, NOW - 2 * DAY_SECONDS * SECOND]

    for place, search in enumerate(SEARCHES):
        # In turns as what occurs in few spans is read, and as what occurs in many.
        rare, step = ((2000, 64), (4, 3))[place % 2]
        monkeypatch.setattr(trace_search, "_RARE", rare)
        monkeypatch.setattr(trace_search, "_FIRST_STEP", step)
        monkeypatch.setattr(search_scope, "_FEW", place % 3)
        found = sorted(scan(traces, search), key=ids_of, reverse=True)
        chat = [number for number in found if traces[number - 1][1] == "chat"]
        inside = [number for number in found if bounds[0] <= traces[number - 1][2] < bounds[1]]
        failed = [number for number in found if traces[number - 1][4]]
        size = (15, 50)[place % 3 == 0]
        assert walk(api, search=search, size=size)[0] == found, search
        assert walk(api, search=search, size=size, sort="createdAt,asc")[0] == found[::-1], search
        assert walk(api, search=search, size=size, project="chat")[0] == chat, search
        assert walk(api, search=search, size=size, status="error")[0] == failed, search
        with monkeypatch.context() as patch:  # pages that end before they are full
            patch.setattr(trace_lists, "WINDOW", 20)
            both = [number for number in chat if number in set(failed)]
            assert walk(api, search=search, size=size, status="error", project="chat")[0] == both, search
        assert walk(api, search=search, size=size, **middle)[0] == inside, search
        assert walk(api, search=search, sort="createdAt,asc", **middle)[0] == inside[::-1], search


UNSPACED = {
    1: "東京タワーの高さは？",
    2: "京都の東にある塔",
    3: "GPTは東京で働く model",
    4: "ราคาของโรงแรมในกรุงเทพ",
    5: "今天天气很好，我们去公园。",
}


PARTS = {
    "東京": [3, 1],
    "京タワー": [1],
    "タワー 高さ": [1],
    "京都": [2],
    "塔": [2],
    "京": [3, 2, 1],
    "gptは東京": [3],
    "東京 mod": [3],
    "働く mode": [3],
    "mode 働く": [],
    "โรงแรม": [4],
    "กรุงเทพ": [4],
    "天气": [5],
    "公园": [5],
    "好我": [],
    "天今": [],
}


def test_parts_of_a_text_without_spaces_are_found(api):
    send(api, *(span(number, start=NOW, input=text) for number, text in UNSPACED.items()))

    found = {search: sorted(chosen(api, search=search), reverse=True) for search in PARTS}

    assert found == PARTS


def test_a_letter_that_an_index_may_take_for_a_mark_is_one_of_its_word(api):
    send(api, span(1, start=NOW, input="\u1982\u19b1\u1983 first"), span(2, start=NOW, input="\u1983"))

    assert chosen(api, search="\u1982\u19b1\u1983") == [1]
    assert chosen(api, search="\u1982") == [1]
    assert chosen(api, search="\u1983") == [2]


def test_a_long_text_without_spaces_is_found_by_a_long_part_of_it(api):
    letters = "".join(chr(0x4E00 + number % 19_000) for number in range(32_000))
    send(api, span(1, start=NOW, input=letters, output=letters[::-1]), span(2, start=NOW, input="x"))

    assert chosen(api, search=letters[20_000:20_500]) == [1]
    assert chosen(api, search=letters[31_990:]) == [1]


def test_a_search_of_a_period_reads_no_day_in_which_nothing_of_it_came(api, monkeypatch):
    days = 8
    make_project(api, "chat")
    traces = [
        (day, "chat", NOW + (day - days + 1) * DAY_SECONDS * SECOND, [["x"]], False) for day in range(8)
    ]
    store_days(api, monkeypatch, traces, days)
    searched = []

    def note(*arguments):
        if re.search("MATCH|@@", arguments[2]):
            searched.append(arguments[2])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        period = {"from": moment(-5.5 * DAY_SECONDS), "to": moment(-4.5 * DAY_SECONDS)}
        assert chosen(api, search="x", **period) == [3]
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert 0 < len(searched) <= 3  # with those that its traces may have come on with a clock that is ahead
