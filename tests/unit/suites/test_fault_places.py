"""Where the caret is: below the key or value at fault, not at the block that it belongs to."""

from __future__ import annotations

import re

import pytest

from dokimos.errors import ConfigurationError
from dokimos.suites._loader import load_suite

AGENT = "name: demo\nagent: app.py:answer\n"
CASES = "test_cases:\n- input: x\n  ground_truth: y\n"
DECLARED = (
    "name: demo\nmodel: {provider: openai, name: gpt-5-mini, api_key: k}\ninstructions: {inline: Help.}\n"
)


def metric(text: str) -> str:
    return f"{AGENT}evaluations:\n  model: {{provider: openai, name: m}}\n  metrics:\n{text}\n{CASES}"


def tool(text: str) -> str:
    return f"{DECLARED}tools:\n{text}\n{CASES}"


@pytest.mark.parametrize(
    ("suite", "at"),
    [
        (metric("  - metric: contains\n    treshold: 0.5\n    values: [a]"), "treshold: 0.5"),
        (metric("  - metric: numeric\n    absolute_tolerance: abc"), "absolute_tolerance: abc"),
        (metric("  - metric: equality\n    case_insensitive: 7"), "case_insensitive: 7"),
        (metric("  - metric: regex\n    pattern: '(['"), "pattern: '(['"),
        (metric("  - metric: json_schema\n    schema: {type: 5}"), "schema: {type: 5}"),
        (metric("  - type: evaluator\n    name: exact_mach"), "name: exact_mach"),
        (metric("  - type: evaluator\n    name: length\n    params: {max: 3, unt: words}"), "unt: words}"),
        (metric("  - type: evaluator\n    name: latency\n    params: {max_ms: -4}"), "max_ms: -4}"),
        (
            metric("  - type: evaluator\n    name: function\n    params: {function: 'app:nope'}"),
            "function: 'app:nope'}",
        ),
        (metric("  - type: code\n    grader: app:nope"), "grader: app:nope"),
        (metric("  - type: code\n    grader: app:answer\n    response_path: a"), "response_path: a"),
        (metric("  - metric: rouge\n    response_path: 'a[['"), "response_path: 'a[['"),
        (
            AGENT + "test_cases:\n- input: x\n  evaluations:\n  - metric: contains\n    vals: [a]\n",
            "vals: [a]",
        ),
        (tool("- {type: function, name: f, file: app.py, function: nope}"), "function: nope}"),
        (tool("- {type: mcp, name: m, command: no-such-program}"), "command: no-such-program}"),
        (tool("- {type: vectorstore, name: v, source: nowhere}"), "source: nowhere}"),
        (
            tool("- type: prompt\n  name: p\n  parameters: {type: object}\n  template: 'Hi {{whom}}'"),
            "template: 'Hi {{whom}}'",
        ),
        (
            f"name: demo\nagent:\n  callable: app.py:answer\n  params: {{color: red}}\n{CASES}",
            "color: red}",
        ),
        (f"name: demo\nagent:\n  callable: app.py:nope\n{CASES}", "callable: app.py:nope"),
        (
            f"name: demo\nagent:\n  url: 'http://localhost:1/x'\n  output_path: 'a[['\n{CASES}",
            "output_path: 'a[['",
        ),
    ],
)
def test_the_caret_is_below_the_key_at_fault(tmp_path, monkeypatch, suite, at):
    (tmp_path / "app.py").write_text("def answer(question, style='plain'):\n    return question\n")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "suite.yaml"
    path.write_text(suite)

    with pytest.raises(ConfigurationError) as refused:
        load_suite(path)

    place, *_ = re.findall(r"suite\.yaml:(\d+):(\d+): ", str(refused.value))
    line, column = map(int, place)
    assert suite.splitlines()[line - 1][column - 1 :] == at
    assert f"\n       | {' ' * (column - 1)}^" in str(refused.value)
