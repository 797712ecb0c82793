"""Runs whose endpoints are down, refuse their credentials or their rate, or are still starting."""

import asyncio
import json
import socket
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from dokimos import Budget, Dataset, Example, Experiment, judge, merge_results, model_task
from dokimos._cli.main import run_command
from dokimos._core.results import RunStatus, Score
from dokimos._http import backoff
from dokimos._http.breaker import Breaker, Breakers, forget_outages
from dokimos.errors import EndpointDownError
from dokimos.evaluators import EmbeddingSimilarity, ExactMatch
from dokimos.evaluators._llm.base import JudgedEvaluator
from dokimos.experiment import _model_calls as model_calls
from dokimos.experiment._run_loading import load_run
from dokimos.exporters._base import export
from dokimos.judges._ask import ask
from dokimos.judges._capabilities import forget_capabilities
from dokimos.judges._embedding_models import embedder


class Clock:
    """Time passes only where somebody sleeps, for all sleepers at once."""

    def __init__(self):
        self.now = 1000.0
        self.at_sleep = lambda: None

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.at_sleep()
        end = self.now + seconds
        await asyncio.sleep(0.001)  # lets the server answer
        self.now = max(self.now, end)


@dataclass
class Verdict:
    verdict: Literal["yes", "no"]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Right(JudgedEvaluator):
    async def judge_case(self, case, *, sample):
        verdict = await ask(self.lm, f"Right? {case.input}", Verdict, sample=sample)
        return Score(float(verdict.verdict == "yes"), verdict.reason)


