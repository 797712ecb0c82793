"""The replies of a run on disk."""

import asyncio
import errno
import json
import os
import threading
import time

import pytest

from dokimos._core.metrics import CallMetrics
from dokimos.judges import _run_call_store
from dokimos.judges._judge_calls import CallRequest, complete
from dokimos.judges._protocol import JudgeReply, TokenLogprob
from dokimos.judges._run_call_store import (
    GATHER_SECONDS,
    MANY_REPLIES,
    MOST_GATHERINGS,
    RunCallStore,
)
from dokimos.judges._run_scope import RunScope, counting_usage, enter_scope


class FakeJudge:
    """Answers at once, and counts."""

    identity = "fake judge"

    def __init__(self, text="yes", **metrics):
        self.text = text
        self.metrics = CallMetrics(**metrics)
        self.calls = 0

    async def complete(self, prompt, *, schema=None):
        self.calls += 1
        return JudgeReply(self.text, self.metrics)


def request(prompt="Is it?", *, repeat=0, sample=0, schema=None):
    return CallRequest(FakeJudge(), prompt, schema, repeat=repeat, sample=sample)


def put(store, *requests, reply=None):
    async def all_at_once():
        given = reply or JudgeReply("yes", CallMetrics(3, 1))
        await asyncio.gather(*(store.put(r.key, r, given) for r in requests))

    asyncio.run(all_at_once())


def get(store, wanted):
    return asyncio.run(store.get(wanted.key, wanted))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "calls.jsonl"


@pytest.fixture
def opened():
    """Open stores that are closed when the test ends."""
    stores = []

    def open_store(path):
        stores.append(RunCallStore(path))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


def test_a_reply_is_in_the_file_when_put_returns(path, opened):
    store = opened(path)
    put(store, request())

    assert request().key in path.read_text()


def test_there_is_no_file_before_there_is_a_reply(path, opened):
    store = opened(path)

    assert get(store, request()) is None
    store.close()
    assert not path.exists()


def test_replies_are_found_again_by_the_next_process(path, opened):
    reply = JudgeReply(
        "yes, 是",
        CallMetrics(3, 1, cost_usd=0.5),
        (TokenLogprob("yes", -0.1, {"yes": -0.1}),),
    )
    first = opened(path)
    put(first, request(), reply=reply)
    first.close()

    second = opened(path)
    assert get(second, request()) == reply
    assert len(second) == 1


def test_repeats_samples_and_shapes_are_calls_of_their_own(path, opened):
    store = opened(path)
    put(store, request())

    for other in (
        request(repeat=1),
        request(sample=1),
        request(schema={"type": "object"}),
        request("Was it?"),
    ):
        assert get(store, other) is None


def test_a_torn_last_line_is_cut_and_the_next_reply_starts_on_its_own(path, opened):
    first = opened(path)
    put(first, request("one"), request("two"))
    first.close()
    path.write_bytes(path.read_bytes()[:-20])

    second = opened(path)
    assert len(second) == 1
    put(second, request("three"))
    second.close()

    third = opened(path)
    assert get(third, request("three")) is not None
    assert len(path.read_bytes().splitlines()) == 2
    assert third.warnings() == []


def test_a_torn_line_that_is_the_whole_file_is_cut(path, opened):
    path.write_bytes(b'{"key":"0123')

    store = opened(path)
    put(store, request())

    assert len(path.read_bytes().splitlines()) == 1


def test_damaged_lines_are_ignored_and_said(path, opened):
    first = opened(path)
    put(first, request("one"), request("two"))
    first.close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"\x00\xff nonsense\n" + lines[0].replace(b'"reply"', b'"repl') + lines[1])

    second = opened(path)
    found = [get(second, request(prompt)) for prompt in ("one", "two")]

    assert sorted(reply is None for reply in found) == [False, True]
    assert second.warnings() == [f"Damaged lines of {path} were ignored: 1, 2."]


def test_many_replies_share_one_sync(path, opened, monkeypatch):
    synced = []
    real = os.fsync

    def slow(file):
        while path.read_bytes().count(b"\n") < 200:
            time.sleep(0.002)  # until the others have come to wait
        synced.append(file)
        real(file)

    monkeypatch.setattr(os, "fsync", slow)
    store = opened(path)
    put(store, *(request(str(number)) for number in range(200)))

    assert len(store) == 200
    assert len(synced) <= 3


