"""What bounds comparisons: how many wait, how many are kept and for how long, what one may take."""

import asyncio
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import pytest
from sqlalchemy import delete, insert, select, update
from tests.server.gate_runs import diff, end, gate, item, items_of, run_of, send, start, verdict
from tests.server.test_comparisons import (
    CountingComparer,
    count,
    engine_of,
    process_of,
    use,
    wait_for_verdicts,
)

from dokimos.server._db.tables import COMPARISON_CASES, COMPARISONS, RUNS
from dokimos.server._services.comparisons import comparison_retention, stored_comparisons
from dokimos.server._services.comparisons.comparison_turns import ComparisonTurns, Lane
from dokimos.server._services.errors import UnavailableError
from dokimos.server._workers import comparison_process
from dokimos.server._workers.maintenance import expire, maintain, purge

DAY = 86_400_000_000


def write(api, change):
    return api.portal.call(api.app.state.database.write, change)


def rows(api):
    query = select(COMPARISONS).order_by(COMPARISONS.c.created_at)
    return api.portal.call(api.app.state.database.read, lambda c: c.execute(query).all())


def tidy(api, **settings):
    """What the purge of the server does every half a minute."""
    database = api.app.state.database
    api.portal.call(expire, database, replace(api.app.state.settings, **settings))
    api.portal.call(purge, database)


def make_older(api, days, **columns):
    change = update(COMPARISONS).values(created_at=COMPARISONS.c.created_at - days * DAY)
    for name, value in columns.items():
        change = change.where(COMPARISONS.c[name] == value)
    write(api, lambda c: c.execute(change))


def count_places(turns, lane, most=5):
    """How many comparisons a lane takes until it refuses one."""
    for taken in range(most):
        try:
            turns.reserve(lane)
        except UnavailableError:
            return taken
    return most


async def test_lanes_take_turns_and_each_is_in_order():
    turns, done = ComparisonTurns(10), []

    async def compute(lane, name):
        turns.reserve(lane)
        async with turns.take(lane):
            done.append(name)
            await asyncio.sleep(0)

    asked = [(Lane.DIFF, f"diff {n}") for n in range(4)]
    asked += [(Lane.GATE, "gate 0"), (Lane.GATE, "gate 1"), (Lane.VERDICT, "verdict")]
    await asyncio.gather(*(compute(*one) for one in asked))

    assert done == ["diff 0", "gate 0", "verdict", "diff 1", "gate 1", "diff 2", "diff 3"]


async def test_a_full_lane_refuses_and_leaves_room_in_the_others():
    turns = ComparisonTurns(2)
    turns.reserve(Lane.DIFF)
    async with turns.take(Lane.DIFF):  # it is being computed, and does not wait
        turns.reserve(Lane.DIFF)
        turns.reserve(Lane.DIFF)
        with pytest.raises(UnavailableError, match="2 other comparisons"):
            turns.reserve(Lane.DIFF)
        assert count_places(turns, Lane.GATE) == 2


async def test_a_verdict_is_never_refused_or_a_gate_would_decide_without_it():
    turns = ComparisonTurns(1)
    assert count_places(turns, Lane.VERDICT, most=20) == 20
    assert count_places(turns, Lane.GATE, most=20) == 1


async def test_whoever_is_cancelled_gives_the_turn_and_the_place_back():
    turns = ComparisonTurns(1)
    turns.reserve(Lane.DIFF)

    async def wait():
        turns.reserve(Lane.DIFF)
        async with turns.take(Lane.DIFF):
            pass

    async with turns.take(Lane.DIFF):
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    # One that is cancelled at the moment in which its turn comes.
    turns.reserve(Lane.DIFF)
    async with turns.take(Lane.DIFF):
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])

    assert waiting.cancelled()
    assert count_places(turns, Lane.DIFF) == 1
    async with asyncio.timeout(10), turns.take(Lane.DIFF):
        assert count_places(turns, Lane.DIFF) == 1


