"""Whole suites: single inputs, conversations, applications of every kind."""

import re

import pytest

from dokimos._core.results import EvalResult
from dokimos._core.wire import from_json, to_json
from dokimos.errors import ConfigurationError

SESSIONS = '''
import asyncio
import math

from dokimos._runtime.time_limits import give_extra_time


class Counter:
    """Remembers how often it was asked."""

    def __init__(self):
        self.count = 0

    def __call__(self, text):
        self.count += 1
        return str(self.count)


def remembers(input, session, turn_index, session_id):
    session.setdefault("seen", []).append(session_id)
    assert len(set(session["seen"])) == 1
    return f"{turn_index}:{len(session['seen'])}"


def reads(messages):
    return " | ".join(message["content"] for message in messages)


async def slow(text):
    if "slow" in text:
        give_extra_time(-math.inf)  # what the fixture `limits` takes for the end of the limit
        await asyncio.sleep(60)
    return text


def fails(text):
    if "fail" in text:
        raise ValueError("no idea")
    return text
'''


@pytest.fixture
def talks(folder):
    folder.write("talks.py", SESSIONS)
    return folder


def conversation(*inputs, agent="talks:Counter", head="", metric="{metric: equality}"):
    turns = "".join(f"      - {turn}\n" for turn in inputs)
    return (
        f"agent: {agent}\n{head}evaluations: {{metrics: [{metric}]}}\n"
        f"test_cases:\n  - name: talk\n    turns:\n{turns}"
    )


def test_a_conversation_has_one_session(talks):
    item = talks.item(conversation("{input: a, ground_truth: '1'}", "{input: b, ground_truth: '2'}"))

    assert item.success is True
    assert item.result("equality").score == 1.0
    assert [turn["output"] for turn in item.actual_outputs["turns"]] == ["1", "2"]


def test_two_conversations_do_not_share_a_session(talks):
    result = talks.run(
        """
        agent: talks:Counter
        evaluations: {metrics: [{metric: equality}]}
        test_cases:
          - turns: [{input: a, ground_truth: "1"}]
          - turns: [{input: a, ground_truth: "1"}]
        """
    )

    assert [item.success for item in result.item_results] == [True, True]


def test_a_function_may_keep_something_from_turn_to_turn(talks):
    item = talks.item(conversation("{input: a}", "{input: b}", agent="talks:remembers"))

    assert item.actual_output == "1:2"


def test_a_function_may_read_what_was_said(talks):
    item = talks.item(conversation("{input: a}", "{input: b}", agent="talks:reads"))

    assert item.actual_output == "a | a | b"


def test_a_metric_over_turns_is_their_mean_and_names_the_turn_that_fails(talks):
    item = talks.item(
        conversation("{input: a, ground_truth: '1'}", "{input: b, ground_truth: '9'}", "{input: c}")
    )

    found = item.result("equality")
    assert (found.score, found.success) == (0.5, False)
    assert found.reason.startswith("turn 2: Expected '9', got '2'")
    assert [turn.get("skipped") for turn in found.metadata["turns"]] == [
        None,
        None,
        "There is no ground truth.",
    ]


def test_a_turn_that_fails_without_a_reason_tells_its_score(talks):
    talks.write("lenient.py", "def grade(ctx):\n    return 0.75 if ctx.turn_index else 1.0\n")
    metric = '{type: code, grader: "lenient:grade", threshold: 0.9}'

    item = talks.item(conversation("{input: a}", f"{{input: b, evaluations: [{metric}]}}"))

    assert item.result("grade").reason == "turn 2: The score is 0.75."


def test_a_turn_may_have_metrics_of_its_own(talks):
    item = talks.item(
        conversation(
            "{input: a, ground_truth: '1.0', evaluations: [{metric: numeric}]}",
            "{input: b, ground_truth: '2'}",
            "{input: c, ground_truth: x, evaluations: []}",
        )
    )

    assert [(r.name, r.success) for r in item.eval_results][1:] == [("numeric", True), ("equality", True)]


