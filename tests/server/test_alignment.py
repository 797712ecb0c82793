"""What people's annotations say about the evaluators of a run and about its pass rate."""

import pytest
from sqlalchemy import insert

from dokimos.server._db.ids import new_id
from dokimos.server._db.review_tables import REVIEWS
from dokimos.server._db.tables import ANNOTATIONS

ADMIN = {"Authorization": "Bearer admin-key"}
MISSING = "018f0000-0000-7000-8000-000000000000"


def score(name, success, **more):
    return {"name": name, "score": 1.0 if success else 0.0, "threshold": 0.5, "success": success, **more}


def start(api, items, headers=None):
    """Start a run with items, of which each is a list of scores; return its id and those of the items."""
    answer = api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}, headers=headers)
    run = answer.json()["runId"]
    bodies = [
        {"inputs": {"n": n}, "actualOutputs": {}, "expectedOutputs": {}, "evalResults": scores}
        for n, scores in enumerate(items)
    ]
    for first in range(0, len(bodies), 1_000):
        batch = {"items": bodies[first : first + 1_000]}
        assert api.post(f"/api/v1/runs/{run}/items", json=batch, headers=headers).status_code == 201
    return run, [item["id"] for item in read_items(api, run, headers)]


def read_items(api, run, headers=None):
    page, items = 0, []
    while True:
        answer = api.get(f"/api/v1/runs/{run}?size=2000&page={page}", headers=headers).json()["items"]
        items += answer["content"]
        page += 1
        if answer["last"]:
            return items


def annotate(api, run, item, verdict, headers=None):
    path = f"/api/v1/runs/{run}/items/{item}/annotation"
    answer = api.put(path, json={"verdict": verdict}, headers=headers)
    assert answer.status_code == 200, answer.text