def test_readers_cannot_keep_a_gate_waiting(serve):
    api = serve(max_waiting_comparisons=2)
    runs = [run_of(api, items_of([1.0] * 5)) for _ in range(5)]
    wait_for_verdicts(api)
    comparer = use(api, CountingComparer(engine_of(api)._comparer))
    lanes = engine_of(api)._turns._lanes
    with ThreadPoolExecutor(8) as threads, ExitStack() as stack:
        stack.callback(comparer.go.set)  # a test that fails must not wait for its threads
        pairs = [(runs[0], now) for now in runs[2:]]
        asked = [threads.submit(diff, api, *pairs[0])]
        while not comparer.jobs:  # until then it waits too, and would take one of the two places
            pass
        asked += [threads.submit(diff, api, *pair) for pair in pairs[1:]]
        while len(lanes[Lane.DIFF]) < 2:
            pass
        refused = diff(api, runs[1], runs[3])
        again = threads.submit(diff, api, *pairs[0])  # what waits already is not refused
        checked = threads.submit(gate, api, runs[4], baselineRunId=runs[1])
        while not lanes[Lane.GATE]:
            pass
        comparer.go.set()
        answers = [one.result() for one in (*asked, again, checked)]

    assert refused.status_code == 503
    assert refused.json()["error"] == "Service Unavailable"
    assert "2 other comparisons wait to be computed before this one" in refused.json()["message"]
    assert refused.headers["Retry-After"] == "10"
    assert [answer.status_code for answer in answers] == [200] * 5
    assert [job.candidate_id for job in comparer.jobs][1] == runs[4]
    assert len(comparer.jobs) == 4
    assert diff(api, runs[1], runs[3]).status_code == 200


def test_comparisons_that_were_asked_for_are_removed_after_some_days(api):
    first, now = (run_of(api, items_of([1.0] * 5)) for _ in range(2))
    wait_for_verdicts(api)
    verdict(api, now, alpha=0.01)
    make_older(api, 20)

    tidy(api, comparison_retention_days=30.0)
    assert count(api, COMPARISONS) == 2
    tidy(api, comparison_retention_days=-1.0)
    assert count(api, COMPARISONS) == 2
    tidy(api, comparison_retention_days=10.0)

    (kept,) = rows(api)
    assert (kept.baseline_run_id, kept.candidate_run_id, kept.automatic) == (first, now, True)
    assert count(api, COMPARISON_CASES) == 1
    assert verdict(api, now, alpha=0.01)["status"] == "PASS"


def test_comparisons_with_the_pinned_baseline_have_no_age(api):
    pinned, other, now = (run_of(api, items_of([1.0] * 5)) for _ in range(3))
    wait_for_verdicts(api)
    experiment = api.get(f"/api/v1/runs/{now}").json()["experimentId"]
    assert api.put(f"/api/v1/experiments/{experiment}/baseline", json={"runId": pinned}).status_code < 300
    verdict(api, now)
    verdict(api, pinned, baselineRunId=other)
    make_older(api, 20)

    tidy(api, comparison_retention_days=10.0)

    pairs = {(row.baseline_run_id, row.candidate_run_id) for row in rows(api)}
    assert pairs == {(pinned, other), (other, now), (pinned, now)}


def test_too_many_comparisons_lose_the_oldest_and_automatic_ones_last(api):
    runs = [run_of(api, items_of([1.0] * 5)) for _ in range(3)]
    wait_for_verdicts(api)
    make_older(api, 20)  # the automatic ones
    for alpha in (1, 2, 3):
        verdict(api, runs[2], alpha=alpha / 100)
    assert count(api, COMPARISONS) == 5

    tidy(api, max_comparison_cases=4 * 105)
    assert [row.automatic for row in rows(api)] == [True, True, None, None]
    tidy(api, max_comparison_cases=105)
    assert [(row.automatic, row.candidate_run_id) for row in rows(api)] == [(True, runs[2])]
    tidy(api, max_comparison_cases=0)
    assert (count(api, COMPARISONS), count(api, COMPARISON_CASES)) == (0, 0)
    assert diff(api, runs[0], runs[2]).json()["cases"]["totalElements"] == 5


def test_a_large_comparison_is_stored_in_parts_and_found_when_it_is_whole(api, monkeypatch):
    monkeypatch.setattr(stored_comparisons, "_PART_BYTES", 1)
    before, now = (run_of(api, items_of([1.0] * 250)) for _ in range(2))
    wait_for_verdicts(api)
    states = []
    store_part = stored_comparisons.store_part

    def note(connection, **arguments):
        store_part(connection, **arguments)
        states.append(connection.execute(select(COMPARISONS.c.state)).scalars().all()[-1])

    monkeypatch.setattr("dokimos.server._services.comparisons.comparisons.store_part", note)
    tidy(api, max_comparison_cases=0)
    pages = [diff(api, before, now, size=100, page=page).json()["cases"]["content"] for page in range(3)]

    assert [case["index"] for page in pages for case in page] == [f"item-{n}" for n in range(250)]
    assert states[:2] == ["", ""]
    assert states[2] != ""


