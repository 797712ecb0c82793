"""Each assertion of promptfoo, and the metric that it becomes."""

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators.registry import build
from dokimos.importers._promptfoo.assertions import KNOWN, metrics_of
from dokimos.importers._promptfoo.config_reader import parse_assertion
from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.importers._promptfoo.converted_case import Case
from dokimos.importers._promptfoo.programs import Programs


@pytest.fixture
def case(tmp_path):
    return Case({}, Notes(), Programs("programs"), tmp_path)


def metric(case, **assertion):
    (found,) = metrics_of([assertion], case)
    return found


def passes(block, output, expected=None):
    """Evaluate a standard metric on an output."""
    parameters = {key: value for key, value in block.items() if key not in ("type", "metric", "name")}
    evaluator = build(block["metric"], parameters)
    truth = {} if expected is None else {"output": expected}
    return evaluator.evaluate(EvalTestCase({"input": ""}, {"output": output}, expected_outputs=truth)).success


@pytest.mark.parametrize(
    ("assertion", "good", "bad"),
    [
        ({"type": "contains", "value": "cat"}, "a cat", "a Cat"),
        ({"type": "contains", "value": 7}, "77", "8"),
        ({"type": "icontains", "value": "cat"}, "A CAT", "a dog"),
        ({"type": "not-contains", "value": "cat"}, "a dog", "a cat"),
        ({"type": "contains-any", "value": ["cat", "dog"]}, "a dog", "a cow"),
        ({"type": "contains-all", "value": ["cat", "dog"]}, "cat and dog", "a dog"),
        ({"type": "icontains-all", "value": "Cat, Dog"}, "cat dog", "cat"),
        ({"type": "not-contains-any", "value": ["cat", "dog"]}, "a cow", "a dog"),
        ({"type": "not-contains-all", "value": ["c.t", "dog"]}, "c.t\ncow", "dog\nc.t"),
        ({"type": "regex", "value": r"^\d{4}$"}, "1234", "12345"),
        ({"type": "not-regex", "value": r"\d"}, "none", "1"),
        ({"type": "starts-with", "value": "a.b"}, "a.b c", "axb c"),
        ({"type": "not-starts-with", "value": "a"}, "b", "ab"),
        ({"type": "not-equals", "value": "a.b"}, "axb", "a.b"),
        ({"type": "is-json"}, "[1]", "no"),
        ({"type": "is-json", "value": {"type": "object"}}, "{}", "[]"),
        ({"type": "javascript", "value": "output.includes('a')"}, "ba", "b"),
        ({"type": "javascript", "value": 'output.toLowerCase().includes("a")'}, "BA", "b"),
    ],
)
def test_deterministic_assertions_decide_as_before(case, assertion, good, bad):
    block = metric(case, **assertion)

    assert passes(block, good) is True
    assert passes(block, bad) is False
    assert case.notes.lost == {}


def test_equals_takes_the_ground_truth_and_a_second_text_is_that_of_its_metric(case):
    first, second = metrics_of([{"type": "equals", "value": "a"}, {"type": "equals", "value": "b?"}], case)

    assert (first, case.truth) == ({"type": "standard", "metric": "equality"}, "a")
    assert second == {"type": "standard", "metric": "equality", "ground_truth": "b?"}
    assert case.notes.lost == {}


@pytest.mark.parametrize(
    "kind", ["factuality", "similar", "levenshtein", "rouge-n", "bleu", "context-recall"]
)
def test_a_second_expected_text_is_kept_with_its_metric(case, kind):
    case.context = ["text"]
    first, second = metrics_of([{"type": kind, "value": "first"}, {"type": kind, "value": "second"}], case)

    assert (case.truth, second["ground_truth"]) == ("first", "second")
    assert "ground_truth" not in first
    assert case.notes.lost == {}


def test_an_assertion_that_is_lost_sets_no_ground_truth(case):
    assert (
        metrics_of([{"type": "not-factuality", "value": "a"}, {"type": "not-bleu", "value": "b"}], case) == []
    )
    assert not case.has_truth


