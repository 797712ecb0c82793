"""Redaction rules that take long keep nobody waiting who has none."""

import threading

import pytest
from tests.server.trace_server import export, log, log_export, span

from dokimos.errors import EvaluationError
from dokimos.server._redaction_rules import parse_rules
from dokimos.server._services.traces import redaction
from dokimos.server._services.traces.request_pace import RequestPace

RULES = "/api/v1/projects/{}/redaction-rules"
PATTERN = {"name": "digits", "pattern": "[0-9]+"}


def set_rules(api, project, *rules):
    api.post(f"/api/v1/projects/{project}/runs", json={"experimentName": "qa"})
    assert api.put(RULES.format(project), json={"rules": rules}).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/traces", export(span(1, 1), project="chat")),
        ("/v1/logs", log_export(log(note="x"), project="chat")),
    ],
)
def test_patterns_are_applied_in_a_thread_of_their_own_also_for_small_exports(api, monkeypatch, path, body):
    set_rules(api, "chat", PATTERN)
    threads = set()

    def replace(pairs, texts, *, limit):
        threads.add(threading.current_thread().name)
        return list(texts), [0] * len(pairs)

    monkeypatch.setattr(redaction, "replace_within_limit", replace)
    for _ in range(2):  # the second time, the project is known
        assert api.post(path, json=body).json() == {}
    assert [name.rpartition("_")[0] for name in threads] == ["dokimos-redaction"]


def test_each_thread_has_a_pace_of_its_own(api, monkeypatch):
    set_rules(api, "chat", PATTERN)
    threads = {}

    def give_way(pace):
        threads.setdefault(id(pace), set()).add(threading.current_thread().name)
        pace._spans = 0

    monkeypatch.setattr(redaction, "replace_within_limit", lambda pairs, texts, **_: (list(texts), [0]))
    monkeypatch.setattr(RequestPace, "give_way", give_way)
    spans = [span(1, number, text="x" * 10_000) for number in range(1, 21)]
    for project in ("chat", None):
        assert api.post("/v1/traces", json=export(*spans, project=project)).json() == {}
    names = [{name.rpartition("_")[0] for name in each} for each in threads.values()]
    assert {"dokimos-traces"} in names
    assert {"dokimos-redaction"} in names
    assert all(len(each) == 1 for each in names)


def test_exports_without_patterns_do_not_wait_for_those_that_have_some(api, monkeypatch):
    set_rules(api, "slow", PATTERN)
    set_rules(api, "keys", {"name": "secrets", "keys": ["*password*"]})
    began, may_end, ended = threading.Event(), threading.Event(), []

    def replace(pairs, texts, *, limit):
        began.set()
        ended.append(may_end.wait(20))
        return list(texts), [0] * len(pairs)

    monkeypatch.setattr(redaction, "replace_within_limit", replace)
    sending = threading.Thread(target=api.post, args=("/v1/traces",), kwargs={"json": traces_of("slow")})
    sending.start()
    assert began.wait(60)
    for project in ("keys", None):
        for size in (1, 50_000):
            assert api.post("/v1/traces", json=traces_of(project, "x" * size)).json() == {}
    assert not ended
    may_end.set()
    sending.join()


def traces_of(project, text="x"):
    return export(span(1, 1, text=text), project=project)


def test_rules_that_took_too_long_have_less_time_for_a_while(monkeypatch):
    limits, time = [], [1000.0]

    def replace(pairs, texts, *, limit):
        limits.append(limit)
        raise EvaluationError("stopped")

    monkeypatch.setattr(redaction, "replace_within_limit", replace)
    monkeypatch.setattr(redaction.time, "monotonic", lambda: time[0])
    redactor = redaction.Redactor(parse_rules([PATTERN]))

    def redact(count):
        limits.clear()
        for _ in range(count):
            with pytest.raises(redaction.RedactionError):
                redactor.redact_text("5")
        return limits

    assert redact(5) == [2.0, 2.0, 2.0, 0.1, 0.1]
    time[0] += 601
    assert redact(1) == [2.0]
