"""Replies kept across runs."""

import asyncio
import sqlite3

import pytest
from click.testing import CliRunner

from dokimos import CallMetrics, Dataset, Example, Experiment
from dokimos._cli.cache import cache as cache_command
from dokimos.errors import ConfigurationError
from dokimos.evaluators._function import evaluator
from dokimos.judges._cache import ReplyCache, size_limit_bytes
from dokimos.judges._judge_calls import CallRequest, complete
from dokimos.judges._protocol import JudgeReply, TokenLogprob


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DOKIMOS_CACHE_MB", raising=False)


class FakeJudge:
    """Answers with a number that rises with every call."""

    identity = "fake judge"

    def __init__(self):
        self.calls = 0

    async def complete(self, prompt, *, schema=None):
        self.calls += 1
        return JudgeReply(str(self.calls), CallMetrics(10, 1, cost_usd=0.01))


def request(prompt):
    return CallRequest(FakeJudge(), prompt, None, repeat=0, sample=0)


def put(cache, prompt, reply=None):
    wanted = request(prompt)
    asyncio.run(cache.put(wanted.key, wanted, reply or JudgeReply("yes", CallMetrics(10, 1, cost_usd=0.5))))


def get(cache, prompt):
    wanted = request(prompt)
    return asyncio.run(cache.get(wanted.key, wanted))


@pytest.fixture
def opened(tmp_path):
    """Open caches that are closed when the test ends."""
    caches = []

    def open_cache(**settings):
        caches.append(ReplyCache(tmp_path / "cache.sqlite", **settings))
        return caches[-1]

    yield open_cache
    for cache in caches:
        cache.close()


def experiment(judge, runs=1, samples=1):
    @evaluator(name="Asked")
    async def asked(input: str) -> float:
        replies = [await complete(judge, f"Is {input} right?", sample=k) for k in range(samples)]
        return len({reply.text for reply in replies}) / samples

    data = Dataset([Example.of(text) for text in ("one", "two")])
    return Experiment(data, lambda text: text, [asked], runs=runs, progress=False)


def test_a_second_run_asks_nothing_and_costs_nothing():
    judge = FakeJudge()
    first = experiment(judge).run(cache=True)
    second = experiment(judge).run(cache=True)

    assert judge.calls == 2
    assert first.summary.judging.metrics.cost_usd == pytest.approx(0.02)
    assert second.summary.judging.metrics.cost_usd is None


def test_without_asking_for_it_nothing_is_shared_between_runs(tmp_path):
    judge = FakeJudge()
    experiment(judge).run()
    experiment(judge).run()

    assert judge.calls == 4
    assert not (tmp_path / ".dokimos" / "cache").exists()


def test_repeats_and_samples_stay_independent():
    judge = FakeJudge()
    first = experiment(judge, runs=2, samples=3).run(cache="my.sqlite")
    second = experiment(judge, runs=2, samples=3).run(cache="my.sqlite")

    assert judge.calls == 2 * 2 * 3
    assert first.average_score("Asked") == second.average_score("Asked") == 1.0


def test_what_is_used_stays_and_what_is_not_used_goes(opened):
    clock = iter(range(1000))
    cache = opened(max_bytes=100_000, clock=lambda: float(next(clock)))
    for number in range(100):
        put(cache, f"filler {number}", JudgeReply("x" * 2000))
        assert number < 5 or get(cache, "filler 5") is not None

    assert get(cache, "filler 0") is None
    assert get(cache, "filler 99") is not None
    assert cache.state().size_bytes <= 100_000
    assert (cache.path.stat().st_size) < 150_000


def test_clearing_gives_the_space_back(opened):
    cache = opened(max_bytes=10_000_000)
    for number in range(100):
        put(cache, f"filler {number}", JudgeReply("x" * 20_000))

    assert cache.clear() == 100
    assert cache.path.stat().st_size < 100_000


def test_a_reply_comes_back_as_it_was_but_without_its_cost(opened):
    reply = JudgeReply("ja, 是", CallMetrics(3, 1, cost_usd=0.5), (TokenLogprob("ja", -0.1, {"ja": -0.1}),))
    put(opened(), "one", reply)

    assert get(opened(), "one") == JudgeReply("ja, 是", None, reply.logprobs)


def test_a_cache_that_is_damaged_is_said_and_not_used(tmp_path):
    (tmp_path / "my.sqlite").write_bytes(b"this is not a database, but long enough to look at" * 100)
    judge = FakeJudge()
    result = experiment(judge).run(cache="my.sqlite")

    assert judge.calls == 2
    [warning] = result.warnings
    assert "my.sqlite could not be used (file is not a database)" in warning


def test_keys_do_not_get_into_the_cache(opened):
    cache = opened()
    put(cache, "one", JudgeReply("the key is sk-proj-Ab3dEfGh1jKlMn0pQrSt"))

    assert get(cache, "one").text == "the key is [secret]"


def test_two_processes_can_use_one_cache(opened):
    one, two = opened(), opened()
    put(one, "a")
    put(two, "b")

    assert get(two, "a").text == get(one, "b").text == "yes"


def test_the_limit_comes_from_the_environment(monkeypatch):
    assert size_limit_bytes() == 512_000_000
    monkeypatch.setenv("DOKIMOS_CACHE_MB", "1.5")
    assert size_limit_bytes() == 1_500_000
    monkeypatch.setenv("DOKIMOS_CACHE_MB", "much")
    with pytest.raises(
        ConfigurationError, match="DOKIMOS_CACHE_MB must be a number of megabytes above 0, not 'much'"
    ):
        size_limit_bytes()


def test_the_command_line_shows_and_clears_it():
    run = CliRunner().invoke
    assert "There is no cache" in run(cache_command, ["show"]).output
    judge = FakeJudge()
    experiment(judge).run(cache=True)
    experiment(judge).run(cache=True)

    shown = run(cache_command, ["show"]).output
    assert "2 replies" in shown
    assert "answered 2 calls, which saved $0.0200" in shown
    assert "2  fake judge" in shown
    assert "Deleted 2 replies" in run(cache_command, ["clear"]).output
    assert "0 replies" in run(cache_command, ["show"]).output


def test_a_state_of_what_is_no_cache_is_an_error(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello " * 1000)
    cache = ReplyCache(path)

    with pytest.raises(sqlite3.DatabaseError):
        cache.state()
    outcome = CliRunner().invoke(cache_command, ["show", "--file", str(path)])
    assert isinstance(outcome.exception, ConfigurationError)
