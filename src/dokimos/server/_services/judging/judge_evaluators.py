"""Which evaluators a judge job may use, and with which parameters.

An evaluator of a job runs in the server, for whoever may write: nothing that a request names may be imported,
opened or called. Evaluators are therefore named here, and what the library knows beyond data is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dokimos.errors import ConfigurationError
from dokimos.server._services.errors import InvalidRequestError

if TYPE_CHECKING:
    from dokimos.evaluators._base import Evaluator
    from dokimos.judges._protocol import JsonSchemaDict, JudgeLM, JudgeReply

DETERMINISTIC: Final = (
    "exact_match", "equality", "regex", "contains", "length", "levenshtein", "numeric", "structural_match",
    "json_schema", "set_match", "latency", "cost", "tokens", "f1_score", "bleu", "chrf", "rouge", "meteor",
    "wer", "precision", "recall", "hit_rate", "mrr", "ndcg", "tool_call_validity", "tool_correctness",
    "tool_trajectory", "tool_errors", "tool_efficiency", "forbidden_tools", "max_tool_calls", "tool_graph",
    "injection_resistance",
)  # fmt: skip
"""Evaluators that ask no model."""
OPTIONAL_JUDGE: Final = ("tool_name_reliability", "tool_description_reliability")
"""Evaluators that ask a model where they are given one."""
JUDGED: Final = (
    "llm_judge", "g_eval", "pairwise", "correctness", "helpfulness", "coherence", "conciseness",
    "completeness", "tone", "instruction_following", "summarisation", "refusal", "toxicity", "bias", "misuse",
    "pii_leakage", "faithfulness", "hallucination", "answer_relevancy", "contextual_relevance",
    "contextual_precision", "contextual_recall", "context_sufficiency", "noise_sensitivity",
    "citation_faithfulness", "task_completion", "tool_argument_hallucination", "tool_selection",
    "plan_quality", "plan_adherence", "step_efficiency", "trajectory", "knowledge_retention",
    "role_adherence", "turn_relevance", "conversation_completeness", "user_frustration",
)  # fmt: skip
"""Evaluators that ask a model."""
REFUSED: Final = {
    "function": "it runs code of yours, and the server runs none",
    "embedding_similarity": "it needs a model of embeddings, which no connection of the server is",
    "jury": "it needs several models, and a job has one connection",
    "per_turn": "it applies another evaluator; score the conversation as a whole",
}
"""Evaluators of the library that no job may use, and why."""
MAX_SAMPLES: Final = 20
_ALLOWED: Final = (*DETERMINISTIC, *OPTIONAL_JUDGE, *JUDGED)
_OF_JOB: Final = {
    "judge": "the job's `connectionId` says which model is asked",
    "name": "the scores have the name `evaluatorName`",
    "error_detector": "a pattern of your own cannot be given on the server",
}
"""Parameters that a job does not give to its evaluator, and why."""
_MAY_NAME_CODE: Final = ("tools", "arguments", "tool_arguments", "matching")
"""Parameters whose texts may be import strings, or whose maps may name a model."""
_TAKES_NAMES: Final = ("forbidden_tools",)
"""Evaluators whose `tools` are names."""
_IMPORT_STRING: Final = re.compile(r"[\w.]+:[\w.]+")
_MODEL_FORMS: Final = ("llm", "embedding", "embeddings")
_PART_OF: Final = {"INPUT": "inputs", "ACTUAL_OUTPUT": "outputs", "EXPECTED_OUTPUT": "expected_outputs"}
"""The whole maps that the documented judge is shown."""
_LOWER: Final = "LOWER_IS_BETTER"
_HIGHER: Final = "HIGHER_IS_BETTER"


@dataclass(frozen=True, slots=True, kw_only=True)
class CriteriaJudge:
    """The documented judge: criteria in plain language, on a scale of its own."""

    criteria: str
    evaluation_params: Sequence[str]
    """Of `INPUT`, `ACTUAL_OUTPUT` and `EXPECTED_OUTPUT`, in the order in which they are shown."""
    min_score: float
    max_score: float
    threshold: float | None = None
    """On the scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSpec:
    """Which evaluator a job runs, as it is stored."""

    type: str
    """Its name in the registry of the library."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """By their names in Python."""
    criteria: CriteriaJudge | None = None
    """For the documented judge, whose parameters these are."""

    @property
    def needs_judge(self) -> bool:
        """Whether it cannot do without a model."""
        return self.type in JUDGED

    @property
    def may_ask(self) -> bool:
        """Whether it asks a model where there is one."""
        return self.needs_judge or self.type in OPTIONAL_JUDGE

    def dump(self) -> str:
        """Return it as JSON."""
        if self.criteria is None:
            return json.dumps({"type": self.type, "params": dict(self.params)})
        judge = self.criteria
        return json.dumps(
            {
                "criteria": judge.criteria,
                "evaluationParams": list(judge.evaluation_params),
                "minScore": judge.min_score,
                "maxScore": judge.max_score,
                "threshold": judge.threshold,
            }
        )

    @classmethod
    def load(cls, text: str) -> EvaluatorSpec:
        """Read what `dump` wrote."""
        stored = json.loads(text)
        if "criteria" not in stored:
            return cls(type=stored["type"], params=stored["params"])
        return cls.of_criteria(
            CriteriaJudge(
                criteria=stored["criteria"],
                evaluation_params=stored["evaluationParams"],
                min_score=stored["minScore"],
                max_score=stored["maxScore"],
                threshold=stored["threshold"],
            )
        )

    @classmethod
    def of_criteria(cls, judge: CriteriaJudge) -> EvaluatorSpec:
        """Return the documented judge."""
        params = {
            "criteria": judge.criteria,
            "evaluation_params": [_PART_OF[name] for name in dict.fromkeys(judge.evaluation_params)],
            "score_range": [judge.min_score, judge.max_score],
            "threshold": None,  # it is on the scale of the judge, and that of the library is 0 to 1
        }
        return cls(type="llm_judge", params=params, criteria=judge)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorFacts:
    """What a run keeps of an evaluator."""

    range_low: float
    range_high: float
    direction: str
    threshold: float | None
    fingerprint: str
    deterministic: bool


def build_evaluator(spec: EvaluatorSpec, name: str, judge: JudgeLM | None) -> Evaluator:
    """Return the evaluator of a job.

    Imports what the evaluator needs, which takes a moment the first time.

    Args:
        spec: Which one.
        name: Of the scores.
        judge: Whom it asks.

    Raises:
        ConfigurationError: A parameter cannot be used; the message is the library's.
    """
    from dokimos._runtime.static_imports import forbid_imports
    from dokimos.evaluators import registry

    params = {**spec.params, "name": name}
    if judge is not None and spec.may_ask:
        params["judge"] = judge
    with forbid_imports():  # nothing below should want to; should it nevertheless, it gets placeholders
        return registry.build(spec.type, params)


def describe_facts(spec: EvaluatorSpec, evaluator: Evaluator) -> EvaluatorFacts:
    """Return what a run keeps of an evaluator; the range and the threshold are those of its stored scores."""
    info = evaluator.info()
    low, high = info.score_range or (0.0, 1.0)
    threshold, fingerprint = info.threshold, info.fingerprint
    if spec.criteria is not None:
        low, high, threshold = spec.criteria.min_score, spec.criteria.max_score, spec.criteria.threshold
        # The library's judge does not know the threshold, which decides about the verdicts.
        fingerprint = hashlib.sha256(f"{fingerprint} {threshold!r}".encode()).hexdigest()[:16]
    return EvaluatorFacts(
        range_low=float(low),
        range_high=float(high),
        direction=_LOWER if evaluator.lower_is_better else _HIGHER,
        threshold=threshold,
        fingerprint=fingerprint,
        deterministic=bool(info.deterministic),
    )


def check_evaluator(spec: EvaluatorSpec, name: str, *, has_connection: bool) -> None:
    """Check that a job may use an evaluator with these parameters; takes a moment the first time.

    Raises:
        InvalidRequestError: It may not, or a parameter cannot be used.
    """
    _check_type(spec.type)
    if spec.criteria is None:
        for key, value in spec.params.items():
            _check_parameter(spec.type, key, value)
    if spec.needs_judge and not has_connection:
        raise InvalidRequestError(
            f"must name the model that the evaluator '{spec.type}' asks", field="connectionId"
        )
    if has_connection and not spec.may_ask:
        raise InvalidRequestError(
            f"must be left out: the evaluator '{spec.type}' asks no model", field="connectionId"
        )
    try:
        build_evaluator(spec, name, _NoJudge() if spec.may_ask else None)
    except ConfigurationError as error:
        field = None if spec.criteria is not None else "evaluator.params"
        raise InvalidRequestError(str(error), field=field) from None
    except ImportError as error:
        raise InvalidRequestError(
            f"the server lacks what '{spec.type}' needs: {error}", field="evaluator.type"
        ) from None


def rename_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters by their names in Python; in a request they may be in camel case.

    Raises:
        InvalidRequestError: One is given in both spellings.
    """
    renamed: dict[str, Any] = {}
    for key, value in params.items():
        name = re.sub(r"(?<=[a-z0-9])[A-Z]", lambda match: f"_{match[0].lower()}", key)
        if name in renamed:
            raise InvalidRequestError("is given twice", field=f"evaluator.params.{key}")
        renamed[name] = value
    return renamed


