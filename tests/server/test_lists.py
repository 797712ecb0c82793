"""Lists: sorted, searched, and read page by page with a cursor, whatever arrives meanwhile."""

import re
from functools import partial
from urllib.parse import quote

import pytest

PROJECTS = "/api/v1/projects"
DATASETS = "/api/v1/datasets"
NAMES = ["delta", "Alpha", "charlie", "bravo", "alpha 2", "Émile", "100% _x"]


def create_run(api, project="chat", experiment="qa", headers=None, **body):
    body = {"experimentName": experiment, **body}
    path = f"{PROJECTS}/{quote(project, safe='')}/runs"
    return api.post(path, json=body, headers=headers).json()["runId"]


def experiment_of(api, run):
    return api.get(f"/api/v1/runs/{run}").json()["experimentId"]


def read(api, path, **query):
    answer = api.get(path, params=query)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    if isinstance(body, list):
        return body
    page = body.get("items", body)
    return body["versions"] if "versions" in body else page["content"]


def read_by_pages(api, path, limit_name="limit", **query):
    """The whole list, two rows at a time."""
    rows = []
    while page := read(api, path, **{limit_name: 2}, **query):
        rows += page
        query["after"] = page[-1]["id"]
        assert len(page) <= 2
    return rows


@pytest.fixture
def lists(api):
    """The path of each list, filled, with its default order and the values that it can be sorted by."""
    for name in NAMES:
        create_run(api, project=name)
        create_run(api, experiment=name)
        api.post(DATASETS, json={"name": name, "description": f"about {name}"})
    runs = [create_run(api, name=name) for name in NAMES]
    create_run(api)  # without a name
    for count, run in enumerate(runs):
        items = [
            {
                **_item(passed=index % 2 == 0),
                "latencyMs": (index * 7) % 5 if index % 4 else None,
                "costUsd": 0.5 * (index % 3),
                "tokensIn": index // 2,
            }
            for index in range(count)
        ]
        if items:
            api.post(f"/api/v1/runs/{run}/items", json={"items": items})
        if count % 2:
            api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS"})
    for count in (1, 5, 2):
        items = [{"inputs": {"q": f"{count}-{index}"}} for index in range(count)]
        api.post(f"{DATASETS}/delta/versions", json={"items": items, "description": f"with {count}"})
    for name in NAMES:
        api.post(f"/api/v1/runs/{runs[-1]}/comments", json={"body": f"comment {name}"})
    experiment = experiment_of(api, runs[-1])
    return {
        "projects": (PROJECTS, "createdAt,desc", ["createdAt", "name", "lastActivityAt"]),
        "experiments": (f"{PROJECTS}/chat/experiments", "createdAt,desc", ["createdAt", "name"]),
        "runs": (
            f"/api/v1/experiments/{experiment}/runs",
            "startedAt,desc",
            ["startedAt", "completedAt", "name", "itemCount", "passRate", "totalCostUsd", "avgLatencyMs"],
        ),
        "items": (
            f"/api/v1/runs/{runs[-1]}",
            "ordinal",
            ["ordinal", "latencyMs", "costUsd", "tokensIn", "tokensOut"],
        ),
        "datasets": (DATASETS, "createdAt,desc", ["createdAt", "updatedAt", "name"]),
        "versions": (f"{DATASETS}/delta", "version,desc", ["version", "createdAt", "itemCount"]),
        "dataset items": (f"{DATASETS}/delta/versions/2/items", "ordinal", ["ordinal"]),
        "comments": (f"/api/v1/runs/{runs[-1]}/comments", "createdAt", ["createdAt"]),
    }


def _item(passed=True):
    return {
        "inputs": {"q": "what?"},
        "actualOutputs": {},
        "expectedOutputs": {},
        "evalResults": [{"name": "e", "score": 1.0, "success": passed}],
    }


def test_every_list_is_sorted_and_read_by_pages(api, lists):
    for name, (path, default, keys) in lists.items():
        limit = "size" if "items" in name else "limit"
        plain = [row["id"] for row in read(api, path)]
        assert len(plain) >= 3, name
        assert plain == [row["id"] for row in read(api, path, sort=default)], name
        assert plain == [row["id"] for row in read_by_pages(api, path, limit)], name
        for key in keys:
            rows = read(api, path, sort=key)
            ids = [row["id"] for row in rows]
            assert sorted(ids) == sorted(plain), (name, key)
            assert ids == [row["id"] for row in read(api, path, sort=f"{key},asc")], (name, key)
            assert ids[::-1] == [row["id"] for row in read(api, path, sort=f"{key},DESC")], (name, key)
            for order in (key, f"{key},desc"):
                paged = [row["id"] for row in read_by_pages(api, path, limit, sort=order)]
                assert paged == (ids if order == key else ids[::-1]), (name, order)
            values = [value_of(row, key) for row in rows if key in row]
            assert values == sorted(values) or "name" in key, (name, key, values)


def value_of(row, key):
    """A value as lists sort by it: none is less than any."""
    return (row[key] is not None, row[key])


def test_names_are_sorted_whatever_the_case_of_their_letters(api, lists):
    names = [row["name"] for row in read(api, PROJECTS, sort="name") if row["name"].isascii()]
    assert [name for name in names if name[0].isalpha()] == [
        "Alpha", "alpha 2", "bravo", "charlie", "chat", "delta",
    ]  # fmt: skip


