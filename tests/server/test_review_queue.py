"""The review queue: what waits, in which order, and what leaves it."""

import time
from functools import partial
from random import Random

import pytest
from sqlalchemy import event, text, update
from tests.server.test_access import bearer, make_key
from tests.server.test_hostile_bodies import least_allocated

from dokimos.server._db.database import Lane
from dokimos.server._db.tables import ITEMS, RUNS
from dokimos.server._services.accounts.principal import SYSTEM
from dokimos.server._services.reviews import review_queue
from dokimos.server._services.reviews.review_filter import QueueFilter
from dokimos.server._services.reviews.review_order import draw_items, informativeness
from dokimos.server._services.reviews.review_queue import Queue

ROOT = "/api/v1"
QUEUE = f"{ROOT}/review-queue"
DOCUMENTED = {
    "itemId", "runId", "experimentId", "experimentName", "projectName", "input", "expectedOutput",
    "actualOutput", "evalResults", "currentVerdict", "createdAt",
}  # fmt: skip


def score(name="exact", value=1.0, success=True, **rest):
    return {"name": name, "score": value, "success": success, **rest}


def item(number, *scores, **rest):
    return {
        "inputs": {"n": number},
        "expectedOutputs": {"a": number},
        "actualOutputs": {"a": -number},
        "evalResults": list(scores) or [score()],
        **rest,
    }


def start(api, *items, project="p", experiment="e", headers=None, **body):
    body = {"experimentName": experiment, **body}
    answer = api.post(f"{ROOT}/projects/{project}/runs", json=body, headers=headers)
    run = answer.json()["runId"]
    add(api, run, *items, headers=headers)
    return run


def add(api, run, *items, headers=None):
    if items:
        answer = api.post(f"{ROOT}/runs/{run}/items", json={"items": list(items)}, headers=headers)
        assert answer.status_code == 201, answer.text


