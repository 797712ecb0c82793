"""What is replaced in spans before anything of them is stored."""

import base64
import json

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from sqlalchemy import select
from tests.server.trace_server import export, log, log_export, resource, run, span

from dokimos.server import ServerSettings
from dokimos.server._db.trace_tables import SPAN_LOGS, SPANS, TRACE_REDACTIONS, TRACE_SOURCES, TRACES
from dokimos.server._redaction_rules import RedactionRule, parse_rules
from dokimos.server._services.traces.redaction import Redactor
from dokimos.server._trace_settings import TraceSettings
from dokimos.traces._otlp_records import read_records

EMAIL = {"name": "email", "pattern": r"[\w.+-]+@[\w-]+\.[\w.-]+", "replacement": "[email]"}
SECRETS = {"name": "secrets", "keys": ["*password*", "http.request.header.*"]}
RULES = "/api/v1/projects/chat/redaction-rules"
ADMIN = {"Authorization": "Bearer secret"}
SECRET = "ada@example.com"


def start_project(api, **options):
    api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}, **options)


def stored(api):
    """Every byte that the database of traces holds of what was sent."""

    def read(connection):
        values = []
        for table in (TRACES, SPANS, SPAN_LOGS, TRACE_SOURCES):
            columns = [column for column in table.c if column.name != "row"]  # SQLite alone has that
            values += [str(value) for row in run(connection, select(*columns)) for value in row]
        return "\n".join(values)

    async def read_rows():
        return await api.app.state.traces.read(read)

    return api.portal.call(read_rows)


def hostile_span():
    """A span that has a secret wherever a text may be, and fields that nobody knows."""
    made = span(1, 1, contact=f"write to {SECRET}", **{"user.password": "swordfish"})
    made |= {
        "name": f"mail {SECRET}",
        "traceState": f"vendor={SECRET}",
        "status": {"code": 2, "message": f"cannot reach {SECRET}"},
        "events": [
            {
                "name": f"sent {SECRET}",
                "timeUnixNano": "5",
                "attributes": [
                    {
                        "key": "nested",
                        "value": {
                            "kvlistValue": {
                                "values": [
                                    {
                                        "key": "to",
                                        "value": {"arrayValue": {"values": [{"stringValue": SECRET}]}},
                                    },
                                    {"key": "smtp.password", "value": {"intValue": "12345"}},
                                ]
                            }
                        },
                    }
                ],
            }
        ],
        "links": [
            {
                "traceId": "a" * 32,
                "spanId": "b" * 16,
                "attributes": [{"key": "why", "value": {"stringValue": SECRET}}],
            }
        ],
    }
    body = {"bytesValue": base64.b64encode(f"raw {SECRET}".encode()).decode()}
    made["attributes"].append({"key": "raw", "value": body})
    return made


@pytest.fixture
def project(api):
    start_project(api)
    assert api.put(RULES, json={"rules": [EMAIL, SECRETS]}).status_code == 200
    return api


def test_no_text_of_a_span_is_stored_with_what_a_rule_names(project):
    body = export({**hostile_span(), "newField": {"note": SECRET, "count": 3}}, project="chat")
    body["resourceSpans"][0]["resource"]["attributes"] += [{"key": "owner", "value": {"stringValue": SECRET}}]
    body["resourceSpans"][0]["scopeSpans"][0]["scope"] = {"name": f"by {SECRET}", "version": "1"}
    assert project.post("/v1/traces", json=body).json() == {}
    text = stored(project)
    assert SECRET not in text
    assert base64.b64encode(f"raw {SECRET}".encode()).decode() not in text
    assert "swordfish" not in text
    assert "12345" not in text
    assert "write to [email]" in text


def test_what_no_rule_names_is_kept_as_it_was_sent(project):
    sent = {**hostile_span(), "newField": {"note": SECRET, "count": 3}}
    project.post("/v1/traces", json=export(sent, project="chat"))

    async def read_rows():
        return await project.app.state.traces.read(lambda c: bytes(run(c, select(SPANS.c.body)).scalar_one()))

    kept = json.loads(project.portal.call(read_rows))
    text = json.dumps(sent).replace(SECRET, "[email]")
    expected = json.loads(text)
    values = {each["key"]: each for each in expected["attributes"]}
    values["user.password"]["value"] = {"stringValue": "[redacted]"}
    values["raw"]["value"] = {"bytesValue": base64.b64encode(b"raw [email]").decode()}
    nested = expected["events"][0]["attributes"][0]["value"]["kvlistValue"]["values"]
    nested[1]["value"] = {"stringValue": "[redacted]"}
    assert kept == expected


