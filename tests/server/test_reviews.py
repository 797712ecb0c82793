"""Several reviewers: what each says, claims, assignments, blind reviews, history and undo."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import update
from tests.server.test_access import bearer, make_key
from tests.server.test_review_queue import QUEUE, ROOT, item, numbers, queue, start, write

from dokimos.server._db.review_tables import REVIEW_CHANGES, REVIEW_CLAIMS
from dokimos.server._services.reviews import review_claims
from dokimos.server._services.reviews.review_queue import Queue

ADMIN = bearer("admin-key")


@pytest.fixture
def keyed(serve):
    """A server with a key, and two reviewers."""
    api = serve(api_key="admin-key")
    api.ada, api.bob = make_key(api, "EDITOR"), make_key(api, "EDITOR")
    return api


def path_of(row, what="review"):
    return f"{ROOT}/runs/{row['runId']}/items/{row['itemId']}/{what}"


def review(api, row, who, verdict="CORRECT", **body):
    answer = api.put(path_of(row), json={"verdict": verdict, **body}, headers=who)
    assert answer.status_code == 200, answer.text
    return answer.json()


def claim(api, who, count=2, **body):
    answer = api.post(f"{QUEUE}/claim", json={"count": count, **body}, headers=who)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


def act(api, what, who, **body):
    return api.post(f"{QUEUE}/{what}", json=body, headers=who)


def annotation(api, row, who=ADMIN):
    answer = api.get(path_of(row, "annotation"), headers=who)
    return answer.json()["verdict"] if answer.status_code == 200 else None


def n(rows):
    return [row["input"]["n"] for row in rows]


def set_up(api, count=4, **settings):
    start(api, *(item(number) for number in range(count)), headers=ADMIN)
    assert api.patch(f"{ROOT}/projects/p/settings", json=settings, headers=ADMIN).status_code == 200
    return queue(api, ADMIN)["content"]


def expire(api):
    write(api, update(REVIEW_CLAIMS).values(expires_at=1))


def test_the_annotation_is_what_was_said_last(keyed):
    row = set_up(keyed)[0]
    review(keyed, row, keyed.ada, "CORRECT", note="fine")
    mine = review(keyed, row, keyed.bob, "INCORRECT", overriddenExpectedOutput={"a": 2**70})
    assert annotation(keyed, row) == "INCORRECT"
    assert mine["overriddenExpectedOutput"] == {"a": 2**70}
    rows = keyed.get(path_of(row, "reviews"), headers=ADMIN).json()
    assert [each["verdict"] for each in rows] == ["CORRECT", "INCORRECT"]
    assert rows[0]["note"] == "fine"
    assert rows[0]["reviewerName"] == "key"
    review(keyed, row, keyed.ada, "UNSURE")
    assert annotation(keyed, row) == "UNSURE"
    assert len(keyed.get(path_of(row, "reviews"), headers=ADMIN).json()) == 2
    assert row["itemId"] in {each["itemId"] for each in queue(keyed, ADMIN)["content"]}
    # The documented route is a review, too.
    keyed.put(path_of(row, "annotation"), json={"verdict": "CORRECT"}, headers=keyed.bob)
    assert [each["verdict"] for each in keyed.get(path_of(row, "reviews"), headers=ADMIN).json()] == [
        "UNSURE",
        "CORRECT",
    ]


def test_a_review_that_is_withdrawn_leaves_what_the_others_say(keyed):
    row = set_up(keyed)[0]
    review(keyed, row, keyed.ada, "CORRECT")
    review(keyed, row, keyed.bob, "INCORRECT")
    assert keyed.delete(path_of(row), headers=keyed.bob).status_code == 204
    assert annotation(keyed, row) == "CORRECT"
    assert keyed.delete(path_of(row), headers=keyed.bob).status_code == 204
    assert keyed.delete(path_of(row), headers=keyed.ada).status_code == 204
    assert annotation(keyed, row) is None
    assert queue(keyed, ADMIN)["totalElements"] == 4
    review(keyed, row, keyed.ada)
    review(keyed, row, keyed.bob)
    assert keyed.delete(path_of(row, "annotation"), headers=ADMIN).status_code == 204
    assert keyed.get(path_of(row, "reviews"), headers=ADMIN).json() == []


def test_undo_goes_back_step_by_step_and_only_through_the_own_changes(keyed):
    row = set_up(keyed)[0]
    undo = f"{path_of(row)}/undo"
    review(keyed, row, keyed.ada, "INCORRECT", note="\0", overriddenExpectedOutput={"a": 1e300})
    review(keyed, row, keyed.bob, "UNSURE")
    review(keyed, row, keyed.ada, "CORRECT")
    assert annotation(keyed, row) == "CORRECT"

    back = keyed.post(undo, headers=keyed.ada).json()["review"]
    assert (back["verdict"], back["note"], back["overriddenExpectedOutput"]) == (
        "INCORRECT",
        "\0",
        {"a": 1e300},
    )
    assert annotation(keyed, row) == "UNSURE"  # Bob's is later than what Ada has gone back to
    assert keyed.post(undo, headers=keyed.ada).json() == {"review": None}
    assert keyed.post(undo, headers=keyed.ada).status_code == 409
    assert annotation(keyed, row) == "UNSURE"
    assert keyed.post(undo, headers=keyed.bob).json() == {"review": None}
    assert annotation(keyed, row) is None
    changes = keyed.get(path_of(row, "review-changes"), headers=ADMIN).json()
    assert [(each["kind"], each["undone"]) for each in changes] == [
        ("GIVEN", True),
        ("GIVEN", True),
        ("GIVEN", True),
        ("UNDONE", False),
        ("UNDONE", False),
        ("UNDONE", False),
    ]
    assert changes[3]["before"]["verdict"] == "CORRECT"
    assert changes[3]["after"]["verdict"] == "INCORRECT"
    assert keyed.post(undo, headers=ADMIN).status_code == 409


def test_a_withdrawal_by_oneself_can_be_undone_and_one_by_another_cannot(keyed):
    row = set_up(keyed)[0]
    undo = f"{path_of(row)}/undo"
    review(keyed, row, keyed.ada, "INCORRECT")
    keyed.delete(path_of(row), headers=keyed.ada)
    assert keyed.post(undo, headers=keyed.ada).json()["review"]["verdict"] == "INCORRECT"
    keyed.delete(path_of(row, "annotation"), headers=ADMIN)
    assert keyed.post(undo, headers=keyed.ada).status_code == 409


def test_two_reviewers_never_get_the_same_item(keyed):
    set_up(keyed)
    assert n(claim(keyed, keyed.ada)) == [0, 1]
    assert n(claim(keyed, keyed.bob)) == [2, 3]
    assert claim(keyed, ADMIN) == []
    assert n(claim(keyed, keyed.ada)) == [0, 1]  # what she has not done yet
    expire(keyed)
    assert n(claim(keyed, ADMIN, 3)) == [0, 1, 2]


def test_what_is_reviewed_is_not_claimed_any_more(keyed):
    set_up(keyed)
    rows = claim(keyed, keyed.ada)
    review(keyed, rows[0], keyed.ada, "CORRECT")
    review(keyed, rows[1], keyed.ada, "UNSURE")
    assert n(claim(keyed, keyed.ada)) == [2, 3]  # she is not asked again what she is unsure of
    assert n(claim(keyed, keyed.bob)) == [1]


def test_claims_are_prolonged_and_given_back(keyed):
    set_up(keyed)
    ids = [row["itemId"] for row in claim(keyed, keyed.ada)]
    held = act(keyed, "heartbeat", keyed.ada, seconds=3600).json()
    assert sorted(held["itemIds"]) == sorted(ids)
    assert act(keyed, "heartbeat", keyed.bob).json()["itemIds"] == []
    shown = queue(keyed, ADMIN)["content"]
    assert [row["claim"] is not None for row in shown] == [True, True, False, False]
    assert act(keyed, "release", keyed.ada, itemIds=ids[:1]).json() == {"released": 1}
    assert n(claim(keyed, keyed.bob, 1)) == [0]
    expire(keyed)
    assert act(keyed, "heartbeat", keyed.ada).json()["itemIds"] == []
    assert act(keyed, "release", keyed.bob).json() == {"released": 1}


def test_many_who_claim_at_once_get_different_items(keyed):
    set_up(keyed, 40)
    who = [make_key(keyed, "EDITOR") for _ in range(8)]
    barrier = threading.Barrier(len(who))

    def run(headers):
        barrier.wait()
        return n(claim(keyed, headers, 5))

    with ThreadPoolExecutor(len(who)) as pool:
        got = list(pool.map(run, who))
    assert sorted(number for each in got for number in each) == list(range(40))


def test_two_who_review_one_item_at_once_are_both_heard(keyed):
    row = set_up(keyed)[0]
    barrier = threading.Barrier(2)

    def run(who):
        barrier.wait()
        for verdict in ("CORRECT", "UNSURE", "INCORRECT"):
            review(keyed, row, who, verdict)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, [keyed.ada, keyed.bob]))
    rows = keyed.get(path_of(row, "reviews"), headers=ADMIN).json()
    assert [each["verdict"] for each in rows] == ["INCORRECT"] * 2
    assert annotation(keyed, row) == "INCORRECT"
    assert queue(keyed, ADMIN)["totalElements"] == 3
    assert len(keyed.get(path_of(row, "review-changes"), headers=ADMIN).json()) == 6


def test_a_share_of_the_items_is_reviewed_by_two(keyed):
    set_up(keyed, reviewOverlap=1.0)
    for row in claim(keyed, keyed.ada, 2, projectName="p"):
        review(keyed, row, keyed.ada)
    second = claim(keyed, keyed.bob, 2, projectName="p")
    assert n(second) == [0, 2]  # half of what he asks for
    assert n(claim(keyed, ADMIN, 2, projectName="p")) == [1, 3]
    review(keyed, second[0], keyed.bob, "INCORRECT")
    expire(keyed)
    assert n(claim(keyed, ADMIN, 4, projectName="p")) == [1, 2, 3]  # two have reviewed the first one
    assert n(claim(keyed, keyed.ada, 4, projectName="p")) == []


def test_items_are_assigned_to_a_person(keyed):
    rows = set_up(keyed)
    bob = keyed.get(f"{ROOT}/session", headers=keyed.bob).json()["id"]
    ids = [row["itemId"] for row in rows[:2]]
    claim(keyed, keyed.ada, 1)
    assert act(keyed, "assign", ADMIN, itemIds=ids, reviewer=bob).status_code == 204
    assert numbers(queue(keyed, keyed.bob, assigned="me")) == [0, 1]
    assert numbers(queue(keyed, keyed.ada, assigned="me")) == []
    assert numbers(queue(keyed, keyed.ada, assigned="nobody")) == [2, 3]
    assert n(claim(keyed, keyed.ada, 4)) == [2, 3]
    assert n(claim(keyed, keyed.bob, 4)) == [0, 1]
    assert act(keyed, "release", keyed.bob).json() == {"released": 0}
    assert act(keyed, "assign", ADMIN, itemIds=ids[:1], reviewer=None).status_code == 204
    assert numbers(queue(keyed, keyed.bob, assigned="me")) == [1]
    refused = act(keyed, "assign", ADMIN, itemIds=ids, reviewer="nobody-at-all")
    assert refused.status_code == 404
    assert act(keyed, "assign", ADMIN, itemIds=[bob], reviewer=bob).status_code == 404


def test_blind_reviewers_see_nothing_before_they_have_spoken(keyed):
    rows = set_up(keyed, blindReview=True)
    row = rows[0]
    review(keyed, row, keyed.ada, "UNSURE", note="hm")
    run = f"{ROOT}/runs/{row['runId']}"

    def shown(who):
        return [
            annotation(keyed, row, who),
            keyed.get(run, headers=who).json()["items"]["content"][0]["annotation"] is not None,
            len(keyed.get(path_of(row, "reviews"), headers=who).json()),
            len(keyed.get(path_of(row, "review-changes"), headers=who).json()),
            queue(keyed, who)["content"][0]["currentVerdict"],
        ]

    assert shown(keyed.bob) == [None, False, 0, 0, None]
    assert shown(None) == [None, False, 0, 0, None]
    assert shown(ADMIN) == ["UNSURE", True, 1, 1, "UNSURE"]
    assert shown(keyed.ada) == ["UNSURE", True, 1, 1, "UNSURE"]
    review(keyed, row, keyed.bob, "UNSURE")
    assert shown(keyed.bob) == ["UNSURE", True, 2, 2, "UNSURE"]


def test_what_chance_chose_is_marked_in_the_review(keyed):
    set_up(keyed, 30, reviewRandomShare=0.5)
    rows = claim(keyed, keyed.ada, 10, order="informative", projectName="p")
    assert len(rows) == 10
    drawn = [row for row in rows if row["sampled"]]
    assert 1 <= len(drawn) <= 5
    assert {row["selectionProbability"] for row in drawn} == {5 / 30}
    again = claim(keyed, keyed.ada, 10, order="informative", projectName="p")
    assert {row["itemId"]: row["sampled"] for row in again} == {row["itemId"]: row["sampled"] for row in rows}
    for row in rows:
        given = review(keyed, row, keyed.ada)
        assert (given["sampled"], given["selectionProbability"]) == (
            row["sampled"],
            row["selectionProbability"],
        )
        changed = review(keyed, row, keyed.ada, "INCORRECT")
        assert changed["sampled"] == row["sampled"]
    unclaimed = queue(keyed, ADMIN)["content"][0]
    assert review(keyed, unclaimed, keyed.ada)["sampled"] is None


def test_a_viewer_and_a_stranger_review_nothing(keyed):
    row = set_up(keyed)[0]
    viewer, stranger = make_key(keyed, "VIEWER"), make_key(keyed, "NONE")
    for who, status in ((viewer, 403), (stranger, 403), (None, 401)):
        assert keyed.put(path_of(row), json={"verdict": "CORRECT"}, headers=who).status_code == status
        assert act(keyed, "claim", who).status_code == status
    assert keyed.get(path_of(row, "reviews"), headers=stranger).status_code == 404
    assert queue(keyed, stranger)["content"] == []


def test_reviews_and_claims_of_a_tenant_are_its_own(keyed):
    rows = set_up(keyed)
    ada, bob = (make_key(keyed, "EDITOR", tenant) for tenant in ("a", "b"))
    assert n(claim(keyed, ada)) == [0, 1]
    assert n(claim(keyed, bob)) == [0, 1]
    review(keyed, rows[0], ada, "INCORRECT", note="secret")
    assert keyed.get(path_of(rows[0], "reviews"), headers=bob).json() == []
    assert keyed.get(path_of(rows[0], "review-changes"), headers=bob).json() == []
    assert len(keyed.get(path_of(rows[0], "reviews"), headers=ADMIN).json()) == 1
    stranger = keyed.get(f"{ROOT}/session", headers=bob).json()["id"]
    assert act(keyed, "assign", ada, itemIds=[rows[1]["itemId"]], reviewer=stranger).status_code == 404


@pytest.mark.parametrize("order", ["createdAt", "informative"])
def test_a_share_that_a_filter_names_is_not_a_sample(keyed, order):
    set_up(keyed, 12)
    rows = claim(keyed, keyed.ada, 3, sample=1, order=order)
    given = [review(keyed, row, keyed.ada) for row in rows]
    assert [(each["sampled"], each["selectionProbability"]) for each in given] == [(False, None)] * 3


def test_second_opinions_that_were_claimed_come_again(keyed):
    set_up(keyed, reviewOverlap=1.0)
    for row in claim(keyed, keyed.ada, 2, projectName="p"):
        review(keyed, row, keyed.ada)
    first = n(claim(keyed, keyed.bob, 2, projectName="p"))
    assert sorted(first) == [0, 2]
    assert sorted(n(claim(keyed, keyed.bob, 2, projectName="p"))) == first
    assert n(claim(keyed, ADMIN, 2, projectName="p")) == [1, 3]


def test_what_chance_chose_stays_marked_when_a_change_is_undone(keyed):
    set_up(keyed, 30, reviewRandomShare=1.0)
    row = claim(keyed, keyed.ada, 1, order="informative", projectName="p")[0]
    chance = (True, 1 / 30)
    undo = f"{path_of(row)}/undo"

    def chance_of(said):
        return said["sampled"], said["selectionProbability"]

    assert chance_of(review(keyed, row, keyed.ada)) == chance
    review(keyed, row, keyed.ada, "INCORRECT")
    assert chance_of(keyed.post(undo, headers=keyed.ada).json()["review"]) == chance
    keyed.delete(path_of(row), headers=keyed.ada)
    assert chance_of(keyed.post(undo, headers=keyed.ada).json()["review"]) == chance
    assert keyed.post(undo, headers=keyed.ada).json()["review"] is None
    assert chance_of(review(keyed, row, keyed.ada)) == chance


def test_a_history_of_an_earlier_version_can_be_undone(keyed):
    row = set_up(keyed)[0]
    review(keyed, row, keyed.ada, "INCORRECT")
    review(keyed, row, keyed.ada, "CORRECT")
    old = '["INCORRECT", null, "\\"hm\\"", null, 7]'
    write(keyed, update(REVIEW_CHANGES).where(REVIEW_CHANGES.c.before.is_not(None)).values(before=old))
    changes = keyed.get(path_of(row, "review-changes"), headers=ADMIN).json()
    assert changes[1]["before"]["note"] == "hm"
    back = keyed.post(f"{path_of(row)}/undo", headers=keyed.ada).json()["review"]
    assert (back["verdict"], back["note"], back["sampled"]) == ("INCORRECT", "hm", None)


def test_own_claims_come_again_without_the_queue_being_read(keyed, monkeypatch):
    set_up(keyed)
    assert n(claim(keyed, keyed.ada)) == [0, 1]

    def read(*_, **__):
        raise AssertionError("the whole queue is read")

    monkeypatch.setattr(Queue, "read", read)
    assert n(claim(keyed, keyed.ada)) == [0, 1]
    assert n(claim(keyed, keyed.ada, 1, projectName="p")) == [0]
    assert n(claim(keyed, keyed.ada, 2, assigned="me")) == [0, 1]


def test_an_editor_of_one_project_claims_behind_the_items_of_others(keyed):
    set_up(keyed, 25)
    start(keyed, item(99), project="q", headers=ADMIN)
    viewer = make_key(keyed, "VIEWER")
    member = keyed.get(f"{ROOT}/session", headers=viewer).json()["id"]
    path = f"{ROOT}/projects/q/members/{member}"
    assert keyed.put(path, json={"role": "EDITOR"}, headers=ADMIN).status_code in (200, 201)
    assert n(claim(keyed, viewer, 1)) == [99]
    refused = act(keyed, "claim", viewer, projectName="p")
    assert refused.status_code == 403


def test_the_queue_is_searched_before_the_write_that_claims(keyed, monkeypatch):
    """A filter may look at all items, for which the writes of others must not wait."""
    set_up(keyed)
    database = keyed.app.state.database
    is_writing = []
    write, read = database.write, Queue.read

    async def note(change, **options):
        def run(connection):
            is_writing.append(True)
            try:
                return change(connection)
            finally:
                is_writing.pop()

        return await write(run, **options)

    def search(*arguments, **options):
        assert not is_writing
        return read(*arguments, **options)

    monkeypatch.setattr(database, "write", note)
    monkeypatch.setattr(Queue, "read", search)
    assert n(claim(keyed, keyed.ada, near=1)) == []
    assert n(claim(keyed, keyed.ada, sample=1)) == [0, 1]


def test_what_was_done_since_the_search_is_not_claimed(keyed, monkeypatch):
    """One item is reviewed, one claimed and one deleted with its run; the next ones are found instead."""
    rows = set_up(keyed)
    start(keyed, item(9), experiment="gone", headers=ADMIN)
    gone = queue(keyed, ADMIN)["content"][-1]
    search = review_claims._search
    found = []

    def note(*arguments, **options):
        found.append(search(*arguments, **options))
        return found[-1]

    with monkeypatch.context() as patch:
        patch.setattr(review_claims, "_search", note)
        claim(keyed, keyed.ada, 5)
    act(keyed, "release", keyed.ada)
    review(keyed, rows[0], keyed.bob)
    assert n(claim(keyed, keyed.bob, 1)) == [1]
    assert keyed.delete(f"{ROOT}/runs/{gone['runId']}", headers=ADMIN).status_code == 204

    def find_stale(*arguments, **options):
        return found.pop() if found else search(*arguments, **options)

    monkeypatch.setattr(review_claims, "_search", find_stale)
    assert n(claim(keyed, keyed.ada, 5)) == [2, 3]


def test_an_annotation_of_a_deleted_run_is_refused(keyed):
    row = set_up(keyed)[0]
    review(keyed, row, keyed.ada)
    assert keyed.delete(f"{ROOT}/runs/{row['runId']}", headers=ADMIN).status_code == 204
    for what in ("review", "annotation"):
        path = path_of(row, what)
        assert keyed.put(path, json={"verdict": "CORRECT"}, headers=keyed.ada).status_code == 404
        assert keyed.delete(path, headers=keyed.ada).status_code == 404
    assert keyed.post(f"{path_of(row)}/undo", headers=keyed.ada).status_code == 404
    assert claim(keyed, keyed.bob) == []
