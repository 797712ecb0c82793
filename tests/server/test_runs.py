"""Runs over HTTP: started, filled, read, ended."""

import json

import pytest

from dokimos.server._api.http.json_text import encode_json

ITEM = {
    "inputs": {"question": "What is the capital of France?"},
    "expectedOutputs": {"answer": "Paris"},
    "actualOutputs": {"answer": "Paris"},
    "metadata": {"category": "geography"},
    "evalResults": [
        {"name": "exact-match", "score": 1.0, "threshold": 1.0, "success": True, "reason": "Equal."},
    ],
    "success": True,
}


def start(api, project="chat", experiment="qa", headers=None, **body):
    answer = api.post(
        f"/api/v1/projects/{project}/runs", json={"experimentName": experiment, **body}, headers=headers
    )
    assert answer.status_code == 201, answer.text
    return answer.json()["runId"]


def send(api, run, *items, headers=None):
    return api.post(f"/api/v1/runs/{run}/items", json={"items": list(items)}, headers=headers)


def read(api, run, **query):
    answer = api.get(f"/api/v1/runs/{run}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_run_is_created_filled_and_ended(api):
    run = start(api, metadata={"model": "small"})

    assert send(api, run, ITEM, {**ITEM, "tokensIn": 10, "costUsd": 0.25, "latencyMs": 40}).json() == {
        "status": "ok"
    }
    assert api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS"}).json() == {"status": "updated"}

    details = read(api, run)
    assert details["projectName"] == "chat"
    assert details["experimentName"] == "qa"
    assert details["status"] == "SUCCESS"
    assert details["config"] == {"model": "small"}
    assert (details["totalItems"], details["passedItems"], details["passRate"]) == (2, 2, 1.0)
    assert (details["totalTokensIn"], details["totalTokensOut"], details["totalCostUsd"]) == (10, None, 0.25)
    assert (details["avgLatencyMs"], details["pricedItemCount"], details["tokenizedItemCount"]) == (40, 1, 1)
    assert details["completedAt"] >= details["startedAt"]
    first = details["items"]["content"][0]
    assert first["input"] == ITEM["inputs"]
    assert first["expectedOutput"] == ITEM["expectedOutputs"]
    assert first["actualOutput"] == ITEM["actualOutputs"]
    assert first["metadata"] == ITEM["metadata"]
    assert first["annotation"] is None
    (score,) = first["evalResults"]
    assert score["evaluatorName"] == "exact-match"
    assert (score["score"], score["threshold"], score["success"], score["reason"]) == (
        1.0,
        1.0,
        True,
        "Equal.",
    )


def test_an_item_without_scores_has_not_passed_and_counts_as_not_judged(api):
    run = start(api)

    send(api, run, ITEM, {**ITEM, "evalResults": []})

    details = read(api, run)
    assert (details["totalItems"], details["passedItems"], details["judgedCount"]) == (2, 1, 1)


def test_pages_have_the_documented_envelope(api):
    run = start(api)
    send(api, run, *({**ITEM, "inputs": {"number": number}} for number in range(5)))

    page = read(api, run, page=1, size=2)["items"]

    assert [item["input"]["number"] for item in page.pop("content")] == [2, 3]
    assert page == {
        "number": 1,
        "size": 2,
        "totalElements": 5,
        "totalPages": 3,
        "first": False,
        "last": False,
        "numberOfElements": 2,
        "empty": False,
        "sort": {"empty": True, "sorted": False, "unsorted": True},
        "pageable": {
            "offset": 2,
            "sort": {"empty": True, "sorted": False, "unsorted": True},
            "paged": True,
            "pageNumber": 1,
            "pageSize": 2,
            "unpaged": False,
        },
    }


@pytest.mark.parametrize(
    ("page", "size"), [("-1", "2"), ("x", "2"), ("0", "1000000000"), ("0", "-5"), ("0", "y")]
)
def test_odd_pages_are_clamped(api, page, size):
    run = start(api)
    send(api, run, ITEM)

    answer = read(api, run, page=page, size=size)["items"]

    assert answer["number"] == 0
    assert 1 <= answer["size"] <= 2000


def test_items_keep_the_order_in_which_they_were_sent(api):
    run = start(api)
    for batch in range(5):
        send(api, run, *({**ITEM, "inputs": {"n": 7 * batch + number}} for number in range(7)))

    items = read(api, run, size=100)["items"]["content"]

    assert [item["input"]["n"] for item in items] == list(range(35))
    assert [item["ordinal"] for item in items] == list(range(35))


def test_items_with_an_ordinal_replace_each_other_and_the_counts_follow(api):
    run = start(api)
    failed = {**ITEM, "evalResults": [{"name": "exact-match", "score": 0, "success": False}], "tokensIn": 5}
    send(api, run, {**failed, "ordinal": 3}, {**failed, "ordinal": 3, "repetition": 1})

    send(api, run, {**ITEM, "ordinal": 3, "tokensIn": 7})

    details = read(api, run)
    assert [(item["ordinal"], item["repetition"]) for item in details["items"]["content"]] == [(3, 0), (3, 1)]
    assert (details["totalItems"], details["passedItems"], details["totalTokensIn"]) == (2, 1, 12)
    (evaluator,) = details["evaluators"]
    assert (evaluator["scoreCount"], evaluator["meanScore"], evaluator["successCount"]) == (2, 0.5, 1)


def test_an_ordinal_twice_in_one_batch_is_its_last_item(api):
    run = start(api)

    send(api, run, {**ITEM, "ordinal": 0, "inputs": {"n": 1}}, {**ITEM, "ordinal": 0, "inputs": {"n": 2}})

    details = read(api, run)
    assert [item["input"] for item in details["items"]["content"]] == [{"n": 2}]
    assert details["totalItems"] == 1


def test_an_item_without_an_ordinal_is_never_replaced(api):
    run = start(api)
    send(api, run, ITEM)

    answer = send(api, run, {**ITEM, "ordinal": 0})

    assert answer.status_code == 409
    assert answer.json()["message"].startswith("items[0].ordinal: 0 belongs to an item that was sent without")
    assert read(api, run)["totalItems"] == 1


def test_a_batch_repeated_with_its_key_is_stored_once_also_after_the_run_ended(api):
    run = start(api)
    key = {"Idempotency-Key": "batch-1"}
    assert send(api, run, ITEM, headers=key).status_code == 201
    api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS"})

    again = send(api, run, ITEM, headers=key)
    other = send(api, run, ITEM, ITEM, headers=key)

    assert (again.status_code, again.json()) == (201, {"status": "ok"})
    assert other.status_code == 409
    assert read(api, run)["totalItems"] == 1


def test_a_batch_that_is_not_stored_leaves_nothing_behind(api):
    run = start(api)
    assert send(api, run, ITEM, headers={"Idempotency-Key": "batch-1"}).status_code == 201
    before = read(api, run)

    refused = [
        send(api, run, ITEM, headers={"Idempotency-Key": "batch-1"}),  # it is there already
        send(api, run, ITEM, ITEM, headers={"Idempotency-Key": "batch-1"}),  # that of another batch
        send(api, run, {**ITEM, "ordinal": 0}, headers={"Idempotency-Key": "batch-2"}),  # not its place
    ]
    api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS"})
    refused.append(send(api, run, ITEM, headers={"Idempotency-Key": "batch-2"}))
    api.patch(f"/api/v1/runs/{run}", json={"status": "RUNNING"})

    assert [answer.status_code for answer in refused] == [201, 409, 409, 409]
    assert read(api, run) == before
    assert send(api, run, ITEM, headers={"Idempotency-Key": "batch-2"}).status_code == 201
    after = read(api, run)
    assert [item["ordinal"] for item in after["items"]["content"]] == [0, 1]
    assert after["evaluators"][0]["scoreCount"] == after["totalItems"] == 2


def test_a_run_repeated_with_its_key_is_created_once(api):
    key = {"Idempotency-Key": "run-1"}

    first, second = (start(api, headers=key, metadata={"a": 1}) for _ in range(2))
    other = api.post("/api/v1/projects/chat/runs", json={"experimentName": "other"}, headers=key)

    assert first == second
    assert other.status_code == 409
    assert api.get("/api/v1/projects").json()[0]["runCount"] == 1


def test_items_are_accepted_only_while_the_run_goes_on(api):
    run = start(api)
    api.patch(f"/api/v1/runs/{run}", json={"status": "CANCELLED"})

    answer = send(api, run, ITEM)

    assert answer.status_code == 409
    assert answer.json()["error"] == "Conflict"
    assert "CANCELLED" in answer.json()["message"]


def test_a_reopened_run_takes_items_again(api):
    run = start(api)
    api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS"})

    api.patch(f"/api/v1/runs/{run}", json={"status": "RUNNING"})

    assert read(api, run)["completedAt"] is None
    assert send(api, run, ITEM).status_code == 201


def test_a_repeated_status_changes_nothing(api):
    run = start(api)
    api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS"})
    ended = read(api, run)["completedAt"]

    answer = api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS"})

    assert answer.status_code == 200
    assert read(api, run)["completedAt"] == ended


def test_only_judge_jobs_set_evaluating(api):
    run = start(api)

    assert api.patch(f"/api/v1/runs/{run}", json={"status": "EVALUATING"}).status_code == 409
    assert read(api, run)["status"] == "RUNNING"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "Malformed request body"),
        (b"{", "Malformed request body"),
        (b"[]", "body: must be an object"),
        (b"{}", "items: is required"),
        (b'{"items": []}', "items: must not be empty"),
        (b'{"items": [{"inputs": 3}]}', "items[0].inputs: must be an object"),
        (b'{"items": [{}, {"inputs": {}, "inputs": {}}]}', "items[1]: the key 'inputs' is given twice"),
        (b'{"items": [{"inputs": {"a": NaN}}]}', "items[0].inputs.a: must be a finite number"),
        (b'{"items": [{"inputs": {"a": [1e999]}}]}', "items[0].inputs.a[0]: must be a finite number"),
        (
            b'{"items": [{"evalResults": [{"score": 1, "success": true}]}]}',
            "items[0].evalResults[0].name: is required",
        ),
        (
            b'{"items": [{"evalResults": [{"name": "a", "score": -Infinity, "success": true}]}]}',
            "items[0].evalResults[0].score: must be a finite number",
        ),
        (
            b'{"items": [{"evalResults": [{"name": "a", "score": "1", "success": true}]}]}',
            "items[0].evalResults[0].score: must be a number",
        ),
        (
            b'{"items": [{"evalResults": [{"name": "a\\u0000", "score": 1, "success": true}]}]}',
            "items[0].evalResults[0].name: must not contain control characters",
        ),
        (b'{"items": [{"inputs": {"a\\u0000": 1}}]}', "items[0].inputs: the key 'a\\x00' holds NUL"),
        (b'{"items": [{"tokensIn": -1}]}', "items[0].tokensIn: must be at least 0"),
        (b'{"items": [{"tokensIn": 9223372036854775808}]}', "items[0].tokensIn: must be at most"),
        (b'{"items": [{"inputs": ' + b'{"a":' * 1000 + b"1" + b"}" * 1000 + b"}]}", "nested deeper than 200"),
        (b'{"items": [{"inputs": ' + b"[" * 100_000, "Malformed request body"),
        (b'{"items": [{"inputs": {"a": "\xff"}}]}', "Malformed request body: not UTF-8 at byte"),
    ],
)
def test_what_is_refused_names_its_place_and_stores_nothing(api, body, message):
    run = start(api)
    valid = json.dumps({"items": [ITEM]}).encode()

    answer = api.post(f"/api/v1/runs/{run}/items", content=body, headers={"Content-Type": "application/json"})

    assert answer.status_code == 400
    assert answer.json()["error"] == "Bad Request"
    assert message in answer.json()["message"]
    assert read(api, run)["totalItems"] == 0
    again = api.post(f"/api/v1/runs/{run}/items", content=valid, headers={"Content-Type": "application/json"})
    assert again.status_code == 201


