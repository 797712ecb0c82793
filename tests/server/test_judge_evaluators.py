"""Which evaluators a judge job may use: each of the library is allowed, or refused for a reason."""

import pytest

from dokimos.evaluators import registry
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.judging import judge_evaluators
from dokimos.server._services.judging.judge_evaluators import EvaluatorSpec, check_evaluator, rename_params

GROUPS = (
    judge_evaluators.DETERMINISTIC,
    judge_evaluators.OPTIONAL_JUDGE,
    judge_evaluators.JUDGED,
    tuple(judge_evaluators.REFUSED),
)


def check(kind, connection=None, **params):
    spec = EvaluatorSpec(type=kind, params=params)
    check_evaluator(spec, "score", has_connection=spec.needs_judge if connection is None else connection)


def test_each_evaluator_of_the_library_is_in_one_group():
    assert sorted(name for group in GROUPS for name in group) == sorted(registry.BUILT_IN)


@pytest.mark.parametrize("name", judge_evaluators.DETERMINISTIC)
def test_a_deterministic_evaluator_asks_no_model(name):
    kind = registry.find(name)

    assert kind.deterministic
    assert "judge" not in registry.settable_fields(kind)


@pytest.mark.parametrize("name", judge_evaluators.JUDGED)
def test_a_judged_evaluator_needs_a_connection(name):
    assert "judge" in registry.settable_fields(registry.find(name))
    with pytest.raises(InvalidRequestError, match="connectionId"):
        check(name, connection=False)


def test_no_parameter_that_may_hold_code_is_overlooked():
    risky = {
        f"{name}.{field.name}"
        for name in (*GROUPS[0], *GROUPS[1], *GROUPS[2])
        for field in registry.settable_fields(registry.find(name)).values()
        if any(word in str(field.type) for word in ("Callable", "Matching", "Detector", "Any", "Embedder"))
    }
    known = (*judge_evaluators._MAY_NAME_CODE, *judge_evaluators._OF_JOB)
    data = {"json_schema.schema", "tool_graph.rules"}

    assert {name for name in risky - data if name.partition(".")[2] not in known} == set()


@pytest.mark.parametrize("name", sorted(judge_evaluators.REFUSED))
def test_an_evaluator_that_the_server_cannot_run_says_why(name):
    with pytest.raises(InvalidRequestError, match=name):
        check(name)


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("tool_correctness", {"arguments": "os:system"}),
        ("tool_trajectory", {"tool_arguments": {"pay": "os:system"}}),
        ("tool_call_validity", {"tools": ["os:system"]}),
        ("precision", {"matching": {"llm": "openai:gpt-5-mini"}}),
        ("recall", {"matching": {"any_of": [{"llm": "openai:gpt-5-mini"}]}}),
        ("tool_errors", {"error_detector": "os:system"}),
        ("faithfulness", {"judge": "openai:gpt-5-mini"}),
        ("faithfulness", {"samples": 1000}),
        ("json_schema", {"schema": {"$ref": "file:///etc/passwd"}}),
        ("json_schema", {"schema": {"$ref": "http://127.0.0.1/schema.json"}}),
        ("regex", {"pattern": "("}),
        ("exact_match", {"name": "other"}),
    ],
)
def test_what_would_run_code_or_open_an_address_is_refused(kind, params):
    with pytest.raises(InvalidRequestError):
        check(kind, **params)


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("forbidden_tools", {"tools": ["pay:now"]}),
        ("precision", {"matching": {"field": "id"}}),
        ("tool_correctness", {"arguments": {"mode": "subset", "ignore_case": True}}),
        ("faithfulness", {"threshold": 0.7}),
        ("regex", {"pattern": "(a+)+$"}),
    ],
)
def test_what_is_data_is_taken(kind, params):
    check(kind, **params)


def test_parameters_may_be_in_camel_case():
    assert rename_params({"ignoreCase": True, "k": 3}) == {"ignore_case": True, "k": 3}
    with pytest.raises(InvalidRequestError, match="twice"):
        rename_params({"ignoreCase": True, "ignore_case": False})
