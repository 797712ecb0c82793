"""The metrics of a suite: families, overrides, outcomes, precedence of judges."""

from dataclasses import replace

import pytest
from pptx import Presentation

from dokimos.errors import ConfigurationError


def one_metric(metric, case="{input: price, ground_truth: 60.94}", head=""):
    return f"{head}\nevaluations: {{metrics: [{metric}]}}\ntest_cases: [{case}]\n"


def outcome(folder, metric, case="{input: price, ground_truth: 60.94}", head=""):
    item = folder.item(one_metric(metric, case, head))
    (result,) = item.eval_results
    return item, result


@pytest.mark.parametrize(
    ("metric", "name", "score"),
    [
        ("{type: standard, metric: numeric}", "numeric", 1.0),
        ("{metric: equality}", "equality", 1.0),
        ("{type: standard, metric: f1_score}", "F1 Score", 1.0),
        ("{type: standard, metric: rouge}", "ROUGE-L", 1.0),
        ("{type: standard, metric: rouge, variant: rouge1}", "ROUGE-1", 1.0),
        ("{type: standard, metric: levenshtein}", "Levenshtein", 1.0),
        ("{type: standard, metric: contains, values: ['60']}", "Contains", 1.0),
        ("{type: standard, metric: regex, pattern: '[0-9.]+', full_match: true}", "Regex Match", 1.0),
        ("{type: standard, metric: latency, max_ms: 100000}", "Latency", 1.0),
        ("{type: standard, metric: numeric, name: Price}", "Price", 1.0),
        ("{type: evaluator, name: exact_match}", "Exact Match", 1.0),
        ("{type: evaluator, name: length, params: {max: 2}, display_name: Short}", "Short", 0.0),
    ],
)
def test_a_metric_scores_under_its_documented_name(folder, metric, name, score):
    _, result = outcome(folder, metric)

    assert (result.name, result.score) == (name, score)


@pytest.mark.parametrize(
    ("params", "score"),
    [
        ('{tools: ["bank:subtract", "bank.py:lookup"]}', 0.5),
        ("{tools: [{name: lookup, parameters: {required: [city]}}]}", 0.5),
        ("{tools: []}", 0.0),
    ],
)
def test_tool_call_validity_takes_the_tools_from_the_suite_or_from_code_beside_it(folder, params, score):
    folder.write(
        "bank.py",
        """
        def subtract(a: float, b: float):
            return a - b

        def lookup(city: str):
            return city
        """,
    )
    metric = f"{{type: evaluator, name: tool_call_validity, params: {params}}}"
    rename = "{agent: 'app:with_tools'}"
    _, result = outcome(folder, metric, head=rename.strip("{}"))
    assert result.score == score


def test_functions_that_a_metric_names_are_looked_for_in_the_suites_folder(folder):
    folder.write("checks.py", "def short(actual_output):\n    return len(actual_output) < 3\n")
    _, result = outcome(folder, '{type: evaluator, name: function, params: {function: "checks:short"}}')
    assert (result.name, result.success) == ("Short", False)


SEVERAL = (
    "def triad(actual_output):\n"
    "    scores = {'short': len(actual_output) < 3, 'grounded': 0.6}\n"
    "    return scores if 'not know' in actual_output else {**scores, 'first': 1.0}\n"
)
TRIAD = (
    "{type: evaluator, name: function, display_name: T, "
    'params: {function: "checks:triad", thresholds: {grounded: 0.7}}}'
)


def test_a_metric_of_several_scores_has_a_result_for_each_with_its_own_threshold(folder):
    folder.write("checks.py", SEVERAL)
    item = folder.item(one_metric(TRIAD))
    assert [(r.name, r.score, r.threshold, r.success) for r in item.eval_results] == [
        ("T.grounded", 0.6, 0.7, False),
        ("T.short", 0.0, None, False),
        ("T.first", 1.0, None, None),
    ]


def test_several_scores_of_a_conversation_are_means_over_the_turns_that_have_them(folder):
    folder.write("checks.py", SEVERAL)
    item = folder.item(one_metric(TRIAD, "{turns: [{input: price}, {input: again}]}"))
    found = {r.name: (r.score, r.threshold) for r in item.eval_results if r.name.startswith("T.")}
    assert found["T.grounded"] == (0.6, 0.7)
    assert found["T.first"][0] == 1.0
    first = next(r for r in item.eval_results if r.name == "T.first")
    assert [turn.get("skipped") for turn in first.metadata["turns"]] == [None, "There is no score 'first'."]


def test_numeric_and_equality_decide_without_a_threshold(folder):
    item, result = outcome(folder, "{type: standard, metric: numeric}", "{input: price, ground_truth: '61'}")

    assert (result.success, result.threshold, item.success) == (False, None, False)