def test_protobuf_is_rewritten_like_json():
    made = hostile_span()
    for each in (made, made["links"][0]):  # JSON of OTLP has ids in hexadecimal, that of protobuf in base64
        for name in ("traceId", "spanId"):
            each[name] = base64.b64encode(bytes.fromhex(each[name])).decode()
    message = ParseDict(made, Span())
    request = b"".join(_field(1, _field(2, _field(2, message.SerializeToString()))) for _ in range(1))
    [record] = read_records(request, "protobuf").records
    redacted = Redactor(parse_rules([EMAIL, SECRETS])).redact_span(record, counts := _Counter())
    assert SECRET.encode() not in redacted.body
    assert b"swordfish" not in redacted.body
    kept = Span.FromString(redacted.body)
    assert (kept.trace_id, kept.span_id) == (message.trace_id, message.span_id)
    assert kept.name == "mail [email]"
    assert kept.start_time_unix_nano == message.start_time_unix_nano
    assert redacted.span.status_message == "cannot reach [email]"
    assert counts == {"email": 8, "secrets": 2}


def _field(number, content):
    size = len(content)
    length = b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


class _Counter(dict):
    """Counts, all of which are there."""

    def __missing__(self, key):
        return 0

    def total(self):
        return sum(self.values())


def test_logs_are_redacted_too(project):
    body = log_export(log(body={"stringValue": f"mailed {SECRET}"}, api_password="swordfish"), project="chat")
    assert project.post("/v1/logs", json=body).json() == {}
    text = stored(project)
    assert SECRET not in text
    assert "swordfish" not in text
    assert "mailed [email]" in text


def test_replacements_are_counted_by_rule(project):
    for trace in (1, 2):
        project.post("/v1/traces", json=export(span(trace, 1, to=SECRET, password="x"), project="chat"))
    answer = project.get(RULES).json()
    assert {rule["name"]: rule["replacedCount"] for rule in answer["rules"]} == {"email": 2, "secrets": 2}
    assert answer["serverRules"] == []


def test_rules_of_the_server_hold_for_all_spans(serve):
    rules = (RedactionRule("email", EMAIL["pattern"], replacement="[email]"),)
    api = serve(traces=TraceSettings(redaction_rules=rules))
    start_project(api)
    api.post("/v1/traces", json=export(span(1, 1, to=SECRET)))
    api.post("/v1/traces", json=export(span(2, 1, to=SECRET), project="chat"))
    assert SECRET not in stored(api)
    assert [rule["name"] for rule in api.get(RULES).json()["serverRules"]] == ["email"]


def test_a_span_whose_rules_take_too_long_is_rejected_and_never_stored(serve, monkeypatch):
    monkeypatch.setattr("dokimos.server._services.traces.redaction.MAX_SECONDS", 0.05)
    rules = (RedactionRule("slow", "(?:a+)+$"),)
    api = serve(traces=TraceSettings(redaction_rules=rules))
    slow = span(1, 1, text="a" * 40 + "!")
    answer = api.post("/api/v1/traces", json=export(slow, span(1, 2), project=None)).json()
    assert (answer["acceptedSpans"], answer["rejectedSpans"]) == (1, 1)
    assert answer["rejectedReasons"] == {"texts that the redaction rules take too long for": 1}
    assert "aaaa" not in stored(api)


def test_without_a_process_that_could_be_ended_nothing_is_stored(project, monkeypatch):
    from dokimos._runtime.search_process import SearchProcess, SearchProcessError

    def refuse(*args, **kwargs):
        raise SearchProcessError("none")

    monkeypatch.setattr(SearchProcess, "replace", refuse)
    answer = project.post("/api/v1/traces", json=export(span(1, 1, to=SECRET), project="chat")).json()
    assert answer["rejectedSpans"] == 1
    assert SECRET not in stored(project)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(x+x+)+y", "(?:a|a)*b", "([a-z0-9]+)*@"])
