"""A judge call as a line of JSON."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos._core.metrics import CallMetrics
from dokimos.judges._judge_calls import CallRequest
from dokimos.judges._protocol import JudgeReply, TokenLogprob
from dokimos.judges._recording import Recording, recording_line

PLAIN = Recording(
    key="0" * 32,
    judge="openai m",
    prompt="Is it right?",
    schema="12345678",
    repeat=1,
    sample=2,
    reply=JudgeReply('{"verdict": "yes"}', CallMetrics(180, 14, latency_ms=20.5)),
)


@pytest.mark.parametrize(
    "recording",
    [
        PLAIN,
        replace(PLAIN, schema=None),
        replace(PLAIN, reply=JudgeReply(""), unusable='"broken"\n'),
        replace(PLAIN, prompt='quotes " and \\ and \n and \x00 and \u2028 and ä and 🎈', judge='a "b"'),
        replace(PLAIN, prompt="half a pair: \ud83d"),
    ],
)
def test_a_line_is_compact_json_with_the_key_first_and_reads_back_as_the_same(recording):
    line = recording.to_line()

    assert line.startswith(b'{"key":"00000000000000000000000000000000",')
    assert line.count(b"\n") == 1
    assert line.endswith(b"}\n")
    tree = json.loads(line)
    members = ["key", "judge", "repeat", "sample", "schema", "prompt", "reply"]
    assert [name for name in tree if name != "unusable"] == members
    assert (
        line.decode()
        == json.dumps(tree, ensure_ascii=False, separators=(",", ":"))
        .encode("utf-8", "backslashreplace")
        .decode()
        + "\n"
    )
    assert Recording.from_line(line) == recording


class Named:
    """A judge that is never called."""

    def __init__(self, identity):
        self.identity = identity


@given(
    texts=st.tuples(*[st.text() | st.just("sk-0123456789abcdef0123") | st.just("\ue000 \ud83d")] * 3),
    schema=st.none() | st.just({"type": "object"}),
    counts=st.tuples(st.integers(0), st.integers(0)),
    metrics=st.none() | st.just(CallMetrics(180, 14, latency_ms=20.5, model="größer")),
    logprobs=st.none() | st.just((TokenLogprob("yes", -0.1, {"no": -3.0}),)),
    schema_enforced=st.booleans(),
)
def test_the_line_of_a_call_is_that_of_its_recording(
    texts, schema, counts, metrics, logprobs, schema_enforced
):
    identity, prompt, text = texts
    asked = CallRequest(Named(identity), prompt, schema, repeat=counts[0], sample=counts[1])
    reply = JudgeReply(text, metrics, logprobs, schema_enforced)

    def clean(text):
        return text.replace("sk-0123456789abcdef0123", "[secret]")

    line = recording_line(asked, reply, clean, judge=clean(identity))
    assert line == Recording.of(asked, reply, clean).to_line()