def queue(api, headers=None, **query):
    answer = api.get(QUEUE, params=query, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def numbers(page):
    return [row["input"]["n"] for row in page["content"]]


def annotate(api, row, verdict="CORRECT", headers=None, **body):
    path = f"{ROOT}/runs/{row['runId']}/items/{row['itemId']}/annotation"
    answer = api.put(path, json={"verdict": verdict, **body}, headers=headers)
    assert answer.status_code == 200, answer.text


def forget(api, row, headers=None):
    path = f"{ROOT}/runs/{row['runId']}/items/{row['itemId']}/annotation"
    assert api.delete(path, headers=headers).status_code == 204


def write(api, statement):
    database = api.app.state.database
    api.portal.call(database.write, lambda connection: connection.execute(statement).rowcount)


def read(api, query):
    return api.portal.call(api.app.state.database.read, query, Lane.WORK)


def test_a_row_shows_what_a_person_needs_to_judge(api):
    run = start(api, item(1, score("exact", 0.5, False, threshold=0.7, reason="no")))
    [row] = queue(api)["content"]
    described = api.get(f"{ROOT}/runs/{run}").json()
    assert row.keys() >= DOCUMENTED
    assert row["runId"] == run
    assert (row["projectName"], row["experimentName"]) == ("p", "e")
    assert (row["ordinal"], row["repetition"]) == (0, 0)
    assert row["experimentId"] == described["experimentId"]
    assert (row["input"], row["expectedOutput"], row["actualOutput"]) == ({"n": 1}, {"a": 1}, {"a": -1})
    assert row["evalResults"] == described["items"]["content"][0]["evalResults"]
    assert row["currentVerdict"] is None
    assert row["sampled"] is False


def test_a_verdict_takes_an_item_out_and_unsure_leaves_it_in(api):
    start(api, *(item(n) for n in range(4)))
    rows = queue(api)["content"]
    annotate(api, rows[0], "CORRECT")
    annotate(api, rows[1], "INCORRECT")
    annotate(api, rows[2], "UNSURE")

    page = queue(api)
    assert numbers(page) == [2, 3]
    assert [row["currentVerdict"] for row in page["content"]] == ["UNSURE", None]
    assert (page["totalElements"], page["totalIsExact"]) == (2, True)

    forget(api, rows[0])
    annotate(api, rows[1], "UNSURE")
    assert numbers(queue(api)) == [0, 1, 2, 3]
    assert queue(api)["totalElements"] == 4


def test_the_oldest_come_first_across_runs_that_overlap(api):
    first = start(api, item(0), item(1))
    second = start(api, item(2))
    add(api, first, item(3))
    third = start(api, item(4))
    add(api, second, item(5))
    add(api, first, item(6))
    add(api, third, item(7))
    everything = list(range(8))
    assert numbers(queue(api)) == everything
    for size in (1, 3, 5):
        paged, walked, after = [], [], {}
        for page in range(8 // size + 1):
            paged += numbers(queue(api, size=size, page=page))
            rows = queue(api, size=size, **after)["content"]
            walked += [row["input"]["n"] for row in rows]
            after = {"after": rows[-1]["itemId"]} if rows else after
        assert paged == everything
        assert walked == everything
    page = queue(api, size=3, page=2)
    assert (page["totalElements"], page["totalPages"], page["last"]) == (8, 3, True)


def test_runs_that_are_decided_are_skipped_also_by_page_number(api):
    for run in range(6):
        start(api, *(item(run * 10 + n) for n in range(3)))
    rows = queue(api)["content"]
    for row in rows[:7]:
        annotate(api, row)
    left = [row["input"]["n"] for row in rows[7:]]
    assert numbers(queue(api)) == left
    assert [n for page in range(6) for n in numbers(queue(api, size=2, page=page))] == left


def test_a_project_an_experiment_or_a_run_narrows_the_queue(api):
    run = start(api, item(1))
    start(api, item(2), experiment="other")
    start(api, item(3), project="q")
    experiment = api.get(f"{ROOT}/runs/{run}").json()["experimentId"]
    assert numbers(queue(api)) == [1, 2, 3]
    assert numbers(queue(api, projectName="p")) == [1, 2]
    assert numbers(queue(api, experimentId=experiment)) == [1]
    assert numbers(queue(api, runId=run)) == [1]
    assert numbers(queue(api, runId=run, projectName="q")) == []
    assert queue(api, projectName="q")["totalElements"] == 1
    assert api.get(QUEUE, params={"projectName": "none"}).status_code == 404
    assert api.get(QUEUE, params={"runId": "x"}).status_code == 400


def test_what_is_deleted_waits_for_nobody(api):
    run, other = start(api, item(1)), start(api, item(2), project="q")
    row = queue(api)["content"][0]
    assert api.delete(f"{ROOT}/runs/{run}").status_code == 204
    assert numbers(queue(api)) == [2]
    path = f"{ROOT}/runs/{run}/items/{row['itemId']}/annotation"
    assert api.put(path, json={"verdict": "CORRECT"}).status_code == 404
    assert api.put(path.replace("annotation", "review"), json={"verdict": "CORRECT"}).status_code == 404
    assert api.delete(f"{ROOT}/projects/q").status_code == 204
    assert queue(api)["totalElements"] == 0
    assert other


def test_an_item_that_is_replaced_waits_again(api):
    run = start(api, item(1, ordinal=0), item(2, ordinal=1))
    rows = queue(api)["content"]
    for row in rows:
        annotate(api, row)
    add(api, run, item(3, ordinal=0))
    page = queue(api)
    assert numbers(page) == [3]
    assert page["totalElements"] == 1


def test_filters_say_which_items_are_worth_a_look(api):
    bad, good = score("exact", 0.0, False), score("style")
    start(
        api,
        item(0),
        item(1, bad),
        item(2, bad, good),
        item(3, bad, error="TimeoutError: 30s"),
        item(4, score("exact", 0.72, True, threshold=0.7)),
        item(5, score("grade", 62, True, threshold=60)),
        item(6, score("grade", 90, True, threshold=60)),
        evaluators=[{"name": "grade", "rangeLow": 0, "rangeHigh": 100}],
    )
    assert numbers(queue(api, outcome="failed")) == [1, 2]
    assert numbers(queue(api, outcome="errored")) == [3]
    assert numbers(queue(api, disagree=True)) == [2]
    assert numbers(queue(api, near=0.05)) == [4, 5]
    page = queue(api, outcome="failed", size=1)
    assert (page["totalElements"], page["totalIsExact"]) == (2, False)
    annotate(api, queue(api, outcome="failed")["content"][0])
    page = queue(api, outcome="failed")
    assert numbers(page) == [2]
    assert (page["totalElements"], page["totalIsExact"]) == (1, True)


def test_a_sample_is_always_the_same_share(api):
    start(api, *(item(n) for n in range(400)))
    chosen = numbers(queue(api, sample=0.25, size=2000))
    assert 50 < len(chosen) < 150
    assert numbers(queue(api, sample=0.25, size=2000)) == chosen
    assert set(numbers(queue(api, sample=0.1, size=2000))) < set(chosen)
    assert len(numbers(queue(api, sample=1, size=2000))) == 400
    row = queue(api, sample=0.25)["content"][0]
    assert (row["sampled"], row["selectionProbability"]) == (False, None)  # it is the oldest of them
    row = queue(api, sample=0.25, near=1)["content"]
    assert not any(each["sampled"] for each in row)


def test_the_most_informative_come_first_with_random_ones_among_them(api):
    bad, good = score("exact", 0.0, False), score("style")
    start(
        api,
        *(item(n) for n in range(60)),
        item(60, bad, good),
        item(61, score("exact", 0.7, True, threshold=0.7)),
    )
    page = queue(api, sort="informative", size=10)
    shown = page["content"]
    informative = [row["input"]["n"] for row in shown if not row["sampled"]]
    assert informative[:2] == [60, 61]
    drawn = [row for row in shown if row["sampled"]]
    assert 1 <= len(drawn) <= 2
    assert {row["selectionProbability"] for row in drawn} == {2 / 62}
    assert len({row["itemId"] for row in shown}) == len(shown) == 10
    assert page["totalElements"] == 62
    narrowed = queue(api, sort="informative", disagree=True)
    assert numbers(narrowed) == [60]
    assert narrowed["content"][0]["sampled"] is False


def test_each_item_is_drawn_equally_often(api):
    """However the runs differ in size, and whatever has been decided in them."""
    for size in (1, 3, 12):
        start(api, *(item(n) for n in range(size)))
    rows = queue(api)["content"]
    for row in rows[4:8]:
        annotate(api, row)
    counts = dict.fromkeys((row["itemId"] for row in queue(api)["content"]), 0)
    random = Random(7)

    def draw(connection):
        chosen = Queue(connection, SYSTEM, QueueFilter())
        for _ in range(600):
            [each] = draw_items(chosen, 1, random)
            counts[each.item_id] += 1
            assert (each.sampled, each.probability) == (True, 1 / 12)

    read(api, draw)
    assert len(counts) == 12
    assert sum(counts.values()) == 600
    # Chi-squared with 11 degrees of freedom is above 31.3 once in a thousand times.
    assert sum((count - 50) ** 2 / 50 for count in counts.values()) < 31.3


def test_places_of_a_run_are_found_from_its_closer_end_and_from_each_other(api, monkeypatch):
    run = start(api, *(item(n) for n in range(40)))
    rows = queue(api, size=40)["content"]
    annotate(api, rows[3])
    waiting = [row["itemId"] for row in rows[:3] + rows[4:]]
    skipped = []
    select_place = Queue._select_place

    def count_skipped(self, of_run, count, behind, *, is_backward):
        skipped.append(count)
        return select_place(self, of_run, count, behind, is_backward=is_backward)

    monkeypatch.setattr(Queue, "_select_place", count_skipped)

    def find(connection):
        chosen = Queue(connection, SYSTEM, QueueFilter())
        [of_run] = chosen.read_runs(ids=[run])
        for place in range(39):
            assert [each.item_id for each in chosen.read_places(of_run, [place])] == [waiting[place]]
        assert max(skipped) == 19
        skipped.clear()
        places = [38, 0, 17, 18, 25, 36, 25]
        found = {each.item_id for each in chosen.read_places(of_run, places)}
        assert found == {waiting[place] for place in places}
        assert sum(skipped) == 27

    read(api, find)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ((0, 0, 0, None), 0.2),
        ((1, 1, 1, None), 0.0),
        ((2, 2, 1, None), 0.5),
        ((2, 1, 1, None), 0.1),
        ((1, 1, 1, 0.0), 0.3),
        ((1, 1, 1, 0.1), 0.15),
        ((1, 1, 1, 5.0), 0.0),
    ],
)
def test_informativeness_is_what_the_documentation_says(scores, expected):
    assert informativeness(*scores) == pytest.approx(expected)