def test_a_comparison_of_which_the_purge_took_cases_is_not_found_but_computed_again(api, monkeypatch):
    """Where the clock is set forward, one that is being stored looks like one that was left."""
    monkeypatch.setattr(stored_comparisons, "_PART_BYTES", 1)
    monkeypatch.setattr(comparison_retention, "PURGE_CHUNKS", 1)
    before, now = (run_of(api, items_of([1.0] * 250)) for _ in range(2))
    wait_for_verdicts(api)
    tidy(api, max_comparison_cases=0)
    store_part, stored = stored_comparisons.store_part, []

    def store_late(connection, **arguments):
        if len(stored) == 1:
            connection.execute(update(COMPARISONS).values(created_at=COMPARISONS.c.created_at - DAY))
            assert comparison_retention.purge_comparisons(connection) == 1
        stored.append(arguments["part"])
        store_part(connection, **arguments)

    monkeypatch.setattr("dokimos.server._services.comparisons.comparisons.store_part", store_late)
    refused = diff(api, before, now)
    assert refused.status_code == 503
    assert "given up" in refused.json()["message"]
    assert diff(api, before, now, size=250).json()["cases"]["numberOfElements"] == 250


def test_a_comparison_whose_cases_were_lost_is_an_error_and_never_read_for_ever(api):
    before, now = (run_of(api, items_of([1.0] * 5)) for _ in range(2))
    wait_for_verdicts(api)
    write(api, lambda c: c.execute(delete(COMPARISON_CASES)).rowcount)

    assert diff(api, before, now).status_code == 503


def test_what_a_server_left_unfinished_is_not_found_and_goes(api):
    before, now = (run_of(api, items_of([1.0] * 5)) for _ in range(2))
    wait_for_verdicts(api)
    (row,) = rows(api)
    left = {**row._mapping, "id": before, "state": "", "configuration": "left"}
    write(api, lambda c: c.execute(insert(COMPARISONS).values(left)))
    cases = {"comparison_id": before, "chunk": 0, "lines": "x"}
    write(api, lambda c: c.execute(insert(COMPARISON_CASES).values(cases)))

    tidy(api)
    assert count(api, COMPARISONS) == 2  # it may be under way
    make_older(api, 1, state="")
    tidy(api)

    assert [kept.id for kept in rows(api)] == [row.id]
    assert count(api, COMPARISON_CASES) == 1
    assert diff(api, before, now).status_code == 200


def test_a_comparison_that_goes_while_it_is_read_is_computed_again(api):
    before, now = (run_of(api, items_of([1.0] * 5)) for _ in range(2))
    wait_for_verdicts(api)
    engine = engine_of(api)
    compare, asked = engine.compare, []

    async def compare_and_lose(*arguments):
        found = await compare(*arguments)
        asked.append(found)
        if len(asked) == 1:
            await expire(api.app.state.database, replace(api.app.state.settings, max_comparison_cases=0))
            await purge(api.app.state.database)
        return found

    engine.compare = compare_and_lose
    answer = diff(api, before, now).json()

    assert answer["cases"]["numberOfElements"] == 5
    assert len(asked) == 2


def test_comparisons_of_a_deleted_run_go_with_it_in_small_steps(api, monkeypatch):
    monkeypatch.setattr(comparison_retention, "PURGE_CHUNKS", 1)
    before, now = (run_of(api, items_of([1.0] * 250)) for _ in range(2))
    wait_for_verdicts(api)
    assert count(api, COMPARISON_CASES) == 3

    api.delete(f"/api/v1/runs/{before}")
    tidy(api)

    assert (count(api, COMPARISONS), count(api, COMPARISON_CASES)) == (0, 0)
    assert api.get(f"/api/v1/runs/{now}").status_code == 200


