"""When an alert is sent, to whom, and what it says."""

import base64
import hashlib
import hmac

import pytest
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError
from tests.server.alert_receiver import (
    BAD,
    GOOD,
    begin,
    deliveries,
    fail,
    finish_run,
    hooks,
    open_receiver,
    own_project,
    project_of,
    register,
    wait_for_delivery,
)
from tests.server.gate_runs import end, experiment_of, items_of, send, start, verdict
from tests.server.test_comparisons import wait_for_verdicts

SECRET = "your-signing-secret"
DOCUMENTED = [
    "projectName", "experimentId", "experimentName", "runId", "baselineRunId", "baselinePassRate",
    "candidatePassRate", "passRateDelta", "regressedCaseCount",
]  # fmt: skip


@pytest.fixture
def api(shared_server):
    with own_project(shared_server) as api:
        yield api


@pytest.fixture
def receiver():
    with open_receiver() as receiver:
        yield receiver


@pytest.fixture
def project(api):
    return begin(api)


def test_a_run_that_fails_the_gate_alerts_with_the_documented_facts(api, project, receiver):
    register(api, project, receiver.url)
    run = fail(api)
    (request,) = receiver.wait_for(1)

    said, decision = request.json(), verdict(api, run)
    assert list(said)[:9] == DOCUMENTED
    assert said["projectName"] == api.project
    assert (said["experimentId"], said["experimentName"]) == (experiment_of(api, run), "qa")
    assert (said["runId"], said["baselineRunId"]) == (run, decision["baselineRunId"])
    rates = (said["baselinePassRate"], said["candidatePassRate"], said["passRateDelta"])
    assert rates == (1.0, 0.6, -0.4)
    assert said["regressedCaseCount"] == decision["regressedCount"] == 8
    assert said["reason"] == " ".join(decision["reasons"])
    (evaluator,) = said["regressedEvaluators"]
    assert evaluator.items() <= decision["regressedEvaluators"][0].items()
    assert evaluator["evaluator"] == "accuracy"
    assert said["link"] is None  # nobody has said under which address people reach the server
    assert request.headers["Content-Type"] == "application/json"
    assert request.path == "/hooks/T0/secret-path?token=hidden"


def test_without_a_secret_it_is_not_signed(api, project, receiver):
    register(api, project, receiver.url)
    fail(api)
    (request,) = receiver.wait_for(1)

    assert "X-Dokimos-Signature" not in request.headers
    assert "webhook-signature" not in request.headers


@pytest.mark.parametrize(
    "secret",
    [SECRET, "with spaces, ünïcode ✓", "whsec_" + base64.b64encode(b"0123456789abcdef0123").decode()],
)
def test_it_is_signed_as_documented_and_as_standard_webhooks_do(api, project, receiver, secret):
    hook = register(api, project, receiver.url, secret=secret)
    fail(api)
    (request,) = receiver.wait_for(1)
    delivery = wait_for_delivery(api, project, hook, status="DELIVERED")

    documented = hmac.new(secret.encode(), request.body, hashlib.sha256).hexdigest()
    assert request.headers["X-Dokimos-Signature"] == documented
    assert request.headers["webhook-id"] == delivery["id"]
    key = secret if secret.startswith("whsec_") else base64.b64encode(secret.encode()).decode()
    assert Webhook(key).verify(request.body, request.headers) == request.json()
    with pytest.raises(WebhookVerificationError):
        Webhook(key).verify(request.body.replace(b"qa", b"qb"), request.headers)


def test_the_link_leads_to_what_got_worse(serve, receiver):
    api = serve(public_url="https://evals.example.com/")
    project = begin(api)
    register(api, project, receiver.url)
    fail(api)
    (request,) = receiver.wait_for(1)

    link = request.json()["link"]
    assert link.startswith("https://evals.example.com/api/v1/experiments/")
    answer = api.get(link.removeprefix("https://evals.example.com"))
    assert answer.json()["cases"]["totalElements"] == 8


def test_what_passes_or_has_no_baseline_or_was_cancelled_alerts_nobody(api, project, receiver):
    hook = register(api, project, receiver.url)
    finish_run(api, GOOD)
    finish_run(api, GOOD)
    finish_run(api, BAD, status="CANCELLED")
    finish_run(api, BAD, experiment="first of its experiment")
    wait_for_verdicts(api)

    assert deliveries(api, project, hook) == []