def test_a_turn_without_a_reply_fails_the_case_and_the_next_one_is_sent(talks):
    item = talks.item(conversation("{input: fail}", "{input: b, ground_truth: b}", agent="talks:fails"))

    assert item.success is False
    reason = item.result("Turns Answered").reason
    assert re.fullmatch(r"turn 1: ValueError: no idea \(.*talks.py:\d+ in fails\)", reason)
    assert item.result("equality").success is True


def test_two_turns_without_a_reply_end_the_conversation(talks):
    item = talks.item(
        conversation("{input: x}", "{input: fail}", "{input: fail}", "{input: y}", agent="talks:fails")
    )

    assert item.actual_outputs["turns"][3]["error"].startswith("not sent")


def test_a_conversation_without_any_reply_is_an_error(talks):
    item = talks.item(conversation("{input: fail}", agent="talks:fails"))

    assert "no turn had a reply" in item.error


RETURNS = """
from dokimos import ErrorDetail
from dokimos._core.task_result import TaskResult


def look_up(text):
    return {}[text]


def reply(text):
    if text == "raise":
        return look_up(text)
    try:
        return look_up(text) if text.startswith("fail") else text
    except KeyError as error:
        return TaskResult({}, error="no idea", error_detail=ErrorDetail.of(error))
"""


@pytest.mark.parametrize("turns", [["fail"], ["fail", "raise"]], ids=["alone", "before one that raises"])
def test_an_error_that_every_turn_returns_has_its_place_in_the_item(talks, turns):
    talks.write("bot.py", RETURNS)
    item = talks.item(conversation(*(f"{{input: {turn}}}" for turn in turns), agent="bot:reply"))

    assert item.error == "AgentError: no turn had a reply; the first: no idea"
    assert re.fullmatch(r".*bot.py:6 in look_up", item.error_detail.place)
    assert "KeyError: 'fail'" in item.error_detail.traceback


def test_an_error_that_some_turn_returns_has_its_place_in_the_item(talks):
    talks.write("bot.py", RETURNS)
    item = talks.item(conversation("{input: a}", "{input: fail}", "{input: fail2}", agent="bot:reply"))

    answered = item.result("Turns Answered")
    assert item.success is False
    assert re.search(r"turn 2: no idea \(.*bot.py:6 in look_up\)", answered.reason)
    assert re.fullmatch(r".*bot.py:6 in look_up", answered.error_detail.place)
    assert "KeyError: 'fail'" in answered.error_detail.traceback
    again = from_json(EvalResult, to_json(answered))
    assert again.error_detail == answered.error_detail


def test_an_applications_own_time_out_keeps_its_words(talks):
    talks.write("bot.py", "def reply(text):\n    raise TimeoutError('the model is slow')\n")

    assert (
        talks.item("agent: bot:reply\ntest_cases: [{input: a}]\n").error == "TimeoutError: the model is slow"
    )


def test_each_turn_has_the_time_limit_of_a_reply(talks, limits):
    item = talks.item(
        conversation(
            "{input: slow}", "{input: b}", agent="talks:slow", head="execution: {llm_timeout: 0.4}\n"
        )
    )

    assert "TimeoutError: no reply within 0.4 s" in item.result("Turns Answered").reason
    assert item.actual_output == "b"


def test_a_single_input_has_the_time_limit_too(talks):
    item = talks.item("agent: talks:slow\nexecution: {llm_timeout: 0.4}\ntest_cases: [{input: slow}]\n")

    assert item.error == "TimeoutError: no reply within 0.4 s"


def test_tools_are_expected_turn_by_turn(folder):
    item = folder.item(
        """
        agent: app:with_tools
        test_cases:
          - turns:
              - {input: a, expected_tools: [subtract]}
              - {input: b, expected_tools: [divide]}
        """
    )

    found = item.result("Expected Tools")
    assert (found.success, found.score) == (False, 0.5)
    assert "turn 2: divide was not called" in found.reason


