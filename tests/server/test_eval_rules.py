"""Rules of online evaluation: created, listed, changed, deleted, and what holds on to them."""

import pytest
from tests.server.eval_rules import RULES, add_rule, connect, contains, documented, project_of

from dokimos.server._services.encryption import secret_vault

pytest.importorskip("cryptography", reason="the extra 'encryption' is not installed")


@pytest.fixture(autouse=True)
def _quick_keys(monkeypatch):
    monkeypatch.setattr(secret_vault, "_ITERATIONS", 1)


@pytest.fixture
def api(serve):
    return serve(encryption_keys=("passphrase",))


@pytest.fixture
def project(api):
    return project_of(api)


def test_the_documented_rule_is_created_read_changed_and_deleted(api, project):
    connection = connect(api)
    path = RULES.format(project)

    answer = api.post(path, json=documented(connection))

    assert answer.status_code == 201
    rule = answer.json()
    assert answer.headers["Location"] == f"{path}/{rule['id']}"
    sent = documented(connection)
    assert {key: rule[key] for key in sent} == sent
    assert (rule["matchKey"], rule["scope"], rule["sampling"], rule["budget"]) == (None, "span", None, None)
    assert api.get(path).json() == [rule]
    assert api.get(f"{path}/{rule['id']}").json() == rule

    changed = api.put(f"{path}/{rule['id']}", json=documented(connection, name="kind", enabled=False)).json()
    assert (changed["name"], changed["enabled"], changed["id"]) == ("kind", False, rule["id"])

    assert api.delete(f"{path}/{rule['id']}").status_code == 204
    assert api.get(path).json() == []
    assert api.get(f"{path}/{rule['id']}").status_code == 404


def test_the_key_of_a_rule_that_compares_names_is_dropped(api, project):
    connection = connect(api)

    by_name = add_rule(api, project, documented(connection, matchKey="env"))
    by_value = documented(connection, name="b", matchType="ATTRIBUTE", matchKey="env", matchValue="prod")

    assert by_name["matchKey"] is None
    assert add_rule(api, project, by_value)["matchKey"] == "env"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": " "}, "name"),
        ({"matchType": "REGEX"}, "matchType"),
        ({"matchType": "ATTRIBUTE"}, "matchKey"),
        ({"matchType": "ATTRIBUTE", "matchKey": " "}, "matchKey"),
        ({"matchValue": " "}, "matchValue"),
        ({"matchType": "PATTERN", "matchValue": "(a"}, "matchValue"),
        ({"connectionId": None}, "connectionId"),
        ({"connectionId": ""}, "connectionId"),
        ({"criteria": " "}, "criteria"),
        ({"evaluatorName": " "}, "evaluatorName"),
        ({"minScore": 1}, "minScore"),
        ({"sampling": {"rate": 0}}, "sampling.rate"),
        ({"sampling": {"rate": 0.5, "strata": [{"name": "a"}]}}, "sampling.strata[0]"),
        ({"conditions": {"any": []}}, "conditions"),
        ({"conditions": {"all": [{"matchType": "SPAN_NAME"}]}}, "conditions.all[0].matchValue"),
        ({"budget": {"calls": 3}}, "budget.calls"),
        ({"evaluator": {"type": "function"}, "criteria": None, "threshold": None}, "evaluator.type"),
        ({"evaluator": {"type": "contains"}}, "evaluator"),
    ],
)
def test_a_rule_that_says_nothing_is_refused_with_the_field(api, project, change, field):
    answer = api.post(RULES.format(project), json=documented(connect(api), **change))

    assert answer.status_code == 400
    assert field in answer.text
    assert api.get(RULES.format(project)).json() == []


def test_a_name_is_unique_in_its_project(api, project):
    connection = connect(api)
    add_rule(api, project, documented(connection))
    other = add_rule(api, project, documented(connection, name="other"))

    again = api.post(RULES.format(project), json=documented(connection))
    renamed = api.put(f"{RULES.format(project)}/{other['id']}", json=documented(connection))

    assert (again.status_code, renamed.status_code) == (409, 409)
    elsewhere = project_of(api, "search")
    assert api.post(RULES.format(elsewhere), json=documented(connection)).status_code == 201


def test_a_connection_that_rules_use_stays(api, project):
    connection = connect(api)
    rule = add_rule(api, project, documented(connection))

    answer = api.delete(f"/api/v1/llm-connections/{connection}?force=true")

    assert answer.status_code == 409
    assert "helpfulness" in answer.text
    assert api.delete(f"{RULES.format(project)}/{rule['id']}").status_code == 204
    assert api.delete(f"/api/v1/llm-connections/{connection}").status_code == 204


def test_a_deleted_project_lets_go_of_connections(api, project):
    connection = connect(api)
    add_rule(api, project, documented(connection))

    assert api.delete("/api/v1/projects/chat").status_code == 204

    assert api.delete(f"/api/v1/llm-connections/{connection}").status_code == 204


def test_an_unknown_connection_or_project_is_not_found(api, project):
    unknown = "01a20924-0000-7000-8000-000000000007"

    assert api.post(RULES.format(project), json=documented(unknown)).status_code == 404
    assert api.post(RULES.format(unknown), json=documented(connect(api))).status_code == 404


def test_an_evaluator_of_the_library_needs_no_connection(api, project):
    rule = add_rule(api, project, contains())

    assert rule["evaluator"] == {"type": "contains", "params": {"values": ["good"]}}
    assert (rule["connectionId"], rule["criteria"]) == (None, None)


def test_rules_are_audited_and_told_of(api, project):
    add_rule(api, project, contains())

    (row,) = api.get("/api/v1/audit-log?action=project.trace-eval-rule.create").json()

    assert (row["target"]["kind"], row["target"]["name"]) == ("trace-eval-rule", "contains")


def test_rules_of_tenants_stay_apart(serve):
    api = serve(api_key="admin", encryption_keys=("passphrase",))
    admin = {"Authorization": "Bearer admin"}
    keys = {}
    for tenant in ("red", "blue"):
        body = {"name": tenant, "role": "EDITOR", "tenantId": tenant}
        key = api.post("/api/v1/api-keys", json=body, headers=admin).json()["key"]
        keys[tenant] = {"Authorization": f"Bearer {key}"}
    project = project_of(api, headers=admin)

    red = add_rule(api, project, contains(), headers=keys["red"])
    blue = add_rule(api, project, contains(), headers=keys["blue"])
    shared = add_rule(api, project, contains(), headers=admin)

    def seen(headers):
        return [each["id"] for each in api.get(RULES.format(project), headers=headers).json()]

    assert seen(keys["red"]) == [red["id"], shared["id"]]
    assert seen(keys["blue"]) == [blue["id"], shared["id"]]
    path = f"{RULES.format(project)}/{red['id']}"
    assert api.get(path, headers=keys["blue"]).status_code == 404
    assert api.delete(path, headers=keys["blue"]).status_code == 404