def test_a_process_that_took_much_memory_ends_after_its_answer(serve):
    api = serve(comparison_memory_bytes=128 * 2**20)
    before, now = (run_of(api, items_of([1.0] * 20)) for _ in range(2))
    wait_for_verdicts(api)
    process = process_of(api)
    assert process.pid is None

    assert verdict(api, now, alpha=0.01)["status"] == "PASS"
    assert process.pid is None
    assert diff(api, before, now).status_code == 200


def test_runs_too_large_for_the_memory_are_refused_and_the_next_pair_is_compared(serve):
    api = serve(comparison_memory_bytes=90 * 2**20)
    before, now = start(api), start(api)
    for run in (before, now):
        send(api, run, [item({f"e{n}": 1.0 for n in range(6)}) for _ in range(10_000)])
        end(api, run, "CANCELLED")  # not compared yet
    small = run_of(api, items_of([1.0] * 5)), run_of(api, items_of([1.0] * 5))
    for run in (before, now):
        end(api, run)
    wait_for_verdicts(api)

    answer = diff(api, before, now)

    assert answer.status_code == 409
    assert "too large to be compared with the 90 MiB that DOKIMOS_COMPARISON_MEMORY_MIB" in answer.text
    assert diff(api, *small).status_code == 200


def test_a_comparison_that_is_stuck_is_ended_and_not_tried_again(api, monkeypatch):
    before, now = (run_of(api, items_of([1.0] * 20)) for _ in range(2))
    wait_for_verdicts(api)
    process = process_of(api)
    process._process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(comparison_process, "_MAX_SECONDS", 0.01)

    answer = gate(api, now, alpha=0.01)

    assert answer.status_code == 503
    assert "took more than" in answer.json()["message"]
    monkeypatch.undo()
    assert diff(api, before, now).status_code == 200


@pytest.mark.parametrize("column", [RUNS.c.completed_at, RUNS.c.last_activity_at], ids=lambda c: c.name)
def test_a_run_that_a_killed_server_left_without_a_verdict_gets_one(api, column):
    """By when it ended, or by when that was sent: a run may be sent long after it has ended."""
    first, now = (run_of(api, items_of([1.0] * 20)) for _ in range(2))
    wait_for_verdicts(api)
    write(api, lambda c: c.execute(update(RUNS).values(verdict=None)))
    hours = {RUNS.c.completed_at: 1000, RUNS.c.last_activity_at: 1000, column: 1}
    times = {each: each - count * 3_600_000_000 for each, count in hours.items()}
    ago = update(RUNS).where(RUNS.c.id == now).values(times)
    write(api, lambda c: c.execute(ago))
    engine = engine_of(api)

    async def work():
        async with maintain(api.app.state.database, api.app.state.settings, engine):
            while not engine._to_judge and engine._judging is None:
                await asyncio.sleep(0)
            await engine.wait_until_idle()

    api.portal.call(work)

    verdicts = dict(write(api, lambda c: c.execute(select(RUNS.c.id, RUNS.c.verdict)).all()))
    assert verdicts == {first: None, now: "PASS"}  # the first one ended just now: it may be under way


def test_a_run_that_was_quiet_for_too_long_gets_a_verdict(api):
    good = run_of(api, items_of([1.0] * 20))
    quiet = start(api)
    send(api, quiet, items_of([1.0] * 20))
    wait_for_verdicts(api)
    ago = update(RUNS).where(RUNS.c.id == quiet).values(last_activity_at=RUNS.c.started_at - 2 * DAY)
    write(api, lambda c: c.execute(ago))
    engine = engine_of(api)

    async def work():
        async with maintain(api.app.state.database, api.app.state.settings, engine):
            while not engine._to_judge and engine._judging is None:
                await asyncio.sleep(0)
            await engine.wait_until_idle()

    api.portal.call(work)

    verdicts = dict(write(api, lambda c: c.execute(select(RUNS.c.id, RUNS.c.verdict)).all()))
    assert verdicts == {good: "NO_BASELINE", quiet: "FAIL"}
    (shown,) = api.get("/api/v1/projects").json()[0]["verdicts"]
    assert (shown["runId"], shown["status"]) == (quiet, "FAIL")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system has no other figure")
def test_the_memory_of_the_process_that_compares_is_not_that_of_the_server():
    taken = b"x" * 300_000_000
    program = "from dokimos.server._workers import comparison_main as main; print(main._peak_memory())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 1_000_000 < int(done.stdout) < len(taken)