def test_odd_data_comes_back_as_it_was(api):
    run = start(api)
    odd = {
        "nul": "a\0b",
        "large": 2**80,
        "negative": -(2**70),
        "text": 'שלום \u202e % / \\ "',
        "null": None,
        "deep": [[[[{"a": []}]]]],
    }
    body = json.dumps({"items": [{**ITEM, "inputs": odd, "evalResults": [
        {"name": "tab's \"name\" / % 😀", "score": -1e308, "success": False, "reason": "\0 \udfff"}
    ]}]}).encode()  # fmt: skip

    answer = api.post(f"/api/v1/runs/{run}/items", content=body, headers={"Content-Type": "application/json"})

    assert answer.status_code == 201, answer.text
    (item,) = read(api, run)["items"]["content"]
    assert item["input"] == odd
    (score,) = item["evalResults"]
    assert score["evaluatorName"] == 'tab\'s "name" / % 😀'
    assert score["score"] == -1e308
    assert score["reason"] == "\0 \udfff"


@pytest.mark.parametrize("name", ["a/b", "50 %", "..x", "a b", "ü", "\u200fא", "x" * 255, "a?b#c", "%2F"])
def test_any_name_of_a_project_survives_the_path(api, name):
    from urllib.parse import quote

    start(api, project=quote(name, safe=""))

    assert [project["name"] for project in api.get("/api/v1/projects").json()] == [name]
    assert len(api.get(f"/api/v1/projects/{quote(name, safe='')}/experiments").json()) == 1
    assert api.delete(f"/api/v1/projects/{quote(name, safe='')}").status_code == 204
    assert api.get("/api/v1/projects").json() == []