def _check_type(name: str) -> None:
    if name in _ALLOWED:
        return
    if name in REFUSED:
        raise InvalidRequestError(f"'{name}' cannot be used here: {REFUSED[name]}", field="evaluator.type")
    from dokimos.evaluators import registry

    similar = registry.nearest(name)
    hint = f" Did you mean '{similar}'?" if similar in _ALLOWED else ""
    raise InvalidRequestError(
        f"'{name[:80]}' is not an evaluator of the library.{hint} They are {', '.join(sorted(_ALLOWED))}",
        field="evaluator.type",
    )


def _check_parameter(evaluator: str, key: str, value: object) -> None:
    where = f"evaluator.params.{key}"
    if key in _OF_JOB:
        raise InvalidRequestError(f"cannot be given: {_OF_JOB[key]}", field=where)
    if key == "samples" and isinstance(value, int) and value > MAX_SAMPLES:
        raise InvalidRequestError(f"must be at most {MAX_SAMPLES}, not {value}", field=where)
    if key in _MAY_NAME_CODE and not (key == "tools" and evaluator in _TAKES_NAMES):
        _refuse_code(value, where, texts=True)


def _refuse_code(value: object, where: str, *, texts: bool) -> None:
    """Refuse what the library would import, or a model that it would ask."""
    if isinstance(value, str) and texts and _IMPORT_STRING.fullmatch(value):
        raise InvalidRequestError(
            f"'{value[:80]}' names code, and the server imports none; give it as data", field=where
        )
    if isinstance(value, Mapping):
        for key, part in value.items():
            if key in _MODEL_FORMS and isinstance(part, str):
                raise InvalidRequestError(f"'{key}' names a model, and a job asks only its own", field=where)
            _refuse_code(part, f"{where}.{key}", texts=_takes_matchers(where))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            _refuse_code(part, f"{where}[{index}]", texts=True)


def _takes_matchers(where: str) -> bool:
    """Whether texts inside a map are matchers; those of a tool's definition describe it."""
    return not where.startswith("evaluator.params.tools[")


class _NoJudge:
    """Stands for the model while parameters are checked."""

    identity = "the model of the connection"

    async def complete(self, prompt: str, *, schema: JsonSchemaDict | None = None) -> JudgeReply:
        raise NotImplementedError("Parameters are checked without asking a model.")
