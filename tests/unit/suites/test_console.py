"""How a result looks on a terminal."""

from dokimos.reporting._console import Signs
from dokimos.suites._console import render_item, render_skipped, render_summary


def rendered(item, **options):
    return [line.text for line in render_item(item, Signs(), **options)]


def test_a_test_is_told_in_the_documented_form(folder):
    item = folder.item(
        """
        agent: app:with_tools
        evaluations:
          metrics:
            - {type: standard, metric: equality}
            - {type: standard, metric: f1_score, threshold: 0.75}
        test_cases:
          - {name: Exercise price, input: "60.94", ground_truth: "60.94", expected_tools: [lookup]}
        """
    )

    assert rendered(item) == [
        'Test: "Exercise price"',
        '  Input: "60.94"',
        "  Tools called: [mcp__sums__subtract, lookup] ✓",
        "  Metrics:",
        "    ✓ equality: 1.00 (threshold: —)",
        "    ✓ F1 Score: 1.00 (threshold: 0.75)",
        "  Result: PASS",
    ]


def test_reasons_of_failures_need_no_flag(folder):
    item = folder.item(
        "evaluations: {metrics: [{metric: numeric}, {metric: rouge, threshold: 0.5}]}\n"
        "test_cases: [{name: n, input: price, ground_truth: '5', expected_tools: [x]}]\n"
    )

    lines = rendered(item)

    assert "    x was not called; called: nothing." in lines
    assert any("60.94 differs from the expected 5.0" in line for line in lines)
    assert lines[-1] == "  Result: FAIL"


def test_errors_skips_and_what_only_informs_are_told_apart(folder):
    item = folder.item(
        "evaluations: {metrics: [{metric: f1_score}, {metric: numeric, enabled: false},"
        " {metric: numeric, name: Odd}]}\n"
        "test_cases: [{name: n, input: price, ground_truth: abc}]\n"
    )

    lines = rendered(item, verbose=True)

    assert "    · F1 Score: 0.00 (threshold: —)" in lines
    assert "    – numeric: skipped: The metric is disabled." in lines
    assert any(line.startswith("    ! Odd: error: EvaluationError") for line in lines)
    assert '  Reply: "60.94"' in lines
    assert lines[-1] == "  Result: ERROR"


def test_the_turns_of_a_conversation_are_told(folder):
    folder.write("bot.py", "def reply(text):\n    return 1 / 0 if text == 'b' else text\n")
    item = folder.item("agent: bot:reply\ntest_cases: [{turns: [{input: a}, {input: b}]}]\n")

    problem = f"ZeroDivisionError: division by zero ({(folder.path / 'bot.py').as_posix()}:2 in reply)"
    assert rendered(item) == [
        'Test: "case 1"',
        '  Turn 1: "a"',
        '  Turn 2: "b"',
        f"    error: {problem}",
        "  Metrics:",
        "    ✗ Turns Answered: 0.50 (threshold: —)",
        f"        turn 2: {problem}",
        "  Result: FAIL",
    ]


def test_the_summary_counts_what_is_neither_passed_nor_failed(folder):
    result = folder.run(
        "evaluations: {metrics: [{metric: equality}]}\n"
        "test_cases: [{input: price, ground_truth: '60.94'}, {input: x, ground_truth: y}, {input: z},"
        " {input: w, skip: later}]\n"
    )

    assert [line.text for line in render_summary(result)] == [
        "1 passed, 1 failed, 1 not evaluated, 1 left out"
    ]
    assert [line.text for line in render_skipped(result.metadata["skipped"], Signs())] == [
        '– "case 4" left out: later'
    ]