@pytest.mark.parametrize("name", ["x" * 256, "%00", "%1F", "%0A", "%ff", "%20", "%2e%2e"])
def test_names_that_cannot_be_used_are_refused(api, name):
    answer = api.post(f"/api/v1/projects/{name}/runs", json={"experimentName": "qa"})

    assert answer.status_code == 400
    assert api.get("/api/v1/projects").json() == []


def test_lists_of_projects_experiments_runs_and_trends(api):
    for number in range(3):
        run = start(api, experiment="first", name=f"run {number}")
        send(api, run, ITEM, *([{**ITEM, "evalResults": []}] * number))
        api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS"})
    going = start(api, experiment="second")

    (project,) = api.get("/api/v1/projects").json()
    second, first = api.get("/api/v1/projects/chat/experiments").json()
    runs = api.get(f"/api/v1/experiments/{first['id']}/runs").json()
    trends = api.get(f"/api/v1/experiments/{first['id']}/trends", params={"limit": 2}).json()

    assert (project["experimentCount"], project["runCount"]) == (2, 4)
    assert second["latestRun"]["runId"] == going
    assert second["latestRun"]["passRate"] is None
    assert first["latestRun"] == {
        "runId": run, "status": "SUCCESS", "passRate": 1 / 3, "startedAt": runs[0]["startedAt"],
        "itemCount": 3, "passedCount": 1, "judgedCount": 1, "erroredCount": 0,
    }  # fmt: skip
    assert [each["itemCount"] for each in runs] == [3, 2, 1]
    assert [each["name"] for each in runs] == ["run 2", "run 1", "run 0"]
    assert trends["experimentName"] == "first"
    assert trends["projectName"] == "chat"
    assert [point["passRate"] for point in trends["runs"]] == [0.5, 1 / 3]


