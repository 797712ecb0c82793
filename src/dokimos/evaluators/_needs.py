"""What an evaluator needs, for people: parts of a case, a judge and its calls, a package; an example case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.keys import CONTEXTS, PLAN, RELEVANT, RETRIEVED, TOOL_CALLS, TOOLS, TRAJECTORY

if TYPE_CHECKING:
    from dokimos.evaluators._parameters import EvaluatorDoc

_OTHER_NAMES: Final = "context, retrieved, retrieval_context, retrieved_contexts"
_INPUT: Final = ("input", "the question: `Example.of(input, expected)`, or a column `input`")
_OUTPUT: Final = ("output", "what the task returns")
_EXPECTED: Final = ("expected output", "`Example.of(input, expected)`, or a column `expected_output`")
# By the path that an evaluator requires: what it is called, and how a user supplies it.
_NEEDS: Final[dict[str, tuple[str, str]]] = {
    "input": _INPUT,
    "actual_output": _OUTPUT,
    "outputs.output": _OUTPUT,
    "expected_output": _EXPECTED,
    "expected_outputs.output": _EXPECTED,
    "metrics": ("metrics", "time, tokens and cost: a run measures the time, and a `TaskResult` has the rest"),
    CONTEXTS: (
        "contexts",
        f'texts that were retrieved: the task returns `{{"output": ..., "contexts": [...]}}`, or a column '
        f"`contexts`; also called {_OTHER_NAMES}",
    ),
    RETRIEVED: (
        "contexts",
        f'ids or texts that were retrieved, best first: the task returns `{{"output": ..., "contexts": '
        f"[...]}}`, or a column `contexts`; also called {_OTHER_NAMES}",
    ),
    RELEVANT: ("relevant", "ids or texts that should be retrieved: a column `relevant`"),
    f"outputs.{TOOL_CALLS}": (
        "tool calls",
        f'the task returns `{{"output": ..., "{TOOL_CALLS}": [{{"name": ..., "arguments": ...}}]}}`; '
        "`as_task` of an integration does",
    ),
    f"expected_outputs.{TOOL_CALLS}": (
        "expected calls",
        f'`Example({{"input": ...}}, {{"{TOOL_CALLS}": [{{"name": ..., "arguments": ...}}]}})`',
    ),
    f"metadata.{TOOLS}": ("tools", "definitions of the agent's tools: `tools=[...]`, or a column `tools`"),
    f"outputs.{PLAN}": ("plan", f'the agent\'s plan: the task returns `{{"output": ..., "{PLAN}": ...}}`'),
    f"outputs.{TRAJECTORY}": (
        "conversation",
        f'the task returns `{{"{TRAJECTORY}": [...]}}`, a list of messages; a `Simulation` does',
    ),
    "metadata.role": ("role", "what the assistant is for: `role=...`, a column `role`, or a system message"),
    "metadata.baselineOutput": ("baseline", "the output to compare with: a column `baselineOutput`"),
}  # fmt: skip
_CALLS: Final = [{"name": "refund_policy", "arguments": {"item": "jacket"}, "result": "30 days"}]
_TOOLS: Final = [
    {"name": "refund_policy", "input_schema": {"type": "object", "properties": {"item": {"type": "string"}}}}
]
_EXAMPLES: Final[dict[str, Any]] = {
    "inputs.input": "Can I return a jacket?",
    "outputs.output": "Yes, within 30 days.",
    "expected_outputs.output": "within 30 days",
    "outputs.contexts": ["Goods can be returned within 30 days."],
    "expected_outputs.relevant": ["Goods can be returned within 30 days."],
    f"outputs.{TOOL_CALLS}": _CALLS,
    f"expected_outputs.{TOOL_CALLS}": [{"name": "refund_policy", "arguments": {"item": "jacket"}}],
    f"metadata.{TOOLS}": _TOOLS,
    f"outputs.{PLAN}": ["Look the policy up.", "Answer."],
    f"outputs.{TRAJECTORY}": [
        {"role": "user", "content": "Can I return a jacket?"},
        {"role": "assistant", "content": "Yes, within 30 days."},
    ],
    "metadata.baselineOutput": "I do not know.",
    "metadata.role": "Helps customers of a shop.",
}
_OWN_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "numeric": {"outputs.output": "It costs 49.90.", "expected_outputs.output": 49.9},
    "set_match": {"outputs.output": ["red", "blue"], "expected_outputs.output": ["blue", "red"]},
    "json_schema": {"outputs.output": {"days": 30}},
    "structural_match": {"outputs.output": {"days": 30}, "expected_outputs.output": {"days": 30}},
    "citation_faithfulness": {"outputs.output": "Yes, within 30 days [1]."},
}
_FIELDS: Final = {
    "input": "inputs.input",
    "actual_output": "outputs.output",
    "expected_output": "expected_outputs.output",
    CONTEXTS: "outputs.contexts",
    RETRIEVED: "outputs.contexts",
    RELEVANT: "expected_outputs.relevant",
}
"""Where in a case a part that has a path of its own stands."""
_SECTIONS: Final = {
    "inputs": "inputs=",
    "outputs": "actual_outputs=",
    "expected_outputs": "expected_outputs=",
    "metadata": "metadata=",
}

CALL_COUNTS: Final = {
    "ceil": "rounded up",
    "criteria": "the number of criteria",
    "distinguished": "`windows` where `noise` is not `any` and a wrong claim comes from the context, else 0",
    "evaluator": "the calls of the evaluator that it applies",
    "judges": "the number of judges",
    "reason": "1, or 0 with `include_reason=False`",
    "replies": "the number of the assistant's replies",
    "replies_per_call": "that parameter, 10 by default",
    "steps": "1 in the first case of a run where the steps are not given, else 0",
    "tools": "the number of tools",
    "turns": "the number of turns",
    "windows": "the number of groups of at most `window` characters (20,000 by default) that the contexts "
    "make; no context is split",
    "wrong": "1 where a claim is wrong, else 0",
}
"""The words in which `judge_calls` counts."""


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that an evaluator needs."""

    name: str
    how: str
    """Where it comes from."""