def test_a_reply_is_used_only_when_the_disk_has_it(path, opened, monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(os, "fsync", lambda file: gate.wait(60))
    store = opened(path)

    async def ask():
        enter_scope(RunScope(call_stores=(store,), in_flight={}))
        asking = asyncio.ensure_future(complete(FakeJudge(), "Is it?"))
        done, _ = await asyncio.wait([asking], timeout=0.1)
        assert not done
        gate.set()
        return await asyncio.wait_for(asking, 60)

    assert asyncio.run(ask()).text == "yes"


class Disk:
    """A disk whose syncs end when they are let."""

    def __init__(self):
        self.begun, self.may_end = (
            [threading.Event() for _ in range(3)],
            [threading.Event() for _ in range(3)],
        )
        self.syncs = 0

    def fsync(self, file):
        number, self.syncs = self.syncs, self.syncs + 1
        self.begun[number].set()
        self.may_end[number].wait(60)


def test_a_reply_that_comes_during_a_sync_waits_for_the_next_one(path, opened, monkeypatch):
    disk = Disk()
    monkeypatch.setattr(os, "fsync", disk.fsync)
    store = opened(path)

    async def ask():
        first = asyncio.ensure_future(store.put(*call_of("one")))
        await asyncio.to_thread(disk.begun[0].wait, 60)
        later = [asyncio.ensure_future(store.put(*call_of(prompt))) for prompt in ("two", "three")]
        await asyncio.sleep(0)  # until both are written
        disk.may_end[0].set()
        await first
        await asyncio.to_thread(disk.begun[1].wait, 60)
        assert not any(each.done() for each in later)
        disk.may_end[1].set()
        await asyncio.gather(*later)

    asyncio.run(ask())
    assert disk.syncs == 2


def test_closing_waits_until_the_last_reply_is_on_disk(path, opened, monkeypatch):
    disk = Disk()
    monkeypatch.setattr(os, "fsync", disk.fsync)
    store = opened(path)

    async def ask():
        putting = asyncio.ensure_future(store.put(*call_of("one")))
        await asyncio.to_thread(disk.begun[0].wait, 60)
        closing = asyncio.ensure_future(asyncio.to_thread(store.close))
        await asyncio.wait([closing], timeout=0.05)
        assert not closing.done()
        disk.may_end[0].set()
        await asyncio.gather(putting, closing)

    asyncio.run(ask())
    assert disk.syncs == 1


@pytest.mark.parametrize("use", ["get", "put"])
def test_a_reply_of_another_caller_is_used_only_when_the_disk_has_it(use, path, opened, monkeypatch):
    disk = Disk()
    monkeypatch.setattr(os, "fsync", disk.fsync)
    store = opened(path)
    key, asked, reply = call_of("one")

    async def ask():
        putting = asyncio.ensure_future(store.put(key, asked, reply))
        await asyncio.to_thread(disk.begun[0].wait, 60)
        using = asyncio.ensure_future(store.get(key, asked) if use == "get" else store.put(key, asked, reply))
        await asyncio.sleep(0)
        disk.may_end[0].set()
        await putting
        await asyncio.to_thread(disk.begun[1].wait, 60)
        assert not using.done()
        disk.may_end[1].set()
        assert await using == (reply if use == "get" else None)
        assert disk.syncs == 2
        # What is on disk needs no sync.
        assert await store.get(key, asked) == reply

    asyncio.run(ask())
    assert (disk.syncs, len(store)) == (2, 1)


def test_replies_that_a_killed_process_has_written_are_synced_before_they_are_used(path, opened, monkeypatch):
    put(opened(path), request("one"))
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    store = opened(path)
    assert synced == [path.stat().st_ino]
    assert get(store, request("one")).text == "yes"


class Sleeps:
    """Stands in for `time`: sleeps that gather replies end when they are let, others at once.

    Between two looks at the clock passes so much time that no sync has to wait for the one before.
    """

    def __init__(self):
        self.gathering, self.may_end = threading.Event(), threading.Event()
        self.now = 0.0

    def monotonic(self):
        self.now += 1
        return self.now

    def sleep(self, seconds):
        if seconds == GATHER_SECONDS:
            self.gathering.set()
            self.may_end.wait(60)


def test_replies_that_follow_each_other_share_a_sync_where_those_before_did(path, opened, monkeypatch):
    disk, sleeps = Disk(), Sleeps()
    monkeypatch.setattr(os, "fsync", disk.fsync)
    monkeypatch.setattr(_run_call_store, "time", sleeps)
    store = opened(path)
    for event in disk.may_end[1:]:
        event.set()

    async def ask():
        first = asyncio.ensure_future(store.put(*call_of("one")))
        await asyncio.to_thread(disk.begun[0].wait, 60)
        assert not sleeps.gathering.is_set()
        later = [asyncio.ensure_future(store.put(*call_of(str(n)))) for n in range(MANY_REPLIES)]
        await asyncio.sleep(0)  # until all are written
        disk.may_end[0].set()
        await asyncio.gather(first, *later)
        fourth = asyncio.ensure_future(store.put(*call_of("four")))
        await asyncio.to_thread(sleeps.gathering.wait, 60)
        fifth = asyncio.ensure_future(store.put(*call_of("five")))
        await asyncio.sleep(0)
        sleeps.may_end.set()
        await asyncio.gather(fourth, fifth)

    asyncio.run(ask())
    assert disk.syncs == 3


class Arrivals(Sleeps):
    """While replies are gathered, `numbers[n]` more of them arrive in the n-th sleep."""

    def __init__(self, store, numbers):
        super().__init__()
        self.store, self.numbers, self.sleeps, self.loop = store, numbers, 0, None
        self.puts = []

    async def put_some(self, prompts):
        self.puts += [asyncio.ensure_future(self.store.put(*call_of(prompt))) for prompt in prompts]
        await asyncio.sleep(0)  # until all are written

    def sleep(self, seconds):
        if seconds == GATHER_SECONDS:
            self.sleeps += 1
            prompts = [f"{self.sleeps}-{n}" for n in range(self.numbers[self.sleeps - 1])]
            asyncio.run_coroutine_threadsafe(self.put_some(prompts), self.loop).result(60)


@pytest.mark.parametrize(
    ("numbers", "shared"),
    [
        ([0, 0], 1),
        ([1, 0], 2),
        ([1, 2, 0], 4),
        ([MANY_REPLIES - 1], MANY_REPLIES),
        ([1, MANY_REPLIES - 2], MANY_REPLIES),
        ([1] * MOST_GATHERINGS, 1 + MOST_GATHERINGS),
    ],
)
def test_replies_are_gathered_while_they_arrive_up_to_the_expected_number(
    numbers, shared, path, opened, monkeypatch
):
    disk, store, woken = Disk(), opened(path), []
    wake = _run_call_store._wake
    arrivals = Arrivals(store, numbers)
    monkeypatch.setattr(os, "fsync", disk.fsync)
    monkeypatch.setattr(_run_call_store, "time", arrivals)
    monkeypatch.setattr(_run_call_store, "_wake", lambda waiting: (woken.append(len(waiting)), wake(waiting)))

    async def ask():
        arrivals.loop = asyncio.get_running_loop()
        first = asyncio.ensure_future(store.put(*call_of("first")))
        await asyncio.to_thread(disk.begun[0].wait, 60)
        await arrivals.put_some([str(n) for n in range(MANY_REPLIES)])
        for event in disk.may_end:
            event.set()
        await asyncio.gather(first, *arrivals.puts)
        await store.put(*call_of("last"))
        await asyncio.gather(*arrivals.puts)

    asyncio.run(ask())
    assert woken == [1, MANY_REPLIES, shared]
    assert arrivals.sleeps == len(numbers)


def test_replies_one_by_one_wait_for_no_others(path, opened, monkeypatch):
    sleeps = Sleeps()
    monkeypatch.setattr(_run_call_store, "time", sleeps)
    store = opened(path)
    for prompt in range(MANY_REPLIES + 1):
        put(store, request(str(prompt)))
    assert not sleeps.gathering.is_set()


class Clock:
    """Stands in for `time`: sleeps end at once, and are noted."""

    def __init__(self):
        self.now, self.slept = 100.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


@pytest.mark.parametrize(
    ("replies", "passed", "slept"),
    [(1, 0.001, 0.004), (2, 0.001, 0.009), (MANY_REPLIES, 0.001, 0.013), (1, 0.006, 0), (3, 0.02, 0)],
)
def test_a_sync_waits_only_for_what_is_left_of_the_pause_after_the_last_one(
    replies, passed, slept, path, opened, monkeypatch
):
    disk, clock = Disk(), Clock()
    monkeypatch.setattr(os, "fsync", disk.fsync)
    monkeypatch.setattr(_run_call_store, "time", clock)
    store = opened(path)

    async def ask():
        first = asyncio.ensure_future(store.put(*call_of("first")))
        await asyncio.to_thread(disk.begun[0].wait, 60)
        group = [asyncio.ensure_future(store.put(*call_of(str(n)))) for n in range(replies)]
        await asyncio.sleep(0)  # until all are written
        clock.now += 60
        disk.may_end[0].set()
        await asyncio.to_thread(disk.begun[1].wait, 60)
        clock.slept.clear()
        disk.may_end[1].set()
        await asyncio.gather(first, *group)
        clock.now += passed
        last = asyncio.ensure_future(store.put(*call_of("last")))
        await asyncio.to_thread(disk.begun[2].wait, 60)
        disk.may_end[2].set()
        await last

    asyncio.run(ask())
    assert sum(clock.slept) == pytest.approx(slept, abs=1e-9)


def call_of(prompt):
    asked = request(prompt)
    return asked.key, asked, JudgeReply("yes", CallMetrics(3, 1))


def test_a_full_disk_is_said_and_the_reply_is_used_all_the_same(path, opened, monkeypatch):
    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    store = opened(path)
    put(store, request("one"))
    put(store, request("two"))

    [warning] = store.warnings()
    assert "No space left" in warning
    assert "ask for them again" in warning


def test_a_closed_store_takes_no_more_and_does_not_wait(path, opened):
    store = opened(path)
    put(store, request("one"))
    store.close()
    put(store, request("two"))
    store.close()

    assert len(opened(path)) == 1


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-Ab3dEfGh1jKlMn0pQrSt",
        "ghp_0123456789abcdefABCDEF",
        "Bearer 0123456789abcdefghijklmnop",
        "of-this-machine-only",
    ],
)
def test_keys_never_reach_the_file(path, opened, secret, monkeypatch):
    monkeypatch.setenv("MY_SERVICE_API_KEY", "of-this-machine-only")
    store = opened(path)
    put(store, request(f"The output was {secret}."), reply=JudgeReply(f'{{"reason": "it shows {secret}"}}'))

    assert secret.removeprefix("Bearer ") not in path.read_text()
    reply = get(store, request(f"The output was {secret}."))
    assert json.loads(reply.text)["reason"].endswith("[secret]")


