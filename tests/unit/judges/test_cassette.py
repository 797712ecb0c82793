"""Cassettes, of runs and of judges."""

import asyncio
import json

import pytest

from dokimos import CallMetrics, Dataset, Example, Experiment, Score
from dokimos._core.results import RunStatus
from dokimos.errors import ConfigurationError, JudgeUnavailableError
from dokimos.evaluators._function import evaluator
from dokimos.judges._cassette import Cassette, with_cassette
from dokimos.judges._fencing import fence, fence_rule
from dokimos.judges._judge_calls import CallRequest, complete
from dokimos.judges._protocol import JudgeReply


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DOKIMOS_CASSETTE", "DOKIMOS_CASSETTE_MODE"):
        monkeypatch.delenv(name, raising=False)


class FakeJudge:
    """Says how long the prompt is without its marker, and counts."""

    identity = "fake judge"

    def __init__(self):
        self.calls = 0

    async def complete(self, prompt, *, schema=None):
        self.calls += 1
        return JudgeReply("yes", CallMetrics(10, 1, cost_usd=0.01, latency_ms=float(self.calls)))


class Unreachable:
    """Has the same identity, and must not be called."""

    identity = "fake judge"

    async def complete(self, prompt, *, schema=None):
        raise AssertionError("the judge was called")


def experiment(judge, *inputs, **keywords):
    @evaluator(name="Asked")
    async def asked(input: str, output: str) -> Score:
        reply = await complete(judge, f"Is this right?\n{fence_rule()}\n{fence('answer', output)}")
        return Score(1.0 if reply.text == "yes" else 0.0, reply.text)

    data = Dataset([Example.of(text) for text in inputs or ("one", "two", "three")])
    return Experiment(data, lambda text: text, [asked], progress=False, **keywords)


def errors_of(result):
    return [r.error for item in result.item_results for r in item.eval_results if r.error]


def test_a_recorded_run_is_replayed_without_a_judge():
    judge = FakeJudge()
    recorded = experiment(judge).run(cassette="evals.jsonl", cassette_mode="record")
    replayed = experiment(Unreachable()).run(cassette="evals.jsonl", cassette_mode="replay")

    assert judge.calls == 3
    assert replayed.average_score("Asked") == recorded.average_score("Asked") == 1.0
    assert errors_of(replayed) == []


def test_a_replay_costs_nothing():
    recorded = experiment(FakeJudge()).run(cassette="evals.jsonl")
    replayed = experiment(Unreachable()).run(cassette="evals.jsonl", cassette_mode="replay")

    assert recorded.summary.judging.metrics.cost_usd == pytest.approx(0.03)
    assert replayed.summary.judging.metrics.cost_usd is None


def test_recording_again_gives_the_same_bytes(tmp_path):
    path = tmp_path / "evals.jsonl"
    experiment(FakeJudge(), parallelism=3).run(cassette=path, cassette_mode="record")
    before = path.read_bytes()
    experiment(FakeJudge(), "three", "one", "two").run(cassette=path, cassette_mode="record")

    assert path.read_bytes() == before
    keys = [json.loads(line)["key"] for line in before.splitlines()]
    assert keys == sorted(keys)
    assert not any(word in before for word in (b"latency", b"cost", b"metrics", b"time"))


def test_a_completed_recording_drops_what_it_did_not_ask(tmp_path):
    path = tmp_path / "evals.jsonl"
    experiment(FakeJudge(), "one", "old").run(cassette=path, cassette_mode="record")
    judge = FakeJudge()
    experiment(judge, "one", "new").run(cassette=path, cassette_mode="record")

    assert judge.calls == 2
    assert ("old" in path.read_text(), "new" in path.read_text()) == (False, True)


def test_a_recording_that_was_cut_short_keeps_what_was_there(tmp_path):
    path = tmp_path / "evals.jsonl"
    experiment(FakeJudge(), "one", "two").run(cassette=path, cassette_mode="record")

    def broken(example):
        raise ConnectionError("down")

    cut = experiment(FakeJudge(), "one", "two")
    Experiment(cut.dataset, broken, cut.evaluators, progress=False).run(cassette=path, cassette_mode="record")

    assert len(path.read_text().splitlines()) == 2