def test_the_trends_of_evaluators_follow_each_over_the_runs_that_it_scored(api):
    def result(name, score):
        return {"name": name, "score": score, "threshold": 0.5, "success": score >= 0.5}

    def run(*results, fingerprint=None):
        described = [
            {"name": "tone", "rangeLow": 0, "rangeHigh": 1, "threshold": 0.5, "fingerprint": fingerprint}
        ]
        ended = start(api, evaluators=described if fingerprint else [])
        send(api, ended, *({**ITEM, "evalResults": list(each)} for each in results))
        api.patch(f"/api/v1/runs/{ended}", json={"status": "SUCCESS"})
        return ended

    first = run([result("gone", 0.25), result("tone", 1)], fingerprint="a")
    second = run([result("tone", 0.5)], [result("tone", 1), result("new", 0.75)], fingerprint="b")
    run()  # no evaluator scored anything
    start(api)  # and this one goes on

    [experiment] = api.get("/api/v1/projects/chat/experiments").json()
    path = f"/api/v1/experiments/{experiment['id']}/evaluator-trends"
    trends = {each["evaluatorName"]: each for each in api.get(path).json()["evaluators"]}

    def point(run, mean, count, fingerprint=None):
        # Only what the run says of its evaluators has a threshold for all scores.
        threshold = fingerprint and 0.5
        return {
            "runId": run,
            "meanScore": mean,
            "scoreCount": count,
            "threshold": threshold,
            "fingerprint": fingerprint,
        }

    assert list(trends) == ["tone", "new", "gone"]
    assert trends["tone"]["points"] == [point(first, 1, 1, "a"), point(second, 0.75, 2, "b")]
    assert (trends["tone"]["rangeLow"], trends["tone"]["rangeHigh"]) == (0, 1)
    assert trends["gone"]["points"] == [point(first, 0.25, 1)]
    latest_two = api.get(path, params={"limit": 2}).json()["evaluators"]
    assert [each["evaluatorName"] for each in latest_two] == ["tone", "new"]
    assert api.get(path, params={"limit": 0}).status_code == 400