def test_a_hostile_pattern_is_refused(api, pattern):
    start_project(api)
    answer = api.put(RULES, json={"rules": [{"name": "bad", "pattern": pattern}]})
    assert answer.status_code == 400
    assert "may take too long" in answer.text
    assert api.get(RULES).json()["rules"] == []


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"name": "x"}, "either 'pattern' or 'keys'"),
        ({"name": "x", "pattern": "a", "keys": ["b"]}, "either 'pattern' or 'keys'"),
        ({"name": "x", "pattern": "("}, "is not a regular expression"),
        ({"name": "x", "pattern": "a*"}, "matches the empty text"),
        ({"name": "", "pattern": "a"}, "1 to 100 characters"),
        ({"name": "x", "pattern": "a", "replacement": " "}, "1 to 100 characters"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(api, rule, message):
    start_project(api)
    answer = api.put(RULES, json={"rules": [rule]})
    assert answer.status_code == 400
    assert message in answer.text


def test_rules_can_be_tried_on_a_text(project):
    answer = project.post(f"{RULES}/test", json={"text": f"to {SECRET} and {SECRET}"}).json()
    assert answer == {"text": "to [email] and [email]", "counts": {"email": 2}}
    rules = [{"name": "digits", "pattern": "[0-9]+"}]
    answer = project.post(f"{RULES}/test", json={"text": "call 555", "rules": rules}).json()
    assert answer == {"text": "call [redacted]", "counts": {"digits": 1}}


def test_only_administrators_change_rules_and_nobody_without_a_key_reads_them(serve):
    api = serve(api_key="secret")
    start_project(api, headers=ADMIN)
    key = api.post("/api/v1/api-keys", json={"name": "e", "role": "EDITOR"}, headers=ADMIN).json()["key"]
    editor = {"Authorization": f"Bearer {key}"}
    assert api.get(RULES).status_code == 401
    assert api.get(RULES, headers=editor).status_code == 200
    assert api.put(RULES, json={"rules": [EMAIL]}, headers=editor).status_code == 403
    assert api.put(RULES, json={"rules": [EMAIL]}, headers=ADMIN).status_code == 200


def test_rules_of_the_server_come_from_a_variable():
    variables = {"DOKIMOS_REDACTION_RULES": json.dumps([SECRETS])}
    [rule] = ServerSettings.from_environment(variables).traces.redaction_rules
    assert rule.key_pattern.fullmatch("HTTP.request.header.Authorization")
    assert not rule.key_pattern.fullmatch("http_request.header.x")
    with pytest.raises(Exception, match="DOKIMOS_REDACTION_RULES must be a list of rules in JSON"):
        ServerSettings.from_environment({"DOKIMOS_REDACTION_RULES": "[{}]"})


def test_redaction_keeps_the_link_to_the_project(project):
    rules = [{"name": "chat", "pattern": "chat"}]
    assert project.put(RULES, json={"rules": rules}).status_code == 200
    project.post("/v1/traces", json=export(span(1, 1), project="chat"))

    async def read_rows():
        return await project.app.state.traces.read(
            lambda c: (
                c.execute(select(TRACES.c.project_id)).scalar_one(),
                c.execute(select(TRACE_REDACTIONS)).all(),
            )
        )

    project_id, _ = project.portal.call(read_rows)
    assert project_id is not None
    assert resource("chat") != resource(None)


NAMES_OF_FIELDS = ("key", "kind", "code", "flags", "traceId", "spanId", "startTimeUnixNano", "intValue")
MISPLACED = {
    "attributes as a map": {"attributes": dict.fromkeys(NAMES_OF_FIELDS, SECRET)},
    "a map in a map": {"attributes": {"user": {"my_password": "swordfish", "list": [{"password": ["x"]}]}}},
    "a map as a value": {"attributes": [{"key": "user", "value": {"password": "swordfish", "kind": SECRET}}]},
    "a map as a text": {"attributes": [{"key": "u", "value": {"stringValue": {"password": "swordfish"}}}]},
    "a value beside its place": {"attributes": [{"key": "password", "stringValue": "swordfish"}]},
    "a key that is a list": {"attributes": [{"key": [SECRET], "value": {"intValue": "1"}}]},
    "texts as other types": {
        "attributes": [
            {"key": name, "value": {name: SECRET}}
            for name in ("intValue", "doubleValue", "boolValue", "bytesValue", "arrayValue", "kvlistValue")
        ]
    },
    "a list without its map": {"attributes": [{"key": "a", "value": {"arrayValue": [{"code": SECRET}]}}]},
    "fields of the span": {
        "kind": SECRET,
        "flags": SECRET,
        "endTimeUnixNano": SECRET,
        "droppedEventsCount": SECRET,
        "status": {"code": SECRET},
        "events": [{"name": "e", "timeUnixNano": SECRET}],
        "newField": {"code": SECRET, "password": "swordfish"},
    },
    "keys beside the fields of a message": {
        "my_password": {"stringValue": "swordfish"},
        "events": [{"name": "e", "password": "swordfish"}],
        "status": {"code": 2, "passwords": ["swordfish"], "key": "password", "value": "swordfish"},
    },
    "ids where there are none": {
        "parentSpanId": SECRET,
        "links": [{"traceId": SECRET, "spanId": f"id of {SECRET}"}],
        "events": [{"name": "e", "traceId": SECRET}],
        "status": {"code": 2, "spanId": SECRET},
    },
}


@pytest.mark.parametrize("fields", MISPLACED.values(), ids=MISPLACED)
def test_nothing_hides_in_json_of_another_shape(project, fields):
    answer = project.post("/v1/traces", json=export({**span(1, 1), **fields}, project="chat"))
    assert answer.json() == {}
    text = stored(project)
    assert SECRET not in text
    assert "swordfish" not in text


def test_rules_do_not_take_the_words_of_otlp_for_keys():
    sent = {
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "name": "step",
        "kind": "SPAN_KIND_CLIENT",
        "startTimeUnixNano": "1700000000000000000",
        "droppedLinksCount": "7",
        "status": {"code": "STATUS_CODE_ERROR"},
        "links": [{"traceId": "12345", "spanId": "67"}],
        "attributes": [
            {"key": "n", "value": {"intValue": "42"}},
            {"key": "x", "value": {"doubleValue": "NaN"}},
            {
                "key": "list",
                "value": {
                    "arrayValue": {"values": [{"kvlistValue": {"values": [{"key": "b", "value": {}}]}}]}
                },
            },
        ],
    }
    rules = parse_rules(
        [{"name": "digits", "pattern": "[0-9]+|[A-Z]{4,}"}, {"name": "words", "keys": ["*alue*", "k*y"]}]
    )
    data = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [sent]}]}]}).encode()
    [record] = read_records(data, "json").records
    counts = _Counter()
    assert Redactor(rules).redact_span(record, counts) is record
    assert counts.total() == 0