def test_auto_asks_only_what_is_not_on_the_cassette():
    experiment(FakeJudge(), "one", "two").run(cassette="evals.jsonl")
    judge = FakeJudge()
    result = experiment(judge, "one", "two", "three").run(cassette="evals.jsonl")

    assert judge.calls == 1
    assert result.summary.judging.metrics.cost_usd == pytest.approx(0.01)


def test_a_miss_in_replay_is_an_error_that_shows_the_nearest_recording():
    experiment(FakeJudge(), "a blue sky", "green grass").run(cassette="evals.jsonl")
    result = experiment(Unreachable(), "a blue sea").run(cassette="evals.jsonl", cassette_mode="replay")

    [error] = errors_of(result)
    assert result.status is RunStatus.BROKEN
    assert error.startswith("JudgeUnavailableError: The cassette evals.jsonl has no recording")
    assert "mode='record'" in error
    assert "\n+| a blue sea\n" in error
    assert "marker" in error


def test_only_the_first_misses_look_for_the_nearest_recording():
    experiment(FakeJudge(), "a blue sky").run(cassette="evals.jsonl")
    others = [f"a sea of {number}" for number in range(30)]
    result = experiment(Unreachable(), *others).run(cassette="evals.jsonl", cassette_mode="replay")

    assert sum("+++ asked" in error for error in errors_of(result)) == 20
    assert "The first misses show the nearest recordings." in errors_of(result)[-1]


def test_a_miss_on_an_empty_cassette_is_said(tmp_path):
    (tmp_path / "evals.jsonl").touch()
    result = experiment(Unreachable()).run(cassette="evals.jsonl", cassette_mode="replay")

    assert "it is empty" in errors_of(result)[0]


def test_another_repeat_is_another_call():
    judge = FakeJudge()
    experiment(judge, "one", runs=2).run(cassette="evals.jsonl")

    assert judge.calls == 2
    assert experiment(Unreachable(), "one", runs=2).run(cassette="evals.jsonl").pass_rate is None
    longer = experiment(Unreachable(), "one", runs=3).run(cassette="evals.jsonl", cassette_mode="replay")
    assert "repeat: 2" in errors_of(longer)[0]


def test_nothing_runs_where_there_is_nothing_to_replay(tmp_path):
    with pytest.raises(ConfigurationError, match=r"no cassette gone\.jsonl to replay; record it"):
        experiment(FakeJudge()).run(cassette="gone.jsonl", cassette_mode="replay")
    assert not (tmp_path / ".dokimos").exists()


def test_a_damaged_cassette_is_named_by_its_line(tmp_path):
    path = tmp_path / "evals.jsonl"
    experiment(FakeJudge()).run(cassette=path)
    path.write_text(path.read_text() + "<<<<<<< HEAD\n")

    with pytest.raises(ConfigurationError, match=r"evals.jsonl:4: this line .* record it again"):
        experiment(FakeJudge()).run(cassette=path)


def test_the_environment_names_the_cassette_and_the_mode(monkeypatch):
    monkeypatch.setenv("DOKIMOS_CASSETTE", "evals.jsonl")
    experiment(FakeJudge()).run()
    monkeypatch.setenv("DOKIMOS_CASSETTE_MODE", "replay")

    assert errors_of(experiment(Unreachable()).run()) == []
    monkeypatch.setenv("DOKIMOS_CASSETTE_MODE", "reply")
    with pytest.raises(ConfigurationError, match="record, replay or auto, not 'reply'"):
        experiment(FakeJudge()).run()


def test_a_resumed_recording_has_what_was_asked_before(tmp_path):
    path = tmp_path / "evals.jsonl"
    plan = experiment(FakeJudge())
    first = plan.run()
    plan.run(resume=first.run_id, cassette=path, cassette_mode="record")

    assert len(path.read_text().splitlines()) == 3


def test_keys_do_not_get_on_a_cassette(tmp_path):
    path = tmp_path / "evals.jsonl"
    key = "sk-proj-Ab3dEfGh1jKlMn0pQrSt"
    experiment(FakeJudge(), f"use {key}").run(cassette=path)

    assert key not in path.read_text()
    replayed = experiment(Unreachable(), f"use {key}").run(cassette=path, cassette_mode="replay")
    assert errors_of(replayed) == []


def test_what_is_redacted_does_not_get_on_a_cassette(tmp_path):
    path = tmp_path / "evals.jsonl"
    hide = {"redact": lambda text: text.replace("Alice", "someone"), "cassette": path}
    result = experiment(FakeJudge(), "Alice was here").run(**hide)

    assert "Alice" not in path.read_text()
    assert "Alice" not in (tmp_path / ".dokimos" / "runs" / result.run_id / "calls.jsonl").read_text()