def test_a_run_of_part_of_its_data_set_alerts_nobody(api, project, receiver):
    hook = register(api, project, receiver.url)
    finish_run(api, GOOD)
    finish_run(api, BAD[:10], provenance={"partial": "failed items"})
    wait_for_verdicts(api)

    assert deliveries(api, project, hook) == []


def test_a_failed_run_and_an_empty_one_alert(api, project, receiver):
    register(api, project, receiver.url)
    finish_run(api, GOOD)
    failed = finish_run(api, GOOD, status="FAILED")
    first = finish_run(api, [], status="FAILED", experiment="without a baseline")
    empty = finish_run(api, [])
    wait_for_verdicts(api)

    said = {request.json()["runId"]: request.json() for request in receiver.wait_for(3)}
    assert set(said) == {failed, first, empty}
    assert said[failed]["reason"].startswith("The candidate's run failed")
    assert (said[first]["baselineRunId"], said[first]["passRateDelta"]) == (None, None)
    assert said[first]["candidatePassRate"] == 0.0
    assert said[empty]["baselineRunId"] is not None


def test_a_worse_evaluator_alone_alerts_and_the_setting_of_the_project_ends_that(api, receiver):
    """The documented rule looks at the pass rate only."""

    def scores(score):
        return [
            {**one, "evalResults": [{"name": "tone", "score": score, "threshold": 0.1, "success": True}]}
            for one in GOOD
        ]

    finish_run(api, scores(1.0))
    wait_for_verdicts(api)
    project = project_of(api)
    hook = register(api, project, receiver.url)
    worse = finish_run(api, scores(0.5))
    wait_for_verdicts(api)
    assert receiver.wait_for(1)[0].json()["runId"] == worse

    answer = api.patch(f"/api/v1/projects/{api.project}/settings", json={"alertOn": "passRate"})
    assert answer.status_code == 200, answer.text
    finish_run(api, scores(0.2))
    finish_run(api, GOOD, status="FAILED")
    wait_for_verdicts(api)
    assert len(deliveries(api, project, hook)) == 1
    dropped = finish_run(api, items_of([0.0] * 20, name="tone"))
    wait_for_verdicts(api)
    assert receiver.wait_for(2)[1].json()["runId"] == dropped


def test_a_run_that_is_opened_again_alerts_once(api, project, receiver):
    hook = register(api, project, receiver.url)
    run = fail(api)
    receiver.wait_for(1)
    for status in ("RUNNING", "SUCCESS", "FAILED", "RUNNING", "SUCCESS"):
        end(api, run, status)
        wait_for_verdicts(api)

    assert len(deliveries(api, project, hook)) == 1
    later = register(api, project, receiver.url)
    end(api, run, "FAILED")
    wait_for_verdicts(api)
    assert [len(deliveries(api, project, each)) for each in (hook, later)] == [1, 1]


def test_a_run_that_passed_at_first_alerts_when_it_fails(api, project, receiver):
    hook = register(api, project, receiver.url)
    finish_run(api, GOOD)
    run = start(api, project=api.project)
    send(api, run, GOOD)
    end(api, run)
    wait_for_verdicts(api)
    assert deliveries(api, project, hook) == []

    end(api, run, "RUNNING")
    send(api, run, [{**each, "ordinal": number} for number, each in enumerate(items_of([0.0] * 20), 20)])
    end(api, run, "FAILED")
    wait_for_verdicts(api)

    assert [each["runId"] for each in deliveries(api, project, hook)] == [run]


def test_every_enabled_webhook_of_the_project_is_called_and_no_other(api, project, receiver):
    finish_run(api, GOOD, project=f"{api.project}-other")
    other = project_of(api, f"{api.project}-other")
    called = [register(api, project, f"{receiver.url}&n={number}") for number in range(3)]
    disabled = register(api, project, receiver.url, enabled=False)
    foreign = register(api, other, receiver.url)
    fail(api)

    requests = receiver.wait_for(3)
    assert {request.path[-1] for request in requests} == {"0", "1", "2"}
    assert len({request.headers["webhook-id"] for request in requests}) == 3
    for hook in called:
        wait_for_delivery(api, project, hook, status="DELIVERED")
    assert deliveries(api, project, disabled) == deliveries(api, other, foreign) == []