def alignment(api, run, headers=None):
    answer = api.get(f"/api/v1/runs/{run}/alignment", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def rates(api, run, query="", headers=None):
    answer = api.get(f"/api/v1/runs/{run}/corrected-rates{query}", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def documented(evaluator):
    names = ("evaluatorName", "comparableCount", "agreedCount", "excludedUnsure", "alignmentRate")
    return [evaluator[name] for name in names]


def test_agreement_is_counted_for_each_evaluator_in_the_order_of_appearance(api):
    run, ids = start(
        api,
        [
            [score("faithful", True), score("correct", True)],
            [score("correct", False), score("faithful", True)],
            [score("correct", True)],
            [score("correct", True), score("late", False)],
            [],
            [score("unseen", True)],
        ],
    )
    for item, verdict in zip(ids, ["CORRECT", "INCORRECT", "INCORRECT", "UNSURE", "CORRECT"], strict=False):
        annotate(api, run, item, verdict)
    answer = alignment(api, run)

    assert answer["annotatedItems"] == 4  # the item without a score does not count
    assert [documented(each) for each in answer["evaluators"]] == [
        ["faithful", 2, 1, 0, 0.5],
        ["correct", 3, 2, 1, pytest.approx(2 / 3)],
        ["late", 0, 0, 1, None],
    ]
    correct, late = answer["evaluators"][1], answer["evaluators"][2]
    assert correct["confusion"] == {
        "passedBoth": 1,
        "passedByJudgeOnly": 1,
        "passedByPeopleOnly": 0,
        "failedBoth": 1,
    }
    assert correct["kappa"] == pytest.approx(0.4)
    assert correct["kappaInterval"]["low"] < 0.4 < correct["kappaInterval"]["high"]
    assert correct["sensitivity"] == {"value": 1.0, "low": pytest.approx(0.025), "high": 1.0}
    assert correct["specificity"]["value"] == 0.5
    assert late["kappa"] is late["sensitivity"] is late["alignmentInterval"] is None


def test_a_run_without_annotations_or_items_has_no_agreement(api):
    run, _ = start(api, [[score("correct", True)]])
    empty, _ = start(api, [])
    for each in (run, empty):
        nothing = {"annotatedItems": 0, "evaluators": [], "reviewers": NOBODY, "labels": []}
        assert alignment(api, each) == nothing
        answer = rates(api, each)
        assert (answer["annotatedItems"], answer["evaluators"]) == (0, [])
        assert answer["item"]["ofItems"] is None
        assert answer["item"]["reason"] == "5 labels are needed, and there are 0."


def test_a_score_without_a_verdict_is_not_compared(api):
    unjudged = {"name": "style", "score": 0.4, "success": None}
    scores = [[unjudged, score("correct", True)], [score("style", True), score("correct", True)]] * 5
    run, ids = start(api, scores)
    for item in ids:
        annotate(api, run, item, "CORRECT")
    style, correct = alignment(api, run)["evaluators"]
    assert documented(style) == ["style", 5, 5, 0, 1.0]
    assert documented(correct) == ["correct", 10, 10, 0, 1.0]

    of_style = rates(api, run)["evaluators"][0]
    assert (of_style["judgedCount"], of_style["judgedPassRate"]) == (5, 1.0)
    assert of_style["ofItems"]["value"] == of_style["ofItems"]["low"] == 1.0


def test_a_score_without_a_verdict_is_no_failure_where_nobody_annotated_its_item(api):
    unjudged = {"name": "style", "score": 0.4, "success": None}
    run, ids = start(api, [[score("style", True)]] * 10 + [[unjudged]] * 4)
    for item in ids[:10]:
        annotate(api, run, item, "CORRECT")
    [style] = rates(api, run)["evaluators"]
    assert (style["judgedCount"], style["judgedPassRate"]) == (10, 1.0)
    assert (style["ofItems"]["value"], style["ofItems"]["low"], style["reason"]) == (1.0, 1.0, None)


def test_an_evaluator_that_agrees_with_few_failures_is_not_said_to_guess(api):
    verdicts = [(True, True)] * 22 + [(False, False), (True, False), (False, True)]
    run, ids = start(api, [[score("correct", judge)] for judge, _ in verdicts])
    for item, (_, person) in zip(ids, verdicts, strict=True):
        annotate(api, run, item, "CORRECT" if person else "INCORRECT")
    [correct] = alignment(api, run)["evaluators"]
    assert correct["kappaInterval"]["low"] < 0 < 0.4 < correct["kappa"]
    assert correct["warning"]["code"] == "TOO_FEW_LABELS"
    assert "label more items" in correct["warning"]["message"]


def test_an_evaluator_of_another_question_is_warned_of(api):
    items = [
        [score("Latency", n % 2 == 0), score("coin", n % 2 == 0), score("correct", n < 25)] for n in range(40)
    ]
    run, ids = start(api, items)
    for n, item in enumerate(ids):
        annotate(api, run, item, "CORRECT" if n < 20 else "INCORRECT")
    warnings = {
        each["evaluatorName"]: each["warning"] and each["warning"]["code"]
        for each in alignment(api, run)["evaluators"]
    }
    assert warnings == {"Latency": "OTHER_QUESTION", "coin": "NO_BETTER_THAN_CHANCE", "correct": None}


@pytest.mark.parametrize("name", ["PIILeakage", "pii-leakage", "PII Leakage"])
def test_such_an_evaluator_is_known_by_any_spelling_of_its_name(api, name):
    run, [item] = start(api, [[score(name, True)]])
    annotate(api, run, item, "CORRECT")
    assert alignment(api, run)["evaluators"][0]["warning"]["code"] == "OTHER_QUESTION"


def test_the_pass_rate_is_corrected_by_labels(api):
    # Of 100 items the judge passes 80, of which people fail a quarter.
    run, ids = start(api, [[score("correct", n % 5 != 0)] for n in range(100)])
    for n in range(40):
        annotate(api, run, ids[n], "CORRECT" if n % 5 and n % 4 else "INCORRECT")
    annotate(api, run, ids[40], "UNSURE")
    answer = rates(api, run, "?labels=all&halfWidth=0.05")

    assert (answer["halfWidth"], answer["labels"]) == (0.05, "all")
    assert (answer["annotatedItems"], answer["unsureItems"]) == (41, 1)
    [correct] = answer["evaluators"]
    assert (correct["judgedCount"], correct["judgedPassRate"]) == (100, 0.8)
    assert (correct["labelCount"], correct["chosenLabelCount"], correct["reason"]) == (40, 0, None)
    estimate = correct["ofItems"]
    assert estimate["value"] == pytest.approx(0.8 * 24 / 32)
    assert 0.24 < estimate["low"] < 0.6 < estimate["high"] < 0.8
    assert estimate["labelOnly"]["low"] <= estimate["low"]
    assert 0 < estimate["labelsNeeded"] < 60
    further = correct["ofFurtherItems"]
    assert further["low"] < estimate["low"] < estimate["high"] < further["high"]
    assert further["labelsNeeded"] is None  # 100 items do not say it of others that well
    assert {**answer["item"], "evaluatorName": "correct"} == correct  # its only evaluator decides on an item


def test_a_wide_enough_interval_needs_no_more_labels(api):
    run, ids = start(api, [[score("correct", True)] for _ in range(30)])
    for item in ids[:20]:
        annotate(api, run, item, "CORRECT")
    assert rates(api, run, "?labels=all&halfWidth=0.3")["item"]["ofItems"]["labelsNeeded"] == 0


def test_a_run_whose_items_are_all_labelled_is_certain_whoever_chose_them(api):
    run, ids = start(api, [[score("correct", n % 2 == 0)] for n in range(8)])
    for n, item in enumerate(ids):
        annotate(api, run, item, "CORRECT" if n < 6 else "INCORRECT")
    estimate = rates(api, run)["item"]["ofItems"]
    assert (estimate["value"], estimate["low"], estimate["high"], estimate["labelsNeeded"]) == (0.75,) * 3 + (
        0,
    )


def test_labels_that_were_not_picked_at_random_give_no_rate_unless_the_caller_says_so(api):
    run, ids = start(api, [[score("correct", True)] for _ in range(30)])
    for item in ids[:10]:
        annotate(api, run, item, "CORRECT")
    refused = rates(api, run)["item"]
    assert (refused["ofItems"], refused["labelCount"], refused["chosenLabelCount"]) == (None, 0, 10)
    assert "labels=all" in refused["reason"]
    assert rates(api, run, "?labels=all")["item"]["ofItems"]["value"] == 1.0


def test_an_evaluator_with_several_scores_of_an_item_has_no_corrected_rate(api):
    run, ids = start(api, [[score("turn", True), score("turn", False)] for _ in range(8)])
    for item in ids:
        annotate(api, run, item, "CORRECT")
    assert "several scores" in rates(api, run)["evaluators"][0]["reason"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/api/v1/runs/{MISSING}/alignment", 404),
        (f"/api/v1/runs/{MISSING}/corrected-rates", 404),
        ("/api/v1/runs/no/alignment", 400),
        (f"/api/v1/runs/{MISSING}/corrected-rates?halfWidth=0", 400),
        (f"/api/v1/runs/{MISSING}/corrected-rates?halfWidth=x", 400),
        (f"/api/v1/runs/{MISSING}/corrected-rates?labels=some", 400),
    ],
)
def test_what_cannot_be_answered_is_refused(api, path, status):
    assert api.get(path).status_code == status


def test_a_deleted_run_has_no_agreement(api):
    run, [item] = start(api, [[score("correct", True)]])
    annotate(api, run, item, "CORRECT")
    assert api.delete(f"/api/v1/runs/{run}").status_code == 204
    assert api.get(f"/api/v1/runs/{run}/alignment").status_code == 404


def test_annotations_of_a_tenant_count_for_nobody_else(serve):
    api = serve(api_key="admin-key")
    run, ids = start(api, [[score("correct", True)] for _ in range(6)], ADMIN)
    keys = {}
    for tenant in ("a", "b"):
        body = {"name": tenant, "role": "EDITOR", "tenantId": tenant}
        key = api.post("/api/v1/api-keys", json=body, headers=ADMIN).json()["key"]
        keys[tenant] = {"Authorization": f"Bearer {key}"}
    for item in ids:
        annotate(api, run, item, "INCORRECT", keys["a"])
    annotate(api, run, ids[0], "CORRECT", keys["b"])

    assert documented(alignment(api, run, keys["a"])["evaluators"][0]) == ["correct", 6, 0, 0, 0.0]
    assert documented(alignment(api, run, keys["b"])["evaluators"][0]) == ["correct", 1, 1, 0, 1.0]
    assert rates(api, run, headers=keys["a"])["item"]["ofItems"]["value"] == 0.0
    assert rates(api, run, headers=keys["b"])["item"]["ofItems"] is None


NOBODY = {"itemCount": 0, "reviewerCount": 0, "alpha": None, "alphaInterval": None, "pairs": []}


def store_reviews(api, run, reviews):
    """Store reviews with their annotations in one transaction: ten thousand requests would take minutes.

    Each is the item, the verdict, the reviewer, and whether chance chose the item; None for an unclaimed one.
    """
    project = api.get("/api/v1/projects").json()[0]["id"]
    moments = range(1, len(reviews) + 1)
    rows = [
        {
            "id": new_id(),
            "item_id": item,
            "run_id": run,
            "project_id": project,
            "tenant_id": "",
            "reviewer": reviewer,
            "verdict": verdict,
            "sampled": sampled,
            "created_at": moment,
            "updated_at": moment,
        }
        for moment, (item, verdict, reviewer, sampled) in zip(moments, reviews, strict=True)
    ]
    shared = ("item_id", "tenant_id", "verdict", "created_at", "updated_at")
    latest = {
        row["item_id"]: {name: row[name] for name in shared} | {"id": new_id(), "created_by": row["reviewer"]}
        for row in rows
    }

    def store(connection):
        connection.execute(insert(REVIEWS), rows)
        connection.execute(insert(ANNOTATIONS), list(latest.values()))

    async def write():
        await api.app.state.database.write(store)

    api.portal.call(write)


def test_random_labels_of_the_queue_correct_the_rate_and_chosen_ones_do_not_bias_it(api):
    run, ids = start(api, [[score("correct", n % 10 != 0)] for n in range(200)])
    chosen = [(item, "INCORRECT", "ann", False) for item in ids[:30]]
    picked = [(item, "CORRECT", "ann", True) for item in ids[100:140]]
    store_reviews(api, run, [*chosen, *picked])
    item = rates(api, run)["item"]

    assert (item["labelCount"], item["chosenLabelCount"], item["reason"]) == (40, 30, None)
    assert item["ofItems"]["high"] == pytest.approx(170 / 200)
    assert item["ofItems"]["value"] > 0.8
    assert item["ofFurtherItems"] is None
    assert rates(api, run, "?labels=all")["item"]["ofItems"]["high"] < 0.8  # biased by those that were chosen


def test_no_more_labels_are_asked_for_than_items_have_none(api):
    run, ids = start(api, [[score("correct", n % 2 == 0)] for n in range(60)])
    reviews = [(item, ("CORRECT", "INCORRECT")[n % 2], "ann", True) for n, item in enumerate(ids[:10])]
    reviews += [(item, "INCORRECT", "ann", False) for item in ids[10:52]]
    reviews = [
        (item, "INCORRECT" if n % 3 else "CORRECT", "ann", n < 10) for n, (item, *_) in enumerate(reviews)
    ]
    store_reviews(api, run, reviews)
    assert rates(api, run, "?halfWidth=0.001")["item"]["ofItems"]["labelsNeeded"] == 8


def test_reviewers_are_compared_with_one_another(api):
    run, ids = start(api, [[score("correct", True)] for _ in range(30)])
    verdicts = ["CORRECT" if n % 3 else "INCORRECT" for n in range(30)]
    reviews = [(item, verdict, "ann", None) for item, verdict in zip(ids, verdicts, strict=True)]
    reviews += [(item, verdict, "bob", None) for item, verdict in zip(ids[:20], verdicts, strict=False)]
    reviews += [(ids[20], "INCORRECT", "bob", None), (ids[0], "UNSURE", "eve", None)]
    reviews += [(ids[1], "INCORRECT", "eve", None)]
    store_reviews(api, run, reviews)
    found = alignment(api, run)["reviewers"]

    assert (found["itemCount"], found["reviewerCount"]) == (21, 3)
    assert found["alphaInterval"]["low"] < found["alpha"] < found["alphaInterval"]["high"]
    first, *others = found["pairs"]
    assert (first["reviewers"], first["itemCount"]) == (["ann", "bob"], 21)
    assert first["agreement"]["value"] == pytest.approx(20 / 21)
    assert first["kappaInterval"]["low"] < first["kappa"] < 1
    assert [(pair["reviewers"], pair["itemCount"]) for pair in others] == [
        (["ann", "eve"], 1),
        (["bob", "eve"], 1),
    ]


def test_who_reviews_blindly_sees_no_verdict_of_others_before_the_own_one(serve):
    api = serve(api_key="admin-key")
    run, ids = start(api, [[score("correct", True)] for _ in range(3)], ADMIN)
    body = {"name": "eve", "role": "EDITOR"}
    eve = {"Authorization": f"Bearer {api.post('/api/v1/api-keys', json=body, headers=ADMIN).json()['key']}"}
    settings = api.patch("/api/v1/projects/chat/settings", json={"blindReview": True}, headers=ADMIN)
    assert settings.status_code == 200, settings.text
    for item in ids:
        annotate(api, run, item, "INCORRECT", ADMIN)
    annotate(api, run, ids[0], "CORRECT", eve)

    assert alignment(api, run, eve)["annotatedItems"] == 1
    assert alignment(api, run, ADMIN)["annotatedItems"] == 3
    assert rates(api, run, headers=eve)["annotatedItems"] == 1


def test_ten_thousand_annotated_items_are_answered(api):
    """Each within the time that a read may take."""
    run, ids = start(api, [[score("correct", n % 10 != 0), score("b", True)] for n in range(10_000)])
    store_reviews(api, run, [(item, "CORRECT", "ann", None) for item in ids])
    correct, _ = alignment(api, run)["evaluators"]
    assert documented(correct)[1:] == [10_000, 9_000, 0, 0.9]
    assert rates(api, run)["item"]["ofItems"]["value"] == 1.0