def test_equals_of_a_structure_compares_structures(case):
    assert metric(case, type="equals", value={"a": 1}) == {"type": "standard", "metric": "structural_match"}
    assert case.truth == {"a": 1}


@pytest.mark.parametrize(
    ("code", "bound"),
    [
        ("output.length < 10", {"max": 9}),
        ("output.length >= 3;", {"min": 3}),
        ("output.length <= 5", {"max": 5}),
    ],
)
def test_lengths_in_javascript_are_read(case, code, bound):
    assert metric(case, type="javascript", value=code)["params"] == bound


@pytest.mark.parametrize(
    ("assertion", "expected"),
    [
        ({"type": "rouge-n", "value": "x"}, {"metric": "rouge", "threshold": 0.75, "variant": "rouge1"}),
        ({"type": "bleu", "value": "x", "threshold": 0.2}, {"metric": "bleu", "threshold": 0.2}),
        ({"type": "meteor", "value": "x"}, {"metric": "meteor", "threshold": 0.5}),
        (
            {"type": "levenshtein", "value": "abcd", "threshold": 1},
            {"metric": "levenshtein", "threshold": 0.75},
        ),
        ({"type": "cost", "threshold": 0.01}, {"metric": "cost", "max_usd": 0.01}),
        ({"type": "latency", "threshold": 50}, {"metric": "latency", "max_ms": 50}),
    ],
)
def test_measures_keep_their_thresholds(case, assertion, expected):
    assert metric(case, **assertion) == {"type": "standard", **expected}


def test_similar_names_its_model_of_embeddings(case):
    block = metric(case, type="similar", value="x", provider="openai:embedding:text-embedding-3-small")

    assert block["model"] == {"provider": "openai", "name": "text-embedding-3-small"}
    assert block["threshold"] == 0.75


@pytest.mark.parametrize(
    ("kind", "metric_type"),
    [("context-faithfulness", "faithfulness"), ("context-relevance", "contextual_relevancy"),
     ("context-recall", "contextual_recall"), ("answer-relevance", "answer_relevancy")],
)  # fmt: skip
def test_rag_assertions_become_rag_metrics(case, kind, metric_type):
    case.context = ["a text"]

    block = metric(case, type=kind, value="the truth", threshold=0.9)

    assert (block["type"], block["metric_type"], block["threshold"]) == ("rag", metric_type, 0.9)


def test_a_rag_assertion_without_context_is_noted(case):
    assert metrics_of([{"type": "context-faithfulness"}], case) == []
    assert list(case.notes.lost) == ["context-faithfulness: the test has no variable called context"]


@pytest.mark.parametrize("kind", ["llm-rubric", "g-eval", "model-graded-closedqa"])
def test_rubrics_become_criteria_with_the_judge_of_the_assertion(case, kind):
    block = metric(
        case, type=kind, value="is kind", provider={"id": "ollama:chat:m", "config": {"temperature": 0}}
    )

    assert (block["type"], block["criteria"], block["threshold"]) == ("geval", "is kind", 0.5)
    assert block["model"] == {"provider": "ollama", "name": "m", "temperature": 0}
    assert case.needs_judge is False


def test_factuality_judges_correctness_against_the_truth(case):
    assert metric(case, type="factuality", value="Paris")["name"] == "correctness"
    assert (case.truth, case.needs_judge) == ("Paris", True)


def test_a_set_is_dissolved_and_its_threshold_noted(case):
    block = {
        "type": "assert-set",
        "threshold": 0.5,
        "assert": [{"type": "is-json"}, {"type": "cost", "threshold": 1}],
    }

    assert [one["metric"] for one in metrics_of([block], case)] == ["json_schema", "cost"]
    assert any("all of its assertions" in text for text in case.notes.changed)


