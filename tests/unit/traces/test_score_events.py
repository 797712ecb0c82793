import pytest

from dokimos import EvalResult, Example, ItemResult
from dokimos._core.extras import require
from dokimos.errors import MissingExtraError
from dokimos.reporting._otel import EvaluationEvents
from dokimos.reporting._protocol import Reporter, RunHandle
from dokimos.traces import _score_events as score_events
from dokimos.traces._score_events import emit_evaluations, evaluation_events

RESULTS = [
    EvalResult("Faithfulness", 0.9, threshold=0.8, success=True, reason="All claims are supported."),
    EvalResult("Exact Match", 0.0, threshold=1.0, success=False),
    EvalResult("Tokens", 0.5),
    EvalResult("Judge", error="TimeoutError: after 30 s"),
    EvalResult("Recall", skipped="There is nothing to recall."),
]


class FakeLogger:
    def __init__(self):
        self.emitted = []

    def get_logger(self, name, version):
        assert name == "dokimos"
        return self

    def emit(self, **record):
        self.emitted.append(record)


def test_results_have_the_names_of_the_conventions_and_skipped_ones_give_nothing():
    events = evaluation_events(RESULTS, response_id="chatcmpl-1")

    assert {event.name for event in events} == {"gen_ai.evaluation.result"}
    assert [dict(event.attributes) for event in events] == [
        {
            "gen_ai.evaluation.name": "Faithfulness",
            "gen_ai.evaluation.score.value": 0.9,
            "gen_ai.evaluation.score.label": "pass",
            "gen_ai.evaluation.explanation": "All claims are supported.",
            "gen_ai.response.id": "chatcmpl-1",
        },
        {
            "gen_ai.evaluation.name": "Exact Match",
            "gen_ai.evaluation.score.value": 0.0,
            "gen_ai.evaluation.score.label": "fail",
            "gen_ai.response.id": "chatcmpl-1",
        },
        {
            "gen_ai.evaluation.name": "Tokens",
            "gen_ai.evaluation.score.value": 0.5,
            "gen_ai.response.id": "chatcmpl-1",
        },
        {
            "gen_ai.evaluation.name": "Judge",
            "error.type": "TimeoutError",
            "gen_ai.evaluation.explanation": "TimeoutError: after 30 s",
            "gen_ai.response.id": "chatcmpl-1",
        },
    ]


def test_events_are_emitted_on_the_judged_span(span):
    from opentelemetry import trace

    logger, judged = FakeLogger(), span()

    assert emit_evaluations(RESULTS[:2], judged, logger_provider=logger) == 2

    context = trace.get_current_span(logger.emitted[0]["context"]).get_span_context()
    assert (f"{context.trace_id:032x}", f"{context.span_id:016x}") == (judged.trace_id, judged.span_id)
    assert context.trace_flags.sampled
    assert logger.emitted[0]["event_name"] == "gen_ai.evaluation.result"


def test_without_a_span_the_current_one_is_meant():
    logger = FakeLogger()

    emit_evaluations(RESULTS[:1], logger_provider=logger)

    assert logger.emitted[0]["context"] is None


def test_ids_must_be_hexadecimal():
    with pytest.raises(ValueError, match="invalid literal"):
        emit_evaluations(RESULTS, ("trace", "span"), logger_provider=FakeLogger())


def test_nothing_is_sent_where_the_application_set_nothing_up(span):
    assert emit_evaluations(RESULTS, span()) == 4


def test_a_missing_package_is_explained(monkeypatch, span):
    monkeypatch.setattr(score_events, "require", lambda module, extra: require(f"no_such_{module}", extra))

    with pytest.raises(MissingExtraError, match=r"dokimos\[otel\]"):
        emit_evaluations(RESULTS, span())


def test_the_reporter_sends_the_results_of_items_that_name_a_span():
    logger = FakeLogger()
    reporter = EvaluationEvents(logger_provider=logger)
    named = Example({"input": "x"}, metadata={"traceId": "a" * 32, "spanId": "b" * 16})

    for example in (named, Example({"input": "y"})):
        reporter.report_item(RunHandle("run"), ItemResult(0, example, eval_results=tuple(RESULTS)))

    assert isinstance(reporter, Reporter)
    assert (reporter.emitted, reporter.without_span, len(logger.emitted)) == (4, 1, 4)