def test_a_graders_error_in_one_turn_does_not_hide_the_failure_of_another(talks):
    talks.write("graders.py", "def grade(ctx):\n    return ctx.turn_index == 2 or 1 / ctx.turn_index < 0\n")

    item = talks.item(
        conversation("{input: a}", "{input: b}", "{input: c}", metric="{type: code, grader: 'graders:grade'}")
    )

    found = item.result("grade")
    assert (found.success, item.success) == (False, False)
    assert "ZeroDivisionError" in found.reason


FATAL = """
calls = []

def grade(ctx):
    calls.append(ctx.turn_index)
    if ctx.turn_index == 1:
        raise RuntimeError("the turn cannot be graded")
    return True
"""


@pytest.mark.parametrize(
    ("fatal", "sent", "graded"), [("true", 2, [0, 1]), ("false", 3, [0, 1, 2])], ids=["fatal", "soft"]
)
def test_a_fatal_grader_that_raises_stops_the_later_turns(talks, fatal, sent, graded):
    grades = f"grades_{fatal}"
    talks.write(f"{grades}.py", FATAL)
    metric = f"{{type: code, grader: '{grades}:grade', fail_on_error: {fatal}}}"

    suite = talks.suite(conversation("{input: a}", "{input: b}", "{input: c}", metric=metric))
    (item,) = suite.experiment().run(journal=False, progress=False).item_results

    turns = item.actual_outputs["turns"]
    assert [turn.get("output") for turn in turns[:sent]] == ["1", "2", "3"][:sent]
    assert [turn["error"] for turn in turns[sent:]] == ["not sent: the grader 'grade' raised in turn 2"] * (
        3 - sent
    )
    grader = next(one for one in suite.cases[0].evaluators if one.name == "grade").parts[0].inner.grader
    assert sorted(grader.__globals__["calls"]) == graded
    assert item.errored
    assert "RuntimeError: the turn cannot be graded" in item.result("grade").error


def test_an_evaluator_of_conversations_sees_the_whole(talks):
    suite = talks.suite(
        conversation(
            "{input: a}",
            "{input: b}",
            head="model: {provider: ollama, name: m}\n",
            metric="{type: evaluator, name: conversation_completeness}",
        )
    )

    assert [evaluator.name for evaluator in suite.cases[0].evaluators] == [
        "Turns Answered",
        "Conversation Completeness",
    ]


def test_a_case_can_be_left_out(folder):
    suite = folder.suite("test_cases: [{name: a, input: x, skip: not now}, {name: b, input: y}]\n")
    result = suite.experiment().run(journal=False, progress=False)

    assert [item.key for item in result.item_results] == ["b"]
    assert result.metadata["skipped"] == {"a": "not now"}


def test_a_case_can_be_repeated(folder):
    result = folder.run("test_cases: [{name: a, input: x, repeats: 2, tags: [t], metadata: {k: 1}}]\n")

    assert [item.key for item in result.item_results] == ["a [1/2]", "a [2/2]"]
    assert result.item_results[0].example.metadata == {"k": 1, "case": "a", "tags": ["t"]}


def test_a_suite_without_cases_has_no_experiment(folder):
    with pytest.raises(ConfigurationError, match="no test cases to run"):
        folder.suite("test_cases: []\n").experiment()


def test_an_agent_may_be_a_file(folder):
    folder.write("bots/mine.py", "def reply(text):\n    return text.upper()\n")

    assert folder.item("agent: bots/mine.py:reply\ntest_cases: [{input: x}]\n").actual_output == "X"


