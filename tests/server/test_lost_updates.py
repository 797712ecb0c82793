"""Of two who change the same row, the second is told of the first instead of writing over it."""

from tests.server.test_access import ADMIN

CLOSED = "http://127.0.0.1:9"


def connection(name):
    return {"name": name, "baseUrl": CLOSED, "model": name, "credentialRef": "DOKIMOS_CRED_X"}


def webhook(name):
    return {"url": f"{CLOSED}/{name}", "secret": name}


def rule(name):
    evaluator = {"type": "contains", "params": {"values": ["a"]}}
    matched = {"matchType": "SPAN_NAME", "matchValue": name}
    return {"name": name, **matched, "evaluatorName": name, "evaluator": evaluator}


def alert(name):
    return {"name": name, "kind": "CHANGE", "metric": "ERROR_RATE", "reference": 0.1}


def test_a_change_that_was_made_for_an_earlier_version_is_refused(api):
    api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"})
    [project] = api.get("/api/v1/projects").json()
    of_project = f"/api/v1/projects/{project['id']}"
    for path, make, what in (
        ("/api/v1/llm-connections", connection, "The LLM connection 'second'"),
        (f"{of_project}/alert-webhooks", webhook, "The webhook"),
        (f"{of_project}/trace-eval-rules", rule, "The rule 'second'"),
        (f"{of_project}/trace-alerts", alert, "The alert 'second'"),
    ):
        made = api.post(path, json=make("first")).json()
        one = f"{path}/{made['id']}"
        [listed] = api.get(path).json()
        assert listed["version"] == api.get(one).json()["version"] == made["version"]

        def put(name, tag, one=one, make=make):
            headers = {} if tag is None else {"If-Match": tag}
            return api.put(one, json=make(name), headers=headers)

        changed = put("second", f'"{made["version"]}"')
        assert (changed.status_code, changed.json()["version"] != made["version"]) == (200, True), path
        refused = put("lost", f'"{made["version"]}"')
        assert (refused.status_code, refused.json()["error"]) == (412, "Precondition Failed")
        assert refused.json()["message"].startswith(f"{what} was changed after it was read"), path
        assert api.get(one).json() == changed.json()
        assert put("lost", f'W/"{changed.json()["version"]}"').status_code == 412, (
            "a weak tag matches nothing"
        )

        either = put("third", f'"other", "{changed.json()["version"]}"')
        assert either.status_code == 200
        assert put("fourth", "*").status_code == put("fifth", None).status_code == 200


def test_the_version_of_a_webhook_says_nothing_of_its_address_and_its_secret(serve):
    api = serve(api_key="admin-key")
    api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}, headers=ADMIN)
    [project] = api.get("/api/v1/projects").json()
    path = f"/api/v1/projects/{project['id']}/alert-webhooks"
    made = api.post(path, json={"url": "https://93.184.215.14/secret"}, headers=ADMIN)
    assert made.status_code == 201, made.text
    [listed] = api.get(path).json()
    assert listed["url"] == "https://93.184.215.14/..."
    assert listed["version"].isdecimal()  # the time of its last change
    change = {"url": "https://93.184.215.14/secret", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
    changed = api.put(f"{path}/{listed['id']}", json=change, headers=ADMIN)
    assert int(changed.json()["version"]) > int(listed["version"])