def test_the_order_counts_only_what_was_judged_and_each_range(api):
    start(
        api,
        item(0, score("a", 0.0, None), score("b", 1.0, True)),
        item(1, score("a", 0.0, False), score("b", 1.0, True)),
        item(2, score("grade", 60, True, threshold=55)),
        item(3, score("a", 0.6, True, threshold=0.5)),
        item(4, score("grade", 90, True, threshold=55)),
        evaluators=[{"name": "grade", "rangeLow": 0, "rangeHigh": 100}],
    )
    rows = queue(api, sort="informative")["content"]
    shown = [row["input"]["n"] for row in rows if not row["sampled"]]
    assert shown == [number for number in (1, 2, 3, 0, 4) if number in shown]


def test_scores_as_far_apart_as_numbers_can_be_are_listed(api):
    """The difference is beyond the largest number of the column, which PostgreSQL refuses to compute."""
    start(api, item(0, score("exact", 1.7e308, True, threshold=-1.7e308)), item(1, score(threshold=1.0)))
    assert numbers(queue(api, near=0.5)) == [1]
    assert numbers(queue(api, sort="informative", disagree=False, near=1)) == [1]
    assert len(queue(api, sort="informative")["content"]) == 2


def test_tenants_have_their_own_queues_of_a_shared_run(serve):
    api = serve(api_key="admin-key")
    admin = bearer("admin-key")
    ada, bob = (make_key(api, "EDITOR", tenant) for tenant in ("a", "b"))
    start(api, *(item(n) for n in range(4)), headers=admin)
    start(api, item(9), project="own", headers=ada)
    rows = queue(api, ada)["content"]
    assert [row["input"]["n"] for row in rows] == [0, 1, 2, 3, 9]
    annotate(api, rows[0], headers=ada)
    annotate(api, rows[1], headers=admin)
    annotate(api, rows[1], "UNSURE", headers=bob)
    annotate(api, rows[4], headers=ada)

    def check(who, left):
        page = queue(api, who)
        assert numbers(page) == left
        assert page["totalElements"] == len(left)

    check(ada, [2, 3])
    check(bob, [0, 1, 2, 3])  # who is unsure of what is decided for the others
    check(admin, [0, 2, 3])
    check(None, [0, 2, 3])
    annotate(api, rows[1], "UNSURE", headers=admin)
    check(ada, [1, 2, 3])
    check(bob, [0, 1, 2, 3])
    annotate(api, rows[1], "INCORRECT", headers=bob)
    check(bob, [0, 2, 3])


