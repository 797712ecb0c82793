"""A judge call as a line of JSON."""

import json
from dataclasses import replace

import pytest

from dokimos._core.metrics import CallMetrics
from dokimos.judges._protocol import JudgeReply
from dokimos.judges._recording import Recording

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