def test_another_metric_without_a_threshold_only_informs(folder):
    item, result = outcome(folder, "{type: standard, metric: f1_score}", "{input: price, ground_truth: no}")

    assert (result.score, result.success, item.success) == (0.0, None, None)


def test_a_threshold_is_reached_by_a_score_that_equals_it(folder):
    _, result = outcome(folder, "{type: standard, metric: f1_score, threshold: 1.0}")

    assert result.success is True


def test_two_metrics_of_a_kind_coexist(folder):
    item = folder.item(
        """
        evaluations:
          metrics:
            - {type: standard, metric: numeric}
            - {type: standard, metric: numeric, relative_tolerance: 0.5}
        test_cases: [{input: price, ground_truth: "50"}]
        """
    )

    assert [(r.name, r.success) for r in item.eval_results] == [("numeric", False), ("numeric (2)", True)]


def test_the_settings_of_one_case_do_not_reach_another(folder):
    result = folder.run(
        """
        evaluations: {metrics: [{type: standard, metric: numeric, relative_tolerance: 0.5}]}
        test_cases:
          - {input: price, ground_truth: "50"}
          - {input: price, ground_truth: "50", evaluations: [{type: standard, metric: numeric}]}
        """
    )

    assert [item.success for item in result.item_results] == [True, False]


def test_an_empty_list_means_no_metrics(folder):
    item = folder.item(
        """
        evaluations: {metrics: [{type: standard, metric: numeric}]}
        test_cases: [{input: price, ground_truth: "1", evaluations: []}]
        """
    )

    assert (item.eval_results, item.success) == ((), None)


@pytest.mark.parametrize(
    ("metric", "case", "reason"),
    [
        ("{metric: numeric, enabled: false}", "{input: price, ground_truth: '1'}", "The metric is disabled."),
        ("{metric: numeric}", "{input: price}", "There is no ground truth."),
        ("{metric: structural_match}", "{input: price}", "There is no ground truth."),
        ("{metric_type: contextual_recall}", "{input: price}", "There is no ground truth."),
        (
            "{metric_type: faithfulness}",
            "{input: price}",
            "There are no contexts: neither the suite nor the agent gives any.",
        ),
        (
            "{type: geval, name: G, criteria: Good., evaluation_params: [actual_output, context]}",
            "{input: price}",
            "There is no context: the turn has no files.",
        ),
        (
            "{type: geval, name: G, criteria: Good., evaluation_params: [inputs, outputs, expected_outputs]}",
            "{input: price}",
            "There is no ground truth.",
        ),
    ],
)
def test_a_metric_that_cannot_apply_is_skipped_with_the_reason(folder, metric, case, reason):
    item, result = outcome(folder, metric, case, head="model: {provider: ollama, name: m}")

    assert (result.skipped, result.score, item.success) == (reason, None, None)


def test_an_error_is_a_warning_unless_it_is_to_fail(folder):
    case = "{input: price, ground_truth: abc}"

    soft, result = outcome(folder, "{metric: numeric}", case)
    hard, _ = outcome(folder, "{metric: numeric, fail_on_error: true}", case)

    assert "The expected output is not a number" in result.error
    assert (soft.success, bool(soft.warnings), hard.success) == (False, False, False)
    assert soft.errors == (f"numeric: {result.error}",)


def test_an_empty_reply_is_graded(folder):
    folder.write("silent.py", "def silent(question):\n    return ''\n")
    item = folder.item(
        "agent: silent:silent\nevaluations: {metrics: [{metric: numeric}]}\n"
        "test_cases: [{input: a, ground_truth: '1'}]\n"
    )

    assert item.success is False
    assert "it is empty" in item.eval_results[0].reason


def test_a_leaf_of_a_structured_reply_can_be_evaluated(folder):
    folder.write("app.py", "def answer(question):\n    return {'answer': {'value': 60.94}}\n")

    _, result = outcome(folder, "{metric: numeric, response_path: answer.value}")

    assert result.success is True


@pytest.mark.parametrize(
    "case", ["{input: price}", "{input: price, ground_truth: other}", "{turns: [{input: price}]}"]
)
@pytest.mark.parametrize(("truth", "success"), [("60.94", True), ("61", False)])
def test_a_metric_has_a_ground_truth_of_its_own(folder, case, truth, success):
    item = folder.item(one_metric(f"{{metric: equality, ground_truth: {truth}}}", case))
    assert {r.name: r.success for r in item.eval_results}["equality"] is success


def test_two_metrics_of_one_kind_expect_different_replies(folder):
    number, structure = (
        "{metric: equality, ground_truth: '61'}",
        "{metric: structural_match, ground_truth: {a: 1}}",
    )
    item = folder.item(one_metric(f"{{metric: equality}}, {number}, {structure}"))
    assert {r.name: r.success for r in item.eval_results} == {
        "equality": True,
        "equality (2)": False,
        "Structural Match": False,
    }