def needs_of(doc: EvaluatorDoc) -> tuple[Need, ...]:
    """Return all that an evaluator needs: parts of a case, then a judge or an embedder, then a package."""
    return (*_parts(doc), *_models(doc))


def example_case(doc: EvaluatorDoc) -> dict[str, dict[str, Any]]:
    """Return the parts of a case that has what an evaluator needs: `inputs`, `outputs` and so on."""
    case: dict[str, dict[str, Any]] = {}
    values = {**_EXAMPLES, **_OWN_EXAMPLES.get(doc.name, {})}
    # Where an evaluator requires nothing, the example has an output: a case without one says little.
    paths = {_FIELDS.get(path, path): None for path in _paths(doc)} or {"outputs.output": None}
    for path in paths:
        section, dot, key = path.partition(".")
        if dot:
            case.setdefault(section, {})[key] = values.get(path, "...")
    return {section: case[section] for section in _SECTIONS if section in case}


def example_code(doc: EvaluatorDoc) -> str:
    """Return `example_case` as the Python that makes it."""
    lines = [f"    {_SECTIONS[section]}{content!r}," for section, content in example_case(doc).items()]
    if "metrics" in doc.requires:
        lines.append("    metrics=CallMetrics(latency_ms=850.0, tokens_in=20, tokens_out=9, cost_usd=0.001),")
    return "\n".join(["EvalTestCase(", *lines, ")"])


def _paths(doc: EvaluatorDoc) -> Mapping[str, None]:
    return dict.fromkeys((*doc.requires, *doc.looks_for))


def _parts(doc: EvaluatorDoc) -> Iterator[Need]:
    for path in _paths(doc):
        name, how = _NEEDS.get(path) or (path, "")
        yield Need(name, how)


def _models(doc: EvaluatorDoc) -> Iterator[Need]:
    names = {parameter.name: parameter for parameter in doc.parameters}
    if "judges" in names:
        yield Need("judges", 'models: `judges=["openai:gpt-5-mini", ...]`, or functions of the prompt')
    elif "judge" in names and names["judge"].required:
        yield Need("judge", 'a model: `judge="openai:gpt-5-mini"`, or a function of the prompt')
    if "embedder" in names:
        yield Need("embedder", '`embedder="openai:text-embedding-3-small"`, or a function of texts')
    if doc.extra:
        yield Need(f"extra `{doc.extra}`", f'`pip install "dokimos[{doc.extra}]"`')
