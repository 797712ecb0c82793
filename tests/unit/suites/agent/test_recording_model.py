"""Replies of an agent's model in cassettes and in the run: recorded, replayed, resumed, asked again."""

import json

import pytest

from dokimos.errors import ConfigurationError, JournalError

EQUAL = "evaluations: {metrics: [{type: standard, metric: equality}]}\n"
SUITE = (
    EQUAL
    + """
tools: [{name: double, type: function, file: tools.py, function: double}]
test_cases:
  - {name: one, input: what is twice 2?, ground_truth: "4"}
  - {name: two, turns: [{input: hello, ground_truth: hi}, {input: bye, ground_truth: ciao}]}
"""
)


@pytest.fixture(autouse=True)
def tools(folder):
    folder.write("tools.py", "def double(n: int) -> int:\n    return 2 * n\n")


def answer(messages):
    said = [part for part in messages[-1].parts if part.part_kind in ("user-prompt", "tool-return")][-1]
    if said.part_kind == "tool-return":
        return str(said.content)
    known = {"hello": "hi", "bye": "ciao"}
    return known.get(said.content) or [("double", {"n": 2})]


def test_a_recorded_run_is_replayed_without_a_model(script, run, tmp_path):
    script.answer = answer
    recorded = run(SUITE, cassette=tmp_path / "c.jsonl", cassette_mode="record")
    asked = len(script.asked)
    script.answer = None

    replayed = run(SUITE, cassette=tmp_path / "c.jsonl", cassette_mode="replay")

    assert asked == len(script.asked) == 4
    assert [item.success for item in replayed.item_results] == [True, True]
    outputs = [item.actual_outputs["output"] for item in replayed.item_results]
    assert outputs == [item.actual_outputs["output"] for item in recorded.item_results] == ["4", "ciao"]
    assert replayed.item_results[0].actual_outputs["toolCalls"][0].result == "4"
    assert replayed.item_results[0].metrics.tokens_in == 40


def test_two_recordings_are_the_same_to_the_byte(script, run, tmp_path):
    script.answer = answer
    for name in ("a.jsonl", "b.jsonl"):
        run(SUITE, cassette=tmp_path / name, cassette_mode="record")

    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_a_replay_never_asks_and_shows_what_is_nearest(script, run, tmp_path):
    script.answer = answer
    run(SUITE, cassette=tmp_path / "c.jsonl", cassette_mode="record")
    before = len(script.asked)

    found = run(SUITE.replace("twice 2", "twice 3"), cassette=tmp_path / "c.jsonl", cassette_mode="replay")

    assert len(script.asked) == before
    error = found.item_results[0].error
    assert "has no recording of this call of agent openai:scripted" in error
    assert '-user-prompt: {"content": "what is twice 2?"}' in error
    assert '+user-prompt: {"content": "what is twice 3?"}' in error


def test_what_a_tool_gives_now_decides_about_the_replay(script, run, folder, tmp_path):
    script.answer = answer
    run(SUITE, cassette=tmp_path / "c.jsonl", cassette_mode="record")
    folder.write("other.py", "def double(n: int) -> int:\n    return 3 * n\n")

    found = run(SUITE.replace("tools.py", "other.py"), cassette=tmp_path / "c.jsonl", cassette_mode="replay")

    assert "no recording" in found.item_results[0].error


def test_a_resumed_run_asks_nothing_that_was_answered(script, run, tmp_path):
    def fails_at_the_end(messages):
        if "bye" in str(messages):
            raise ConnectionError("down")
        return answer(messages)

    script.answer = fails_at_the_end
    first = run(SUITE, journal=True, run_dir=tmp_path / "runs")
    before = len(script.asked)
    script.answer = answer

    again = run(SUITE, journal=True, run_dir=tmp_path / "runs", resume=first.run_id, retry_errors=True)

    assert before == 4
    assert again.item_results[0].success is True
    assert len(script.asked) == before  # a conversation with a failed turn has a result: it is kept


def test_replies_that_led_to_an_error_are_asked_for_anew_when_errors_are_repeated(script, run, tmp_path):
    shape = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    text = EQUAL + f"response_format: {json.dumps(shape)}\ntest_cases: [{{input: n}}]\n"
    script.answer = lambda messages: '{"n": "many"}'
    first = run(text, journal=True, run_dir=tmp_path / "runs")
    assert first.item_results[0].error is not None
    script.answer = lambda messages: '{"n": 3}'

    again = run(text, journal=True, run_dir=tmp_path / "runs", resume=first.run_id, retry_errors=True)

    assert again.item_results[0].actual_outputs["output"] == '{"n": 3}'


def test_a_cassette_that_is_not_there_is_refused(script, run, tmp_path):
    with pytest.raises(ConfigurationError, match="There is no cassette"):
        run(SUITE, cassette=tmp_path / "none.jsonl", cassette_mode="replay")


def test_another_agent_does_not_go_on_with_a_run(script, declare, run, tmp_path):
    script.answer = answer
    first = run(SUITE, journal=True, run_dir=tmp_path / "runs")
    head = 'model: {provider: openai, name: scripted, base_url: "http://nowhere.invalid/v1"}\n'

    with pytest.raises(JournalError, match="another configuration"):
        run(SUITE, head + "instructions: {inline: Be rude.}\n", journal=True, run_dir=tmp_path / "runs",
            resume=first.run_id)  # fmt: skip


def test_keys_in_replies_are_not_written_down(script, run, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-verysecretverysecret123456")
    script.answer = lambda messages: "the key is sk-verysecretverysecret123456"

    run(SUITE, cassette=tmp_path / "c.jsonl", cassette_mode="record", journal=True, run_dir=tmp_path / "runs")

    written = [path.read_bytes() for path in (tmp_path).rglob("*.jsonl")]
    assert len(written) >= 2
    assert b"verysecret" not in (tmp_path / "c.jsonl").read_bytes()