def test_a_blank_ground_truth_of_a_metric_is_refused(folder):
    with pytest.raises(ConfigurationError, match="ground_truth"):
        folder.item(one_metric("{metric: equality, ground_truth: ' '}"))


def test_equality_forgives_what_it_is_told(folder):
    folder.write("app.py", "def answer(question):\n    return 'YES.'\n")
    case = "{input: a, ground_truth: yes}"

    _, strict = outcome(folder, "{metric: equality}", case)
    _, loose = outcome(folder, "{metric: equality, case_insensitive: true, strip_punctuation: true}", case)

    assert (strict.success, loose.success) == (False, True)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("{metric: numeric, tolerance: 3}", "there is no such parameter"),
        ("{metric: numeric, absolute_tolerance: -1}", "absolute_tolerance"),
        ("{metric: embedding_similarity}", "this metric needs an embedder"),
        ("{type: evaluator, name: exact_mach}", "Did you mean 'exact_match'"),
        ("{type: evaluator, name: faithfulness}", "this metric needs a judge"),
        ("{type: geval, name: G, criteria: Good.}", "this metric needs a judge"),
        ("{type: code, grader: 'nowhere:grade'}", "cannot be imported"),
        ("{type: code, grader: 'app:nothing'}", "app has no 'nothing'"),
        ("{type: code, grader: 'app:APP', enabled: false}", "app has no 'APP'"),
        ("{type: code, grader: app}", "grader"),
        ("{type: standard, metric: numeric, threshold: 2}", "0 to 1"),
        ("{type: rag, metric_type: faithfullness}", "Did you mean 'faithfulness'"),
    ],
)
def test_a_metric_that_cannot_work_is_refused_with_its_place(folder, metric, message):
    with pytest.raises(ConfigurationError) as error:
        folder.suite(one_metric(metric))

    assert message in str(error.value)
    assert "agent.yaml:3:" in str(error.value)
    assert "evaluations.metrics[0]" in str(error.value)


JUDGES = """
model: {provider: ollama, name: of-the-agent}
evaluations:
  model: {provider: anthropic, name: of-the-evaluations, temperature: 0.5, max_tokens: 99}
  metrics:
    - {type: geval, name: A, criteria: Good.}
    - type: rag
      metric_type: answer_relevancy
      model: {provider: openai, name: own, endpoint: "http://localhost:1/v1", api_key: sk-secret, top_p: 0.5}
test_cases: [{input: x}]
"""


def judges(folder, text):
    return [evaluator.inner.judge for evaluator in folder.suite(text).cases[0].evaluators]


def test_the_judge_is_that_of_the_metric_else_of_the_evaluations(folder):
    general, own = judges(folder, JUDGES)

    assert (general.label, general.temperature, general.max_tokens) == (
        "anthropic of-the-evaluations",
        0.5,
        99,
    )
    assert (own.model, own.base_url, own.top_p) == ("own", "http://localhost:1/v1", 0.5)
    assert "sk-secret" not in repr(own)


def test_the_agents_model_judges_where_no_other_does(folder):
    (judge,) = judges(
        folder,
        "model: {provider: ollama, name: of-the-agent, endpoint: 'http://localhost:11434'}\n"
        "evaluations: {metrics: [{type: geval, name: A, criteria: Good.}]}\ntest_cases: [{input: x}]\n",
    )

    assert (judge.model, judge.temperature) == ("of-the-agent", 0.0)


@pytest.mark.parametrize(
    ("metric", "written"),
    [
        ("groundedness", "- type: rag\n      metric_type: faithfulness\n      threshold: 0.8"),
        ("relevance", "metric_type: answer_relevancy"),
        ("safety", "- type: geval\n      name: Safety"),
        ("coherence", "name: Coherence"),
        ("fluency", "name: Fluency"),
    ],
)
def test_a_metric_of_the_first_generation_loads_and_shows_what_to_write(folder, metric, written):
    suite = folder.suite(
        one_metric(
            f"{{type: standard, metric: {metric}, threshold: 0.8}}", head="model: {provider: ollama, name: m}"
        )
    )

    (warning,) = suite.warnings
    assert f"the metric {metric} is deprecated" in warning
    assert written in warning
    assert suite.cases[0].evaluators[0].threshold == 0.8


def test_a_deterministic_metric_needs_no_model_and_says_that_it_ignores_one(folder):
    suite = folder.suite(one_metric("{metric: numeric, model: {provider: openai, name: m}}"))

    assert "model has no effect on numeric" in suite.warnings[0]