def test_what_an_earlier_server_annotates_meanwhile_is_not_shown(api):
    """While servers are replaced one by one, one that keeps no counts of reviews writes annotations."""
    start(api, item(1), item(2))
    annotate(api, queue(api)["content"][0])
    write(api, update(ITEMS).values(reviewed=None))
    write(api, update(RUNS).values(reviewed_count=0, reviewed_failed_count=0))
    assert numbers(queue(api)) == [2]


def test_pages_stay_fast_where_most_is_decided(api):
    """The index begins at what waits: what was decided before it is not read."""
    run = start(api)
    for part in range(10):
        add(api, run, *(item(part * 1000 + n) for n in range(1000)))
    write(api, update(ITEMS).where(ITEMS.c.ordinal < 9990).values(reviewed=True))
    write(api, update(RUNS).values(reviewed_count=9990))
    queue(api)
    started = time.process_time()
    page = queue(api)
    assert len(page["content"]) == page["totalElements"] == 10
    assert time.process_time() - started < 1


def test_pages_of_the_most_informative_that_a_filter_narrows_show_each_item_once(api):
    start(api, *(item(n, score("exact", 0.0, False), score("style")) for n in range(5)))
    pages = [queue(api, sort="informative", disagree=True, size=2, page=number) for number in range(3)]
    assert sorted(number for page in pages for number in numbers(page)) == list(range(5))
    assert [page["last"] for page in pages] == [False, False, True]
    assert [page["totalIsExact"] for page in pages] == [False] * 3
    after = pages[0]["content"][0]["itemId"]
    refused = api.get(QUEUE, params={"sort": "informative", "after": after})
    assert (refused.status_code, "after" in refused.json()["message"]) == (400, True)


def test_a_page_far_down_a_filtered_queue_is_refused(api):
    start(api, item(0))
    assert api.get(QUEUE, params={"sample": 1, "size": 2000, "page": 50}).status_code == 200
    refused = api.get(QUEUE, params={"sample": 1, "size": 2000, "page": 51})
    assert (refused.status_code, "after" in refused.json()["message"]) == (400, True)
    assert api.get(QUEUE, params={"size": 2000, "page": 51}).status_code == 200