def test_names_weights_and_tools_are_taken_over_or_noted(case):
    found = metrics_of(
        [
            {"type": "is-json", "metric": "Shape", "weight": 3},
            {"type": "contains", "value": "x", "weight": 0},
            {"type": "trajectory:tool-used", "value": ["search", "sum"]},
            {"type": "word-count", "value": {"min": 2, "max": 4}, "metric": "Words"},
        ],
        case,
    )

    assert [one.get("name") for one in found] == ["Shape", "length"]
    assert found[1]["display_name"] == "Words"
    assert case.tools == ["search", "sum"]
    assert len(case.notes.lost) == len(case.notes.changed) == 1


@pytest.mark.parametrize(
    ("assertion", "problem"),
    [
        ({"type": "javascript", "value": "output === '{{ env.M }}'"}, "environment into a program"),
        ({"type": "python", "value": "output == '{{ env.M }}'"}, "environment into a program"),
        ({"type": "not-equals", "value": "{{ env.M }}"}, "part of a pattern"),
        ({"type": "starts-with", "value": "{{ env.M }}"}, "part of a pattern"),
        ({"type": "levenshtein", "value": "{{ env.M }}"}, "part of a pattern"),
        ({"type": "contains-json", "value": {"const": "{{ env.M }}"}}, "part of a pattern"),
        ({"type": "contains", "value": "${{ env.M }}"}, "a $ stands before"),
        ({"type": "contains", "value": "{% include 'x' %}"}, "cannot be rendered"),
    ],
)
def test_an_assertion_that_cannot_be_rendered_is_left_out_alone(case, assertion, problem):
    (found,) = metrics_of([assertion, {"type": "cost", "threshold": 1}], case)

    assert found["metric"] == "cost"
    (lost,) = case.notes.lost
    assert lost.startswith(f"{assertion['type']}: ")
    assert problem in lost


def test_programs_get_texts_and_not_placeholders_of_suites(case):
    case.variables = {"q": "a ${b}"}
    values = ["output.at(0) === '{{ q }}'", "return `${output}` === '{{ q }}'"]
    schema = {"pattern": "^\\${x}"}

    metrics_of([{"type": "javascript", "value": value} for value in values], case)
    metrics_of([{"type": "python", "value": "output == '{{ q }}'"}], case)
    metrics_of([{"type": "contains-json", "value": schema}], case)

    module = case.programs.text()
    assert "output.at(0) === 'a ${b}'" in module
    assert "return `${output}` === 'a ${b}'" in module
    assert "output == 'a ${b}'" in module
    assert repr(schema) in module


def test_a_text_with_an_escape_in_javascript_is_left_to_node(case):
    assert metric(case, type="javascript", value=r"output.includes('a\nb')")["type"] == "code"
    assert metric(case, type="javascript", value="output.includes('${a}')")["values"] == ["$${a}"]


@pytest.mark.parametrize("kind", sorted(KNOWN))
def test_no_assertion_breaks_on_a_missing_value(case, kind):
    for name in (kind, f"not-{kind}"):
        found = metrics_of([{"type": name}], case)

        assert len(found) + len(case.notes.lost) >= 1 or case.tools == [None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Paris", {"type": "equals", "value": "Paris"}),
        ("contains: Paris", {"type": "contains", "value": "Paris"}),
        ("similar(0.8): hello", {"type": "similar", "value": "hello", "threshold": 0.8}),
        ("is-json", {"type": "is-json"}),
        (" not-contains-json ", {"type": "not-contains-json"}),
        ("fn: output.length > 1", {"type": "javascript", "value": "output.length > 1"}),
        ("grade: is kind", {"type": "llm-rubric", "value": "is kind"}),
        ("latency: 50", {"type": "latency", "threshold": 50.0}),
        ("not-contains-all: a, b", {"type": "not-contains-all", "value": ["a", "b"]}),
        ("Note: this is text", {"type": "equals", "value": "Note: this is text"}),
    ],
)
def test_cells_of_tables_are_read(text, expected):
    assert parse_assertion(text) == expected