def test_a_metric_can_be_limited_in_time_and_repeated(folder):
    folder.write(
        "graders.py",
        """
        import asyncio
        import threading

        calls = []

        async def slow(ctx):
            await asyncio.sleep(30)

        def flaky(ctx):
            calls.append(1)
            if len(calls) < 3:
                raise ValueError("not yet")
            return True

        def flaky_too(ctx):
            calls.append(1)
            if len(calls) < 6 or threading.current_thread() is not threading.main_thread():
                raise ValueError("not yet")
            return True

        def flaky_again(ctx):
            calls.append(1)
            if len(calls) < 9 or threading.current_thread() is not threading.main_thread():
                raise ValueError("not yet")
            return True
        """,
    )

    _, slow = outcome(folder, "{type: code, grader: 'graders:slow', timeout: 0.05}")
    _, flaky = outcome(folder, "{type: code, grader: 'graders:flaky', retry_on_failure: 2}")
    _, inline = outcome(
        folder, "{type: code, grader: 'graders:flaky_too', retry_on_failure: 2, timeout: 60, blocking: false}"
    )
    _, kept = outcome(
        folder, "{type: code, grader: 'graders:flaky_again', retry_on_failure: 2, blocking: false}"
    )

    assert slow.error == "TimeoutError: no result within 0.05 s; the call was abandoned"
    assert flaky.success is True
    assert inline.success is True
    assert kept.success is True


def judged_files(folder, files):
    """Run a judge that sees the files, and return its prompts and the result."""
    prompts = []

    def judge(prompt):
        prompts.append(prompt)
        return '{"score": 8, "reason": "It fits."}'

    suite = folder.suite(f"""
        model: {{provider: ollama, name: m}}
        evaluations:
          metrics:
            - type: geval
              name: G
              criteria: Good.
              evaluation_steps: [Look at it.]
              evaluation_params: [actual_output, context]
        test_cases: [{{input: price, files: {files}}}]
    """)
    (metric,) = suite.cases[0].evaluators
    judged = replace(metric, inner=replace(metric.inner, judge=judge))
    case = suite.cases[0].examples()[0].to_test_case({"output": "60.94"})
    return prompts, judged.evaluate(case)


def test_a_judge_sees_the_text_of_files_of_every_kind(folder):
    folder.write("notes.txt", "Breakfast is free.")
    folder.write("figures.csv", "year,price\n2007,60.94\n")
    (folder.path / "dot.png").write_bytes(b"\x89PNG")
    deck = Presentation()
    deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = "A room costs 140 euros."
    deck.save(folder.path / "hotel.pptx")

    files = (
        "{path: notes.txt, type: text}, {path: figures.csv, type: csv}, "
        "{path: hotel.pptx, type: powerpoint}, {path: dot.png, type: image, description: A dot.}"
    )
    prompts, result = judged_files(folder, f"[{files}]")

    assert result.error is None
    for shown in ("Breakfast is free.", "2007,60.94", "A room costs 140 euros.", "A dot."):
        assert shown in prompts[0]


def test_a_file_that_cannot_be_read_is_an_error_of_the_metric_that_needs_it(folder):
    folder.write("hotel.pptx", "no slides")

    prompts, result = judged_files(folder, "[{path: hotel.pptx, type: powerpoint}]")

    assert "hotel.pptx" in result.error
    assert (result.score, prompts) == (None, [])


def test_case_insensitive_of_numeric_is_accepted_with_a_warning(folder):
    suite = folder.suite("""
        evaluations:
          metrics: [{type: standard, metric: numeric, case_insensitive: true, absolute_tolerance: 1e-3}]
        test_cases: [{input: price, ground_truth: 60.94}]
        """)

    (warning,) = suite.warnings
    assert warning.endswith("agent.yaml:4:13: case_insensitive has no effect on numeric")
    assert suite.cases[0].evaluators[0].inner.absolute_tolerance == 1e-3


@pytest.mark.parametrize(
    "metric",
    [
        "{type: geval, name: G, criteria: Good., evaluation_steps: [Look.], "
        "evaluation_params: [inputs, outputs]}",
        "{type: evaluator, name: llm_judge, "
        "params: {criteria: Good., evaluation_params: [inputs, outputs], score_range: [0, 10]}}",
    ],
)
def test_a_judge_of_a_suite_can_be_shown_whole_maps(folder, metric):
    prompts = []

    def judge(prompt):
        prompts.append(prompt)
        return '{"score": 8, "reason": "It fits."}'

    suite = folder.suite(one_metric(metric, head="model: {provider: ollama, name: m}"))
    (found,) = suite.cases[0].evaluators
    judged = replace(found, inner=replace(found.inner, judge=judge))

    result = judged.evaluate(suite.cases[0].examples()[0].to_test_case({"output": {"total": 60.94}}))

    assert result.score == 0.8
    assert '"input": "price"' in prompts[0]
    assert '"total": 60.94' in prompts[0]