@pytest.mark.parametrize("sort", ["createdAt", "informative"])
def test_the_total_past_the_end_of_a_filtered_queue_is_what_there_is(api, sort):
    start(api, item(0), *(item(n, score("exact", 0.0, False)) for n in range(1, 4)))
    for number in (2, 7):
        page = queue(api, outcome="failed", sort=sort, size=2, page=number)
        assert (numbers(page), page["totalElements"], page["totalPages"]) == ([], 3, 2)
        assert page["last"] is True
        assert page["totalIsExact"] is (sort == "createdAt")
    assert queue(api, outcome="errored", sort=sort, page=1)["totalElements"] == 0


def start_overlapping(api, count):
    """Start three runs, the items of which take turns, and one after them."""
    runs = [start(api) for _ in range(3)]
    for n in range(count):
        add(api, runs[n * n % 3], item(n))
    start(api, *(item(count + n) for n in range(count)))
    start(api, item(2 * count))
    return list(range(2 * count + 1))


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_what_is_skipped_a_few_items_at_a_time_is_skipped_once(api, monkeypatch, at_once):
    monkeypatch.setattr(review_queue, "_SKIPPED_AT_ONCE", at_once)
    everything = start_overlapping(api, 9)
    for query in ({}, {"sample": 1}):
        for size in (2, 3):
            pages = [queue(api, size=size, page=number, **query) for number in range(20 // size + 1)]
            assert [n for page in pages for n in numbers(page)] == everything
            assert pages[-1]["totalElements"] == len(everything)
    past = queue(api, size=2, page=50, sample=1)
    assert (numbers(past), past["totalElements"], past["totalIsExact"]) == ([], len(everything), True)


def test_a_run_without_more_items_is_not_searched_for_each_part_that_is_skipped(api, monkeypatch):
    monkeypatch.setattr(review_queue, "_SKIPPED_AT_ONCE", 2)
    early, late = start(api, item(0)), start(api)
    add(api, late, *(item(n) for n in range(1, 13)))
    searched = []
    read_run = Queue.read_run

    def note(self, run, limit, place=None, last=None):
        searched.append((run.id, last))
        return read_run(self, run, limit, place, last)

    monkeypatch.setattr(Queue, "read_run", note)
    assert numbers(queue(api, sample=1, size=1, page=12)) == [12]
    unbounded = [run for run, last in searched if last is None]
    assert (unbounded.count(early), unbounded.count(late)) == (1, 7)


def test_a_page_far_down_holds_few_of_the_items_before_it(api):
    first, second = start(api), start(api)
    for part in range(8):
        add(api, (first, second)[part % 2], *(item(part * 2000 + n) for n in range(2000)))
    for query in ({"sample": 1}, {}):
        assert numbers(queue(api, size=1, page=15_998, **query)) == [15_998]
        assert least_allocated(partial(queue, api, size=1, page=15_998, **query)) < 2_500_000


def test_postgresql_looks_annotations_up_by_item_in_any_plan(api):
    """A plan for any values guesses that few annotations match, and would read all of them for each item."""
    if api.app.state.database.dialect != "postgresql":
        pytest.skip("SQLite has no such plans")
    start(api, *(item(number) for number in range(2000)))
    copied = (
        "INSERT INTO annotations (item_id, tenant_id, id, verdict, created_by, created_at, updated_at) "
        "SELECT id, '', id, 'CORRECT', 'system', 0, 0 FROM items"
    )
    write(api, text(copied))
    write(api, text("ANALYZE items"))
    write(api, text("ANALYZE annotations"))
    statements = []

    def note(connection, cursor, statement, parameters, *_):
        if "items.reviewed IS NULL" in statement:
            statements.append((statement, parameters))

    def explain(connection):
        event.listen(connection, "before_cursor_execute", note)
        try:
            Queue(connection, SYSTEM, QueueFilter()).read(10)
        finally:
            event.remove(connection, "before_cursor_execute", note)
        [(statement, parameters)] = statements
        values = ", ".join(str(each) if isinstance(each, int) else f"'{each}'" for each in parameters)
        connection.exec_driver_sql("SET LOCAL plan_cache_mode = force_generic_plan")
        connection.exec_driver_sql(f"PREPARE page AS {statement}")
        return "\n".join(connection.exec_driver_sql(f"EXPLAIN EXECUTE page ({values})").scalars())

    plan = read(api, explain)
    assert "pk_annotations" in plan
    assert "Seq Scan on annotations" not in plan