def test_what_a_list_cannot_be_sorted_by_is_refused_with_what_it_can(api, lists):
    for name, (path, _, keys) in lists.items():
        key = keys[0]
        for sort in ("nonsense", f"{key},up", f"{key},", f"-{key}", f"{key},asc,asc", "deleted_at"):
            answer = api.get(path, params={"sort": sort})
            assert answer.status_code == 400, (name, sort)
            body = answer.json()
            assert set(body) == {"error", "message", "timestamp"}
            assert body["message"].startswith("sort: must be "), body
            assert all(key in body["message"] for key in keys), body


def test_a_cursor_of_another_list_or_none_at_all_is_refused(api, lists):
    places = {name: read(api, path)[0]["id"] for name, (path, _, _) in lists.items()}
    foreign = "018f0000-0000-7000-8000-000000000000"
    for name, (path, _, _) in lists.items():
        others = [place for key, place in places.items() if key != name]
        for other in (*others, foreign, "nonsense", "", "\x00"):
            answer = api.get(path, params={"after": other})
            assert answer.status_code == 400, (name, other)
            assert set(answer.json()) == {"error", "message", "timestamp"}


def test_a_cursor_works_with_filters_though_its_row_is_none_of_what_they_leave(api, lists):
    path = lists["projects"][0]
    rows = read(api, path, sort="name")
    for place, row in enumerate(rows):
        found = read(api, path, sort="name", search="ALPHA", after=row["id"])
        expected = [each["name"] for each in rows[place + 1 :] if "alpha" in each["name"].lower()]
        assert [each["name"] for each in found] == expected

    path = lists["items"][0]
    rows = [row["id"] for row in read(api, path)]
    failed = read(api, path, outcome="failed", sort="costUsd,desc", after=rows[0])
    assert {row["evalResults"][0]["success"] for row in failed} <= {False}


def test_searches_find_what_contains_the_text_and_nothing_else(api, lists):
    expected = {"projects": 1, "experiments": 1, "datasets": 1, "runs": 1, "comments": 1}
    for name, count in expected.items():
        assert len(read(api, lists[name][0], search="100% _X")) == count, name
        assert read(api, lists[name][0], search="100%__") == [], name
    assert [row["description"] for row in read(api, lists["versions"][0], search="WITH 5")] == ["with 5"]


def test_rows_that_arrive_meanwhile_move_nothing(api, lists):
    path = lists["projects"][0]
    before = [row["name"] for row in read(api, path)]
    page = read(api, path, limit=3)
    for name in ("new 1", "new 2"):
        create_run(api, project=name)
    rest = read(api, path, after=page[-1]["id"])
    assert [row["name"] for row in page + rest] == before


def test_pages_of_items_with_a_cursor_say_what_they_are(api, lists):
    run = lists["items"][0]
    first = api.get(run, params={"size": 4}).json()["items"]
    rest = api.get(run, params={"size": 4, "after": first["content"][-1]["id"]}).json()["items"]
    assert (first["first"], first["last"]) == (True, False)
    assert (rest["first"], rest["last"], rest["number"]) == (False, True, 0)
    assert first["totalElements"] == rest["totalElements"] == 6
    path = lists["dataset items"][0]
    first = api.get(path, params={"size": 4}).json()
    rest = api.get(path, params={"size": 4, "after": first["content"][-1]["id"]}).json()
    assert [row["ordinal"] for row in first["content"] + rest["content"]] == list(range(5))
    assert (rest["first"], rest["last"], rest["totalElements"]) == (False, True, 5)
    second = api.get(path, params={"size": 2, "page": 1, "sort": "ordinal,desc"}).json()
    assert [row["ordinal"] for row in second["content"]] == [2, 1]


def test_a_cursor_tells_a_tenant_nothing_of_rows_that_it_does_not_see(serve):
    api = serve(api_key="admin-key")
    admin = {"Authorization": "Bearer admin-key"}
    keys = {}
    for tenant in ("ada", "bob"):
        body = {"name": tenant, "role": "EDITOR", "tenantId": tenant}
        key = api.post("/api/v1/api-keys", json=body, headers=admin).json()["key"]
        keys[tenant] = {"Authorization": f"Bearer {key}"}
        for name in ("b", "a"):
            create_run(api, project=f"{name} of {tenant}", headers=keys[tenant])
    get = partial(api.get, PROJECTS)
    foreign = get(headers=keys["bob"]).json()[0]["id"]
    answer = get(params={"after": foreign}, headers=keys["ada"])
    assert answer.status_code == 400
    for order in ("name", "createdAt", "lastActivityAt,desc"):
        own = get(params={"sort": order}, headers=keys["ada"]).json()
        assert {row["name"] for row in own} == {"a of ada", "b of ada"}
        rest = get(params={"sort": order, "after": own[0]["id"]}, headers=keys["ada"]).json()
        assert rest == own[1:]


def test_a_list_is_limited_to_2000_rows_a_page(api):
    for limit in (0, -1, 2001, "x"):
        answer = api.get(PROJECTS, params={"limit": limit})
        assert answer.status_code == 400
        assert answer.json()["message"].startswith("limit: ")


def test_the_description_names_what_lists_can_be_sorted_by(api, lists):
    paths = api.get("/openapi.json").json()["paths"]
    described = {
        path: parameter["schema"]["enum"]
        for path, methods in paths.items()
        for parameter in methods.get("get", {}).get("parameters", ())
        if parameter["name"] == "sort"
    }
    for path, _, keys in lists.values():
        [choices] = [
            choices
            for template, choices in described.items()
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path)
        ]
        assert choices == [f"{key}{direction}" for key in keys for direction in ("", ",asc", ",desc")]
