"""The same search of the same texts finds the same traces, whichever store has the spans."""

import json
import re
import unicodedata
from contextlib import ExitStack
from itertools import count, pairwise
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.server.clickhouse import new_clickhouse_database
from tests.server.conftest import _copy_sqlite, _new_database
from tests.server.server_process import PATIENT
from tests.server.test_traces import TRACES
from tests.server.trace_requests import export, span, trace_id

from dokimos.server import ServerSettings, create_app
from dokimos.server._services.traces import unspaced_texts
from dokimos.server._trace_settings import TraceSettings

UNSPACED = unspaced_texts._PASSAGE
NUMBERS = count(1)


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "clickhouse"])
def store(request, tmp_path_factory):
    """A server with spans in each kind of store, and its name."""
    with ExitStack() as stack:
        settings = {}
        if request.param == "postgresql":
            template = request.getfixturevalue("migrated_postgres")
            database = _new_database(request.getfixturevalue("postgres"), template)
            settings["database_url"] = stack.enter_context(database)
        else:
            settings["data_dir"] = tmp_path_factory.mktemp("server")
            _copy_sqlite(request.getfixturevalue("migrated_sqlite"), settings["data_dir"])
        if request.param == "clickhouse":
            server = request.getfixturevalue("clickhouse")
            url = stack.enter_context(new_clickhouse_database(server))
            settings["traces"] = TraceSettings(clickhouse_url=url)
        app = create_app(ServerSettings(**{"host": "127.0.0.1", **PATIENT, **settings}))
        api = stack.enter_context(TestClient(app, raise_server_exceptions=False))
        yield SimpleNamespace(api=api, kind=request.param)


