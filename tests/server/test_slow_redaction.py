"""Redaction rules that take long keep nobody waiting who has none."""

import threading

import pytest
from tests.server.trace_server import export, log, log_export, span

from dokimos._runtime.search_process import search_process, slow_search_process
from dokimos.errors import EvaluationError
from dokimos.server._redaction_rules import parse_rules
from dokimos.server._services.traces import redaction
from dokimos.server._services.traces.request_pace import RequestPace

RULES = "/api/v1/projects/{}/redaction-rules"
PATTERN = {"name": "digits", "pattern": "[0-9]+"}


@pytest.fixture(autouse=True)
def _rules_that_were_never_slow():
    redaction.make_redactor.cache_clear()
    yield
    redaction.make_redactor.cache_clear()


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

    def replace(pairs, texts, *, limit, process):
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

    def replace(pairs, texts, *, limit, process):
        began.set()
        ended.append(may_end.wait(120))
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


def test_patterns_that_are_slow_keep_nobody_waiting_whose_patterns_are_not(api, monkeypatch):
    set_rules(api, "slow", {"name": "slow", "pattern": "slow"})
    set_rules(api, "quick", PATTERN)
    began, may_end, ended = threading.Event(), threading.Event(), []
    threads, is_blocking = {}, []

    def replace(pairs, texts, *, limit, process):
        [(pattern, _)] = pairs
        threads.setdefault(pattern, []).append((threading.current_thread().name.rpartition("_")[0], process))
        if pattern == "slow" and len(threads[pattern]) == 1:
            raise EvaluationError("stopped")
        if pattern == "slow" and is_blocking:
            began.set()
            ended.append(may_end.wait(120))
        return list(texts), [0] * len(pairs)

    monkeypatch.setattr(redaction, "replace_within_limit", replace)
    assert api.post("/v1/traces", json=traces_of("slow")).status_code == 200
    is_blocking.append(True)
    sending = threading.Thread(target=api.post, args=("/v1/traces",), kwargs={"json": traces_of("slow")})
    sending.start()
    assert began.wait(60)
    assert api.post("/v1/traces", json=traces_of("quick")).json() == {}
    assert not ended
    may_end.set()
    sending.join()
    assert set(threads["[0-9]+"]) == {("dokimos-redaction", search_process)}
    assert threads["slow"][0] == ("dokimos-redaction", search_process)
    assert threads["slow"][-1] == ("dokimos-slow-redaction", slow_search_process)


def test_the_spans_of_a_trace_are_redacted_together(api, monkeypatch):
    set_rules(api, "chat", PATTERN)
    calls = []

    def replace(pairs, texts, *, limit, process):
        calls.append(len(texts))
        return ["[digits]" if text == "5" else text for text in texts], [texts.count("5")]

    monkeypatch.setattr(redaction, "replace_within_limit", replace)
    spans = [span(1, number, text="5" if number % 2 else "x") for number in range(1, 81)]
    assert api.post("/v1/traces", json=export(*spans, project="chat")).json() == {}
    assert len(calls) < 8  # some for 64 and 16 spans, the others for the resource and the scope
    [rule] = api.get(RULES.format("chat")).json()["rules"]
    assert rule["replacedCount"] == 40


def test_one_span_that_takes_too_long_costs_no_other(api, monkeypatch):
    set_rules(api, "chat", PATTERN)

    def replace(pairs, texts, *, limit, process):
        if "slow" in texts:
            raise EvaluationError("stopped")
        return ["[digits]" if text == "5" else text for text in texts], [texts.count("5")]

    monkeypatch.setattr(redaction, "replace_within_limit", replace)
    spans = [span(1, number, text="slow" if number == 5 else "5") for number in range(1, 21)]
    answer = api.post("/api/v1/traces", json=export(*spans, project="chat")).json()
    assert (answer["acceptedSpans"], answer["rejectedSpans"]) == (19, 1)
    [rule] = api.get(RULES.format("chat")).json()["rules"]
    assert rule["replacedCount"] == 19


def test_spans_that_take_too_long_together_are_not_counted_as_one_that_does(api, monkeypatch):
    set_rules(api, "chat", PATTERN)
    limits = []

    def replace(pairs, texts, *, limit, process):
        if "slow" not in texts:
            return list(texts), [0]
        limits.append(limit)
        raise EvaluationError("stopped")

    monkeypatch.setattr(redaction, "replace_within_limit", replace)
    slow, quick = span(1, 1, text="slow"), span(1, 3, text="x")
    for spans in ([slow, span(1, 2, text="slow"), quick], [slow]):
        api.post("/v1/traces", json=export(*spans, project="chat"))
    assert limits == [2.0] * 4  # once together, and once for each of three spans


def test_a_span_alone_that_takes_too_long_is_tried_once(api, monkeypatch):
    set_rules(api, "chat", PATTERN)
    tries = []

    def replace(pairs, texts, *, limit, process):
        if "slow" not in texts:
            return list(texts), [0]
        tries.append(process)
        raise EvaluationError("stopped")

    monkeypatch.setattr(redaction, "replace_within_limit", replace)
    answer = api.post("/api/v1/traces", json=export(span(1, 1, text="slow"), project="chat")).json()
    assert (answer["acceptedSpans"], answer["rejectedSpans"]) == (0, 1)
    assert tries == [search_process]


def test_rules_that_took_too_long_have_less_time_for_a_while(monkeypatch):
    limits, processes, time = [], [], [1000.0]

    def replace(pairs, texts, *, limit, process):
        limits.append(limit)
        processes.append(process)
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
    assert processes == [search_process] + [slow_search_process] * 4
    time[0] += 601
    assert redact(1) == [2.0]
    assert processes[-1] is search_process
