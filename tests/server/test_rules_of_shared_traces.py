"""Rules score the spans of their project in traces that are counted to another one, whenever they look."""

import pytest
from tests.server.eval_rules import (
    RULES,
    add_rule,
    contains,
    export,
    project_of,
    read_jobs,
    span,
    wait_for_jobs,
    wait_until,
    wait_until_matched,
)

from dokimos.server._online_settings import OnlineSettings
from dokimos.server._services.online import back_fills

SCOPES = ["span", "parent", "trace", "session"]
TRACES = 7
FAILED = {"matchType": "ATTRIBUTE", "matchKey": "failed", "matchValue": "true"}
ADMIN = {"Authorization": "Bearer admin"}


@pytest.fixture
def api(serve):
    return serve(online=OnlineSettings(poll_seconds=0.05, quiet_seconds=0.1))


def send_shared(api, number, headers=None):
    """A trace that begins in the project `web` and goes on in `chat`; return the span of `chat`."""
    root = span("the page", name="request", **{"session.id": f"session {number}"})
    return send_below(api, root, headers)


def send_below(api, root, headers=None, **attributes):
    """A span of `chat` below one of `web`."""
    below = span(trace=root["traceId"], parent=root["spanId"], **attributes)
    export(api, root, project="web", headers=headers)
    export(api, below, project="chat", headers=headers)
    return below


def serve_tenants(serve):
    return serve(api_key="admin", online=OnlineSettings(poll_seconds=0.05, quiet_seconds=0.1))


def make_key(api, tenant):
    """The headers of somebody who sends traces of a tenant."""
    body = {"name": tenant, "role": "EDITOR", "tenantId": tenant}
    key = api.post("/api/v1/api-keys", json=body, headers=ADMIN).json()["key"]
    return {"Authorization": f"Bearer {key}"}


def targets(jobs, rule):
    """What a rule scored, as its other jobs name it."""
    return {job["target"] for job in jobs if job["rule_id"] == rule}


@pytest.mark.parametrize("scope", SCOPES)
def test_live_matching_a_back_fill_and_a_dry_run_choose_the_same_spans(api, monkeypatch, scope):
    monkeypatch.setattr(back_fills, "TRACES_AT_ONCE", 2)  # several steps
    project, _ = project_of(api), project_of(api, "web")
    value = "good" if scope == "span" else "page"
    live = add_rule(api, project, contains(value, scope=scope))["id"]
    for number in range(TRACES):
        send_shared(api, number)
        export(api, span(**{"session.id": f"own {number}"}))
        export(api, span(name="other", **{"session.id": f"other {number}"}), project="web")
    wait_until_matched(api)
    expected = targets(read_jobs(api), live)
    assert len(expected) == (TRACES if scope == "parent" else 2 * TRACES)

    late = add_rule(api, project, contains(value, name="late", scope=scope))["id"]
    path = f"{RULES.format(project)}/{late}"
    assert api.post(f"{path}/back-fill", json={"from": "2020-01-01T00:00:00Z"}).status_code == 202
    wait_until(lambda: api.get(f"{path}/back-fills").json()[0]["status"] == "SUCCEEDED")

    assert targets(read_jobs(api), late) == expected
    [fill] = api.get(f"{path}/back-fills").json()
    assert (fill["traceCount"], fill["jobCount"]) == (2 * TRACES, len(expected))
    body = contains(value, name="tried", scope=scope)
    tried = api.post(f"{RULES.format(project)}/dry-run", json=body).json()
    assert (tried["traceCount"], tried["sampledCount"]) == (2 * TRACES, len(expected))
    assert tried["isComplete"]


def test_a_dry_run_says_that_it_has_not_looked_at_all_traces_of_other_projects(api, monkeypatch):
    from dokimos.server._api.online import rule_use_routes

    monkeypatch.setattr(rule_use_routes, "OTHERS_AT_ONCE", 3)
    monkeypatch.setattr(rule_use_routes, "_MAX_OTHERS", 6)
    project, _ = project_of(api), project_of(api, "web")
    for number in range(10):
        send_shared(api, number)
    export(api, span())

    tried = api.post(f"{RULES.format(project)}/dry-run", json=contains()).json()

    assert (tried["traceCount"], tried["matchCount"], tried["isComplete"]) == (7, 7, False)


def test_a_rule_of_a_tenant_leaves_the_spans_of_another_with_the_same_trace_id_alone(serve):
    api = serve_tenants(serve)
    keys = {tenant: make_key(api, tenant) for tenant in ("red", "blue")}
    project, _ = project_of(api, headers=ADMIN), project_of(api, "web", headers=ADMIN)
    red = send_shared(api, 1, keys["red"])
    export(api, span(trace=red["traceId"]), headers=keys["blue"])
    rule = add_rule(api, project, contains(scope="trace"), headers=keys["red"])["id"]

    path, since = f"{RULES.format(project)}/{rule}", {"from": "2020-01-01T00:00:00Z"}
    assert api.post(f"{path}/back-fill", json=since, headers=keys["red"]).status_code == 202
    listed = f"{path}/back-fills"
    wait_until(lambda: api.get(listed, headers=keys["red"]).json()[0]["status"] == "SUCCEEDED")

    assert [job["tenant_id"] for job in read_jobs(api)] == ["red"]


def test_sessions_of_two_projects_are_scored_apart_where_they_have_the_same_id(api):
    project, _ = project_of(api), project_of(api, "web")
    rule = add_rule(api, project, contains("the page", scope="session"))["id"]
    for _ in range(2):
        send_shared(api, 1)
        export(api, span("an answer", **{"session.id": "session 1"}))
        wait_until_matched(api)

    jobs = wait_for_jobs(api, len(read_jobs(api)))

    assert len(targets(jobs, rule)) == 2
    assert sorted(job["score"] for job in jobs) == [0.0, 1.0]


@pytest.mark.parametrize("rate", [1.0, 1e-9])
def test_a_session_whose_trace_moves_to_another_project_later_is_not_scored_again(api, rate):
    project, _ = project_of(api), project_of(api, "web")
    sampling = {"strata": [{"name": "failed", "conditions": FAILED, "rate": 1.0}], "rate": rate}
    rule = add_rule(api, project, contains(scope="session", sampling=sampling))["id"]
    session = {"session.id": "one"}
    root = span("the page", name="request", **session)
    export(api, span(trace=root["traceId"], parent=root["spanId"], **session))
    wait_until_matched(api)

    export(api, root, project="web")  # which began before, and is exported when it ends
    send_below(api, span("the page", name="request", **session), failed="true", **session)
    wait_until_matched(api)

    jobs = read_jobs(api)
    assert targets(jobs, rule) == {"session//one"}
    assert [(job["probability"], job["first_probability"]) for job in jobs] == [
        (1.0, None if rate == 1.0 else 0.0)
    ]


def test_sessions_of_two_tenants_are_scored_apart_wherever_their_names_have_slashes(serve):
    api = serve_tenants(serve)
    project = project_of(api, headers=ADMIN)
    rule = add_rule(api, project, contains(scope="session"), headers=ADMIN)["id"]
    sessions = {"red": "blue/one", "red/blue": "one", "red%2Fblue": "one"}
    for tenant, session in sessions.items():
        export(api, span(**{"session.id": session}), headers=make_key(api, tenant))
        wait_until_matched(api)

    jobs = read_jobs(api)

    assert sorted(job["tenant_id"] for job in jobs) == sorted(sessions)
    assert len(targets(jobs, rule)) == len(sessions)