def send_texts(api, texts):
    """Send each text as the name of a trace of its own; return the session that they share, and the ids."""
    session = f"session-{next(NUMBERS)}"
    ids = [trace_id(next(NUMBERS)) for _ in texts]
    spans = [
        span(each, name=text if text.strip() else "-", session__id=session)
        for each, text in zip(ids, texts, strict=True)
    ]
    answer = api.post(
        "/api/v1/traces",
        content=json.dumps(export(*spans)).encode(),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 200, answer.text
    return session, ids


def search(api, session, text):
    """Return the ids of the traces that are found, or the status of a refusal."""
    answer = api.get(TRACES, params={"search": text, "sessionId": session, "size": 100})
    if answer.status_code != 200:
        return answer.status_code
    return {trace["traceId"] for trace in answer.json()["content"]}


def split_slowly(text, kind):
    """Return the words of a text, each as its letters with spaces and its passages without."""
    text = unicodedata.normalize("NFC", text.lower().replace("ς", "σ").replace("\0", " "))
    text = re.sub("(?<=[\u094d\u0dca])\u200d|[\u0300-\u036f\u064b-\u0652]", "", text)
    if kind == "sqlite":
        text = "".join(
            base if (base := unicodedata.normalize("NFD", letter)[0]).isascii() else letter for letter in text
        )
    signs = ("Mn", "Mc")
    spaced = [
        each if each.isalnum() or (unicodedata.category(each) in signs and each != "\ufe0f") else " "
        for each in text
    ]
    words = "".join(spaced).split()
    return [UNSPACED.sub(lambda passage: f" {passage[0]} ", word).split() for word in words]


def occurs(searched, words, *, is_last):
    """Whether a word that is searched for is in a text, with its parts next to each other."""

    def fits(place, part, wanted):
        is_first, is_end = place == 0, place == len(searched) - 1
        if not UNSPACED.match(wanted):
            return part.startswith(wanted) if is_end and is_last else part == wanted
        if not UNSPACED.match(part):
            return False
        if is_first and is_end:
            return wanted in part
        return part.endswith(wanted) if is_first else part.startswith(wanted) if is_end else part == wanted

    parts = [part for word in words for part in word]
    return any(
        all(
            fits(place, part, wanted)
            for place, (part, wanted) in enumerate(
                zip(parts[start : start + len(searched)], searched, strict=True)
            )
        )
        for start in range(len(parts) - len(searched) + 1)
    )


def may_occur(searched, words, *, is_last):
    """Whether all pairs of letters of a word without spaces are in a text, wherever they are."""
    parts = [part for word in words for part in word]
    pairs = {pair for part in parts if UNSPACED.match(part) for pair in pairwise(part)}
    return all(
        occurs([wanted], words, is_last=is_last and place == len(searched) - 1)
        if not UNSPACED.match(wanted) or len(wanted) == 1
        else set(pairwise(wanted)) <= pairs
        for place, wanted in enumerate(searched)
    )


def expect(kind, text, searched):
    """Whether a search has to find a text; None where it may."""
    words = split_slowly(text, kind)
    # A sign alone is not searched for.
    wanted = [each for each in split_slowly(searched, kind) if any(map(str.isalnum, "".join(each)))]
    found = [occurs(each, words, is_last=each is wanted[-1]) for each in wanted]
    if all(found):
        return True
    possible = [may_occur(each, words, is_last=each is wanted[-1]) for each in wanted]
    return None if kind != "clickhouse" and all(possible) else False


PIECES = [
    *("refund", "Refunds", "policy", "co-operate", "O'Brien", "don’t", "a", "I", "the"),
    *("café", "cafe\u0301", "Ünal", "naïve", "x\u0301y", "Straße", "STRASSE", "ﬁle", "Å", "İstanbul"),
    *("ΟΔΟΣ", "οδός", "οδοσήμανση", "Москва", "ёж", "한국어", "שלום", "שָׁלוֹם"),
    *("محمد", "مُحَمَّد", "می‌خواهم", "हिन्दी", "हिन्द", "दिन", "दान", "नाम", "न", "मैं", "क़लम", "क\u093cलम"),
    *(
        "தமிழ்",
        "தமிழ",
        "বাংলা",
        "ශ්‍රී",
        "తెలుగు",
        "ភាសាខ្មែរ",
        "ភាសា",
        "မြန်မာ",
        "ที่นี่",
        "อยู่ที่นี่นะ",
        "สี",
        "สู่",
        "ลาว",
        "ພາສາລາວ",
    ),
    *("東京", "東京タワー", "京都の東", "iPhoneを買う", "iphone", "が", "か\u3099"),
    *("🤖", "👍🏽", "👩‍💻", "❤️", "⚠️", "1️⃣", "🤖deploy", "deploy🤖", "₽500", "₿", "\U0001f97a"),
    *("3.14", "1,000", "-5", "50%", "1e5", "12e4567ab", "1e5x", "0x1f", "7e1f2a3b-12e4", "x²", "½"),
    *("https://example.com/a?b=c#d", "a.b@c.example", "snake_case", "camelCase", "kebab-case", "__init__"),
    *(
        '{"query": "refund", "n": [1, 2]}',
        '"exact phrase"',
        "a AND b",
        "OR",
        "NOT x",
        "NEAR(a b)",
        "ab*",
        "^a",
    ),
    *("a:b", "text:refund", "a & b | !c", "a <-> b", "x:*", "''", "\\", "%", "_", "100%_", "\0nul\0", "\t\n"),
    *(
        "ǂp",
        "ꀀ",
        "\u1982\u19b1\u1983",
        "\ue000x",
        "a\u00adb",
        "\u2067rtl\u2069",
        "y" * 499,
        "y" * 501,
        "y" * 700,
    ),
]
TEXTS = st.lists(
    st.one_of(st.sampled_from(PIECES), st.text(max_size=6), st.just("\ud800")), min_size=1, max_size=5
).map(lambda pieces: " ".join(pieces))


@st.composite
def searches(draw):
    """Some texts, and what is searched for in them: parts of one, or of others."""
    texts = draw(st.lists(TEXTS, min_size=1, max_size=4))
    searched = []
    for _ in range(3):
        source = draw(st.sampled_from(texts)) if draw(st.booleans()) else draw(TEXTS)
        start = draw(st.integers(0, min(len(source), 30)))
        end = draw(st.one_of(st.just(len(source)), st.integers(start, len(source))))
        searched.append(source[start:end].replace("\ud800", "?"))
    return texts, searched


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(drawn=searches())
def test_a_search_finds_what_has_its_words(store, drawn):
    check(store, *drawn)


def check(store, texts, searched):
    session, ids = send_texts(store.api, texts)
    for each in searched:
        if "\0" in each:
            assert search(store.api, session, each) == 400
            continue
        if not each.strip():
            assert search(store.api, session, each) == set(ids)
            continue
        if len(each) > 500 or not any(letter.isalnum() for letter in each):
            assert search(store.api, session, each) == 400, each
            continue
        if len(split_slowly(each, store.kind)) > 20:
            continue
        found = search(store.api, session, each)
        assert isinstance(found, set), (each, found)
        for number, text in zip(ids, texts, strict=True):
            expected = expect(store.kind, text, each)
            assert expected is None or expected == (number in found), (each, text, expected)
