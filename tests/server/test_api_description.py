"""Requests that are made from the description of the API, and answers that must be as it says.

What is drawn is the same in each run. DOKIMOS_LONG_TESTS draws more, on both databases with and without keys.
"""

import os
import time
import warnings
from contextlib import suppress
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyStrategyDefinition

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the packages that it imports
    import schemathesis
    from schemathesis.specs.openapi import checks as openapi_checks

import requests
from tests.server.trace_requests import export, span

from dokimos._http.address_policy import AddressPolicy

IS_LONG = "DOKIMOS_LONG_TESTS" in os.environ
EXAMPLES = 40 if IS_LONG else 2
SEQUENCES = 30 if IS_LONG else 1
MODES = ["open", "keys"]
CHECKS = [
    schemathesis.checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
]
AFTER_OTHERS = [openapi_checks.use_after_free, openapi_checks.ensure_resource_availability]
DRAWN = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=EXAMPLES,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
ROOT = "/api/v1"


class Server:
    """A server that listens, and what its API's description has been made of."""

    def __init__(self, port, key=None):
        self.address = f"http://127.0.0.1:{port}"
        self.session = requests.Session()
        if key is not None:
            self.session.headers["Authorization"] = f"Bearer {key}"
        self.description = self.call("GET", "/openapi.json")
        self.schema = schemathesis.openapi.from_dict(self.description)
        self.schema.config.update(base_url=self.address)
        self.schema = self.schema.exclude(path=f"{ROOT}/events")  # has no end
        if key is None:  # the first key closes an open server
            self.schema = self.schema.exclude(path=f"{ROOT}/api-keys", method="POST")

    def call(self, method, path, body=None):
        answer = self.session.request(method, self.address + path, json=body, timeout=60)
        assert answer.status_code < 300, (method, path, answer.text)
        return answer.json() if answer.content else None

    def fill(self):
        """Store something of each kind; return ids and names by the parameters that they stand for."""
        runs = []
        for status in ("SUCCESS", "FAILED", "RUNNING"):
            run = self.call("POST", f"{ROOT}/projects/chat/runs", {"experimentName": "qa"})["runId"]
            scores = [{"name": "accuracy", "score": 0.5, "success": True}]
            items = [{"inputs": {"n": n}, "evalResults": scores, "tokensIn": 3} for n in range(3)]
            self.call("POST", f"{ROOT}/runs/{run}/items", {"items": items})
            if status != "RUNNING":
                self.call("PATCH", f"{ROOT}/runs/{run}", {"status": status})
            runs.append(run)
        details = self.call("GET", f"{ROOT}/runs/{runs[0]}")
        item = details["items"]["content"][0]["id"]
        self.call("PUT", f"{ROOT}/runs/{runs[0]}/items/{item}/annotation", {"verdict": "INCORRECT"})
        comment = self.call("POST", f"{ROOT}/runs/{runs[0]}/comments", {"body": "a"})
        jobs = f"{ROOT}/runs/{runs[0]}/judge-jobs"
        evaluator = {"type": "contains", "params": {"values": "a"}}
        body = {"evaluatorName": "contains", "evaluator": evaluator}
        job = (self.call("GET", jobs) or [self.call("POST", jobs, body)])[0]["id"]
        while self.call("GET", f"{jobs}/{job}")["status"] in ("PENDING", "CLAIMED"):
            time.sleep(0.05)  # until then, its run is EVALUATING
        names = [each["name"] for each in self.call("GET", f"{ROOT}/datasets")]
        if "chat" not in names:  # as the project, so that one name is good in each path
            self.call("POST", f"{ROOT}/datasets", {"name": "chat"})
        for number in range(2):
            body = {"items": [{"inputs": {"n": n}} for n in range(2 + number)]}
            self.call("POST", f"{ROOT}/datasets/chat/versions", body)
        view = self.call("POST", f"{ROOT}/views", {"kind": "runs", "name": runs[0], "query": {}})
        project = self.call("GET", f"{ROOT}/projects?search=chat")[0]["id"]
        webhooks = f"{ROOT}/projects/{project}/alert-webhooks"
        known = self.call("GET", webhooks)
        url = "http://127.0.0.1:9/hook"  # where nobody listens
        webhook = (known or [self.call("POST", webhooks, {"url": url, "enabled": False})])[0]["id"]
        deliveries = self.call("GET", f"{webhooks}/{webhook}/deliveries")
        delivery = (deliveries or [self.call("POST", f"{webhooks}/{webhook}/test")])[0]["id"]
        connections = self.call("GET", f"{ROOT}/llm-connections")
        body = {"name": runs[0], "baseUrl": "http://127.0.0.1:9", "model": "m", "credentialRef": "X_API_KEY"}
        connection = (connections or [self.call("POST", f"{ROOT}/llm-connections", body)])[0]["id"]
        trace = export(span("trace", session__id="s", input="a", output="b"), project="chat")
        self.call("POST", f"{ROOT}/traces", trace)
        trace_id = self.call("GET", f"{ROOT}/traces")["content"][0]["id"]
        rules = f"{ROOT}/projects/{project}/trace-eval-rules"
        body = {
            **{"name": "r", "matchType": "SPAN_NAME", "matchValue": "x", "evaluatorName": "contains"},
            "evaluator": evaluator,
        }
        rule = (self.call("GET", rules) or [self.call("POST", rules, body)])[0]["id"]
        alerts = f"{ROOT}/projects/{project}/trace-alerts"
        body = {"name": "a", "kind": "CHANGE", "metric": "ERROR_RATE", "reference": 0.1}
        alert = (self.call("GET", alerts) or [self.call("POST", alerts, body)])[0]["id"]
        return {
            "alertId": [alert],
            "traceId": [trace_id],
            "ruleId": [rule],
            "spanId": [f"{1:016x}"],
            "connectionId": [connection],
            "baseUrl": ["http://127.0.0.1:9"],
            "credentialRef": ["X_API_KEY", None],
            "projectId": [project],
            "webhookId": [webhook],
            "deliveryId": [delivery],
            "url": [url],
            "name": ["chat"],
            "version": ["latest", "1", "2"],
            "experimentId": [details["experimentId"]],
            "runId": runs,
            "candidateRunId": [runs[1], runs[0], runs[2]],
            "baselineRunId": [runs[0], runs[1]],
            "itemId": [item],
            "itemResultId": [item],
            "commentId": [comment["id"]],
            "jobId": [job],
            "viewId": [view["id"]],
            "datasetName": ["chat"],
        }