def test_trends_say_which_evaluators_are_not_as_in_the_run_before(api):
    described = [{"a": "1", "b": "1"}, {"a": "1", "b": "2"}, {"b": "2", "c": "1"}, {}, {"b": "3"}]
    for number, fingerprints in enumerate(described):
        run = start(api, experiment="first", name=f"run {number}")
        evaluators = [{"name": name, "fingerprint": text} for name, text in fingerprints.items()]
        changed = {"status": "SUCCESS", "evaluators": evaluators}
        assert api.patch(f"/api/v1/runs/{run}", json=changed).status_code == 200
    (experiment,) = api.get("/api/v1/projects/chat/experiments").json()

    trends = api.get(f"/api/v1/experiments/{experiment['id']}/trends").json()

    assert [point["changedEvaluators"] for point in trends["runs"]] == [[], ["b"], ["a", "c"], [], []]


ODD_TEXTS = [
    "",
    r"""a "quoted" \\ text""",
    "line\nbreak\ttab",
    "\x7f\u2028 \u200fא é 😀",
    "</script>",
    "null",
]


def test_a_list_of_runs_says_the_same_whole_in_pages_and_run_by_run(api):
    """A list is put together as text, from the texts of the tables."""
    odd = {
        "large": 2**80,
        "small": 1e-7,
        "nul": "\0",
        "nested": [{}, [None, True, ODD_TEXTS]],
    }

    def tag_of(text):
        return f"m{''.join(filter(str.isprintable, text))}"

    bare = start(api)
    runs = [
        start(
            api, name=text, notes=text, gitSha=text, gitBranch=text, triggeredBy=text, pullRequest=text,
            metadata={**odd, "text": text}, provenance=odd, tags=["z", "a", tag_of(text)], plannedItems=3,
        )
        for text in ODD_TEXTS
    ]  # fmt: skip
    priced = {**ITEM, "costUsd": 0.1, "latencyMs": 7, "tokensIn": 2, "tokensOut": 3}
    send(api, runs[1], ITEM, priced, {**priced, "evalResults": [], "error": "no answer"})
    api.patch(f"/api/v1/runs/{runs[1]}", json={"status": "FAILED"})
    experiment = read(api, bare)["experimentId"]
    api.put(f"/api/v1/experiments/{experiment}/baseline", json={"runId": runs[1]})

    path = f"/api/v1/experiments/{experiment}/runs"
    answer = api.get(path)
    listed = answer.json()
    assert [run["id"] for run in listed] == [*reversed(runs), bare]
    assert answer.content == encode_json(listed)
    assert api.get(path, params={"limit": 100}).content == answer.content
    for run in listed:
        details = read(api, run["id"])
        assert (run.pop("itemCount"), run.pop("passedCount")) == (
            details["totalItems"],
            details["passedItems"],
        )
        assert run == {name: details[name] for name in run}
    details = read(api, runs[1])
    assert (details["name"], details["notes"], details["gitSha"]) == (ODD_TEXTS[1],) * 3
    assert (details["config"], details["provenance"]) == ({**odd, "text": ODD_TEXTS[1]}, odd)
    assert details["tags"] == ["a", tag_of(ODD_TEXTS[1]), "z"]
    assert [run["isBaseline"] for run in listed] == [run["id"] == runs[1] for run in listed]
    assert (details["totalCostUsd"], details["avgLatencyMs"]) == (0.2, 7.0)
    assert [
        read(api, bare)[name] for name in ("config", "provenance", "completedAt", "passRate", "name")
    ] == ([None] * 5)