def test_what_takes_the_place_of_a_value_is_no_text_for_other_rules():
    attribute = {"key": "password", "value": {"stringValue": "swordfish"}}
    fields = {"attributes": [attribute], "newField": [{**attribute, "note": "red"}]}
    data = json.dumps(export({**span(1, 1), **fields})).encode()
    [record] = read_records(data, "json").records
    rules = parse_rules([SECRETS, {"name": "red", "pattern": "red", "replacement": "blue"}])
    counts = _Counter()
    redacted = json.loads(Redactor(rules).redact_span(record, counts).body)
    value = {"stringValue": "[redacted]"}
    assert redacted["attributes"] == [{"key": "password", "value": value}]
    assert redacted["newField"] == [{"key": "password", "value": value, "note": "blue"}]
    assert counts == {"secrets": 2, "red": 1}


def test_an_id_that_is_a_short_name_stays():
    ids = {"traceId": "run-7", "spanId": "step-2", "parentSpanId": "step-1"}
    data = json.dumps(export({**span(1, 1), **ids, "links": [{"traceId": "run-7", "spanId": "step-0"}]}))
    [record] = read_records(data.encode(), "json").records
    rules = parse_rules([{"name": "ids", "pattern": "(run|step)-[0-9]+"}])
    assert Redactor(rules).redact_span(record, _Counter()) is record


@pytest.mark.parametrize(("path", "ids"), [("/v1/traces", (1, 2, 5)), ("/v1/logs", (9, 10, 6))])
def test_what_rules_cannot_look_into_costs_no_other(api, path, ids):
    """Protobuf parses 100 messages within each other, and spans are read without what is deeper."""
    start_project(api)
    chat = _field(1, b"dokimos.project") + _field(2, _field(1, b"chat"))
    rules = [{"name": "email", "pattern": "@"}]
    assert api.put("/api/v1/projects/chat/redaction-rules", json={"rules": rules}).status_code == 200
    nested = b""
    for _ in range(60):
        nested = _field(5, _field(1, nested))
    trace_id, span_id, last = ids
    good, bad = (_field(trace_id, b"t" * 16) + _field(span_id, bytes([n]) * 8) for n in (1, 2))
    if path == "/v1/traces":
        good, bad = (each + _field(last, b"name") for each in (good, bad))
    bad += _field(9 if path == "/v1/traces" else last, _field(1, b"k") + _field(2, nested))
    group = _field(1, _field(1, chat)) + _field(2, _field(2, bad) + _field(2, good))
    answer = api.post(path, content=_field(1, group), headers={"Content-Type": "application/x-protobuf"})
    assert answer.status_code == 200, answer.text
    assert b"1 with content that the redaction rules cannot look into" in answer.content
    table = SPANS if path == "/v1/traces" else SPAN_LOGS
    rows = api.portal.call(api.app.state.traces.read, lambda c: run(c, select(table.c.span_id)).all())
    assert len(rows) == 1


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs"])
def test_what_spans_share_is_redacted_and_counted_once_for_each_export(project, path):
    body = export(span(1, 1), span(1, 2), project="chat")
    group, inner = body["resourceSpans"][0], "scopeSpans"
    if path == "/v1/logs":
        body = log_export(log(number=1), log(number=2), project="chat")
        group, inner = body["resourceLogs"][0], "scopeLogs"
    group["schemaUrl"] = group[inner][0]["schemaUrl"] = f"https://example.com/{SECRET}"
    group["resource"]["attributes"].append({"key": "owner", "value": {"stringValue": SECRET}})
    for _ in range(2):
        assert project.post(path, json=body).json() == {}
    assert SECRET not in stored(project)
    counts = {rule["name"]: rule["replacedCount"] for rule in project.get(RULES).json()["rules"]}
    assert counts["email"] == 6
