"""Assertions of promptfoo as metrics of a suite; one that has no counterpart is noted."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from dokimos.importers._promptfoo.assertion_values import read_program, read_value
from dokimos.importers._promptfoo.converted_case import Assertion, Block, Case
from dokimos.importers._promptfoo.nunjucks.values import TemplateRefused
from dokimos.importers._promptfoo.providers import build_model_block
from dokimos.importers._promptfoo.shapes import ASSERTION, check_shape
from dokimos.importers._promptfoo.templates import escape, render, unescape
from dokimos.importers._promptfoo.tool_assertions import (
    tool_arguments,
    tool_call_f1,
    tool_sequence,
    tool_used,
    valid_calls,
)

NOT: Final = "not-"
PROGRAMS: Final = ("javascript", "python")
COMPARED: Final = frozenset(
    {"equals", "contains", "icontains", "contains-any", "contains-all", "icontains-any", "icontains-all",
     "regex", "starts-with"}
)  # fmt: skip
"""What compares a reply with a value, and can do so with what a transform makes of it."""
CORRECTNESS: Final = "correctness"
_OF_JSON: Final = ("is-json", "contains-json")
_BESIDE_REPLY: Final = ("cost", "latency", "trajectory:tool-used")
_HALF: Final = 0.5
_LENGTH: Final = re.compile(r"\s*output\.length\s*(<=?|>=?)\s*(\d+)\s*;?\s*")
# Two shapes of JavaScript that nearly every configuration has; any other needs Node to run.
_INCLUDES: Final = re.compile(
    r"\s*output(\.toLowerCase\(\))?\.includes\((['\"])((?:(?!\2)[^\\])*)\2\)\s*;?\s*"
)


def metrics_of(assertions: list[Any], case: Case) -> list[Block]:
    """Return the metrics of a test; what they expect of the case is set there."""
    metrics = [metric for assertion in assertions for metric in _metrics(assertion, case)]
    # Not by a set: metrics are maps. The same assertion may come from the defaults and from the test.
    return [metric for index, metric in enumerate(metrics) if metric not in metrics[:index]]


def _metrics(assertion: object, case: Case) -> list[Block]:
    if not isinstance(assertion, Mapping) or not isinstance(assertion.get("type"), str):
        case.notes.lose(f"{assertion!r:.80}: it is not an assertion")
        return []
    check_shape(assertion, ASSERTION, f"the assertion {assertion['type']}")
    if assertion["type"] == "assert-set":
        if assertion.get("threshold") not in (None, 1, 1.0):
            case.notes.change("assert-set: all of its assertions have to hold now, not only a share of them")
        return [metric for one in assertion.get("assert") or [] for metric in _metrics(one, case)]
    metric = _metric(assertion, case)
    if metric is None:
        return []
    if assertion.get("metric"):
        named = "display_name" if metric["type"] == "evaluator" else "name"
        try:
            metric[named] = render(str(assertion["metric"]), case.variables, case.notes)
        except TemplateRefused as refused:
            case.notes.lose(f"the name of a metric: {refused}")
    return [metric]


def _metric(assertion: Mapping[str, Any], case: Case) -> Block | None:
    kind: str = assertion["type"]
    plain = kind.removeprefix(NOT)
    convert = KNOWN.get(plain)
    own = assertion.get("transform")
    transforms = (*case.transforms, own) if isinstance(own, str) and own.strip() else case.transforms
    problem = None
    if convert is None:
        problem = "there is no such metric"
    elif assertion.get("contextTransform"):
        problem = "its contextTransform is a program"
    elif transforms and plain in COMPARED:
        convert = _compare_with_value
    elif transforms and plain not in (*PROGRAMS, *_OF_JSON, *_BESIDE_REPLY):
        problem = "a transform changes the reply, and this metric sees it as it is"
    if convert is None or problem is not None:
        case.notes.lose(f"{kind}: {problem}")
        return None
    if assertion.get("rubricPrompt"):
        case.notes.change(f"{kind}: its rubricPrompt is left out")
    if assertion.get("weight") == 0:
        case.notes.lose(f"{kind}: a weight of 0, which only informs")
        return None
    if assertion.get("weight", 1) != 1:
        case.notes.change("weights are left out: all metrics of a case have to pass")
    try:
        read = read_program if plain in PROGRAMS else read_value
        value = read(assertion.get("value"), case.folder, case.variables, case.notes)
        negated = kind.startswith(NOT)
        return convert(Assertion(kind, plain, value, assertion, case, negated, transforms))
    except TemplateRefused as refused:
        case.notes.lose(f"{kind}: {refused}")
        return None


def _standard(metric: str, **parameters: Any) -> Block:
    return {"type": "standard", "metric": metric, **parameters}


def _regex(assertion: Assertion, pattern: str, **parameters: Any) -> Block:
    return _standard(
        "regex", pattern=pattern, **({"negate": True} if assertion.negated else {}), **parameters
    )


def _equals(assertion: Assertion) -> Block | None:
    if assertion.value is None:
        return assertion.lose("it has no value")
    if isinstance(assertion.value, Mapping | list):
        if assertion.negated:
            return assertion.lose("there is no negated form for structures")
        return _expecting(assertion, _standard("structural_match"))
    if assertion.negated or not assertion.text.strip():  # where `equality` cannot be used
        return _regex(assertion, re.escape(unescape(assertion.text)), full_match=True)
    return _standard("equality", **(assertion.case.expect(assertion.text, assertion.kind) or {}))


def _contains(assertion: Assertion) -> Block | None:
    if assertion.value is None:
        return assertion.lose("it has no value")
    everything = assertion.plain.endswith("-all")
    values = assertion.texts if assertion.plain.endswith(("-any", "-all")) else [assertion.text]
    case = {"ignore_case": True} if assertion.plain.startswith("i") else {}
    if assertion.negated and everything and len(values) > 1:
        # not-contains-all fails only where all are there, while mode "none" fails where one is.
        ahead = "".join(f"(?=.*{re.escape(unescape(value))})" for value in values)
        return _regex(assertion, rf"(?s)\A{ahead}", **case)
    mode = "none" if assertion.negated else "all" if everything else "any"
    return _standard("contains", values=values, mode=mode, **case)


def _pattern(assertion: Assertion) -> Block | None:
    try:
        re.compile(assertion.text.replace("$${", "${"))
    except re.error as error:
        return assertion.lose(f"Python does not read the pattern {assertion.text!r}: {error}")
    return _regex(assertion, assertion.text)


def _starts_with(assertion: Assertion) -> Block | None:
    return _regex(assertion, rf"\A{re.escape(unescape(assertion.text))}")


def _is_json(assertion: Assertion) -> Block | None:
    schema = assertion.value if isinstance(assertion.value, Mapping) else {}
    # The metric json_schema takes whole replies, and has no negated form.
    if assertion.plain == "contains-json" or assertion.negated or assertion.transforms:
        return _grader("json", assertion, _for_module(schema), whole=assertion.plain == "is-json")
    return _standard("json_schema", schema=dict(schema))


def _javascript(assertion: Assertion) -> Block | None:
    """Convert the few expressions that have a counterpart; Node runs the others."""
    code = assertion.value
    if not code.strip():
        return assertion.lose("it has no program")
    is_text = not assertion.transforms and not assertion.case.reads_json
    if is_text and (found := _LENGTH.fullmatch(code)):
        limit = int(found[2]) + {"<": -1, ">": 1}.get(found[1], 0)
        bound = {"max": limit} if found[1].startswith("<") else {"min": limit}
        if not assertion.negated and limit >= 0:
            return {"type": "evaluator", "name": "length", "params": bound}
    if is_text and (found := _INCLUDES.fullmatch(code)):
        mode = "none" if assertion.negated else "any"
        case = {"ignore_case": True} if found[1] else {}
        return _standard("contains", values=[escape(found[3])], mode=mode, **case)
    assertion.case.notes.change(f"{assertion.kind}: the program runs as a code grader, by Node")
    return _program("javascript", assertion)


def _python(assertion: Assertion) -> Block | None:
    if not assertion.value.strip():
        return assertion.lose("it has no program")
    assertion.case.notes.change(f"{assertion.kind}: the program runs as a code grader")
    return _program("python", assertion)


def _compare_with_value(assertion: Assertion) -> Block | None:
    """Compare what transforms make of a reply with a value."""
    if assertion.value is None:
        return assertion.lose("it has no value")
    value: Any = assertion.value
    if assertion.plain.endswith(("-any", "-all")):
        value = assertion.texts
    elif assertion.plain != "equals":
        value = assertion.text
    if assertion.plain == "regex" and _pattern(assertion) is None:
        return None
    return _grader("value", assertion, assertion.plain, _for_module(value))


def _program(language: str, assertion: Assertion) -> Block:
    setting = {"config": assertion.raw.get("config"), "threshold": assertion.raw.get("threshold")}
    return _grader(language, assertion, assertion.value, **setting)


def _grader(kind: str, assertion: Assertion, *arguments: Any, **settings: Any) -> Block:
    return assertion.case.programs.grader(
        kind,
        *arguments,
        **settings,
        negate=assertion.negated,
        transforms=assertion.transforms,
        reads_json=assertion.case.reads_json,
    )


def _for_module(value: Any) -> Any:
    """Return a value for a module, where no variables are expanded."""
    return json.loads(unescape(json.dumps(value, ensure_ascii=False)))


def _with_judge(assertion: Assertion, block: Block) -> Block | None:
    """Give a metric its judge; a negated one has no counterpart."""
    if assertion.negated:
        return assertion.lose("there is no negated form of a judged metric")
    provider = assertion.raw.get("provider")
    judge = assertion.case.judge if provider is None else build_model_block(provider, assertion.case.notes)
    if judge is None:
        assertion.case.needs_judge = True
        return block
    return {**block, "model": judge}


def _rubric(assertion: Assertion) -> Block | None:
    if not isinstance(assertion.value, str | list) or not assertion.value:
        return assertion.lose("it has no criteria")
    criteria = assertion.value if isinstance(assertion.value, str) else "\n".join(map(str, assertion.value))
    name = " ".join(criteria.split())[:60]
    return _with_judge(assertion, {
        "type": "geval", "name": name, "criteria": criteria,
        "evaluation_params": ["input", "actual_output"], "threshold": assertion.threshold(_HALF),
    })  # fmt: skip


def _expecting(assertion: Assertion, block: Block) -> Block | None:
    """Give a metric what it expects; one without a value is lost."""
    expected = assertion.case.expect(assertion.value, assertion.kind)
    return None if expected is None else {**block, **expected}


def _factuality(assertion: Assertion) -> Block | None:
    block = {"type": "evaluator", "name": CORRECTNESS, "threshold": assertion.threshold(_HALF)}
    judged = _with_judge(assertion, block)
    return None if judged is None else _expecting(assertion, judged)


def _rag(metric: str, usual: float, *, expects: bool = False) -> Callable[[Assertion], Block | None]:
    def convert(assertion: Assertion) -> Block | None:
        if metric != "answer_relevancy" and assertion.case.context is None:
            return assertion.lose("the test has no variable called context")
        block: Block = {"type": "rag", "metric_type": metric, "threshold": assertion.threshold(usual)}
        judged = _with_judge(assertion, block)
        return _expecting(assertion, judged) if judged is not None and expects else judged

    return convert


def _similar(assertion: Assertion) -> Block | None:
    if assertion.negated:
        return assertion.lose("there is no negated form")
    provider = assertion.raw.get("provider") or "openai:embedding:text-embedding-3-large"
    model = build_model_block(provider, assertion.case.notes)
    if model is None:
        return None
    block = _standard("embedding_similarity", threshold=assertion.threshold(0.75), model=model)
    return _expecting(assertion, block)


def _overlap(metric: str, usual: float, **parameters: Any) -> Callable[[Assertion], Block | None]:
    def convert(assertion: Assertion) -> Block | None:
        if assertion.negated:
            return assertion.lose("there is no negated form")
        return _expecting(assertion, _standard(metric, threshold=assertion.threshold(usual), **parameters))

    return convert


def _levenshtein(assertion: Assertion) -> Block | None:
    if assertion.negated:
        return assertion.lose("there is no negated form")
    most = assertion.threshold(5)
    length = max(len(unescape(assertion.text)), 1)
    share = max(0, math.floor(10_000 * (length - most) / length)) / 10_000  # rounded down: `most` passes
    assertion.case.notes.change("levenshtein: the distance allowed is now a share of the length")
    return _expecting(assertion, _standard("levenshtein", threshold=share))


def _limit(metric: str, parameter: str) -> Callable[[Assertion], Block | None]:
    def convert(assertion: Assertion) -> Block | None:
        if assertion.negated or assertion.raw.get("threshold") is None:
            return assertion.lose("there is no negated form" if assertion.negated else "it has no threshold")
        return _standard(metric, **{parameter: assertion.raw["threshold"]})

    return convert


def _word_count(assertion: Assertion) -> Block | None:
    bounds = assertion.value
    if isinstance(bounds, Mapping):
        params = {key: bounds[key] for key in ("min", "max") if key in bounds}
    elif str(bounds).isdecimal():
        params = {"min": int(bounds), "max": int(bounds)}
    else:
        params = {}
    if assertion.negated or not params:
        return assertion.lose("only a number of words, or min and max, can be converted")
    return {"type": "evaluator", "name": "length", "params": {**params, "unit": "words"}}


def _expecting_tools(expect: Callable[[Assertion], None]) -> Callable[[Assertion], Block | None]:
    """Return the conversion of an assertion that is not a metric but an expectation of its case."""

    def convert(assertion: Assertion) -> Block | None:
        expect(assertion)
        return None

    return convert


KNOWN: Final[dict[str, Callable[[Assertion], Block | None]]] = {
    "equals": _equals,
    **dict.fromkeys(
        ("contains", "icontains", "contains-any", "contains-all", "icontains-any", "icontains-all"), _contains
    ),
    "regex": _pattern,
    "starts-with": _starts_with,
    "is-json": _is_json,
    "contains-json": _is_json,
    "javascript": _javascript,
    "python": _python,
    "llm-rubric": _rubric,
    "g-eval": _rubric,
    "model-graded-closedqa": _rubric,
    "factuality": _factuality,
    "model-graded-factuality": _factuality,
    "answer-relevance": _rag("answer_relevancy", _HALF),
    "context-faithfulness": _rag("faithfulness", _HALF),
    "context-relevance": _rag("contextual_relevancy", _HALF),
    "context-recall": _rag("contextual_recall", _HALF, expects=True),
    "similar": _similar,
    "levenshtein": _levenshtein,
    # These numbers are promptfoo's thresholds where a file gives none.
    "rouge-n": _overlap("rouge", 0.75, variant="rouge1"),
    "bleu": _overlap("bleu", 0.5),
    "meteor": _overlap("meteor", 0.5),
    "cost": _limit("cost", "max_usd"),
    "latency": _limit("latency", "max_ms"),
    "word-count": _word_count,
    "trajectory:tool-used": _expecting_tools(tool_used),
    "trajectory:tool-sequence": _expecting_tools(tool_sequence),
    "trajectory:tool-args-match": _expecting_tools(tool_arguments),
    "tool-call-f1": _expecting_tools(tool_call_f1),
    **dict.fromkeys(
        ("is-valid-openai-tools-call", "is-valid-openai-function-call", "is-valid-function-call"), valid_calls
    ),
}
"""How assertions are converted; what is not here has no counterpart."""
