"""Converts evaluators of LangChain, openevals and LangSmith to those of dokimos, and back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from dokimos._core.eval_result import require_one_score
from dokimos._core.extras import require
from dokimos._core.jsonable import jsonable
from dokimos._core.keys import CONTEXTS, INPUT, OUTPUT
from dokimos._core.results import EvalResult, Score
from dokimos._core.test_case import EvalTestCase
from dokimos._runtime.user_calls import call_user_function
from dokimos.errors import EvaluationError
from dokimos.evaluators._base import Evaluator
from dokimos.integrations._document_texts import extract_texts
from dokimos.integrations._foreign_evaluators import ForeignEvaluator, average_scores, parse_score
from dokimos.integrations._framework_objects import FrameworkObject, get

__all__ = [
    "as_evaluator",
    "as_string_evaluator",
    "from_eval_result",
    "from_evaluator",
    "to_test_case",
]

EXTRA: Final = "langchain"

_INPUTS: Final = ("inputs", "input", "question", "query")
_OUTPUTS: Final = ("outputs", "output", "prediction", "answer", "response")
_EXPECTED: Final = ("reference_outputs", "reference", "expected_output", "ground_truth")
_DOCUMENTS: Final = ("context", "contexts", "documents", "source_documents", "retrieved_contexts")


def to_test_case(request: object) -> EvalTestCase:
    """Return the arguments of an evaluator of LangChain, openevals or LangSmith as a case.

    Text becomes the input, content the output, documents the context. Takes the arguments of an openevals
    evaluator or of `evaluate_strings` as a map, or an object with such attributes, as LangSmith's runs are.
    """
    outputs = _map(get(request, *_OUTPUTS), OUTPUT)
    documents = get(request, *_DOCUMENTS)
    if documents is not None:
        items = [documents] if isinstance(documents, str) else documents
        outputs = {**outputs, CONTEXTS: extract_texts(items)}
    return EvalTestCase(
        _map(get(request, *_INPUTS), INPUT),
        outputs,
        expected_outputs=_map(get(request, *_EXPECTED), OUTPUT),
        metadata=_map(get(request, "metadata"), "metadata"),
    )


def from_eval_result(
    result: EvalResult, *, form: Literal["openevals", "langchain"] = "openevals"
) -> dict[str, Any]:
    """Return a result as key, score and comment, or in LangChain's form: score, value and reasoning.

    Whether it passed is in the metadata ("passed"), or the value "Y" or "N". Several scores are a list under
    "results", as LangSmith takes it; LangChain takes one.

    Raises:
        EvaluationError: for a result with an error, which is not a score.
    """
    if form == "langchain":
        result = require_one_score(result, "LangChain")
    if result.parts:
        return {"results": [from_eval_result(part) for part in result.parts]}
    if result.error is not None:
        raise EvaluationError(result.error)
    if form == "langchain":
        value = None if result.success is None else "Y" if result.success else "N"
        return {"score": result.score, "value": value, "reasoning": result.reason}
    metadata = {**jsonable(result.metadata), "passed": result.success, "threshold": result.threshold}
    return {"key": result.name, "score": result.score, "comment": result.reason or None, "metadata": metadata}


def as_evaluator(evaluator: object, *, name: str = "", threshold: float | None = 0.5) -> ForeignEvaluator:
    """Return a `StringEvaluator`, or a function like those of openevals, as an evaluator of dokimos.

    A verdict is 1 or 0; several results are their mean. A number outside 0..1 is an error.
    """
    ask_evaluator = _ask_strings if hasattr(evaluator, "aevaluate_strings") else _ask_function

    async def ask(case: EvalTestCase) -> Score:
        return _score(await ask_evaluator(evaluator, case))

    return ForeignEvaluator(name=name or _name_of(evaluator), threshold=threshold, ask=ask)


def from_evaluator(evaluator: Evaluator) -> Callable[..., dict[str, Any]]:
    """Return an evaluator of dokimos as a function like those of openevals, which LangSmith takes too."""

    def evaluate(
        *, inputs: object = None, outputs: object = None, reference_outputs: object = None, **more: Any
    ) -> dict[str, Any]:
        request = {"inputs": inputs, "outputs": outputs, "reference_outputs": reference_outputs, **more}
        return from_eval_result(evaluator.evaluate(to_test_case(request)))

    evaluate.__name__ = evaluator.name
    return evaluate


def as_string_evaluator(evaluator: Evaluator) -> Any:
    """Return an evaluator of dokimos as a `StringEvaluator` of `langchain_classic`."""
    base = require("langchain_classic.evaluation", EXTRA).StringEvaluator

    class DokimosStringEvaluator(base):  # type: ignore[misc, valid-type] # only there at run time
        @property
        def evaluation_name(self) -> str:
            return evaluator.name

        def _evaluate_strings(self, **request: Any) -> dict[str, Any]:
            return from_eval_result(evaluator.evaluate(to_test_case(request)), form="langchain")

    return DokimosStringEvaluator()


async def _ask_strings(evaluator: FrameworkObject, case: EvalTestCase) -> Any:
    return await call_user_function(
        evaluator.aevaluate_strings,
        prediction=case.actual_output or "",
        reference=case.expected_output if evaluator.requires_reference else None,
        input=case.input if evaluator.requires_input else None,
    )


async def _ask_function(evaluator: FrameworkObject, case: EvalTestCase) -> Any:
    """Call a function with the arguments that it has parameters for, or all where it takes any."""
    arguments: dict[str, Any] = {
        "inputs": _single(case.inputs, INPUT),
        "outputs": _single(case.actual_outputs, OUTPUT),
        "reference_outputs": _single(case.expected_outputs, OUTPUT),
    }
    if case.contexts is not None:
        arguments["context"] = "\n\n".join(case.contexts)
    parameters = inspect.signature(evaluator).parameters
    if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters.values()):
        arguments = {key: value for key, value in arguments.items() if key in parameters}
    return await call_user_function(evaluator, **arguments)


def _score(result: object) -> Score:
    if isinstance(result, list | tuple):
        scores = {
            f"{index + 1}. {get(each, 'key') or ''}".strip(): _score(each)
            for index, each in enumerate(result)
        }
        return average_scores(scores)
    if isinstance(result, bool | int | float):
        return parse_score(result)
    value, reason = get(result, "score"), get(result, "comment", "reasoning")
    return parse_score(value, reason, get(result, "metadata"))


def _name_of(evaluator: object) -> str:
    name = getattr(evaluator, "evaluation_name", None) or getattr(evaluator, "__name__", None)
    return (
        name
        if isinstance(name, str) and "<" not in name and not name.startswith("_")
        else type(evaluator).__name__
    )


def _map(value: object, key: str) -> dict[str, Any]:
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else {key: value}


def _single(values: Mapping[str, Any], key: str) -> Any:
    """Return the only value where there is just the conventional one, else the whole map."""
    if set(values) == {key}:
        return values[key]
    return dict(values) if values else None
