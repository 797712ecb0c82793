"""Searches for words that are written in several ways, that are long, or that stand between signs."""

import pytest
from tests.server.test_traces import TRACES
from tests.server.trace_requests import send, span

ODD_WORDS = {
    "composed": "th\u00e9 vert",
    "apart": "cafe\u0301s cre\u0300me x\u0301y",
    "capitals": "\u039f\u0394\u039f\u03a3 \u0130stanbul",
    "signs": 'He said "50%" to O\'Brien: a_b C++ \U0001f680',
    "long": "y" * 5000 + " tail",
    "cjk": "\u6771\u4eac\u90fd\u306e\u5929\u6c17",
}


@pytest.fixture(scope="module")
def odd_words(shared_server):
    send(
        shared_server,
        *(span(n, 1, name=name, input=text) for n, (name, text) in enumerate(ODD_WORDS.items(), 1)),
    )
    return shared_server


@pytest.mark.parametrize(
    ("search", "name"),
    [
        ("th\u00e9", "composed"),
        ("the\u0301 vert", "composed"),
        ("caf\u00e9s", "apart"),
        ("cafe\u0301s", "apart"),
        ("cr\u00e8me xy", "apart"),
        ("\u039f\u0394\u039f\u03a3", "capitals"),
        ("\u03bf\u03b4\u03bf", "capitals"),
        ("\u0130stanbul", "capitals"),
        ("ISTANBUL", "capitals"),
        ('"50%"', "signs"),
        ("o'brien*", "signs"),
        ("a_b", "signs"),
        ("c++ 50", "signs"),
        ("\U0001f680 said", "signs"),
        ("y" * 500, "long"),
        ("y" * 400, "long"),
        ("tail", "long"),
        ("\u6771\u4eac", "cjk"),
    ],
)
def test_odd_words_are_found(odd_words, search, name):
    answer = odd_words.get(TRACES, params={"search": search}).json()
    assert [name] == [trace["rootSpanName"] for trace in answer["content"]]