@pytest.fixture(params=MODES if IS_LONG else [None])
def server(request, listen_on_database, database_settings):
    """A server on each database: open on one, with keys on the other; in long tests each with both."""
    mode = request.param or ("open" if "data_dir" in database_settings else "keys")
    key = None if mode == "open" else "admin"
    policy = AddressPolicy.parse("127.0.0.1:9")
    return Server(listen_on_database(api_key=key, address_policy=policy), key)


def use_known(case, known, choice):
    """Put what the server has in place of what was drawn."""

    def pick(name):
        values = known[name]
        return values[choice % len(values)]

    for part in (case.path_parameters, case.query):
        for name in part or ():
            if name in known:
                part[name] = pick(name)
    if isinstance(case.body, dict):
        for name in case.body:
            if name in known:
                case.body[name] = pick(name)
        for each in case.body.get("items") or () if isinstance(case.body.get("items"), list) else ():
            if isinstance(each, dict) and "itemResultId" in each:
                each["itemResultId"] = pick("itemResultId")


def try_operation(server, operation, known):
    """Send drawn requests of an operation, check the answers, and return their statuses."""
    statuses = set()
    invalid = operation.as_strategy(schemathesis.GenerationMode.NEGATIVE)

    @DRAWN
    @given(
        case=operation.as_strategy() | invalid,
        choice=st.integers(0, 5),
        is_known=st.sampled_from([True, True, False]),
    )
    def check(case, choice, is_known):
        if is_known:
            use_known(case, known, choice)
        answer = case.call(session=server.session, timeout=60)
        statuses.add(answer.status_code)
        case.validate_response(answer, checks=CHECKS)

    check()
    return statuses