def test_deleted_things_are_gone(api):
    keep, gone = start(api, experiment="keep"), start(api, experiment="gone")
    experiments = {each["name"]: each["id"] for each in api.get("/api/v1/projects/chat/experiments").json()}

    assert api.delete(f"/api/v1/experiments/{experiments['gone']}").status_code == 204

    assert api.get(f"/api/v1/runs/{gone}").status_code == 404
    assert [each["name"] for each in api.get("/api/v1/projects/chat/experiments").json()] == ["keep"]
    assert api.get("/api/v1/projects").json()[0]["runCount"] == 1
    assert api.delete(f"/api/v1/runs/{keep}").status_code == 204
    assert api.delete(f"/api/v1/runs/{keep}").status_code == 404
    assert api.delete("/api/v1/projects/chat").status_code == 204
    assert api.get("/api/v1/projects").json() == []
    start(api, experiment="gone")
    assert api.get("/api/v1/projects").json()[0]["runCount"] == 1


def test_unknown_and_malformed_ids(api):
    unknown = "00000000-0000-7000-8000-000000000000"

    assert api.get(f"/api/v1/runs/{unknown}").status_code == 404
    assert api.get("/api/v1/runs/12").status_code == 400
    assert api.get("/api/v1/runs/12").json()["message"] == "runId: must be a UUID"
    assert api.patch(f"/api/v1/runs/{unknown}", json={"status": "SUCCESS"}).status_code == 404
    assert send(api, unknown, ITEM).status_code == 404


def test_the_filter_of_a_list_is_text_also_where_it_looks_like_a_pattern(api):
    for name in ("50%", "500", "a_b", "aXb"):
        start(api, name=name)
    (experiment,) = api.get("/api/v1/projects/chat/experiments").json()

    def names(search):
        runs = api.get(f"/api/v1/experiments/{experiment['id']}/runs", params={"search": search})
        return sorted(run["name"] for run in runs.json())

    assert names("0%") == ["50%"]
    assert names("A_B") == ["a_b"]
    assert names("'; DROP TABLE runs; --") == []


def test_the_number_of_items_of_an_outcome_is_that_of_its_page(api):
    failed = {**ITEM, "evalResults": [{"name": "tone", "score": 0, "success": False}]}
    unjudged = {**ITEM, "evalResults": []}
    run = start(api)
    send(api, run, ITEM, failed, failed, unjudged)

    def numbers():
        pages = [
            read(api, run, outcome=each)["items"] for each in ("passed", "failed", "unjudged", "errored")
        ]
        assert [len(page["content"]) for page in pages] == [page["totalElements"] for page in pages]
        return [page["totalElements"] for page in pages]

    assert numbers() == [1, 2, 1, 0]
    # Judged or not, an item with an error is neither failed nor unjudged.
    send(api, run, {**failed, "error": "timeout"}, {**unjudged, "error": "timeout"})
    assert numbers() == [1, 2, 1, 2]


def test_items_are_filtered_by_outcome_evaluator_and_text(api):
    run = start(api)
    failed = {
        **ITEM,
        "evalResults": [{"name": "tone", "score": 0, "success": False}],
        "inputs": {"q": "Rude?"},
    }
    send(
        api,
        run,
        ITEM,
        failed,
        {**ITEM, "evalResults": []},
        {**ITEM, "error": "TimeoutError", "evalResults": []},
    )

    def ordinals(**query):
        page = read(api, run, **query)["items"]
        assert page["totalElements"] == len(page["content"])
        return [item["ordinal"] for item in page["content"]]

    assert ordinals(outcome="passed") == [0]
    assert ordinals(outcome="failed") == [1]
    assert ordinals(outcome="unjudged") == [2]
    assert ordinals(outcome="errored") == [3]
    answer = api.get(f"/api/v1/runs/{run}", params={"outcome": "FAILED"})
    assert answer.json()["message"] == "outcome: must be 'passed', 'failed', 'errored' or 'unjudged'"
    assert ordinals(failedEvaluator="tone") == [1]
    assert ordinals(search="rude") == [1]


def test_items_with_and_without_an_ordinal_in_one_batch(api):
    run = start(api)

    answer = send(api, run, ITEM, {**ITEM, "ordinal": 0}, {**ITEM, "ordinal": 5}, ITEM)

    assert answer.status_code == 201, answer.text
    assert [item["ordinal"] for item in read(api, run)["items"]["content"]] == [0, 5, 6, 7]


def test_huge_scores_and_counts_never_break_a_page(api):
    run = start(api)
    huge = {**ITEM, "evalResults": [{"name": "a", "score": 1.7e308, "success": True}], "costUsd": 1e12}
    most = {"tokensIn": 2**31 - 1, "tokensOut": 2**31 - 1, "latencyMs": 2**40}

    for _ in range(3):
        assert send(api, run, {**huge, **most}, {**huge, **most}).status_code == 201

    details = read(api, run)
    assert details["totalTokensIn"] == 6 * (2**31 - 1)
    assert details["evaluators"][0]["meanScore"] is None