@pytest.fixture(autouse=True)
def _plain(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    forget_capabilities()
    forget_outages()


@pytest.fixture
def clock(monkeypatch):
    """The clock by which runs wait for endpoints."""
    clock = Clock()
    monkeypatch.setattr(model_calls, "Breakers", partial(Breakers, clock=clock, sleep=clock.sleep))
    return clock


def examples(count):
    return Dataset([Example.of(f"question {number}", f"question {number}") for number in range(count)])


def echo(example):
    return example.input


def judge_at(url, **settings):
    return judge("openai-chat:tiny", base_url=f"{url}/v1", api_key="k", **settings)


def experiment(count, task=echo, evaluators=(), **settings):
    return Experiment(
        examples(count), task, list(evaluators), **{"progress": False, "parallelism": 4, **settings}
    )


def model_at(url, **settings):
    return model_task(f"{url}/v1#tiny", **settings)


# The application is down


def test_a_model_that_is_not_there_ends_the_run(clock, nobody):
    result = experiment(20, model_at(nobody), [ExactMatch()]).run()

    assert result.status is RunStatus.ENDPOINT_DOWN
    assert clock.now - 1000 < 10
    assert result.warnings[0].startswith("Stopped: openai tiny has been down since ")
    assert "(cannot connect to 127.0.0.1:" in result.warnings[0]
    assert f"experiment.run(resume='{result.run_id}')" in result.warnings[0]


def test_a_resumed_run_does_exactly_what_is_missing(scripted, clock, nobody, monkeypatch):
    calls = []
    with scripted.ScriptedServer(lambda prompt: prompt) as server:
        places = {"url": server.url}

        async def task(example):
            calls.append(example.input)
            return await model_at(places["url"])(example)

        plan = experiment(20, task, [ExactMatch()], parallelism=1)

        async def fails_from_the_eighth_on(example):
            if len(calls) >= 8:
                places["url"] = nobody
            return await task(example)

        fails_from_the_eighth_on.__qualname__ = task.__qualname__
        cut = replace(plan, task=fails_from_the_eighth_on).run()
        assert cut.status is RunStatus.ENDPOINT_DOWN
        assert [item.success for item in cut.item_results][:8] == [True] * 8

        places["url"] = server.url
        calls.clear()
        resumed = plan.run(resume=cut.run_id)

    assert resumed.status is RunStatus.COMPLETED
    assert resumed.pass_count == 20
    assert calls == [f"question {number}" for number in range(8, 20)]
    assert sorted(server.prompts) == sorted(f"question {number}" for number in range(20))


def test_an_item_that_was_cut_off_is_kept_as_such(clock, nobody):
    cut = experiment(20, model_at(nobody), [ExactMatch()]).run()

    kept = load_run(Path(".dokimos/runs") / cut.run_id)
    assert [item.error for item in kept.item_results] == [item.error for item in cut.item_results]
    assert all("EndpointDownError: openai tiny" in item.error for item in kept.item_results)
    assert kept.status is RunStatus.ENDPOINT_DOWN


def test_sync_tasks_with_loops_of_their_own_share_what_is_known(clock, nobody):
    def task(example):
        return asyncio.run(model_at(nobody)(example)).outputs["output"]

    result = experiment(20, task, [ExactMatch()]).run()

    assert result.status is RunStatus.ENDPOINT_DOWN
    assert clock.now - 1000 < 10


def test_an_error_of_the_application_around_it_is_no_disguise(clock, nobody):
    async def task(example):
        try:
            return await model_at(nobody)(example)
        except Exception as error:
            raise RuntimeError("no luck") from error

    result = experiment(20, task, [ExactMatch()]).run()

    assert result.status is RunStatus.ENDPOINT_DOWN
    assert len(result.item_results) < 20


def test_an_application_that_does_without_is_not_stopped(clock, nobody):
    async def task(example):
        try:
            return await model_at(nobody)(example)
        except EndpointDownError:
            return example.input

    result = experiment(20, task, [ExactMatch()]).run()

    assert result.status is RunStatus.COMPLETED
    assert result.pass_count == 20
    assert clock.now - 1000 < 10


def test_a_refused_key_ends_the_run_and_is_not_asked_again_for_each_item(scripted, clock):
    with scripted.ScriptedServer(key="another") as server:
        result = experiment(40, model_at(server.url, api_key="sk-wrong-0123456789"), [ExactMatch()]).run()

    assert result.status is RunStatus.ENDPOINT_DOWN
    assert "401 Unauthorized" in result.warnings[0]
    assert "0123456789" not in result.warnings[0]
    assert len(server.received) < 20
    assert clock.now == 1000


def test_a_fresh_run_tries_anew(scripted, clock, nobody):
    port = int(nobody.rpartition(":")[2])
    plan = experiment(5, model_at(nobody), [ExactMatch()])
    assert plan.run().status is RunStatus.ENDPOINT_DOWN

    with scripted.ScriptedServer(lambda prompt: prompt) as server:
        again = replace(plan, task=model_at(server.url)).run()
    assert port != int(server.url.rpartition(":")[2])
    assert again.pass_count == 5
    before = clock.now
    assert plan.run().status is RunStatus.ENDPOINT_DOWN
    assert clock.now > before  # it was tried


def test_calls_that_were_not_made_use_up_no_budget(scripted, clock, nobody):
    plan = experiment(30, echo, [Right(judge=judge_at(nobody), fail_on_error=False), ExactMatch()])

    result = plan.run(budget=Budget(max_calls=5))

    assert result.status is RunStatus.COMPLETED
    assert result.average_score("Exact Match") == 1.0


# A judge is down


def test_a_judge_without_whom_there_is_no_verdict_ends_the_run(clock, nobody):
    result = experiment(1000, echo, [Right(judge=judge_at(nobody), threshold=1)]).run()

    assert result.status is RunStatus.ENDPOINT_DOWN
    assert clock.now - 1000 < 10
    assert len(result.item_results) < 20
    assert result.warnings[0].startswith(
        "Stopped, since no verdict can be had without it: openai tiny has been down since "
    )


def test_a_judge_that_only_informs_stops_nothing(clock, nobody):
    result = experiment(200, echo, [Right(judge=judge_at(nobody), fail_on_error=False), ExactMatch()]).run()

    assert result.status is RunStatus.COMPLETED
    assert len(result.item_results) == 200
    assert clock.now - 1000 < 10
    errors = {item.eval_results[0].error for item in result.item_results}
    assert any("not tried: the endpoint has been down since" in error for error in errors)
    assert all(item.eval_results[0].error_kind == "unavailable" for item in result.item_results)


def test_other_verdicts_go_on_without_it(clock, nobody):
    right = Right(judge=judge_at(nobody), threshold=1, fail_on_error=False)
    result = experiment(50, echo, [right, ExactMatch(threshold=1)]).run()

    assert result.status is RunStatus.COMPLETED
    assert len(result.item_results) == 50


def test_a_score_beside_it_that_only_informs_is_no_verdict(clock, nobody):
    evaluators = [Right(judge=judge_at(nobody), threshold=1), ExactMatch(threshold=None)]
    result = experiment(500, echo, evaluators).run()

    assert result.status is RunStatus.ENDPOINT_DOWN


def test_cases_further_on_that_can_be_judged_are_waited_for(clock, nobody):
    right, exact = Right(judge=judge_at(nobody), threshold=1), ExactMatch(threshold=1)

    def chosen(example):
        return exact if example.input in ("question 30", "question 60") else right

    result = Experiment(examples(100), echo, chosen, progress=False, parallelism=4).run()

    assert result.status is RunStatus.ENDPOINT_DOWN
    assert result.pass_count == 2
    assert 60 < len(result.item_results) < 80


def test_a_judge_that_is_back_is_asked_for_what_is_missing_alone(scripted, clock, nobody):
    calls = []

    def task(example):
        calls.append(example.input)
        return example.input

    plan = experiment(30, task, [Right(judge=judge_at(nobody), fail_on_error=False), ExactMatch()])
    first = plan.run()
    assert first.status is RunStatus.COMPLETED
    assert len(calls) == 30

    calls.clear()
    with scripted.ScriptedServer() as server:
        elsewhere = Right(judge=judge_at(server.url), fail_on_error=False)
        # The same judge by its identity, wherever it is.
        object.__setattr__(elsewhere.lm, "identity", plan.evaluators[0].lm.identity)
        resumed = replace(plan, evaluators=[elsewhere, ExactMatch()]).run(resume=first.run_id)

    assert calls == []
    assert len(server.received) == 30
    assert resumed.average_score("Right") == 1.0


def test_a_jury_with_a_quorum_does_without(scripted, clock, nobody):
    from dokimos.evaluators import Jury, LLMJudge

    with scripted.ScriptedServer('{"score": 1, "reason": "Good."}') as server:
        jury = Jury(
            judges=[judge_at(server.url), judge_at(server.url, seed=2), judge_at(nobody)],
            evaluator=LLMJudge(criteria="Good.", judge=judge_at(server.url), threshold=0.5),
            quorum=2,
        )
        result = experiment(10, echo, [jury]).run()

    assert result.status is RunStatus.COMPLETED
    assert result.pass_count == 10


# Rates


def test_a_rate_limit_that_lets_nothing_through_is_waited_for_once_and_ends_the_run(scripted, clock):
    with scripted.ScriptedServer() as server:
        server.then(scripted.too_many(), times=10_000)
        result = experiment(20, model_at(server.url), [ExactMatch()]).run()

    assert result.status is RunStatus.ENDPOINT_DOWN
    assert "429 Too Many Requests" in result.warnings[0]
    assert 120 <= clock.now - 1000 < 170
    assert len(server.received) < 80


def test_patience_is_an_option(scripted, clock):
    with scripted.ScriptedServer() as server:
        server.then(scripted.too_many(), times=10_000)
        result = experiment(20, model_at(server.url), [ExactMatch()], patience=10).run()

    assert result.status is RunStatus.ENDPOINT_DOWN
    assert 10 <= clock.now - 1000 < 45


def test_a_rate_limit_that_passes_costs_no_item(scripted, clock):
    with scripted.ScriptedServer(lambda prompt: prompt) as server:
        server.then(scripted.too_many(), times=8)
        result = experiment(20, model_at(server.url), [ExactMatch()]).run()

    assert result.pass_count == 20


def test_an_endpoint_that_dies_half_way_ends_the_run_after_patience(scripted, clock):
    with scripted.ScriptedServer(lambda prompt: prompt) as server:
        plan = experiment(40, model_at(server.url), [ExactMatch()], parallelism=1)

        def answer(prompt):
            if prompt == "question 5":
                server.then(scripted.status(503, "overloaded"), times=100_000)
            return prompt

        server.answer = answer
        result = plan.run()

    assert result.status is RunStatus.ENDPOINT_DOWN
    assert 120 <= clock.now - 1000 < 200
    assert "503 Service Unavailable" in result.warnings[0]


# What is learnt from a refusal


def test_a_403_about_logprobs_is_learnt(scripted, clock):
    refusal = scripted.status(403, "You are not allowed to request logprobs from this model")
    with scripted.ScriptedServer() as server:
        server.then(refusal)
        lm = judge_at(server.url).with_logprobs(5)
        with pytest.warns(UserWarning, match="does not take logprobs"):
            result = experiment(10, echo, [Right(judge=lm, threshold=1)], parallelism=1).run()

    assert result.pass_count == 10
    assert len(server.received) == 11
    assert "logprobs" not in server.received[-1].body


# Services that are starting


@pytest.mark.parametrize("seconds", [3, 50])
def test_a_service_that_is_starting_is_waited_for(scripted, clock, monkeypatch, seconds):
    server = scripted.ScriptedServer(lambda prompt: prompt)
    free = socket.socket()
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
    started = []

    def start_in_time():
        if clock.now - 1000 >= seconds and not started:
            free.close()
            start = server.start
            server.start = lambda: start(port)
            started.append(server.__enter__())

    clock.at_sleep = start_in_time
    try:
        result = experiment(
            20, model_at(f"http://127.0.0.1:{port}"), [ExactMatch()], wait_for_endpoint=60
        ).run()
    finally:
        if started:
            server.__exit__()

    assert result.status is RunStatus.COMPLETED
    assert result.pass_count == 20
    assert clock.now - 1000 < seconds + 5


def test_one_that_loads_its_model_is_waited_for(scripted, clock):
    with scripted.ScriptedServer(lambda prompt: prompt) as server:
        server.then(scripted.status(503, "Loading model"), times=30)
        result = experiment(20, model_at(server.url), [ExactMatch()], wait_for_endpoint=60).run()

    assert result.pass_count == 20


def test_it_is_waited_for_no_longer_than_asked(clock, nobody):
    result = experiment(20, model_at(nobody), [ExactMatch()], wait_for_endpoint=60).run()

    assert result.status is RunStatus.ENDPOINT_DOWN
    assert 60 <= clock.now - 1000 < 65


@pytest.mark.parametrize(
    ("option", "value"),
    [("wait_for_endpoint", -1), ("wait_for_endpoint", "soon"), ("patience", -1), ("patience", None)],
)
def test_options_that_are_no_seconds_are_refused(option, value):
    from dokimos.errors import ConfigurationError

    with pytest.raises(ConfigurationError, match=f"{option} must be 0 seconds or more"):
        experiment(1, echo, [ExactMatch()], **{option: value})


# Outside runs


def test_calls_outside_runs_learn_too(nobody, monkeypatch):
    monkeypatch.setattr(backoff, "FIRST_BACKOFF", 0.01)
    monkeypatch.setattr("dokimos._http.breaker.FIRST_WAIT", 0.01)
    lm = judge_at(nobody)

    async def errors():
        answers = [lm.complete(str(number)) for number in range(50)]
        return [str(each) for each in await asyncio.gather(*answers, return_exceptions=True)]

    asyncio.run(errors())
    again = asyncio.run(errors())
    assert all("not tried: the endpoint has been down since" in error for error in again)


def test_the_journal_says_what_is_to_be_done_again(clock, nobody, tmp_path):
    cut = experiment(20, model_at(nobody), [ExactMatch()]).run()

    lines = (tmp_path / ".dokimos" / "runs" / cut.run_id / "journal.jsonl").read_text().splitlines()
    items = [record for line in lines if (record := json.loads(line))["t"] == "item"]
    assert items
    assert all(record["k"] == "unavailable" for record in items)


# Suites and the command line


SUITE = """
name: desk
AGENT
evaluations:
  metrics:
    - {type: standard, metric: equality}
test_cases:
"""


def written_suite(agent, count, case="  - {{input: question {n}, ground_truth: question {n}}}"):
    cases = "\n".join(case.format(n=number) for number in range(count))
    Path("agent.yaml").write_text(SUITE.replace("AGENT", agent) + cases + "\n")


def dokimos(*arguments):
    return run_command(list(arguments))


def runs():
    return sorted(Path(".dokimos/runs").iterdir())


def declared(url):
    return f"""
model: {{provider: openai, name: tiny, endpoint: "{url}/v1", api_key: sk-test-0123456789abcdef}}
instructions: {{inline: Repeat the question.}}
"""


@pytest.mark.parametrize("kind", ["endpoint", "declared"])
@pytest.mark.parametrize("turns", [False, True])
def test_a_suite_whose_agent_is_down_ends_at_once(clock, nobody, capsys, kind, turns):
    agent = f"agent: {nobody}/chat" if kind == "endpoint" else declared(nobody)
    case = (
        "  - {{turns: [{{input: question {n}}}, {{input: more}}]}}"
        if turns
        else "  - {{input: question {n}}}"
    )
    written_suite(agent, 20, case)

    assert dokimos("test") == 3

    said = capsys.readouterr()
    (line,) = [line for line in said.err.splitlines() if "has been down since" in line]
    assert line.startswith("! Stopped: ")
    assert f"To continue: dokimos resume {runs()[0].name}" in line
    assert clock.now - 1000 < 10
    assert dokimos("test", "--fail-under", "0.5") == 3


@pytest.mark.parametrize("kind", ["endpoint", "declared"])
def test_a_suite_is_resumed_when_its_agent_is_back(scripted, clock, capsys, kind):
    def chat(url):
        return f"agent: {{url: {url}/v1/chat/completions, output_path: 'choices[0].message.content'}}"

    with scripted.ScriptedServer(lambda prompt: prompt) as server:
        place = server.url
        written_suite(chat(place) if kind == "endpoint" else declared(place), 12)

        def answer(prompt):
            if prompt == "question 4":
                server.then(scripted.status(429, "Slow down"), times=10_000)
            return prompt

        server.answer = answer
        assert dokimos("test", "--patience", "20", "-j", "1") == 3
        assert "429" in capsys.readouterr().err

        server.script.clear()
        server.answer = lambda prompt: prompt
        done = len([1 for prompt in server.prompts if prompt])
        assert dokimos("resume", "latest") == 0, capsys.readouterr()

    asked_again = server.prompts[done:]
    assert asked_again == [f"question {number}" for number in range(5, 12)]
    assert "12 passed, 0 failed" in capsys.readouterr().out


def test_the_command_waits_for_a_service_that_is_starting(scripted, clock, capsys):
    with scripted.ScriptedServer(lambda prompt: prompt) as server:
        written_suite(declared(server.url), 5)
        server.then(scripted.status(503, "Loading model"), times=80)

        assert dokimos("test", "--wait-for-endpoint", "100") == 0, capsys.readouterr()

    assert clock.now - 1000 > 60  # longer than a reply may take


def test_a_dead_judge_of_a_suite_that_nothing_else_judges_ends_it(clock, nobody, capsys):
    Path("app.py").write_text("def answer(question):\n    return question\n")
    Path("agent.yaml").write_text(
        f"""
name: desk
agent: app:answer
model: {{provider: openai, name: tiny, endpoint: "{nobody}/v1", api_key: sk-test-0123456789abcdef}}
evaluations:
  metrics:
    - {{type: geval, name: Polite, criteria: Polite., evaluation_steps: [Look.], threshold: 0.8}}
    - {{type: standard, metric: equality}}
test_cases:
"""
        + "\n".join(f"  - {{input: question {number}}}" for number in range(200))
    )

    assert dokimos("test", "-j", "4") == 3
    said = capsys.readouterr()
    assert "Stopped, since no verdict can be had without it: openai tiny has been down since" in said.err
    assert said.out.count("Test:") < 20


@pytest.mark.parametrize("option", ["timeout", "evaluator_timeout"])
def test_what_is_waited_for_a_start_is_no_time_of_a_call(scripted, clock, limits, option):
    with scripted.ScriptedServer() as server:
        server.then(scripted.status(503, "Loading model"), times=8)
        task = model_at(server.url) if option == "timeout" else echo
        evaluator = ExactMatch(threshold=None) if option == "timeout" else Right(judge=judge_at(server.url))
        result = experiment(3, task, [evaluator], wait_for_endpoint=60, **{option: 0.3}).run()

    assert [item.error for item in result.item_results] == [None] * 3
    assert [item.eval_results[0].error for item in result.item_results] == [None] * 3
    assert len(limits.extra) == 3
    assert all(extra.seconds > 0.3 for extra in limits.extra), "what the first of them waited for, or more"


# Beside other options


def test_fail_fast_does_not_hide_an_outage(clock, nobody):
    result = experiment(20, model_at(nobody), [ExactMatch()]).run(fail_fast=True)

    assert result.status is RunStatus.ENDPOINT_DOWN
    assert result.warnings[0].startswith("Stopped: openai tiny has been down since")


def test_max_errors_does_not_hide_an_outage(clock, nobody):
    result = experiment(20, model_at(nobody), [ExactMatch()]).run(max_errors=0)

    assert result.status is RunStatus.ENDPOINT_DOWN


def test_retries_of_the_task_are_not_spent_on_what_is_down(clock, nobody):
    result = experiment(20, model_at(nobody), [ExactMatch()]).run(retries=5)

    assert result.status is RunStatus.ENDPOINT_DOWN
    assert clock.now - 1000 < 10


def test_repeats_are_resumed_where_they_were_cut(scripted, clock):
    with scripted.ScriptedServer(lambda prompt: prompt) as server:
        plan = experiment(5, model_at(server.url), [ExactMatch()], runs=3, parallelism=1)

        def answer(prompt):
            if len(server.prompts) == 7:
                server.then(scripted.too_many(86_400), times=1000)
            return prompt

        server.answer = answer
        cut = plan.run()
        assert cut.status is RunStatus.ENDPOINT_DOWN
        server.script.clear()
        server.answer = lambda prompt: prompt
        server.received.clear()
        whole = plan.run(resume=cut.run_id)

    assert whole.status is RunStatus.COMPLETED
    assert [run.pass_count for run in whole.runs] == [5, 5, 5]
    assert len(server.received) == 8


def test_a_stream_is_stopped_and_resumed(scripted, clock, nobody, tmp_path):
    examples(20).to_jsonl(tmp_path / "data.jsonl")
    stream = Dataset.stream(str(tmp_path / "data.jsonl"))
    places = {"url": nobody}

    async def task(example):
        return await model_at(places["url"])(example)

    plan = Experiment(stream, task, [ExactMatch()], progress=False, parallelism=4)
    cut = plan.run()
    assert cut.status is RunStatus.ENDPOINT_DOWN

    with scripted.ScriptedServer(lambda prompt: prompt) as server:
        places["url"] = server.url
        whole = plan.run(resume=cut.run_id)
    assert whole.pass_count == 20


def test_a_resumed_run_that_finds_it_still_down_stops_again(clock, nobody):
    plan = experiment(20, model_at(nobody), [ExactMatch()])
    cut = plan.run()
    again = plan.run(resume=cut.run_id)

    assert again.status is RunStatus.ENDPOINT_DOWN
    assert again.run_id == cut.run_id


def test_a_merged_run_says_that_a_shard_was_stopped(scripted, clock, nobody):
    places = {}

    async def task(example):
        return await model_at(places["url"])(example)

    plan = experiment(10, task, [ExactMatch()], parallelism=10)  # all of them are in flight
    places["url"] = nobody
    shards = [plan.run(shard=(1, 2))]
    with scripted.ScriptedServer(lambda prompt: prompt) as server:
        places["url"] = server.url
        shards.append(plan.run(shard=(2, 2)))

    assert merge_results(shards).status is RunStatus.ENDPOINT_DOWN


@pytest.mark.parametrize("ending", ["html", "json", "md", "junit.xml"])
def test_what_was_stopped_can_be_reported(clock, nobody, tmp_path, ending):
    result = experiment(20, model_at(nobody), [ExactMatch()]).run()

    text = export(result, tmp_path / f"report.{ending}").read_text()

    assert "cannot connect to 127.0.0.1" in text


def test_an_embedder_that_is_down_ends_the_run(clock, nobody):
    similar = EmbeddingSimilarity(embedder=embedder(f"{nobody}/v1#tiny"), threshold=0.5)
    result = experiment(50, echo, [similar]).run()

    assert result.status is RunStatus.ENDPOINT_DOWN
    assert "no verdict can be had without it: openai tiny has been down" in result.warnings[0]


def test_many_threads_find_it_out_together(nobody, monkeypatch):
    monkeypatch.setattr("dokimos._http.breaker.FIRST_WAIT", 0.01)
    tried = []
    original = Breaker.record_failure

    def record_failure(self, *arguments, **details):
        tried.append(1)
        return original(self, *arguments, **details)

    monkeypatch.setattr(Breaker, "record_failure", record_failure)

    def task(example):
        return asyncio.run(model_at(nobody)(example)).outputs["output"]

    result = experiment(300, task, [ExactMatch()], parallelism=32).run()

    assert result.status is RunStatus.ENDPOINT_DOWN
    assert len(tried) < 100


def test_new_scores_of_a_judge_that_is_down_do_not_take_long(clock, nobody):
    whole = experiment(200, echo, [ExactMatch(threshold=1)]).run()

    rescored = Experiment.rescore(whole, [Right(judge=judge_at(nobody), threshold=1)])

    assert rescored.status is RunStatus.BROKEN
    assert clock.now - 1000 < 10


def test_a_server_without_tls_where_it_is_asked_for_is_down(scripted, clock):
    with scripted.ScriptedServer() as server:
        secure = server.url.replace("http://", "https://")
        result = experiment(20, model_at(secure), [ExactMatch()]).run()

    assert result.status is RunStatus.ENDPOINT_DOWN
    assert clock.now - 1000 < 10
    assert "cannot connect to 127.0.0.1" in result.warnings[0]


EVALS = """
from dokimos import Dataset, Example, Experiment, model_task
from dokimos.evaluators import ExactMatch

dataset = Dataset([Example.of(f"question {n}", f"question {n}", id=f"q{n}") for n in range(20)])
experiment = Experiment(dataset, model_task("URL/v1#tiny"), [ExactMatch(threshold=1)])
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "evals.py", "-q"),
        ("run", "evals.py", "--fail-under", "0.5"),
        ("run", "evals.py", "--fail-under", "Exact Match=0.5"),
        ("run", "evals.py", "--fail-fast"),
        ("run", "evals.py", "--max-errors", "0"),
        ("noise", "evals.py", "--runs", "2"),
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_commands_end_with_three_and_say_why_once(clock, nobody, capsys, arguments):
    Path("evals.py").write_text(EVALS.replace("URL", nobody))

    assert dokimos(*arguments) == 3

    said = capsys.readouterr()
    lines = [line for line in f"{said.out}\n{said.err}".splitlines() if "Stopped: " in line]
    assert len(lines) == 1
    assert "openai tiny has been down since" in lines[0]


def test_an_application_that_fails_at_its_cases_is_not_down(scripted, clock, capsys):
    with scripted.ScriptedServer() as server:
        server.then(scripted.status(500, "a bug"), times=1000)
        written_suite(f"agent: {server.url}/v1/chat/completions", 10)

        assert dokimos("test", "--patience", "0") == 3

    said = capsys.readouterr()
    assert "has been down" not in said.err
    assert said.out.count("500 Internal Server Error: a bug") >= 10