def test_half_a_pair_of_surrogates_does_not_stop_the_store(path, opened):
    store = opened(path)
    put(store, request("an output with \ud83d in it"))

    assert get(store, request("an output with \ud83d in it")).text == "yes"


def test_ordinary_words_are_no_secrets(path, opened, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    text = "The risk-assessment of none of the sk-learning-methods is a key: it is a token."
    store = opened(path)
    put(store, request(text))

    assert text in path.read_text()


def test_a_known_call_is_not_made_again_and_its_cost_counts_for_the_run(path, opened):
    judge = FakeJudge(cost_usd=0.25)

    async def ask(store):
        enter_scope(RunScope(call_stores=(store,), in_flight={}))
        with counting_usage() as usage:
            await complete(judge, "Is it?")
        return usage.metrics.cost_usd

    first = opened(path)
    assert asyncio.run(ask(first)) == 0.25
    first.close()
    assert asyncio.run(ask(opened(path))) == 0.25
    assert judge.calls == 1


def test_a_call_goes_on_when_the_one_who_waits_for_it_is_cancelled(path, opened):
    judge = FakeJudge()
    store = opened(path)

    async def give_up():
        enter_scope(RunScope(call_stores=(store,), in_flight={}))
        asking = asyncio.ensure_future(complete(judge, "Is it?"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        while not len(store):  # polls
            await asyncio.sleep(0.002)

    asyncio.run(asyncio.wait_for(give_up(), 60))
    assert judge.calls == 1