def test_files_reach_the_agent(folder):
    folder.write("notes.txt", "It is cold.")
    folder.write(
        "bot.py",
        "import pathlib\n\ndef reply(text, files):\n    return pathlib.Path(files[0]['path']).read_text()\n",
    )

    item = folder.item("agent: bot:reply\ntest_cases: [{input: x, files: [{path: notes.txt, type: text}]}]\n")

    assert item.actual_output == "It is cold."


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("command: [python, -c, 'print(input().upper())']", "HELLO"),
        ("command: \"python -c 'print(input())'\"", "hello"),
        (
            "command: [python, shout.py]\n  format: json",
            '[{"role":"user","content":"hello"}]',
        ),
    ],
)
def test_an_agent_may_be_a_command(folder, command, expected):
    folder.write(
        "shout.py",
        """
        import json, sys

        print(json.dumps({"output": json.load(sys.stdin)["messages"]}))
        """,
    )
    item = folder.item(f"agent:\n  {command}\ntest_cases: [{{input: hello}}]\n")

    assert (item.error, item.actual_output) == (None, expected)


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("command: [python, -c, 'import sys; sys.exit(\"broken\")']", "ended with status 1: broken"),
        ("command: [no-such-program-anywhere]", "cannot be run"),
        ("command: [python, -c, 'print(1,2)']\n  format: json", "did not print JSON"),
    ],
)
def test_a_command_that_fails_is_an_error_of_the_case(folder, command, error):
    item = folder.item(f"agent:\n  {command}\ntest_cases: [{{input: hello}}]\n")

    assert "AgentError" in item.error
    assert error in item.error


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("app:nothing", "app has no 'nothing'"),
        ("app:echoo", "Did you mean 'echo'"),
        ("none:f", "'none:f' cannot be imported"),
        ("none.py:f", "there is no file"),
        ("{command: x, url: 'http://a'}", "one of callable, url and command"),
        ("{command: x, headers: {a: b}}", "headers are for an agent with a url"),
        ("odd:more", "a turn has no part called 'mesages'. Did you mean 'messages'?"),
        ("odd:less", "takes no arguments"),
        ("{url: 'http://a', output_path: 'a b'}", "output_path"),
    ],
)
def test_an_agent_that_cannot_be_asked_is_refused(folder, agent, message):
    folder.write("odd.py", "def more(text, mesages):\n    pass\n\ndef less():\n    pass\n")

    with pytest.raises(ConfigurationError) as error:
        folder.suite(f"agent: {agent}\ntest_cases: []\n")

    assert message in str(error.value)


def test_what_an_agent_measures_is_kept(folder):
    folder.write(
        "bot.py",
        "def reply(text):\n    return {'output': text, 'metrics': {'tokens_in': 3, 'cost_usd': 0.5}}\n",
    )

    item = folder.item("agent: bot:reply\ntest_cases: [{input: x}]\n")

    assert (item.metrics.tokens_in, item.metrics.cost_usd) == (3, 0.5)
    assert item.metrics.latency_ms is not None


def test_an_interrupted_suite_goes_on_where_it_stopped(folder, tmp_path):
    folder.write("bot.py", "calls = []\n\ndef reply(text):\n    calls.append(text)\n    return text\n")
    text = "agent: bot:reply\nevaluations: {metrics: [{metric: equality}]}\n"
    text += "test_cases: [{turns: [{input: a, ground_truth: a}]}, {input: b, ground_truth: b}]\n"
    experiment = folder.suite(text).experiment()
    first = experiment.run(run_dir=tmp_path / "runs", progress=False)

    again = experiment.run(run_dir=tmp_path / "runs", resume=first.run_id, progress=False)

    assert [item.success for item in again.item_results] == [True, True]
    assert len(sys_calls()) == 2


def sys_calls():
    import sys

    return sys.modules["bot"].calls


def test_an_agent_that_keeps_its_list_does_not_change_an_earlier_turn(talks):
    talks.write(
        "bot.py",
        """
        calls = []

        def reply(text):
            calls.append({"name": "look_up", "arguments": {"word": text}})
            return {"output": text, "tool_calls": calls}
        """,
    )
    item = talks.item(conversation("{input: a}", "{input: b}", agent="bot:reply"))

    words = [
        [call["arguments"]["word"] for call in turn["toolCalls"]] for turn in item.actual_outputs["turns"]
    ]
    assert words == [["a"], ["a", "b"]]


def test_reports_name_the_application_of_a_suite_as_its_task(talks):
    result = talks.run(conversation("{input: a}", "{input: b}"))

    assert result.provenance.task_name.startswith("suite:talks:Counter")