def test_a_tenants_run_alerts_that_tenant_alone(serve, receiver):
    """Whoever may change a webhook's address must see all that is sent there."""
    from dokimos._http.address_policy import AddressPolicy

    api = serve(api_key="k", address_policy=AddressPolicy.parse("127.0.0.1"))
    admin = {"Authorization": "Bearer k"}
    keys = {}
    for tenant in ("ada", "bob"):
        body = {"name": tenant, "role": "EDITOR", "tenantId": tenant}
        key = api.post("/api/v1/api-keys", json=body, headers=admin).json()["key"]
        keys[tenant] = {"Authorization": f"Bearer {key}"}
    project = begin(api, admin)
    targets = {
        name: register(api, project, f"{receiver.url}&{name}", key)
        for name, key in (("shared", admin), *keys.items())
    }

    def alerted():
        return {
            name: len(deliveries(api, project, hook, keys.get(name, admin))) for name, hook in targets.items()
        }

    fail(api, keys["ada"])
    assert alerted() == {"shared": 0, "ada": 1, "bob": 0}
    fail(api, admin)
    assert alerted() == {"shared": 1, "ada": 2, "bob": 1}


def test_slack_gets_blocks_of_plain_text(api, receiver):
    """Names come from users: what Slack takes for markup, mentions among it, has no effect."""
    name = "<!channel> *bold* & <http://evil.example|click>"
    finish_run(api, GOOD, experiment=name)
    wait_for_verdicts(api)
    project = project_of(api)
    register(api, project, receiver.url, format="slack")
    fail(api, experiment=name)
    (request,) = receiver.wait_for(1)

    said = request.json()
    assert set(said) == {"text", "blocks"}
    assert "<" not in said["text"]
    assert "&lt;!channel&gt;" in said["text"]
    kinds = [block["type"] for block in said["blocks"]]
    assert kinds == ["header", "section", "section"]
    texts = [said["blocks"][0]["text"], said["blocks"][1]["text"], *said["blocks"][2]["fields"]]
    assert {text["type"] for text in texts} == {"plain_text"}
    assert name in texts[0]["text"]
    assert "Pass rate\n100.0% → 60.0% (-40.0 points)" in [text["text"] for text in texts]
    assert len(texts[0]["text"]) <= 150


def test_the_generic_form_has_chosen_facts(api, project, receiver):
    fields = {"content": "message", "run": "runId", "drop": "passRateDelta", "url": "link"}
    register(api, project, receiver.url, format="generic", fields=fields)
    run = fail(api)
    (request,) = receiver.wait_for(1)

    said = request.json()
    assert list(said) == list(fields)
    assert said["content"].startswith(f"qa ({api.project}) failed the gate: ")
    assert (said["run"], said["drop"], said["url"]) == (run, -0.4, None)


@pytest.mark.parametrize("form", ["dokimos", "slack", "generic"])
def test_every_form_is_signed(api, project, receiver, form):
    fields = {"text": "message"} if form == "generic" else None
    register(api, project, receiver.url, format=form, fields=fields, secret=SECRET)
    fail(api)
    (request,) = receiver.wait_for(1)

    key = base64.b64encode(SECRET.encode()).decode()
    assert Webhook(key).verify(request.body, request.headers) == request.json()


def test_a_test_call_says_so_and_what_came_of_it(api, project, receiver):
    hook = register(api, project, receiver.url, secret=SECRET, enabled=False)
    answer = api.post(hooks(project, hook, "test"))
    (request,) = receiver.wait_for(1)

    shown = answer.json()
    assert answer.status_code == 200
    assert (shown["status"], shown["attempts"], shown["lastStatusCode"]) == ("DELIVERED", 1, 200)
    assert shown["runId"] is None
    said = request.json()
    assert said["test"] is True
    assert list(said)[:9] == DOCUMENTED
    assert said["projectName"] == api.project
    assert "X-Dokimos-Signature" in request.headers


def test_a_test_call_that_fails_is_not_repeated(api, project, receiver):
    hook = register(api, project, receiver.url)
    receiver.answers = [(500, {})]

    shown = api.post(hooks(project, hook, "test")).json()

    assert (shown["status"], shown["lastStatusCode"], shown["nextAttemptAt"]) == ("DEAD", 500, None)
    assert shown["lastError"] == "The receiver answered 500."
    assert api.get(hooks(project, hook)).json()["failingSince"] is None
