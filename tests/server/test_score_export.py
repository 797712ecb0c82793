"""Scores of online evaluation are sent as events of OTLP where an endpoint is configured."""

import asyncio
from dataclasses import replace

import pytest
from tests.server.alert_receiver import open_receiver
from tests.server.eval_rules import add_rule, contains, export, project_of, span, wait_for_jobs

from dokimos._http.address_policy import AddressPolicy
from dokimos._http.webhook import WebhookFailure, WebhookReply
from dokimos.errors import ConfigurationError
from dokimos.server import ServerSettings
from dokimos.server._online_settings import OnlineSettings
from dokimos.server._services.judging.judge_results import ItemError, ItemScore
from dokimos.server._services.metrics import Metrics
from dokimos.server._services.online.score_events import encode_events, make_event
from dokimos.server._workers import score_export
from dokimos.server._workers.score_export import ScoreExport
from dokimos.traces._span import Span

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SCORE = ItemScore(item_id="1", score=0.25, threshold=0.5, success=False, reason='"too short"')


def judged_span(trace_id=TRACE, span_id=SPAN, **attributes):
    return [[Span(trace_id, span_id, name="chat", attributes=attributes)]]


def event(outcome=SCORE, **place):
    traces = judged_span(**place)
    return make_event("tone", outcome, traces[0][0].span_id, traces, 1_700_000_000_000_000)


def parse(body):
    service = pytest.importorskip("opentelemetry.proto.collector.logs.v1.logs_service_pb2")
    request = service.ExportLogsServiceRequest.FromString(body)
    return list(request.resource_logs[0].scope_logs[0].log_records)


def attributes_of(record):
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in record.attributes}


def test_a_score_becomes_an_event_of_the_judged_span():
    (record,) = parse(encode_events([event(**{"gen_ai.response.id": "chatcmpl-1"})]))

    assert record.event_name == "gen_ai.evaluation.result"
    assert (record.trace_id.hex(), record.span_id.hex()) == (TRACE, SPAN)
    assert record.time_unix_nano == 1_700_000_000_000_000_000
    assert attributes_of(record) == {
        "gen_ai.evaluation.name": "tone",
        "gen_ai.evaluation.score.value": 0.25,
        "gen_ai.evaluation.score.label": "fail",
        "gen_ai.evaluation.explanation": "too short",
        "gen_ai.response.id": "chatcmpl-1",
    }


def test_an_error_has_no_score_and_what_names_no_span_of_otlp_is_not_sent():
    error = event(ItemError(item_id="1", kind="timeout", message="The evaluator took too long."))

    (record,) = parse(encode_events([error]))

    assert attributes_of(record)["error.type"] == "timeout"
    assert "gen_ai.evaluation.score.value" not in attributes_of(record)
    assert event(ItemError(item_id="1", kind="skipped", message="no output")) is None
    assert event(trace_id="not hexadecimal") is None
    assert event(span_id="00" * 8) is None


class _Database:
    async def read(self, query, lane=None):
        return AddressPolicy()


def make_export(*answers):
    """An export whose endpoint gives these answers, and what it was sent and how long it waited."""
    settings = ServerSettings(online=OnlineSettings(export_url="https://c.example/v1/logs"))
    given, sent, waits = list(answers), [], []

    async def post(url, body, headers, *, policy):
        sent.append(parse(body))
        answer = given.pop(0) if given else WebhookReply(200, None)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def sleep(seconds):
        waits.append(seconds)

    metrics = Metrics()
    return ScoreExport(_Database(), settings, metrics, post=post, sleep=sleep), sent, waits, metrics


def counts(metrics):
    (counter,) = (each for each in metrics.counters if each.name == "dokimos_score_events_total")
    return {labels[0]: number for labels, number in counter.series.items()}


def run(export, *events):
    async def send():
        for each in events:
            export.add(each)
        task = asyncio.create_task(export.run())
        while export._waiting:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(send(), 60))


def test_events_are_sent_in_batches_and_again_where_the_endpoint_was_away(monkeypatch):
    monkeypatch.setattr(score_export, "EVENTS_AT_ONCE", 2)
    export, sent, waits, metrics = make_export(
        WebhookReply(503, 7.0), WebhookFailure("Cannot connect."), WebhookReply(200, None)
    )

    run(export, event(), event(), event())

    assert [len(batch) for batch in sent] == [2, 2, 2, 1]
    assert waits == [7.0, 2.0]
    assert counts(metrics) == {"sent": 3}


def test_what_the_endpoint_refuses_is_given_up_and_counted():
    export, sent, waits, metrics = make_export(WebhookReply(400, None))

    run(export, event())

    assert (len(sent), waits) == (1, [1.0])  # what it waited for others
    assert counts(metrics) == {"failed": 1}


def test_what_waits_is_bounded_and_nothing_waits_without_an_endpoint(monkeypatch):
    monkeypatch.setattr(score_export, "MAX_WAITING", 2)
    export, *_, metrics = make_export()
    for _ in range(5):
        export.add(event())
    assert counts(metrics) == {"dropped": 3}

    silent = ScoreExport(_Database(), ServerSettings(), Metrics())
    silent.add(event())
    assert not silent.is_enabled
    assert not silent._waiting


def test_the_endpoint_and_its_headers_are_read_from_the_environment():
    variables = {
        "DOKIMOS_EVALUATION_OTLP_ENDPOINT": "https://c.example:4318/otlp/",
        "DOKIMOS_EVALUATION_OTLP_HEADERS": "authorization=Bearer%20x,x-team=a",
    }
    online = ServerSettings.from_environment(variables).online

    assert online.export_url == "https://c.example:4318/otlp/v1/logs"
    assert online.export_headers == {"authorization": "Bearer x", "x-team": "a"}
    assert "Bearer" not in repr(online)
    assert ServerSettings.from_environment({}).online.export_url is None
    for wrong in ({"DOKIMOS_EVALUATION_OTLP_ENDPOINT": "c:4318"}, {"DOKIMOS_EVALUATION_OTLP_HEADERS": "x"}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            ServerSettings.from_environment(wrong)


@pytest.mark.parametrize("database_settings", ["sqlite"], indirect=True)
def test_scores_of_a_rule_reach_the_endpoint(serve):
    with open_receiver() as receiver:
        online = replace(
            OnlineSettings(), poll_seconds=0.05, export_url=f"{receiver.url.partition('/hooks')[0]}/v1/logs"
        )
        api = serve(online=replace(online, export_headers={"x-team": "a"}))
        project = project_of(api)
        add_rule(api, project, contains())
        sent = span(gen_ai__response__id="r1")
        export(api, sent)
        (job,) = wait_for_jobs(api, 1)

        request = receiver.wait_for(1)[0]

    (record,) = parse(request.body)
    assert (request.path, request.headers["x-team"]) == ("/v1/logs", "a")
    assert (record.trace_id.hex(), record.span_id.hex()) == (sent["traceId"], sent["spanId"])
    assert attributes_of(record)["gen_ai.evaluation.score.value"] == job["score"] == 1.0