@pytest.mark.timeout(1200)  # it calls each of many operations
def test_answers_are_as_described(server):
    statuses = {}
    known = server.fill()
    for result in server.schema.get_all_operations():
        operation = result.ok()
        statuses[operation.label] = try_operation(server, operation, known)
        if operation.method in ("delete", "patch"):  # it has removed what is known, or ended it
            known = server.fill()

    assert len(statuses) > 40
    assert {200, 201, 204, 400, 404} <= set().union(*statuses.values())
    reached = [label for label, found in statuses.items() if any(status < 300 for status in found)]
    assert len(reached) > len(statuses) / 2, statuses


def test_sequences_of_requests_are_answered_as_described(server):
    server.fill()
    session, failures = server.session, []

    class Sequence(server.schema.as_state_machine()):
        def get_call_kwargs(self, case):
            return {"session": session, "timeout": 60}

        def validate_response(self, response, case, **options):
            try:
                case.validate_response(response, checks=[*CHECKS, *AFTER_OTHERS])
            except Exception as error:
                failures.append(error)
                raise

    for number in range(SEQUENCES):
        # Of one seed, no more than a few: what a server answers is never twice the same, which is no fault.
        with suppress(FlakyStrategyDefinition):
            chosen = settings(DRAWN, derandomize=False, max_examples=6, stateful_step_count=8)
            seed(number)(Sequence).run(settings=chosen)
    assert failures == []


def test_each_operation_says_who_may_call_it_and_what_errors_it_has(server):
    for path, operations in server.description["paths"].items():
        for method, operation in operations.items():
            codes = set(operation["responses"])
            assert "422" not in codes
            if path.startswith(ROOT):
                assert {"400", "401", "403", "429", "431", "500", "503"} <= codes, (method, path)
                is_public = path == f"{ROOT}/session" or path.startswith(f"{ROOT}/session/")
                assert ("security" in operation) is not is_public
    schemas = server.description["components"]["schemas"]
    assert {"Error", "AccessError", "RunDetails", "ItemsBody", "EvalResultBody"} <= set(schemas)
    assert "HTTPValidationError" not in schemas
    assert "$defs" not in str(server.description)


def find_unknown_fields(value, schema, schemas, path=""):
    """The fields of an answer that its schema does not name."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    for option in schema.get("anyOf", ()):
        if option.get("type") != "null":
            return find_unknown_fields(value, option, schemas, path)
    if isinstance(value, list):
        return [
            each
            for part in value
            for each in find_unknown_fields(part, schema.get("items", {}), schemas, path)
        ]
    if not isinstance(value, dict) or "properties" not in schema:
        return []
    found = [f"{path}.{name}" for name in value.keys() - schema["properties"].keys()]
    for name in value.keys() & schema["properties"].keys():
        found += find_unknown_fields(value[name], schema["properties"][name], schemas, f"{path}.{name}")
    return found


def test_no_answer_has_a_field_that_is_not_described(server):
    known = {name: values[0] for name, values in server.fill().items()}
    candidate = {**known, "candidateRunId": server.fill()["runId"][0]}
    schemas = server.description["components"]["schemas"]
    seen = 0
    for path, operations in server.description["paths"].items():
        skipped = path.endswith(("/events", "/export", "/labels")) or path.startswith(f"{ROOT}/session/")
        if "get" not in operations or skipped or not path.startswith(ROOT):
            continue
        values = candidate if path.endswith("/diff") else known
        required = {
            each["name"]: known.get(each["name"], "a")
            for each in operations["get"].get("parameters", ())
            if each["in"] == "query" and each["required"]
        }
        if "candidateRunId" in path:
            required["baselineRunId"] = known["runId"]
        answer = server.call("GET", f"{path.format(**values)}?{urlencode(required)}")
        schema = operations["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        assert find_unknown_fields(answer, schema, schemas, path) == []
        seen += 1
    assert seen > 15