def put(cassette, prompt, text="yes"):
    request = CallRequest(FakeJudge(), prompt, None, repeat=0, sample=0)
    asyncio.run(cassette.put(request.key, request, JudgeReply(text)))


def recorded(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["prompt"]: line["reply"]["text"] for line in lines}


@pytest.mark.parametrize("mode", ["record", "auto"])
def test_what_others_have_recorded_meanwhile_is_kept(tmp_path, mode):
    path = tmp_path / "evals.jsonl"
    one, other = Cassette(path, mode), Cassette(path, mode)
    put(one, "one")
    put(other, "other")
    one.save(whole=True)
    other.save(whole=True)

    assert recorded(path) == {"one": "yes", "other": "yes"}


def test_what_others_have_recorded_anew_is_not_put_back(tmp_path):
    path = tmp_path / "evals.jsonl"
    first = Cassette(path)
    put(first, "old", "before")
    first.save()
    here, there = Cassette(path, "auto"), Cassette(path, "record")
    put(here, "new")
    put(there, "old", "after")
    there.save()
    here.save()

    assert recorded(path) == {"old": "after", "new": "yes"}


def test_shards_record_one_cassette_together(tmp_path):
    path = tmp_path / "evals.jsonl"
    experiment(FakeJudge(), "gone").run(cassette=path, cassette_mode="record")
    for number in (1, 2, 3):
        shard = experiment(FakeJudge(), "one", "two", "three")
        shard.run(cassette=path, cassette_mode="record", shard=(number, 3))

    replayed = experiment(Unreachable(), "one", "two", "three").run(cassette=path, cassette_mode="replay")
    assert errors_of(replayed) == []


def test_saving_leaves_nothing_but_the_cassette(tmp_path):
    cassette = Cassette(tmp_path / "evals.jsonl")
    put(cassette, "one")
    cassette.save()

    assert [path.name for path in tmp_path.iterdir()] == ["evals.jsonl"]


def ask(judge, prompt="Is it?"):
    return asyncio.run(complete(judge, prompt)).text


def test_a_judge_can_have_a_cassette_of_its_own(tmp_path):
    path, real = tmp_path / "own.jsonl", FakeJudge()
    judge = with_cassette(real, path, "record")
    prompt = fence("answer", "text")
    ask(judge, prompt)
    judge.save()

    assert ask(with_cassette(Unreachable(), path, "replay"), prompt) == "yes"
    with pytest.raises(JudgeUnavailableError, match="no recording of this call of fake judge"):
        ask(with_cassette(Unreachable(), path, "replay"), "Was it?")


def test_a_judge_with_a_cassette_cannot_be_asked_around_it(tmp_path):
    path = tmp_path / "own.jsonl"
    judge = with_cassette(FakeJudge(), path, "record")
    asyncio.run(judge.complete("Is it?"))
    judge.save()
    replaying = with_cassette(Unreachable(), path, "replay")

    assert asyncio.run(replaying.complete("Is it?")).text == "yes"
    with pytest.raises(JudgeUnavailableError):
        asyncio.run(replaying.complete("Was it?"))


def test_a_wrapped_judge_still_uses_its_cassette(tmp_path):
    class Seat:
        identity = "fake judge#2"

        def __init__(self, judge):
            self.judge = judge

        async def complete(self, prompt, *, schema=None):
            return await self.judge.complete(prompt, schema=schema)

    path, real = tmp_path / "own.jsonl", FakeJudge()
    judge = with_cassette(real, path)
    prompt = fence("answer", "text")
    assert ask(Seat(judge), prompt) == ask(Seat(judge), prompt) == "yes"
    assert real.calls == 1


def test_judges_that_name_one_file_share_it_and_keep_the_rest_of_it(tmp_path):
    path = tmp_path / "own.jsonl"
    old = with_cassette(FakeJudge(), path, "auto")
    ask(old, "old")
    old.save()
    one, two = with_cassette(FakeJudge(), path, "record"), with_cassette(FakeJudge(), path, "record")
    ask(one, "one")
    ask(two, "two")
    one.save()

    assert sorted(json.loads(line)["prompt"] for line in path.read_text().splitlines()) == [
        "old",
        "one",
        "two",
    ]