def test_scores_whose_sum_is_infinite_are_stored_one_by_one_and_replaced(api):
    run = start(api)
    huge = {"evalResults": [{"name": "a", "score": 1.7e308, "success": True}]}

    for ordinal in range(3):
        assert send(api, run, {**ITEM, **huge, "ordinal": ordinal}).status_code == 201
    assert read(api, run)["evaluators"][0]["meanScore"] is None
    usual = {"evalResults": [{"name": "a", "score": 0.5, "success": True}]}
    assert send(api, run, *({**ITEM, **usual, "ordinal": ordinal} for ordinal in range(3))).status_code == 201
    assert read(api, run)["evaluators"][0]["meanScore"] is not None


def score(name, value, **fields):
    return {"name": name, "score": value, "success": True, **fields}


def item_with(*scores, **fields):
    return {"inputs": {"input": "q"}, "actualOutputs": {}, "evalResults": list(scores), **fields}


def test_a_score_without_a_verdict_neither_passes_nor_fails_its_item(api):
    run = start(api)
    items = [
        item_with(score("style", 0.3, judged=False)),
        item_with(score("style", 0.9, success=None), ordinal=1),
        item_with(score("style", 0.2, judged=False), score("correct", 1.0)),
        item_with(score("style", 0.2, judged=False), score("correct", 0.0, success=False)),
        item_with(score("style", 0.2, judged=False), error="ValueError: no answer"),
        item_with(),
    ]
    assert api.post(f"/api/v1/runs/{run}/items", json={"items": items}).status_code == 201

    details = api.get(f"/api/v1/runs/{run}").json()

    assert [[one["success"] for one in item["evalResults"]] for item in details["items"]["content"]] == [
        [None], [None], [None, True], [None, False], [None], []
    ]  # fmt: skip
    assert (details["totalItems"], details["passedItems"], details["informationalCount"]) == (6, 1, 2)
    assert (details["judgedCount"], details["erroredCount"]) == (2, 1)
    assert details["passRate"] == 1 / 4  # an item without scores did not pass, as documented
    style, correct = details["evaluators"]
    assert (style["scoreCount"], style["successCount"]) == (5, 0)
    assert (correct["scoreCount"], correct["successCount"]) == (2, 1)
    for outcome, count in (("passed", 1), ("failed", 1), ("errored", 1), ("unjudged", 3)):
        page = api.get(f"/api/v1/runs/{run}", params={"outcome": outcome}).json()["items"]
        assert page["totalElements"] == count, outcome

    replaced = {"items": [item_with(score("style", 0.9, success=False), ordinal=1)]}
    assert api.post(f"/api/v1/runs/{run}/items", json=replaced).status_code == 201
    details = api.get(f"/api/v1/runs/{run}").json()
    assert (details["informationalCount"], details["passRate"]) == (1, 1 / 5)
    replaced = {"items": [item_with(score("style", 0.9, judged=False), ordinal=1)]}
    assert api.post(f"/api/v1/runs/{run}/items", json=replaced).status_code == 201
    assert api.get(f"/api/v1/runs/{run}").json()["informationalCount"] == 2


def test_a_run_of_scores_without_verdicts_has_no_pass_rate(api):
    run = start(api)
    items = [item_with(score("style", 0.3, judged=False))] * 3
    assert api.post(f"/api/v1/runs/{run}/items", json={"items": items}).status_code == 201

    details = api.get(f"/api/v1/runs/{run}").json()

    assert (details["totalItems"], details["passRate"]) == (3, None)


def test_a_status_that_is_sent_again_changes_no_evaluator_either(api):
    run = api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}).json()["runId"]

    def send(direction):
        body = {"status": "SUCCESS", "evaluators": [{"name": "accuracy", "direction": direction}]}
        return api.patch(f"/api/v1/runs/{run}", json=body).status_code

    assert [send("HIGHER_IS_BETTER"), send("LOWER_IS_BETTER")] == [200, 200]
    (evaluator,) = api.get(f"/api/v1/runs/{run}").json()["evaluators"]
    assert evaluator["direction"] == "HIGHER_IS_BETTER"
